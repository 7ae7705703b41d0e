"""The SLO: what is counted, how much of it must be good, over how long."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from slo_exporter.sli.indicator import Indicator
from slo_exporter.slo import alerting
from slo_exporter.slo.alerting import AlertPolicy, AlertRule
from slo_exporter.slo.policy import ReleasePolicy
from slo_exporter.slo.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """A service level objective as its author declared it."""

    service: str
    name: str
    objective: Decimal
    """Required share of good events, strictly between 0 and 1 (law 1)."""
    window: Window
    indicator: Indicator
    labels: Mapping[str, str] = field(default_factory=dict)
    max_data_age_ns: int = 15 * 60 * 10**9
    """Older data is stale for a release check."""
    alerts: AlertPolicy = field(default_factory=AlertPolicy)
    release: ReleasePolicy = field(default_factory=ReleasePolicy)
    """Of its service."""

    def __post_init__(self) -> None:
        """Refuse an objective that leaves no budget or asks for nothing."""
        if not (self.objective.is_finite() and 0 < self.objective < 1):
            raise ValueError(f"objective {self.objective} must be strictly between 0 and 1")

    @property
    def key(self) -> tuple[str, str]:
        """(service, name): unique among the SLOs of a server."""
        return (self.service, self.name)

    @property
    def alert_rules(self) -> tuple[AlertRule, ...]:
        """The alerts that it has."""
        return alerting.rules(
            self.alerts,
            window_s=self.window.seconds,
            objective=self.objective,
            timeslice_s=self.indicator.timeslice_s,
        )
