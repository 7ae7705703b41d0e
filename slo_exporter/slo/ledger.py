"""
The book of counts in memory: what SQL holds, ready to be read.

Changed only after a commit, rebuilt at start to the same numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from slo_exporter.sli.counting import EXCLUDED, GOOD, SLICE_NS, SLICE_S, TOTAL, Delta
from slo_exporter.sli.records import MISSING, Ints
from slo_exporter.slo import budget
from slo_exporter.slo.alerting import NO_ALERTS, ActiveAlerts, AlertKey
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.corrections import Correction, corrected_range, effective
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.judging import due_slices, settled_s
from slo_exporter.slo.report import BudgetReport, alert_reports, reason_of, state_of
from slo_exporter.slo.timeline import Timeline
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import BURN_WINDOWS, Range, range_of

_AHEAD_NS: Final = 60 * 10**9
"""So far ahead of our clock an event may end (docs/laws.md, law 3): else the clock was set back meanwhile."""


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
        self._alert_rules = [slo.alert_rules for slo in self.slos]

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
        wanted = list(range(len(self.slos)) if rows is None else rows)
        uptime = self.uptime if accepting_since_ns is None else self.uptime.extended(accepting_since_ns, now_ns + 1)
        covered = cache(uptime.ratio)  # most SLOs ask about the same few ranges
        burn = [counts_of(counts[wanted]) for counts in self.lookback(now_ns).values()]
        own = self._own_counts(wanted, now_ns)
        due_s = settled_s(now_ns, judged_s)
        reports = []
        for row, *counts in zip(wanted, *burn, strict=True):
            by_window = dict(zip((*BURN_WINDOWS, "window"), (*counts, own[row]), strict=True))
            coverage = self._coverage(row, own[row], covered, now_ns, due_s)
            since = active.get(row, {})
            reports.append(self._report(row, by_window, coverage, since, now_ns, uptime.until_ns))
        return reports

    def _own_counts(self, rows: Sequence[int], now_ns: int) -> Mapping[int, Counts]:
        """Counts of each of *rows* in its own window."""
        sharing: dict[int, list[int]] = {}
        for row in rows:
            sharing.setdefault(self.slos[row].window.seconds, []).append(row)
        return {
            row: counts
            for seconds, those in sharing.items()
            for row, counts in zip(
                those, counts_of(self.timeline.between(range_of(seconds, now_ns))[those]), strict=True
            )
        }

    def _coverage(
        self, row: int, own: Counts, covered: Callable[[Range], float | None], now_ns: int, due_s: int
    ) -> float | None:
        """Share of the slices since the start of the generation that tell something (law 2)."""
        slo, started_ns = self.slos[row], min(self.started_ns[row], now_ns)
        span = range_of(slo.window.seconds, now_ns)
        width_s = slo.indicator.timeslice_s
        if width_s is None:
            return covered(Range(max(span.start, started_ns // SLICE_NS * SLICE_S), span.end))
        due = due_slices(width_s, span, started_ns, due_s)
        return min(1.0, (own.total + own.excluded) / due) if due else None

    def _report(
        self,
        row: int,
        counts: Mapping[str, Counts],
        coverage: float | None,
        active: Mapping[AlertKey, int],
        now_ns: int,
        until_ns: int | None,
    ) -> BudgetReport:
        slo, own = self.slos[row], counts["window"]
        burn_rates = {text: budget.burn_rate(c, slo.objective) for text, c in counts.items()}
        alerts = alert_reports(slo, self._alert_rules[row], counts, burn_rates, active, now_ns)
        alerting = [alert for alert in alerts if alert.is_active]
        state = state_of(own, slo.objective, coverage, is_burning=bool(alerting))
        spent = budget.budget(own, slo.objective)
        newest = int(self.newest_ns[row])
        return BudgetReport(
            slo=slo,
            span=range_of(slo.window.seconds, now_ns),
            counts=own,
            sli=budget.sli(own),
            budget=spent,
            burn_rates=burn_rates,
            slis={text: budget.sli(c) for text, c in counts.items()},
            exhausts_in_seconds=budget.exhausts_in_seconds(spent.remaining_ratio, burn_rates["1h"], slo.window.seconds),
            coverage_ratio=coverage,
            as_of_ns=min(now_ns, until_ns or now_ns),
            data_age_seconds=_age_seconds(newest, now_ns),
            state=state,
            reason=reason_of(state, slo, own, coverage, alerting),
            bad_events={text: c.bad for text, c in counts.items()},
            alerts=alerts,
        )


def _age_seconds(newest_ns: int, now_ns: int) -> float | None:
    """None without an event, and where the newest one cannot be told: it ends further ahead than it may."""
    if newest_ns == MISSING or newest_ns > now_ns + _AHEAD_NS:
        return None
    return max(0, now_ns - newest_ns) / 1e9


def counts_of(rows: Ints) -> list[Counts]:
    """Counts from rows of shape (n, 3)."""
    plain: list[list[int]] = rows.tolist()
    return [Counts(row[GOOD], row[TOTAL], row[EXCLUDED]) for row in plain]
