"""
Alerts of SLOs, wherever their numbers come from.

One alert per row of the table of windows, never two in one expression: its labels
say which windows burn, and an inhibition can let the quick one silence the slow.
None has a ``for``: the short window ends it, and a floor of bad events keeps it calm.

An alert freezes where there is no data. A series that is gone would end it, so each
holds itself by its own ``ALERTS`` series while what it judges by is absent, for as
long as the SLO was there within the hour. Its value is 0 then.
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
"""What these alerts carry beside what their expression gives, and the author's."""


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

    def tells(self, long: str, short: str) -> str:
        """Something where both windows have events."""

    def fails(self, least: str) -> str:
        """The bad events of a window in which there are so many, and no good one."""

    def works(self) -> str:
        """Something where there are good events in the longest window in which failure is looked for."""

    def overspent(self) -> str:
        """The remaining share of the budget where it is negative."""

    def was_there(self) -> str:
        """Something where the SLO was there within the hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What an alert is called by: texts, or templates of Prometheus."""

    service: str = "{{ $labels.service }}"
    slo: str = "{{ $labels.slo }}"
    labels: Mapping[str, str]
    """The author's."""

    def all(
        self, severity: Severity, tier: Tier | None = None, windows: tuple[str, str] | None = None
    ) -> dict[str, str]:
        """Every label but ``severity``."""
        long, short = windows or ("", "")
        of_windows = {"long_window": long, "short_window": short} if windows else {}
        return {
            **({"tier": tier.value} if tier else {}),
            **of_windows,
            "sloth_id": f"{self.service}-{self.slo}",
            "sloth_service": self.service,
            "sloth_slo": self.slo,
            "sloth_severity": severity.value,
            # Prometheus reads labels of alerts as templates.
            **{name: text.replace("{{", '{{ "{{" }}') for name, text in self.labels.items()},
        }


EVERY: Final = Names(labels={})
_SLO: Final = "{{ $labels.service }}/{{ $labels.slo }}"
_FROZEN: Final = "{{ else }}There is no data to end it.{{ end }}"


def burn(judge: Judge, row: Row, names: Names = EVERY) -> Alert:
    """The alert on one pair of windows."""
    labels = names.all(row.severity, row.tier, (row.long, row.short))
    return Alert(
        name=BURN,
        expr=_held(judge, BURN, row.severity, labels, judge.burns(row), judge.tells(row.long, row.short)),
        severity=row.severity,
        labels=labels,
        summary=f"{_SLO} burns its error budget too fast ({row.long} and {row.short}).",
        description=(
            '{{ if $value }}The budget burns at {{ $value | printf "%.3g" }} over '
            f"{row.long}: 1 spends it in exactly one compliance window.{_FROZEN}"
        ),
    )


def failure(judge: Judge, least: str, names: Names = EVERY) -> Alert:
    """The alert on a service in which nothing works."""
    labels = names.all(Severity.PAGE, Tier.TOTAL)
    return Alert(
        name=FAILURE,
        expr=_held(judge, FAILURE, Severity.PAGE, labels, judge.fails(least), judge.works()),
        severity=Severity.PAGE,
        labels=labels,
        summary=f"{_SLO} fails in every event.",
        description=f'{{{{ if $value }}}}{{{{ $value | printf "%.0f" }}}} bad events, and not one good.{_FROZEN}',
    )


def exhausted(judge: Judge, names: Names = EVERY) -> Alert:
    """The alert on a budget that is spent."""
    return Alert(
        name=EXHAUSTED,
        expr=judge.overspent(),
        hold="5m",
        severity=Severity.TICKET,
        labels=names.all(Severity.TICKET),
        summary=f"{_SLO} has spent its error budget.",
        description="{{ $value | humanizePercentage }} of it remains. Releases are denied until it has recovered.",
    )


def _held(judge: Judge, name: str, severity: Severity, labels: Mapping[str, str], holds: str, told: str) -> str:
    """The condition; or the alert as it was while nothing tells that it has ended."""
    mine = selector("ALERTS", alertname=name, alertstate="firing", severity=severity.value, **_identity(labels))
    was = without(("alertname", "alertstate", "severity", *labels), f"\n  {mine}\n")
    held = f"0 * {was}\nunless\n({told})\nand\n{judge.was_there()}"
    return f"(\n{indented(holds)}\n)\nor\n(\n{indented(held)}\n)"


def _identity(labels: Mapping[str, str]) -> dict[str, str]:
    # What is a template is not known here; the labels of the expression tell SLOs apart.
    return {name: labels[name] for name in ("tier", "sloth_service", "sloth_slo") if "{{" not in labels[name]}
