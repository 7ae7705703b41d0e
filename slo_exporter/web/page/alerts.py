"""The strip of active alerts on the page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.alerting import KEYS, Severity
from slo_exporter.slo.report import AlertReport, BudgetReport, alert_reason
from slo_exporter.web import wording

MOST_ALERTS: Final = 20
"""SLOs above the budgets; the API lists all."""

_SIGNS: Final = {Severity.PAGE: ("exhausted", "■"), Severity.TICKET: ("at-risk", "▲")}
"""As states of SLOs are drawn; the word stands beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """The gravest active alert of an SLO."""

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
    others: int
    """Active alerts of the same SLO that it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """One row an SLO, pages first, the oldest of them first."""

    total: int
    """Of alerts."""
    rows: Sequence[AlertRow]
    hidden: int
    """SLOs whose alerts are only in the API."""


def alerts(reports: Iterable[BudgetReport], now_ns: int) -> Alerts | None:
    """The active alerts at an instant; None without one."""
    active = [(report, _gravest_first(report)) for report in reports]
    firing = sorted(((report, those) for report, those in active if those), key=_most_urgent)
    if not firing:
        return None
    return Alerts(
        total=sum(len(those) for _, those in firing),
        rows=[_row(report, those, now_ns) for report, those in firing[:MOST_ALERTS]],
        hidden=max(0, len(firing) - MOST_ALERTS),
    )


def _gravest_first(report: BudgetReport) -> list[AlertReport]:
    return sorted((alert for alert in report.alerts if alert.is_active), key=lambda alert: KEYS.index(alert.rule.key))


def _most_urgent(found: tuple[BudgetReport, list[AlertReport]]) -> tuple[str, int, tuple[str, str]]:
    report, (alert, *_) = found
    # page stands before ticket in the alphabet, too.
    return alert.rule.severity.value, alert.since_ns or 0, report.slo.key


def _row(report: BudgetReport, those: Sequence[AlertReport], now_ns: int) -> AlertRow:
    slo, alert = report.slo, those[0]
    rule = alert.rule
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
        others=len(those) - 1,
    )


def _windows(alert: AlertReport) -> str:
    """Which windows burn: ``1h and 5m``."""
    return " and ".join(filter(None, (alert.long, alert.rule.short)))
