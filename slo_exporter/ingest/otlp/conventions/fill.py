"""What the parts of a request tell of it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Ints

Interval: TypeAlias = Callable[[SpanBatch, Ints], tuple[Ints, Ints]]
"""Start and end of each of some rows of an export, in ns; an end before the start tells nothing."""


class Measured(Enum):
    """What of the parts fills a field."""

    TIME = "time"
    """The time that at least one of them was under way."""
    UNTIL_FIRST = "until_first"
    """From the start of the request to the start of the first."""
    UNTIL_LAST = "until_last"
    """From the start of the request to the end of the last."""


def whole(spans: SpanBatch, rows: Ints) -> tuple[Ints, Ints]:
    """The interval of each span itself."""
    return spans.start_ns[rows], spans.end_ns[rows]


@dataclass(frozen=True, slots=True)
class Fill:
    """A field of the request that parts fill."""

    field: str
    measured: Measured = Measured.TIME
    interval: Interval = whole
    events: tuple[str, ...] = ()
    """Names of events that *interval* reads."""
    at_least: int = 1
    """Fewer parts than that tell nothing."""
    alone: bool = True
    """They tell of a stage where their request is in another export; False: what is above them tells it."""
