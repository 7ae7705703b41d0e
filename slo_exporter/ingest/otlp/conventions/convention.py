"""The shape of a convention: what one framework writes, as a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Mask, Outcome, View

STATUS_OK: Final = 1
STATUS_ERROR: Final = 2
"""OTLP StatusCode."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number field stands."""

    key: str
    unit: str = ""
    """Of a duration, a key of `UNIT_NS`; empty for a count."""
    zero_is_missing: bool = False
    also: tuple[str, ...] = ()
    """Other names of the same, in the same unit: the first with a value holds."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Spans that belong to a request and never count."""

    match: Match
    field: str = ""
    """The duration that they fill in the nearest request above them: the union of their intervals."""


def outcome_of_status(spans: SpanBatch) -> NDArray[np.uint8]:
    """Span status ERROR is an error, any other is ok."""
    return np.where(spans.status == STATUS_ERROR, Outcome.ERROR, Outcome.OK).astype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """What one framework writes about a request."""

    framework: str
    view: View = View.SERVER
    requests: Match
    """The one span that counts."""
    parts: tuple[Part, ...] = ()
    """In order: the first that matches claims a span."""
    probe: Callable[[SpanBatch, tuple[str, ...]], Mask] | None = None
    """Which of the request spans only ask for health, given the routes to ignore."""
    yields: bool = False
    """In a service with an engine it counts only when not ok."""
    engine_scopes: tuple[str, ...] = ()
    """
    Prefixes of scopes that only this engine has, its start-up spans included.

    They say that the HTTP spans of a service may yield, so none stands here of
    a version whose requests are not read.
    """
    fields: Mapping[str, Source] = field(default_factory=dict)
    """Number fields by name; e2e is the span's duration where it has no value."""
    derived: tuple[Derived, ...] = ()
    """In order: one may use what an earlier one gave."""
    sequences: str = ""
    """The key of how many sequences completion_tokens is the sum of; 1 where it has no value."""
    request_id: str = ""
    models: tuple[str, ...] = ("gen_ai.response.model", "gen_ai.request.model")
    """Keys of the model, first known wins; on the span, then on the resource."""
    outcome: Callable[[SpanBatch], NDArray[np.uint8]] = outcome_of_status
    also_reads: tuple[str, ...] = ()
    """Keys that *probe* and *outcome* read."""

    @property
    def keys(self) -> frozenset[str]:
        """Every span attribute key that it asks for."""
        matches = (self.requests, *(part.match for part in self.parts))
        own = (self.request_id, self.sequences, *self.models, *self.also_reads)
        sources = (key for source in self.fields.values() for key in source.keys)
        return frozenset((*own, *sources)).union(*(match.span_keys for match in matches)) - {""}

    @property
    def resource_keys(self) -> frozenset[str]:
        """Every resource attribute key that it asks for."""
        matches = (self.requests, *(part.match for part in self.parts))
        return frozenset(self.models).union(*(match.ranks for match in matches))
