"""
Alerts of SLOs, wherever their numbers come from.

One alert per row of the table of windows, never two in one expression: its labels
say which windows burn, and an inhibition can let the quick one silence the slow.
None has a ``for``: the short window ends it, and a floor of bad events keeps it calm.

An alert freezes where there is no data. A series that is gone would end it, so each
holds itself by its own ``ALERTS`` series for as long as whoever counts says so. Its
value is 0 then.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from slo_exporter.rules.model import Alert
from slo_exporter.rules.promql import indented, selector, without
from slo_exporter.slo.alerting import Severity, Tier

BURN: Final = "SloBudgetBurn"
FAILURE: Final = "SloTotalFailure"
EXHAUSTED: Final = "SloBudgetExhausted"

OWN_LABELS: Final = (
    *("severity", "tier", "long_window", "short_window"),
    *("sloth_id", "sloth_service", "sloth_slo", "sloth_severity"),
)
"""What these alerts carry beside service, slo and the author's. Labels of targets that are called so are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A pair of windows, and what has to be exceeded."""

    severity: Severity
    tier: Tier
    long: str
    short: str
    factor: str
    """PromQL: a number, or a series."""
    least: str
    """Bad events in the long window, likewise."""


class Judge(Protocol):
    """Where the numbers of one SLO, or of all of them, come from. Each answer is PromQL with the same labels."""

    def burns(self, row: Row) -> str:
        """The burn rate of the long window where it and the short one exceed the factor, with bad events enough."""

    def fails(self, least: int | None) -> str:
        """
        Something where hardly an event was good.

        In the shortest window that has *least* events; None: as many as the SLO says.
        """

    def overspent(self) -> str:
        """How many times the budget is spent, where that is more than once."""

    def goes_on(self, severity: Severity, tier: Tier, row: Row | None) -> str:
        """Something where an alert that fires goes on, whatever else is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What an alert is called by: texts, or templates of Prometheus."""

    service: str = "{{ $labels.service }}"
    slo: str = "{{ $labels.slo }}"
    labels: Mapping[str, str]
    """The author's."""
    joined: tuple[str, ...] = ()
    """Labels that are not written here but joined from the series `NAMES`, for all SLOs at once."""

    def all(
        self, severity: Severity, tier: Tier | None = None, windows: tuple[str, str] | None = None
    ) -> dict[str, str]:
        """Every label but ``severity``."""
        long, short = windows or ("", "")
        of_windows = {"long_window": long, "short_window": short} if windows else {}
        of_sloth = {
            "sloth_id": f"{self.service}-{self.slo}",
            "sloth_service": self.service,
            "sloth_slo": self.slo,
            "sloth_severity": severity.value,
        }
        return {
            **({"tier": tier.value} if tier else {}),
            **of_windows,
            **{name: text for name, text in of_sloth.items() if name not in self.joined},
            # Prometheus reads labels of alerts as templates.
            **{name: text.replace("{{", '{{ "{{" }}') for name, text in self.labels.items()},
        }

    def with_joined(self, expr: str) -> str:
        """The expression under these names."""
        if not self.joined:
            return expr
        return f"(\n{indented(expr)}\n)\n* on (service, slo) group_left ({', '.join(self.joined)}) {NAMES}"

    @property
    def ignoring(self) -> str:
        """How to compare what has these names with what has not."""
        return f" ignoring ({', '.join(self.joined)})" if self.joined else ""


NAMES: Final = "slo:alert_labels:info"
"""A series of every SLO, with the labels that its alerts have and its gauges have not."""
TEAM: Final = "team"
"""The one label of an SLO's author that alerts on every SLO have: by it they are routed."""
EVERY: Final = Names(labels={}, joined=(TEAM, "sloth_id", "sloth_service", "sloth_slo"))
"""Joined, for a template costs Prometheus more than everything else of an alert that fires."""
_SLO: Final = "{{ $labels.service }}/{{ $labels.slo }}"
_FROZEN: Final = "{{ else }}There is no data to end it.{{ end }}"


def burn(judge: Judge, row: Row, names: Names = EVERY) -> Alert:
    """The alert on one pair of windows."""
    labels = names.all(row.severity, row.tier, (row.long, row.short))
    return Alert(
        name=BURN,
        expr=_held(judge, BURN, judge.burns(row), names, labels, (row.severity, row.tier, row)),
        severity=row.severity,
        labels=labels,
        summary=f"{_SLO} burns its error budget too fast ({row.long} and {row.short}).",
        description=(
            '{{ if $value }}The budget burns at {{ $value | printf "%.3g" }} over '
            f"{row.long}: 1 spends it in exactly one compliance window.{_FROZEN}"
        ),
    )


def failure(judge: Judge, least: int | None = None, names: Names = EVERY) -> Alert:
    """The alert on a service in which hardly anything works."""
    labels = names.all(Severity.PAGE, Tier.TOTAL)
    return Alert(
        name=FAILURE,
        expr=_held(judge, FAILURE, judge.fails(least), names, labels, (Severity.PAGE, Tier.TOTAL, None)),
        severity=Severity.PAGE,
        labels=labels,
        summary=f"{_SLO} fails in nearly every event.",
        description="At most 1 in 20 of the newest events is good; it ends when good ones come.",
    )


def exhausted(judge: Judge, names: Names = EVERY) -> Alert:
    """The alert on a budget that is spent."""
    return Alert(
        name=EXHAUSTED,
        expr=names.with_joined(judge.overspent()),
        hold="5m",
        severity=Severity.TICKET,
        labels=names.all(Severity.TICKET),
        summary=f"{_SLO} has spent its error budget.",
        description="Overspent: {{ $value | humanize }} times what was allowed is gone. Releases are denied until it "
        "has recovered.",
    )


def _held(
    judge: Judge,
    name: str,
    fires: str,
    names: Names,
    labels: Mapping[str, str],
    judged: tuple[Severity, Tier, Row | None],
) -> str:
    """The condition; or the alert as it was, for as long as it is held."""
    severity = judged[0]
    mine = selector("ALERTS", alertname=name, alertstate="firing", severity=severity.value, **_identity(labels))
    was = without(("alertname", "alertstate", "severity", *labels), f"\n  {mine}\n")
    # Who holds it has none of the joined labels; the alert keeps those that it had.
    held = f"0 * {was}\nand{names.ignoring}\n(\n{indented(judge.goes_on(*judged))}\n)"
    return f"(\n{indented(names.with_joined(fires))}\n)\nor{names.ignoring}\n(\n{indented(held)}\n)"


def _identity(labels: Mapping[str, str]) -> dict[str, str]:
    # What is not written here is not known here; the labels of the expression tell SLOs apart.
    return {name: labels[name] for name in ("tier", "sloth_service", "sloth_slo") if name in labels}
