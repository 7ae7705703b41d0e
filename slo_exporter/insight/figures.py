"""What is asked about the time of requests, and what is answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slo_exporter.insight.histogram import Quantile
from slo_exporter.insight.observations import Measure
from slo_exporter.sli.records import View

UNACCOUNTED: Final = Measure.UNACCOUNTED.field
"""Name of the stage that is none: what no stage explains."""
PERCENTS: Final = (50, 95, 99)
"""The quantiles that are shown."""
_SECOND_NS: Final = 10**9


class Dimension(StrEnum):
    """What requests can be grouped by."""

    MODEL = "model"
    VIEW = "view"
    PROMPT_TOKENS = "prompt_tokens"
    COMPLETION_TOKENS = "completion_tokens"


class Flag(StrEnum):
    """What a reader of the numbers must know."""

    OVER_ACCOUNTED = "over_accounted"
    """Stages take longer than requests: something is counted twice, or in a wrong unit."""
    STAGES_APART = "stages_apart"
    """Some stages are of spans whose request came in another export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a service."""

    service: str
    window_s: int
    view: View | None = None
    """None: server, or the first of gateway and client that has requests where it has none."""
    model: str | None = None
    """Only this one, its name cut as labels are; None: all."""
    by: tuple[Dimension, ...] = ()

    @property
    def takes_parts(self) -> bool:
        """Its groups may take in what knows neither model nor token counts."""
        return self.model is None and set(self.by) <= {Dimension.VIEW}


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution of durations."""

    count: int = 0
    sum_ns: float = 0.0
    quantiles: tuple[Quantile | None, ...] = (None,) * len(PERCENTS)
    """At `PERCENTS`; None where there is no distribution, only a sum."""

    @property
    def seconds(self) -> float:
        """Their sum."""
        return self.sum_ns / _SECOND_NS

    @property
    def mean(self) -> float | None:
        """Seconds; None without any."""
        return self.seconds / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class Stage:
    """What requests spend time on."""

    name: str
    share: float | None
    """Of Σ e2e; None where that is 0."""
    spread: Spread
    inner: tuple["Stage", ...] = ()
    """What it consists of, as far as known; shares are of Σ e2e too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Where the time of some requests goes."""

    requests: int
    """Those whose end to end time is known."""
    e2e: Spread
    stages: tuple[Stage, ...]
    """The largest share first, `unaccounted` among them; without requests none."""
    ttft: Spread | None
    inter_token: Spread | None
    flags: tuple[Flag, ...]
    over_accounted: int
    """Requests whose own stages are longer than they are; they have no unaccounted time."""


@dataclass(frozen=True, slots=True)
class Group:
    """The requests that agree in what was asked for."""

    labels: Mapping[Dimension, str]
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Where the time of a service goes."""

    service: str
    view: View
    from_s: int
    to_s: int
    is_whole: bool
    """What is known reaches as far back as the window does."""
    figures: Figures
    groups: tuple[Group, ...] = ()
    """The most requests first."""
    is_truncated: bool = False
    """There are more than `MOST_GROUPS` groups."""
    hides: bool = False
    """See `Reading.hides`."""
