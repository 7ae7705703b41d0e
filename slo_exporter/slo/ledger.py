"""
The book of counts in memory: what SQL holds, ready to be read.

Changed only after a commit, rebuilt at start to the same numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slo_exporter.sli.counting import EXCLUDED, GOOD, SLICE_NS, SLICE_S, TOTAL, Delta
from slo_exporter.sli.records import MISSING, Ints
from slo_exporter.slo import budget
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.report import BudgetReport, reason_of, state_of
from slo_exporter.slo.timeline import Timeline
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import BURN_WINDOWS, Range, range_of


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


class Ledger:
    """Counts, lifetime totals and uptime of every SLO."""

    def __init__(self, opening: Opening) -> None:
        self.slos = tuple(opening.slos)
        self.totals = opening.totals
        self.newest_ns = opening.newest_ns
        self.uptime = opening.uptime
        self.timeline = Timeline(len(self.slos))
        self._started_ns = tuple(opening.started_ns)
        self._rows = {slo.key: row for row, slo in enumerate(self.slos)}

    def row(self, service: str, name: str) -> int:
        """
        The row of an SLO.

        Raises:
            KeyError: if there is none of that name.
        """
        return self._rows[service, name]

    def add(self, delta: Delta) -> None:
        """Add what a commit made true."""
        self.timeline.add(delta)
        self.totals += delta.counts.sum(axis=0)
        self.newest_ns = np.maximum(self.newest_ns, delta.newest_ns)

    def reports(
        self, now_ns: int, rows: Sequence[int] | None = None, *, accepting_since_ns: int | None = None
    ) -> list[BudgetReport]:
        """
        Report on SLOs.

        Args:
            now_ns: the instant to report for.
            rows: which SLOs; None reports on all of them.
            accepting_since_ns: since when the receivers have been accepting
                without a break; None while they are not.
        """
        wanted = range(len(self.slos)) if rows is None else rows
        uptime = self.uptime if accepting_since_ns is None else self.uptime.extended(accepting_since_ns, now_ns + 1)
        burn_counts = {text: self.timeline.between(range_of(seconds, now_ns)) for text, seconds in BURN_WINDOWS.items()}
        own_counts: dict[int, Ints] = {}
        reports = []
        for row in wanted:
            seconds = self.slos[row].window.seconds
            if seconds not in own_counts:
                own_counts[seconds] = self.timeline.between(range_of(seconds, now_ns))
            counts = {text: _counts(sums[row]) for text, sums in burn_counts.items()}
            counts["window"] = _counts(own_counts[seconds][row])
            reports.append(self._report(row, counts, uptime, now_ns))
        return reports

    def _report(self, row: int, counts: Mapping[str, Counts], uptime: Uptime, now_ns: int) -> BudgetReport:
        slo, own = self.slos[row], counts["window"]
        span = range_of(slo.window.seconds, now_ns)
        started_s = min(self._started_ns[row], now_ns) // SLICE_NS * SLICE_S
        coverage = uptime.ratio(Range(max(span.start, started_s), span.end))
        state = state_of(own, slo.objective, coverage)
        spent = budget.budget(own, slo.objective)
        burn_rates = {text: budget.burn_rate(c, slo.objective) for text, c in counts.items()}
        newest = int(self.newest_ns[row])
        return BudgetReport(
            slo=slo,
            span=span,
            counts=own,
            sli=budget.sli(own),
            budget=spent,
            burn_rates=burn_rates,
            slis={text: budget.sli(c) for text, c in counts.items()},
            exhausts_in_seconds=budget.exhausts_in_seconds(spent.remaining_ratio, burn_rates["1h"], slo.window.seconds),
            coverage_ratio=coverage,
            as_of_ns=min(now_ns, uptime.until_ns or now_ns),
            data_age_seconds=None if newest == MISSING else max(0, now_ns - newest) / 1e9,
            state=state,
            reason=reason_of(state, slo, own, coverage),
        )


def _counts(row: Ints) -> Counts:
    return Counts(int(row[GOOD]), int(row[TOTAL]), int(row[EXCLUDED]))
