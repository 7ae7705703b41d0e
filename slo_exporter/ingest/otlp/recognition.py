"""
From the spans of one export to its requests.

Each span is claimed by the first convention that matches it. What it then is:
a request, a part of one, a probe, or unmatched.

A `Recognition` has no state: any number of threads may use it at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.ingest.otlp.conventions.convention import Convention, Part
from slo_exporter.ingest.otlp.conventions.fields import Provenances
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.parts import as_children
from slo_exporter.ingest.otlp.conventions.records import Declared, records_of
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.joining import join, without_repeats
from slo_exporter.sli.records import Ints, Mask, RequestBatch, concat

_LONGEST_SERVICE: Final = 255
"""Characters. A service is remembered for good, so what is no name is not learnt."""
_ENGINE_SCOPES: Final = tuple(scope for convention in CONVENTIONS for scope in convention.engine_scopes)
_NO_ROWS: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The spans of an export, by row, that one convention claims."""

    convention: Convention
    requests: Ints
    probes: Ints
    parts: Sequence[tuple[Part, Ints]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """What the spans of one export are."""

    requests: RequestBatch
    """One row each."""
    engines: frozenset[str]
    """Services in which an engine spoke, by any of its spans."""
    results: Mapping[str, int]
    """How many spans became what, see `Export.results`."""
    flags: Mapping[str, int]
    """Spans with a fault, by fault: ``negative_duration``; never 0."""


class Recognition:
    """
    Recognises the requests of an export.

    Attributes:
        keys: the attribute keys that it needs.

    Args:
        declared: what the operator says about requests.
    """

    def __init__(self, declared: Declared) -> None:
        self.keys = _keys(declared.selector_keys)
        self._declared = declared

    def recognise(self, spans: SpanBatch) -> Recognised:
        """Say what *spans*, those of one export, are."""
        claims, unmatched = self.claims(spans)
        every = concat([self.records(spans, claim) for claim in claims])
        requests = join(without_repeats(every))
        # A repeated span and a sibling of n > 1 are parts of the request that stands.
        siblings = len(every) - len(requests)
        results = {
            "request": len(requests),
            "part": siblings + sum(len(rows) for claim in claims for _, rows in claim.parts),
            "probe": sum(len(claim.probes) for claim in claims),
            "unmatched": int(np.count_nonzero(unmatched)),
        }
        return Recognised(requests=requests, engines=engines_of(spans), results=results, flags=_flags(spans))

    def claims(self, spans: SpanBatch) -> tuple[Sequence[Claim], Mask]:
        """What each convention claims, at least one of them, and what none does."""
        free = np.ones(len(spans), dtype=np.bool_)
        claims = []
        for convention in CONVENTIONS:
            claim = self._claim(convention, spans, free)
            if len(claim.requests) or len(claim.probes) or claim.parts:
                claims.append(claim)
            if not free.any():
                break
        return claims or [Claim(convention=CONVENTIONS[0], requests=_NO_ROWS, probes=_NO_ROWS, parts=())], free

    def _claim(self, convention: Convention, spans: SpanBatch, free: Mask) -> Claim:
        """The spans of *free* that *convention* claims; they are free no more."""
        requests, probes = _taken(convention.requests, spans, free), _NO_ROWS
        if convention.probe and len(requests):
            is_probe = convention.probe(_rows(spans, requests), self._declared.ignore_routes)
            requests, probes = requests[~is_probe], requests[is_probe]
        taken = [(part, _taken(part.match, spans, free)) for part in convention.parts]
        parts = [(part, rows) for part, rows in taken if len(rows)]
        return Claim(convention=convention, requests=requests, probes=probes, parts=parts)

    def records(self, spans: SpanBatch, claim: Claim, told: Provenances | None = None) -> RequestBatch:
        """The claimed requests, a row each; *told* is filled with where their numbers come from."""
        parts = {part.field: as_children(spans, rows, claim.requests) for part, rows in claim.parts if part.field}
        return records_of(_rows(spans, claim.requests), claim.convention, self._declared, parts, told)


def engines_of(spans: SpanBatch) -> frozenset[str]:
    """Services in which an engine spoke, by any of its spans."""
    scopes = {scope for scope in spans.scope.values if scope.startswith(_ENGINE_SCOPES)}
    codes = np.unique(spans.service.codes[spans.scope.among(scopes)]).tolist()
    named = (spans.service.values[code] for code in codes)
    return frozenset(service for service in named if len(service) <= _LONGEST_SERVICE)


def _keys(selector_keys: frozenset[str]) -> Keys:
    span = frozenset(key for convention in CONVENTIONS for key in convention.keys)
    resource = frozenset(key for convention in CONVENTIONS for key in convention.resource_keys)
    return Keys(span=span | selector_keys, resource=resource | selector_keys)


def _taken(match: Match, spans: SpanBatch, free: Mask) -> Ints:
    """The rows of *free* that match; they are free no more."""
    taken = match.mask(spans) & free
    free &= ~taken
    return np.flatnonzero(taken)


def _rows(spans: SpanBatch, rows: Ints) -> SpanBatch:
    """These rows in order, each once; all of them is the usual case and costs nothing."""
    return spans if len(rows) == len(spans) else spans.take(rows)


def _flags(spans: SpanBatch) -> dict[str, int]:
    negative = int(np.count_nonzero(spans.start_ns > spans.end_ns))
    return {"negative_duration": negative} if negative else {}
