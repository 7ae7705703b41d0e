"""Numbers from the gauges that the exporter shows: of every SLO, or of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slo_exporter.rules.burning import Row
from slo_exporter.rules.promql import REPLICA, Wanted, indented, selector, without
from slo_exporter.slo.alerting import FAILURE_WINDOWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Of all SLOs, or of those that the matchers leave."""

    matchers: Mapping[str, str] = field(default_factory=dict)
    taken: tuple[str, ...] = ()
    """Labels that the rule sets, so that nothing else may."""
    window: str = ""
    """The compliance window of the one SLO; empty where each has its own."""

    def series(self, metric: str, **matchers: Wanted) -> str:
        """A gauge as it is."""
        return selector(metric, **self.matchers, **matchers)

    def one(self, metric: str, *without_labels: str, **matchers: Wanted) -> str:
        """A gauge, once however often it is scraped."""
        return without((*REPLICA, *without_labels, *self.taken), self.series(metric, **matchers))

    def burns(self, row: Row) -> str:
        """Both windows above the factor, and bad events enough."""
        long, short = self._burn(row.long), self._burn(row.short)
        bad = self.one("slo_bad_events", "window", window=row.long)
        return f"{long}\n  > {row.factor}\nand\n{short}\n  > {row.factor}\nand\n{bad}\n  >= {row.least}"

    def tells(self, long: str, short: str) -> str:
        """A burn rate is absent without events."""
        return f"{self._burn(long)} and {self._burn(short)}"

    def fails(self, least: str) -> str:
        """
        The most bad events of a window that has no good one.

        A shorter window lies within a longer one: if any without a good event has
        enough, so has the shortest that has enough events.
        """
        bad, sli = (self.series(metric, window=FAILURE_WINDOWS) for metric in ("slo_bad_events", "slo_sli_ratio"))
        most = without((*REPLICA, "window", *self.taken), f"\n{indented(f'{bad} and {sli} == 0')}\n")
        return f"{most}\n  >= {least}"

    def works(self) -> str:
        """Good events in the longest of those windows."""
        return f"{self.one('slo_sli_ratio', 'window', window=FAILURE_WINDOWS[-1])} > 0"

    def overspent(self) -> str:
        """Below 0."""
        return f"{self.one('slo_error_budget_remaining_ratio')} < 0"

    def was_there(self) -> str:
        """It has an objective for as long as it is served."""
        return without((*REPLICA, *self.taken), f"max_over_time({self.series('slo_objective_ratio')}[1h])")

    def _burn(self, window: str) -> str:
        return self.one("slo_burn_rate", "window", window=window)

    # What the recordings for other tools are made of.

    def of_window(self, metric: str, window: str | None) -> str:
        """A gauge by its window; without one, that of the SLO."""
        if window or self.window:
            return self.series(metric, window=window or self.window)
        return f"({self.series(metric)} and on (service, slo, window) {self.series('slo_info')})"

    def bad_share(self, window: str | None) -> str:
        """Bad events of all."""
        return f"1 - {self.of_window('slo_sli_ratio', window)}"

    def good_share(self) -> str:
        """The SLI of its own window."""
        return self.of_window("slo_sli_ratio", None)

    def burn_rate(self, window: str | None) -> str:
        """Speed of the budget."""
        return self.of_window("slo_burn_rate", window)

    def remaining(self) -> str:
        """Share of the budget that is left."""
        return self.series("slo_error_budget_remaining_ratio")

    def events_a_second(self, outcomes: Wanted) -> str:
        """Over five minutes."""
        counted = self.series("slo_events_total", outcome=outcomes)
        return f"max by (service, slo, outcome) (rate({counted}[5m]))"
