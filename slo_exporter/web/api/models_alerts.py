"""What /api/v1/alerts answers, as pydantic models."""

from datetime import datetime

from pydantic import Field

from slo_exporter.slo.alerting import Severity, Tier
from slo_exporter.web.api.models import Answer, Burn, NoNext


class AlertItem(Answer):
    """One alert of one SLO, flat."""

    service: str
    slo: str
    severity: Severity
    tier: Tier = Field(
        description="quick and slow: the budget burns faster than a threshold over both windows; "
        "total: hardly any event was good."
    )
    active: bool
    since: datetime | None = Field(description="When it became active; null while it is not.")
    frozen: bool = Field(
        description="It is active, and not because the counts call for it now: they cannot end it, or have not yet."
    )
    long_window: str | None = Field(
        description="Of total failure it is the shortest window that tells, null without one.",
        examples=["1h"],
    )
    short_window: str | None = Field(description="null of total failure.", examples=["5m"])
    threshold: float | None = Field(
        description="Burn rate that both windows have to exceed; null of total failure.", examples=[14.4]
    )
    burn_long: Burn
    burn_short: Burn
    bad_events: int = Field(description="In the long window.")
    min_bad_events: int = Field(
        description="Without so many of them it does not become active; of total failure, events."
    )
    reason: str = Field(description="One sentence that says why it is active, or why it is not.")


class AlertList(Answer):
    """A page of alerts, by service, SLO, severity and tier."""

    items: list[AlertItem]
    next: NoNext = None
