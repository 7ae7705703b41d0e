"""
What releases cost: the budget that was spent in the day after each.

A cost is told over slices as wide as they are by now (docs/laws.md, law 4), all
those that the day touches, so it comes with its range. It has no number where
slices of it are kept no more, where the SLO was not counted yet, and where
nothing came: none of them is a release that cost nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Final

from slo_exporter.sli.counting import SLICE_NS, SLICE_S
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Ledger, counts_of
from slo_exporter.slo.windows import Range, cell_of, range_of

COSTED_S: Final = 86_400
"""A release is charged with the day after it."""
LEARNT_FROM: Final = 10
"""So many releases, the newest ones, tell what the next one may cost."""

_SECOND_NS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A version that went out."""

    id: int
    service: str
    version: str
    at_ns: int
    """When it went out."""
    made_ns: int
    """When that was told."""
    who: str
    """The name of the write token."""
    note: str

    @property
    def order(self) -> tuple[int, int]:
        """Later releases have more."""
        return (self.at_ns, self.id)

    def is_complete(self, now_ns: int) -> bool:
        """The day after it is over."""
        return now_ns >= self.at_ns + COSTED_S * _SECOND_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a release cost one SLO."""

    slo: Slo
    span: Range
    """The day after it, or what has passed of it: all slices that it touches, as wide as they are by now."""
    counts: Counts | None
    """In that range; None where it is not kept, or was not counted."""
    spent_ratio: float | None
    """
    Bad events of the range over those that the compliance window ending with it allows.

    A window shorter than the day is no measure of it: then the day's own events allow.
    """
    before_ratio: float | None
    """The same of the day before the release."""
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Expected:
    """What the next release of a service may cost one SLO."""

    slo: str
    releases: int
    """So many past ones this is from."""
    median_ratio: float
    most_ratio: float


def costs(ledger: Ledger, rows: Sequence[int], release: Release, now_ns: int) -> tuple[Cost, ...]:
    """
    Say what a release cost.

    Args:
        ledger: where the counts are.
        rows: which SLOs.
        release: nothing is charged to one that is still to come.
        now_ns: decides how wide slices are by now, and whether the day is over.
    """
    kept_ns = max(now_ns, ledger.timeline.folded_ns)
    before, after = _days(release.at_ns, now_ns, kept_ns)
    spent = _Spending(ledger, rows, after, release.at_ns, kept_ns)
    earlier = _Spending(ledger, rows, before, release.at_ns - COSTED_S * _SECOND_NS, kept_ns)
    is_complete = release.is_complete(now_ns)
    return tuple(
        Cost(
            slo=ledger.slos[row],
            span=after,
            counts=spent.counts(row),
            spent_ratio=spent.ratio(row),
            before_ratio=earlier.ratio(row),
            is_complete=is_complete,
        )
        for row in rows
    )


def dearest(found: Iterable[Cost]) -> Cost | None:
    """The SLO that paid most; None where no cost has a number."""
    told = [cost for cost in found if cost.spent_ratio is not None]
    return max(told, key=lambda cost: cost.spent_ratio or 0.0, default=None)


def learnt_from(releases: Iterable[Release], now_ns: int) -> list[Release]:
    """Which of *releases*, the newest first, tell what the next one may cost: the newest whose day is over."""
    return list(islice((one for one in releases if one.is_complete(now_ns)), LEARNT_FROM))


def expected(past: Iterable[Sequence[Cost]]) -> tuple[Expected, ...]:
    """
    Say what the next release may cost: the median and the most of complete past ones, by SLO.

    Args:
        past: what releases of one service cost.
    """
    paid: dict[str, list[float]] = {}
    for found in past:
        for cost in found:
            ratios = paid.setdefault(cost.slo.name, [])
            if cost.is_complete and cost.spent_ratio is not None:
                ratios.append(cost.spent_ratio)
    return tuple(Expected(slo, len(ratios), median(ratios), max(ratios)) for slo, ratios in paid.items() if ratios)


def _days(at_ns: int, now_ns: int, kept_ns: int) -> tuple[Range, Range]:
    """The day before and the day after an instant, in whole slices: one that both touch is of the day after."""
    at_s = at_ns // SLICE_NS * SLICE_S
    end_s = min(-(-at_ns // SLICE_NS) * SLICE_S + COSTED_S, now_ns // SLICE_NS * SLICE_S + SLICE_S)
    # Outwards: what fails in the first minutes, or in the last, is the release's however wide slices are by now.
    first, middle = (cell_of(edge, kept_ns).start for edge in (at_s - COSTED_S, at_s))
    return Range(first, middle), Range(middle, max(middle, cell_of(end_s - SLICE_S, kept_ns).end))


class _Spending:
    """What was spent of budgets in one range."""

    def __init__(self, ledger: Ledger, rows: Sequence[int], span: Range, since_ns: int, kept_ns: int) -> None:
        self._ledger = ledger
        self._rows = rows
        self._span = span
        self._since_ns = since_ns
        self._kept_ns = kept_ns
        self._spent = self._read(span)
        self._windows: dict[int, Mapping[int, Counts]] = {}

    def counts(self, row: int) -> Counts | None:
        """In the range; None where not all of it is kept, or was counted."""
        is_kept = self._span.start >= self._ledger.timeline.kept_from_s
        return self._spent[row] if is_kept and self._ledger.started_ns[row] <= self._since_ns else None

    def ratio(self, row: int) -> float | None:
        """Bad events over those that the window ending with the range allows; it holds the range."""
        counts = self.counts(row)
        own = self._window(row) if counts is not None and counts.total else None
        if counts is None or own is None:
            return None
        required, whole = self._ledger.slos[row].objective.as_integer_ratio()
        return whole * counts.bad / ((whole - required) * own.total)

    def _window(self, row: int) -> Counts | None:
        """
        Counts of the compliance window, or of a day where it is shorter.

        None without any, and where slices of it were forgotten.
        """
        seconds = max(self._ledger.slos[row].window.seconds, COSTED_S)
        asked_s = range_of(seconds, self._span.end * _SECOND_NS - 1).start
        start_s = min(cell_of(asked_s, self._kept_ns).start, self._span.start)
        began_s = max(start_s, self._ledger.started_ns[row] // SLICE_NS * SLICE_S)
        if began_s < self._ledger.timeline.kept_from_s:
            return None
        if start_s not in self._windows:  # most SLOs have one of a few windows
            self._windows[start_s] = self._read(Range(start_s, self._span.end))
        own = self._windows[start_s][row]
        return own if own.total else None

    def _read(self, span: Range) -> Mapping[int, Counts]:
        rows = list(self._rows)
        return dict(zip(rows, counts_of(self._ledger.timeline.between(span)[rows]), strict=True))
