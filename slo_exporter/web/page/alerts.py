"""The strip of active alerts on the page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.alerting import Severity
from slo_exporter.slo.report import AlertReport, BudgetReport, alert_reason
from slo_exporter.web import wording

MOST_ALERTS: Final = 20
"""Above the budgets; the API lists all."""

_SIGNS: Final = {Severity.PAGE: ("exhausted", "■"), Severity.TICKET: ("at-risk", "▲")}
"""As states of SLOs are drawn; the word stands beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """One active alert."""

    css: str
    mark: str
    severity: str
    service: str
    name: str
    link: str
    what: str
    """Which tier, and over which windows."""
    reason: str
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """All of them, pages first, the oldest of them first."""

    total: int
    rows: Sequence[AlertRow]
    hidden: int
    """That are only in the API."""


def alerts(reports: Iterable[BudgetReport], now_ns: int) -> Alerts | None:
    """The active alerts at an instant; None without one."""
    active = sorted(
        ((report, alert) for report in reports for alert in report.alerts if alert.is_active), key=_most_urgent
    )
    if not active:
        return None
    return Alerts(
        total=len(active),
        rows=[_row(report, alert, now_ns) for report, alert in active[:MOST_ALERTS]],
        hidden=max(0, len(active) - MOST_ALERTS),
    )


def _most_urgent(found: tuple[BudgetReport, AlertReport]) -> tuple[str, int, tuple[str, str], str]:
    report, alert = found
    # page stands before ticket in the alphabet, too.
    return alert.rule.severity.value, alert.since_ns or 0, report.slo.key, alert.rule.tier.value


def _row(report: BudgetReport, alert: AlertReport, now_ns: int) -> AlertRow:
    slo, rule = report.slo, alert.rule
    css, mark = _SIGNS[rule.severity]
    return AlertRow(
        css=css,
        mark=mark,
        severity=rule.severity.value,
        service=slo.service,
        name=slo.name,
        link=f"/api/v1/alerts?service={quote(slo.service, safe='')}",
        what=f"{rule.tier.value}, {_windows(alert)}" if _windows(alert) else rule.tier.value,
        reason=alert_reason(alert),
        since=wording.age(max(0, now_ns - (alert.since_ns or now_ns)) / SECOND_NS),
    )


def _windows(alert: AlertReport) -> str:
    """Which windows burn: ``1h and 5m``."""
    return " and ".join(filter(None, (alert.long, alert.rule.short)))
