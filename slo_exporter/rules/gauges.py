"""Numbers from the gauges that the exporter shows: of every SLO, or of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slo_exporter.rules.burning import OWN_LABELS, Row
from slo_exporter.rules.promql import ANSWERS, PLACE, REPLICA, Wanted, indented, selector, without
from slo_exporter.slo.alerting import Severity, Tier

KEPT: Final = "10m"
"""So long a spent budget stays spent when nothing is scraped."""


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

    def one(self, metric: str, *, keep: tuple[str, ...] = (), **matchers: Wanted) -> str:
        """A gauge, once however often it is scraped; of its own labels it has those to *keep*."""
        return self._once(self.series(metric, **matchers), keep)

    def burns(self, row: Row) -> str:
        """Both windows above the factor, and bad events enough."""
        long, short = (self.one("slo_burn_rate", window=window) for window in (row.long, row.short))
        bad = self.one("slo_bad_events", window=row.long)
        burning = f"{long}\n  > {row.factor}\nand\n{short}\n  > {row.factor}\nand\n{bad}\n  >= {row.least}"
        return f"{burning}\nor\n0 * ({self.verdict(row.severity, row.tier)} == 1)"

    def fails(self, least: int | None) -> str:  # noqa: ARG002 - the exporter knows
        """
        The exporter says so.

        It remembers since when, and ends it on news alone; an expression cannot.
        """
        return f"{self.verdict(Severity.PAGE, Tier.TOTAL)} == 1"

    def overspent(self) -> str:
        """More than 1; a scrape that is missed or a restart does not begin the wait anew."""
        left, alerts = map(self._lately, ("slo_error_budget_remaining_ratio", "slo_alert_min_bad_events"))
        return f"1 - (\n{indented(left)}\n) > 1\nand\n(\n{indented(alerts)}\n)"

    def goes_on(self, severity: Severity, tier: Tier, row: Row | None) -> str:  # noqa: ARG002 - the exporter knows
        """The exporter does not answer."""
        return f"{self.of_absent()} unless {self.verdict(severity, tier)}"

    def verdict(self, severity: Severity, tier: Tier) -> str:
        """1 where the exporter says that an alert is active, else 0."""
        return self.one("slo_alert_active", severity=severity.value, tier=tier.value)

    def of_absent(self) -> str:
        """SLOs that were there within the hour, and whose exporter does not answer."""
        there = f"last_over_time({self.series('slo_objective_ratio')}[1h])"
        return self._once(f"{there} unless on ({PLACE}) {ANSWERS}")

    def _lately(self, metric: str) -> str:
        """A gauge; where its exporter does not answer, as it was."""
        was = f"last_over_time({self.series(metric)}[{KEPT}])"
        return f"{self.one(metric)}\nor\n{self._once(f'{was} unless on ({PLACE}) {ANSWERS}')}"

    def _once(self, expr: str, keep: tuple[str, ...] = ()) -> str:
        others = (*REPLICA, "window", *OWN_LABELS, *self.taken)
        return without((label for label in others if label not in keep), expr)

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
