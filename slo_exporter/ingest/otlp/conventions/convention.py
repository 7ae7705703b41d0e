"""The shape of a convention: what one framework writes, as a table."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Mask, Outcome, View

STATUS_OK: Final = 1
STATUS_ERROR: Final = 2
"""OTLP StatusCode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which spans; what is left empty is not asked."""

    scopes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    kinds: frozenset[int] = frozenset()
    """OTLP SpanKind numbers."""
    attributes: tuple[str, ...] = ()
    """The span has a value for any of these keys."""

    def mask(self, spans: SpanBatch) -> Mask:
        """The spans that match."""
        mask = np.ones(len(spans), dtype=np.bool_)
        if self.scopes:
            mask &= spans.scope.among(self.scopes)
        if self.names:
            mask &= spans.name.among(self.names)
        if self.kinds:
            mask &= np.isin(spans.kind, list(self.kinds))
        if self.attributes:
            columns = [spans.attributes[key] for key in self.attributes if key in spans.attributes]
            mask &= np.logical_or.reduce([np.zeros(len(spans), dtype=np.bool_), *(c.kind != 0 for c in columns)])
        return mask


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number field stands."""

    key: str
    unit: str = ""
    """Of a duration, a key of `UNIT_NS`; empty for a count."""
    zero_is_missing: bool = False


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
    """Divided by completion_tokens − 1: missing for fewer than two tokens."""


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
    parts: Match | None = None
    """Spans that belong to a request and never count."""
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
    request_id: str = ""
    models: tuple[str, ...] = ("gen_ai.response.model", "gen_ai.request.model")
    """Keys of the model, first known wins; on the span, then on the resource."""
    outcome: Callable[[SpanBatch], NDArray[np.uint8]] = outcome_of_status
    also_reads: tuple[str, ...] = ()
    """Keys that *probe* and *outcome* read."""

    @property
    def keys(self) -> frozenset[str]:
        """Every span attribute key that it asks for."""
        matches = self.requests.attributes + (self.parts.attributes if self.parts else ())
        sources = tuple(source.key for source in self.fields.values())
        return frozenset((*matches, *sources, self.request_id, *self.models, *self.also_reads)) - {""}
