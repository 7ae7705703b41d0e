"""The shape of a convention: what one framework writes, as a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.fill import Fill
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Layer, Mask, Outcome, View

STATUS_OK: Final = 1
STATUS_ERROR: Final = 2
"""OTLP StatusCode."""
_OK: Final = np.uint8(Outcome.OK)
_ERROR: Final = np.uint8(Outcome.ERROR)

TEXT: Final = "text"
"""Instead of a unit: the value is a text that has its own, such as ``12.3ms``."""

MODEL_KEYS: Final = (
    "gen_ai.response.model",
    "gen_ai.request.model",
    "llm.response.model_name",
    "llm.model_name",
    "llm.request.model_name",
    "model",
    "triton.model_name",
    "multiplexed_model_id",
    "mlflow.llm.model",
)
"""Keys of the model, first known wins: what answered before what was asked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number field stands."""

    key: str
    unit: str = ""
    """Of a duration, a key of `UNIT_NS` or `TEXT`; empty for a count."""
    zero_is_missing: bool = False
    also: tuple[str, ...] = ()
    """Other names of the same, in the same unit: the first with a value holds."""
    member: str = ""
    """The value is JSON text of an object: the number is this member of it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key, in order of precedence."""
        return (self.key, *self.also)


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """
    A field from others, where it has no value yet: Σ plus − Σ minus.

    Missing where a part of it is, or where it would be negative.
    """

    field: str
    plus: tuple[str, ...]
    minus: tuple[str, ...] = ()
    per_gap: bool = False
    """
    Divided by the gaps between tokens: completion_tokens / sequences − 1.

    Missing for fewer than two tokens a sequence.
    """
    over: str = ""
    """Divided by this field, to the nearest whole number: a count from a total and a mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """A field from events of the request's own span: the time from one to another."""

    field: str
    ends: str
    """Name of the event that ends it."""
    begins: str = ""
    """Name of the event that begins it; empty: the start of the span."""
    is_first: bool = False
    """It counts from the first of several events: where the span lost any, it is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Spans that belong to a request and never count."""

    match: Match
    fills: tuple[Fill, ...] = ()
    """What they tell of the nearest request above them."""
    is_wall: bool = False
    """What is below them tells nothing: a worker that repeats what the first one says."""
    is_below: bool = False
    """The engines of their service stand behind what counts."""
    tells_model: bool = False
    """Their model is that of the nearest request above them, where it names none."""


def outcome_of_status(spans: SpanBatch) -> NDArray[np.uint8]:
    """Span status ERROR is an error, any other is ok."""
    return np.where(spans.status == STATUS_ERROR, _ERROR, _OK)


NOT_PREFILL: Final = 0
MAY_BE_PREFILL: Final = 1
PREFILL: Final = 2
"""What `Convention.prefill` says of a request: that another engine goes on with it is not so, possible, certain."""


class Inner(Enum):
    """What the spans inside a request say of how it ended."""

    IGNORED = "ignored"
    LAST = "last"
    """The last one to end says it: the others were tried before."""
    WORST = "worst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """What one framework writes about a request."""

    framework: str
    view: View = View.SERVER
    layer: Layer = Layer.PLAIN
    requests: Match
    """The one span that counts."""
    counts: bool = True
    """False: these spans only tell more of a request above them in the same export."""
    nests: bool = False
    """Of such spans below one another, in one service and view, the outermost is the request."""
    inner: Inner = Inner.IGNORED
    """Where its own span says nothing bad: how it ended by the spans that it took in."""
    parts: tuple[Part, ...] = ()
    """In order: the first that matches claims a span."""
    probe: Callable[[SpanBatch, tuple[str, ...]], Mask] | None = None
    """Which of the request spans only ask for health, given the routes to ignore."""
    probe_reason: str = "a probe: its route is one of ignore_routes"
    """What is said of those."""
    prefill: Callable[[SpanBatch], NDArray[np.uint8]] | None = None
    """Which request spans are of a worker that only prefills: `PREFILL` and its like."""
    is_below: bool = False
    """The engines of the service of such spans stand behind what counts."""
    engine_scopes: tuple[str, ...] = ()
    """
    Prefixes of scopes that only this engine has, its start-up spans included.

    They say that the HTTP spans of a service may yield, so none stands here of
    a version whose requests are not read.
    """
    is_silent: bool = False
    """An engine that writes no span for a request that failed."""
    fields: Mapping[str, Source | tuple[Source, ...]] = field(default_factory=dict)
    """Number fields by name; of several sources the first with a value holds."""
    parts_first: frozenset[str] = frozenset()
    """Fields of which an attribute tells less exactly than parts do."""
    inner_first: frozenset[str] = frozenset()
    """Fields that inner rows tell better, where they tell them."""
    betweens: tuple[Between, ...] = ()
    """Number fields from events, in order of precedence."""
    derived: tuple[Derived, ...] = ()
    """In order: one may use what an earlier one gave."""
    last: Mapping[str, Source] = field(default_factory=dict)
    """Number fields whose attribute tells less exactly than what is derived: it speaks where nothing else does."""
    sequences: str = ""
    """The key of how many sequences completion_tokens is the sum of; 1 where it has no value."""
    request_id: str = ""
    pair_id: str = ""
    """The key of what only the two halves of one request share, in whatever traces; if empty, id and trace."""
    models: tuple[str, ...] = MODEL_KEYS
    """Keys of the model, first known wins; on the span, then on the resource."""
    json_texts: frozenset[str] = frozenset()
    """Of the keys of the model those whose text may be JSON text of a text: in quotes."""
    outcome: Callable[[SpanBatch], NDArray[np.uint8]] = outcome_of_status
    also_reads: tuple[str, ...] = ()
    """Keys that its functions read."""
    reads_lists: tuple[str, ...] = ()
    """Of the keys those that may hold a list of texts."""

    @property
    def sources(self) -> tuple[tuple[str, Source], ...]:
        """Each field with each of its sources, in order of precedence."""
        return tuple(
            (name, source)
            for name, sources in self.fields.items()
            for source in (sources if isinstance(sources, tuple) else (sources,))
        )

    @property
    def derives_late(self) -> bool:
        """Other spans may fill what its derived fields are made of."""
        return self.nests or self.layer is Layer.FRONT or self.inner is not Inner.IGNORED

    @property
    def keys(self) -> frozenset[str]:
        """Every span attribute key that it asks for."""
        matches = (self.requests, *(part.match for part in self.parts))
        own = (self.request_id, self.pair_id, self.sequences, *self.models, *self.also_reads)
        sources = (key for source in (*(s for _, s in self.sources), *self.last.values()) for key in source.keys)
        return frozenset((*own, *sources)).union(*(match.span_keys for match in matches)) - {""}

    @property
    def resource_keys(self) -> frozenset[str]:
        """Every resource attribute key that it asks for."""
        matches = (self.requests, *(part.match for part in self.parts))
        return frozenset(self.models).union(*(match.ranks for match in matches))

    @property
    def events(self) -> frozenset[str]:
        """Every name of an event that it asks for."""
        own = {name for between in self.betweens for name in (between.begins, between.ends)}
        return frozenset(own.union(*(fill.events for part in self.parts for fill in part.fills)) - {""})
