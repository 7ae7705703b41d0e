"""
The book of counts in memory: what SQL holds, ready to be read.

Changed only after a commit, rebuilt at start to the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slo_exporter.sli.counting import EXCLUDED, GOOD, SLICE_S, TOTAL, Delta
from slo_exporter.sli.records import Ints
from slo_exporter.slo import reporting
from slo_exporter.slo.alerting import NO_ALERTS, ActiveAlerts
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.corrections import Correction, corrected_range, effective
from slo_exporter.slo.declared import Declared
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.judging import settled_s
from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.snapshot import Snapshot
from slo_exporter.slo.timeline import Timeline
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import BURN_WINDOWS, Range, range_of, starts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a ledger starts from: one entry, or row, per SLO."""

    slos: Sequence[Slo]
    started_ns: Sequence[int]
    """When the current generation of each SLO started."""
    totals: Ints
    """Shape (s, 3): lifetime good, total, excluded across generations."""
    newest_ns: Ints
    """Shape (s,): end of the newest counted event, `MISSING` where none."""
    uptime: Uptime
    corrections: Sequence[Correction] = ()
    """Made earlier: what is added into one of them is excluded."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a commit makes true."""

    counts: Delta
    """Into the slices; negative where a time slice is judged again."""
    totals: Ints
    """Shape (s, 3): into the lifetime totals, never negative."""

    @classmethod
    def of(cls, counts: Delta) -> "Entry":
        """An entry of events: what enters a slice enters the totals, once and at once."""
        return cls(counts, counts.counts.sum(axis=0))


class Ledger:
    """
    Counts, lifetime totals and uptime of every SLO.

    Windows hold effective counts: corrected ones are excluded. Lifetime totals
    hold what happened, and never fall.
    """

    def __init__(self, opening: Opening) -> None:
        self.slos = tuple(opening.slos)
        self.totals = opening.totals
        self.newest_ns = opening.newest_ns
        self.uptime = opening.uptime
        self.timeline = Timeline(len(self.slos))
        self.started_ns = tuple(opening.started_ns)
        self._corrections = list(opening.corrections)
        self._rows = {slo.key: row for row, slo in enumerate(self.slos)}
        self.declared = Declared.of(self.slos, self.started_ns)

    def row(self, service: str, name: str) -> int:
        """
        The row of an SLO.

        Raises:
            KeyError: if there is none of that name.
        """
        return self._rows[service, name]

    def rows_of(self, service: str) -> list[int]:
        """The rows of the SLOs of a service; none of one that has no SLO."""
        return [row for row, slo in enumerate(self.slos) if slo.service == service]

    @property
    def corrections(self) -> tuple[Correction, ...]:
        """Those in force."""
        return tuple(self._corrections)

    def add(self, entry: Entry) -> None:
        """Add what a commit made true."""
        self.timeline.add(effective(entry.counts, self._corrections))
        self.totals += entry.totals
        self.newest_ns = np.maximum(self.newest_ns, entry.counts.newest_ns)

    def corrected_range(self, row: int, asked_from_ns: int, asked_to_ns: int, now_ns: int) -> Range:
        """The range that a correction of an SLO would cover: no slice is cut, also when the clock was set back."""
        width_s = self.slos[row].indicator.timeslice_s or SLICE_S
        return corrected_range(asked_from_ns, asked_to_ns, max(now_ns, self.timeline.folded_ns), width_s)

    def counts(self, row: int, span: Range) -> Counts:
        """Effective counts of one SLO."""
        return counts_of(self.timeline.between(span)[[row]])[0]

    def correct(self, correction: Correction) -> None:
        """Take what is held, and what comes later, out of the range of *correction*."""
        self._corrections.append(correction)
        self.timeline.exclude(correction.row, correction.span)

    def forget(self, before_s: int) -> None:
        """Drop slices, and corrections, that lie before *before_s*; windows that begin later answer as before."""
        self.timeline.forget(before_s)
        self._corrections = [one for one in self._corrections if one.span.end > self.timeline.kept_from_s]

    def lookback(self, now_ns: int) -> dict[str, Ints]:
        """Counts of every SLO in the windows of the burn rate, by window text; shape (SLOs, 3)."""
        return {text: self.timeline.between(range_of(seconds, now_ns)) for text, seconds in BURN_WINDOWS.items()}

    def snapshot(
        self,
        now_ns: int,
        rows: Sequence[int] | None = None,
        *,
        accepting_since_ns: int | None = None,
        judged_s: int | None = None,
        active: ActiveAlerts = NO_ALERTS,
    ) -> Snapshot:
        """Copy what is held of SLOs, for later: takes what `reports` takes."""
        wanted = np.arange(len(self.slos)) if rows is None else np.array(rows, dtype=np.int64)
        declared = self.declared if rows is None else self.declared.take(wanted)
        uptime = self.uptime.copy()
        if accepting_since_ns is not None:
            uptime.add(accepting_since_ns, now_ns + 1)
        burn = [range_of(seconds, now_ns) for seconds in BURN_WINDOWS.values()]
        starts, end = starts_of(declared.window_s, now_ns), burn[0].end
        return Snapshot(
            declared=declared,
            now_ns=now_ns,
            starts=starts,
            end=end,
            counts=self.timeline.windows(wanted, [span.start for span in burn], starts, end),
            totals=self.totals[wanted],
            newest_ns=self.newest_ns[wanted],
            uptime=uptime,
            due_s=settled_s(now_ns, judged_s),
            active={at: dict(active[row]) for at, row in enumerate(wanted.tolist()) if row in active},
        )

    def reports(
        self,
        now_ns: int,
        rows: Sequence[int] | None = None,
        *,
        accepting_since_ns: int | None = None,
        judged_s: int | None = None,
        active: ActiveAlerts = NO_ALERTS,
    ) -> list[BudgetReport]:
        """
        Report on SLOs.

        Args:
            now_ns: the instant to report for.
            rows: which SLOs; None reports on all of them.
            accepting_since_ns: since when the receivers have been accepting
                without a break; None while they are not.
            judged_s: every time slice that ends here or before was judged.
            active: alerts that are.
        """
        snapshot = self.snapshot(now_ns, rows, accepting_since_ns=accepting_since_ns, judged_s=judged_s, active=active)
        return reporting.reports(snapshot)


def counts_of(rows: Ints) -> list[Counts]:
    """Counts from rows of shape (n, 3)."""
    plain: list[list[int]] = rows.tolist()
    return [Counts(row[GOOD], row[TOTAL], row[EXCLUDED]) for row in plain]
