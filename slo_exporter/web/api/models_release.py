"""What the API answers about releases, as pydantic models."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from slo_exporter.slo.policy import OnNoData
from slo_exporter.slo.release import Code, Decision, Effect
from slo_exporter.web.api.models import Answer, BudgetAnswer, End, NoNext, Start
from slo_exporter.web.api.models_alerts import AlertItem

Who = Annotated[str, Field(description="The name of the write token.")]
Spent = Annotated[
    float | None,
    Field(
        description="Bad events of the day after the release over those that the compliance window ending with that "
        "day allows, or the day itself where the window is shorter; null where nothing was counted, or is not kept any "
        "more."
    ),
]
Before = Annotated[float | None, Field(description="The same of the day before the release.")]
IsComplete = Annotated[bool, Field(description="The day after the release is over.")]


class ReasonAnswer(Answer):
    """Why one SLO speaks against a release, or cannot speak."""

    slo: str = Field(description="Empty of an override: it is about all of them.")
    code: Code = Field(
        description="exhausted, below_minimum, burn_too_high and alert_active deny; no_data, stale and "
        "insufficient_data cannot decide; overridden allows.",
    )
    message: str
    effect: Effect = Field(
        description="What it does to the decision. What cannot decide denies, is undecided or ignored, by `on_no_data`."
    )


class PolicyAnswer(Answer):
    """What was asked of the SLOs; where their policies differ, the strictest."""

    min_remaining: float
    max_burn_1h: float | None = Field(description="null: any burn rate is allowed.")
    on_no_data: OnNoData


class OverrideAnswer(Answer):
    """Who let the release pass whatever the budgets say."""

    who: Who
    why: str


class ExpectedCost(Answer):
    """What the next release may cost one SLO, by its past ones."""

    slo: str
    releases: int = Field(description="So many past releases this is from, at most 10.")
    median_ratio: float = Field(description="Median of their `spent_ratio`.")
    most_ratio: float = Field(description="The largest of them.")


class ReleaseAnswer(Answer):
    """May we release now?"""

    allowed: bool | None = Field(description="null when undecided.")
    decision: Decision
    reasons: list[ReasonAnswer]
    slos: list[BudgetAnswer]
    service: str
    as_of: datetime = Field(description="Until when the counts of all these SLOs are complete.")
    policy: PolicyAnswer
    alerts: list[AlertItem] = Field(description="Active alerts of these SLOs; those that page deny.")
    override: OverrideAnswer | None = Field(description="null where nobody asked for one.")
    expected_cost: list[ExpectedCost] = Field(description="Empty until the day after a release is over.")
    id: int | None = Field(description="Number of the decision that is kept; null where none is.")


class ReleaseItem(Answer):
    """A release in a list, flat, with the SLO that paid most."""

    id: int
    service: str
    version: str
    at: datetime = Field(description="When it went out.")
    who: Who
    note: str
    complete: IsComplete
    slo: str | None = Field(description="The SLO that it cost most; null where no cost is known.")
    spent_ratio: Spent
    before_ratio: Before


class ReleaseList(Answer):
    """A page of releases, the newest first."""

    items: list[ReleaseItem]
    next: NoNext = None


class CostAnswer(Answer):
    """What a release cost one SLO."""

    slo: str
    from_: Start
    to: End
    bad: int | None = Field(description="Bad events in the range; null where it is not kept, or was not counted.")
    total: int | None
    spent_ratio: Spent
    before_ratio: Before
    complete: IsComplete


class ReleaseDetail(ReleaseItem):
    """A release, and what it cost each SLO."""

    made: datetime = Field(description="When it was told.")
    slos: list[CostAnswer] = Field(description="Ranges are those of slices as wide as they are by now.")


class DecisionItem(Answer):
    """A kept decision in a list, flat."""

    id: int
    at: datetime
    who: Who
    service: str
    decision: Decision
    allowed: bool | None = Field(description="null when undecided.")
    override: str | None = Field(description="Why it was overridden; null when it was not.")


class DecisionList(Answer):
    """A page of decisions, the newest first."""

    items: list[DecisionItem]
    next: NoNext = None


class DecisionAnswer(DecisionItem):
    """A kept decision with its inputs."""

    answer: dict[str, Any] = Field(description="What the release check answered then.")
