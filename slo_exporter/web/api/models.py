"""
What the API answers, as pydantic models; OpenAPI is made from them.

Undefined numbers are null; NaN and infinity are refused before they could be sent.
"""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from slo_exporter.slo.report import State
from slo_exporter.web.board import Source

Objective = Annotated[str, Field(description="Required share of good events, as exact text.", examples=["0.99"])]
Window = Annotated[str, Field(description="The compliance window as its author wrote it.", examples=["30d"])]
Ratio = Annotated[float | None, Field(description="From 0 to 1; null without events.")]
Remaining = Annotated[
    float | None,
    Field(description="Share of the error budget that is left; negative when overspent, null without events."),
]
Burn = Annotated[
    float | None,
    Field(description="1 spends the budget in exactly one compliance window; null without events."),
]
Coverage = Annotated[
    float | None,
    Field(description="Share of the window's slices in which the receivers were accepting."),
]
Why = Annotated[str, Field(description="One sentence that says why the state is what it is.")]
DefinedIn = Annotated[Source, Field(description="Where it is defined: in a file, or over the API.")]
Start = Annotated[datetime, Field(serialization_alias="from", validation_alias="from", description="Start, inclusive.")]
End = Annotated[datetime, Field(description="End, exclusive.")]
NoNext = Annotated[str | None, Field(description="The cursor of the next page; null on the last one.")]


class Answer(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(allow_inf_nan=False, frozen=True, populate_by_name=True)


class Events(Answer):
    """Events of the window. total = good + bad; excluded ones are outside."""

    good: int
    bad: int
    total: int
    excluded: int


class ErrorBudget(Answer):
    """What the objective allows, and what is left of it."""

    allowed_bad: float = Field(description="(1 − objective) × total, in events.")
    remaining_events: float = Field(description="allowed_bad − bad; negative when overspent.")
    remaining_ratio: Remaining
    consumed_ratio: float | None = Field(description="bad / allowed_bad; null without events.")
    exhausts_in_seconds: float | None = Field(
        description="Until nothing is left at the pace of the last hour; 0 when exhausted, null while nothing burns."
    )


class BurnRates(Answer):
    """Burn rate by lookback window; ``window`` is the SLO's own."""

    five_minutes: Burn = Field(alias="5m")
    thirty_minutes: Burn = Field(alias="30m")
    one_hour: Burn = Field(alias="1h")
    two_hours: Burn = Field(alias="2h")
    six_hours: Burn = Field(alias="6h")
    one_day: Burn = Field(alias="1d")
    three_days: Burn = Field(alias="3d")
    window: Burn


class BudgetAnswer(Answer):
    """One SLO at one instant: every number of its error budget."""

    service: str
    slo: str
    objective: Objective
    window: Window
    from_: Start
    to: End
    state: State
    sli: Ratio
    events: Events
    budget: ErrorBudget
    burn_rate: BurnRates
    coverage_ratio: Coverage
    as_of: datetime = Field(description="Until when the counts are complete.")
    data_age_seconds: float | None = Field(description="Age of the newest counted event; null before the first.")
    reason: Why


class SloItem(Answer):
    """One SLO in a list, flat."""

    service: str
    slo: str
    objective: Objective
    window: Window
    state: State
    sli: Ratio
    remaining_ratio: Remaining
    burn_1h: Burn
    burn_6h: Burn
    coverage_ratio: Coverage
    reason: Why
    good: str = Field(description="When an event is good.", examples=["e2e <= 80ms", "p99(e2e) <= 80ms each 1m"])
    labels: str = Field(description="Labels by name, in one text.", examples=["team=llm,tier=gold"])
    source: DefinedIn
    warning: str = Field(description="What to know about the numbers; empty when there is nothing.", examples=[""])


class SloList(Answer):
    """A page of SLOs, by service and name."""

    items: list[SloItem]
    next: NoNext = None


class IndicatorAnswer(Answer):
    """What an SLO counts."""

    service: str = Field(description="service.name of the requests; of GPUs, whose SLO it is.")
    view: str | None = Field(description="Who saw the requests; null where GPUs are counted.", examples=["server"])
    requests: dict[str, list[str]] | None = Field(
        description="Selector: field or attribute, and any of these texts; null where GPUs are counted."
    )
    gpus: dict[str, list[str]] | None = Field(
        None,
        description="Selector of GPUs: gpu, uuid, name or group, and any of these texts; null with `requests`.",
    )
    good: str = Field(description="When a request, or a time slice, is good.", examples=["e2e <= 80ms"])
    outcomes: dict[str, str] | None = Field(
        description="What each outcome does: decide, bad or exclude; null where GPUs are counted."
    )
    timeslice: str | None = Field(
        description="Width of the time slices that are events; null where requests are.", examples=["1m"]
    )
    empty: str | None = Field(
        description="What a time slice is in which the condition has no value: no_data, good or bad.",
        examples=["no_data"],
    )


class SloAnswer(Answer):
    """One SLO as it was declared, and its state."""

    service: str
    slo: str
    objective: Objective
    window: Window
    labels: dict[str, str]
    indicator: IndicatorAnswer
    max_data_age_seconds: float = Field(description="Older data is stale for a release check.")
    state: State
    reason: Why
    source: DefinedIn
    generation: int = Field(description="From 1; changing what is counted starts the next.")
    since: datetime = Field(description="When this generation started.")
    warnings: list[str] = Field(description="What to know about the numbers, one sentence each.")


class HistoryItem(Answer):
    """One step of a history, flat."""

    time: datetime = Field(description="Start of the step; it ends a step later.")
    good: int
    bad: int
    total: int
    sli: Ratio
    remaining_ratio: float | None = Field(
        description="Of the SLO's own window that ends with the step; null without events or beyond the retention."
    )
    burn_1h: float | None = Field(
        description="Of the hour that ends with the step; null without events or beyond the retention."
    )


class HistoryAnswer(Answer):
    """An SLO over time, oldest first."""

    items: list[HistoryItem]
    next: NoNext = None
    from_: Start
    to: End
    step: int = Field(description="Seconds: the asked step, widened to whole slices.")


class CorrectionItem(Answer):
    """A correction in a list, flat."""

    from_: Start
    to: End
    asked_from: datetime
    asked_to: datetime
    why: str
    who: str = Field(description="The name of the write token.")
    made: datetime
    good: int = Field(description="Good events that it took out when it was made.")
    bad: int = Field(description="Bad events that it took out when it was made.")


class CorrectionList(Answer):
    """A page of corrections, in the order in which they were made."""

    items: list[CorrectionItem]
    next: NoNext = None


class RemovedEvents(Answer):
    """What a correction took out when it was made; what comes later into its range is left out too."""

    good: int
    bad: int


class CorrectionAnswer(Answer):
    """A correction as it was made."""

    from_: Start
    to: End
    asked_from: datetime
    asked_to: datetime
    why: str
    who: str = Field(description="The name of the write token.")
    made: datetime
    events: RemovedEvents


Share = Annotated[
    float | None, Field(description="Σ of the stage / Σ of the requests' durations; null where that is 0.")
]
QuantileSeconds = Annotated[
    float | None,
    Field(description="Seconds, nearest rank, within 0.55 %; null without values, or where only a sum is known."),
]
Clamps = Annotated[
    dict[str, str],
    Field(
        description="`<=` or `>=` by quantile, where it is outside of 0.5 ms to 600 s and only bounded.",
        examples=[{"p50": "<="}],
    ),
]


class SpreadAnswer(Answer):
    """A distribution of durations."""

    count: int
    mean: float | None = Field(description="Seconds; null without values.")
    p50: QuantileSeconds
    p95: QuantileSeconds
    p99: QuantileSeconds
    bounds: Clamps


class InnerStageAnswer(Answer):
    """A part of a stage."""

    stage: str = Field(examples=["prefill"])
    share: Share
    seconds: float = Field(description="Sum over all requests.")
    count: int = Field(description="Requests that know it.")
    p50: QuantileSeconds
    p95: QuantileSeconds
    p99: QuantileSeconds
    bounds: Clamps


class StageAnswer(InnerStageAnswer):
    """What requests spend time on."""

    stage: str = Field(
        description="queue, preprocess, inference, postprocess, data_wait, or unaccounted: what no stage explains.",
        examples=["inference"],
    )
    of: list[InnerStageAnswer] = Field(description="What it consists of, as far as known: prefill and decode.")


class FiguresAnswer(Answer):
    """Where the time of some requests goes."""

    requests: int = Field(description="Requests whose duration is known, whatever their outcome.")
    e2e: SpreadAnswer
    stages: list[StageAnswer] = Field(description="The largest share first; empty without requests.")
    ttft: SpreadAnswer | None = Field(description="Time to the first token; null where none is known.")
    inter_token: SpreadAnswer | None = Field(description="Time per output token; null where none is known.")
    flags: list[str] = Field(
        description="over_accounted: stages take longer than the requests. stages_apart: some stages are of spans "
        "whose request came in another export."
    )


class GroupName(Answer):
    """What the requests of a group agree in; what was not asked for is absent."""

    model: str | None = None
    view: str | None = None
    prompt_tokens: str | None = Field(default=None, description="Length of the prompt.", examples=["<=1k"])
    completion_tokens: str | None = Field(default=None, description="Length of the answer.", examples=[">32k"])


class BreakdownGroup(FiguresAnswer, GroupName):
    """The requests that agree in what `by` names."""


class BreakdownName(Answer):
    """Which requests a breakdown is of."""

    service: str
    view: str = Field(description="Who saw these requests.", examples=["server"])
    window: str = Field(description="As it was asked for.", examples=["1h"])
    from_: Start
    to: End


class BreakdownAnswer(FiguresAnswer, BreakdownName):
    """Where the time of a service's requests goes."""

    warnings: list[str] = Field(description="One sentence each.")
    groups: list[BreakdownGroup] = Field(description="What `by` asks for, the most requests first.")
    truncated: bool = Field(description="There are more groups than 100.")
