"""GET /api/v1/alerts: which alerts of SLOs are active, and why."""

from collections.abc import Iterator
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Query

from slo_exporter.slo.alerting import burn_text
from slo_exporter.slo.report import AlertReport, BudgetReport, alert_reason
from slo_exporter.web import wording
from slo_exporter.web.api import problems
from slo_exporter.web.api.dependencies import FromSources, require_known_parameters, require_loaded
from slo_exporter.web.api.models_alerts import AlertItem, AlertList
from slo_exporter.web.api.slos import MOST_ITEMS

_Key: TypeAlias = tuple[str, str, str, str]

router = APIRouter(
    prefix="/api/v1/alerts", tags=["SLOs"], dependencies=[Depends(require_loaded), Depends(require_known_parameters)]
)


@router.get("", responses=problems.described(422, 500, 503))
async def list_alerts(
    sources: FromSources,
    service: Annotated[str | None, Query(description="Only alerts of this service.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items of one answer.")] = MOST_ITEMS,
    cursor: Annotated[str | None, Query(description="`next` of the answer before.")] = None,
    *,
    every: Annotated[bool, Query(alias="all", description="1: those that are not active too.")] = False,
) -> AlertList:
    """List the active alerts by service, SLO, severity and tier."""
    reports = [r for r in sources.board.reports(sources.clock.now_ns()) if service in (None, r.slo.service)]
    found = sorted((item for report in reports for item in items(report, every=every)), key=_key)
    wanted = [item for item in found if cursor is None or _key(item) > _place(cursor)]
    page = wanted[:limit]
    return AlertList(items=page, next="/".join(_key(page[-1])) if len(wanted) > limit else None)


def items(report: BudgetReport, *, every: bool = False) -> Iterator[AlertItem]:
    """The alerts of an SLO: those that are active, or every one that it has."""
    return (_item(report, alert) for alert in report.alerts if every or alert.is_active)


def _item(report: BudgetReport, alert: AlertReport) -> AlertItem:
    rule = alert.rule
    return AlertItem(
        service=report.slo.service,
        slo=report.slo.name,
        severity=rule.severity,
        tier=rule.tier,
        active=alert.is_active,
        since=None if alert.since_ns is None else wording.utc(alert.since_ns),
        frozen=alert.is_frozen,
        long_window=alert.long or None,
        short_window=rule.short or None,
        threshold=None if rule.factor is None else float(rule.factor),
        burn_long=alert.burn_long,
        burn_short=alert.burn_short,
        bad_events=alert.bad_events,
        min_bad_events=rule.min_bad_events,
        reason=alert_reason(alert) if alert.is_active else _why_not(alert),
    )


def _why_not(alert: AlertReport) -> str:
    """One sentence that says why an alert is not active."""
    rule = alert.rule
    if rule.factor is None:
        if not alert.long:
            return f"it takes {rule.min_bad_events} events to judge by"
        return f"{alert.events - alert.bad_events:,} of {alert.events:,} events were good in {alert.long}"
    if not alert.events:
        return "there is no event to judge by"
    if alert.bad_events < rule.min_bad_events:
        return f"{alert.bad_events} bad in {rule.long}, it takes {rule.min_bad_events}"
    burns = f"{wording.burn(alert.burn_long)} over {rule.long} and {wording.burn(alert.burn_short)} over {rule.short}"
    return f"the budget burns at {burns}, {burn_text(rule.factor)} has to be exceeded in both"


def _key(item: AlertItem) -> _Key:
    return (item.service, item.slo, item.severity.value, item.tier.value)


def _place(cursor: str) -> _Key:
    # No name contains a slash.
    service, slo, severity, tier, *_ = (*cursor.split("/"), "", "", "", "")
    return (service, slo, severity, tier)
