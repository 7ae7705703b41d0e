"""
Which convention claims which spans of exports: the first that matches.

Each span is a request, a part of one, a probe, or nobody's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import Convention, Part
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.parts import requests_above
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS, with_own
from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Ints, Mask

NO_ROWS: Final = np.zeros(0, dtype=np.int64)
_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The spans, by row, that one convention claims."""

    convention: Convention
    requests: Ints
    probes: Ints
    parts: Sequence[tuple[Part, Ints]]
    others: Ints = field(default_factory=lambda: NO_ROWS)
    """Requests of the same framework that an earlier convention claims."""

    def above(self, spans: SpanBatch) -> Ints:
        """Per span the request of its framework that it belongs to, see `requests_above`."""
        walls = [rows for part, rows in self.parts if part.is_wall]
        requests = np.concatenate([self.requests, self.others]) if len(self.others) else self.requests
        return requests_above(spans, requests, np.concatenate(walls) if walls else None)


class Claimants:
    """
    Every convention in use.

    Attributes:
        conventions: in order: the first that matches claims a span.
        keys: the attribute keys and event names that they need.

    Args:
        declared: what the operator says about requests.
    """

    def __init__(self, declared: Declared) -> None:
        self.conventions = with_own(declared.conventions)
        self.keys = _keys(self.conventions, declared)
        self._ignore_routes = declared.ignore_routes
        self._shared = {id(own): _shared(own, self.conventions) for own in declared.conventions}
        """By identity of the operator's conventions the parts that they claim only where they have a request."""

    def claims(self, spans: SpanBatch) -> tuple[Sequence[Claim], Mask]:
        """What each convention claims, at least one of them, and what none does."""
        free = np.ones(len(spans), dtype=np.bool_)
        claims = list[Claim]()
        for convention in self.conventions:
            claim = _beside(self._claim(convention, spans, free), claims)
            if len(claim.requests) or len(claim.probes) or claim.parts:
                claims.append(claim)
            if not np.count_nonzero(free):
                break
        return claims or [Claim(convention=CONVENTIONS[0], requests=NO_ROWS, probes=NO_ROWS, parts=())], free

    def _claim(self, convention: Convention, spans: SpanBatch, free: Mask) -> Claim:
        """The spans of *free* that *convention* claims; they are free no more."""
        requests, probes = _taken(convention.requests, spans, free), NO_ROWS
        if convention.probe and len(requests):
            is_probe = convention.probe(of_rows(spans, requests), self._ignore_routes)
            requests, probes = requests[~is_probe], requests[is_probe]
        if not np.count_nonzero(free):
            return Claim(convention=convention, requests=requests, probes=probes, parts=())
        shared = self._shared.get(id(convention), ())
        has_requests = _in_exports_of(spans, requests, probes) if shared else None
        taken = [
            (part, _taken(part.match, spans, free, has_requests if part in shared else None))
            for part in convention.parts
        ]
        parts = [(part, rows) for part, rows in taken if len(rows)]
        return Claim(convention=convention, requests=requests, probes=probes, parts=parts)


def _shared(own: Convention, conventions: Sequence[Convention]) -> tuple[Part, ...]:
    """The parts that a convention after *own* has too: those of what it extends belong to the requests there."""
    at = next(at for at, convention in enumerate(conventions) if convention is own)
    return tuple(part for part in own.parts if any(part in later.parts for later in conventions[at + 1 :]))


def _beside(claim: Claim, earlier: Sequence[Claim]) -> Claim:
    """The claim, whose parts may be of requests of *earlier* ones of its framework."""
    framework = claim.convention.framework
    # What never counts is a part itself: the request is further up.
    others = [
        other.requests
        for other in earlier
        if claim.parts and other.convention.counts and other.convention.framework == framework
    ]
    return replace(claim, others=np.concatenate(others)) if others else claim


def _keys(conventions: Sequence[Convention], declared: Declared) -> Keys:
    span = frozenset(key for convention in conventions for key in convention.keys)
    resource = frozenset(key for convention in conventions for key in convention.resource_keys)
    declared_keys = declared.selector_keys.union(declared.model_keys)
    return Keys(
        span=span | declared_keys,
        resource=resource | declared_keys,
        events=frozenset(name for convention in conventions for name in convention.events),
        lists=frozenset(key for convention in conventions for key in convention.reads_lists),
    )


def _in_exports_of(spans: SpanBatch, *rows: Ints) -> Mask:
    """Spans of exports that have any of *rows*."""
    if spans.exports is None:
        return np.full(len(spans), any(map(len, rows)))
    return np.isin(spans.exports, spans.exports[np.concatenate(rows)])


def _taken(match: Match, spans: SpanBatch, free: Mask, among: Mask | None = None) -> Ints:
    """The rows of *free*, and of *among* if given, that match; they are free no more."""
    if not match.may_match(spans):
        return NO_ROWS
    taken = match.mask(spans) & free
    if among is not None:
        taken &= among
    free ^= taken
    return taken.nonzero()[0]


def end_to_end(arrays: Sequence[NDArray[_Number]]) -> NDArray[_Number]:
    """The arrays, at least one, one after the other; one alone is the usual case and costs nothing."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def of_rows(spans: SpanBatch, rows: Ints) -> SpanBatch:
    """These rows in order, each once; all of them is the usual case and costs nothing."""
    return spans if len(rows) == len(spans) else spans.take(rows)
