"""
From the bytes of an export to the requests it tells of.

Each span is claimed by the first convention that matches it. What it then is:
a request, a part of one, a probe, or unmatched.

A `Reader` has no state: any number of threads may read at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from slo_exporter.ingest.otlp.conventions.convention import Convention, Match
from slo_exporter.ingest.otlp.conventions.records import records_of
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.joining import join, without_repeats
from slo_exporter.sli.records import Ints, Mask, RequestBatch, concat

_LONGEST_SERVICE: Final = 255
"""Characters. A service is remembered for good, so what is no name is not learnt."""
_ENGINE_SCOPES: Final = tuple(scope for convention in CONVENTIONS for scope in convention.engine_scopes)
_NO_ROWS: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An export, and what is to be said about its spans."""

    export: Export
    refusals: Refusals
    flags: Mapping[str, int]
    """Accepted spans with a fault, by fault: ``negative_duration``; never 0."""


class Reader:
    """
    Reads OTLP trace exports in protobuf.

    Attributes:
        keys: the attribute keys that it reads; all others are skipped.

    Args:
        selector_keys: attribute keys that the selectors of SLOs name.
        models: service.name → model, where neither span nor resource names one.
        lateness_ns: a span that ended longer ago is refused.
        ignore_routes: HTTP routes that are probes; ``*`` at the end: any rest.
    """

    def __init__(
        self,
        *,
        selector_keys: frozenset[str],
        models: Mapping[str, str],
        lateness_ns: int,
        ignore_routes: tuple[str, ...],
    ) -> None:
        self.keys = _keys(selector_keys)
        self._selector_keys = selector_keys
        self._models = models
        self._lateness_ns = lateness_ns
        self._ignore_routes = ignore_routes

    def read(self, body: bytes, now_ns: int) -> Reading:
        """
        Read one decompressed body; the empty one is valid and holds no span.

        Raises:
            MalformedError: it is no ExportTraceServiceRequest.
            TooLargeError: it has too many parts.
        """
        spans, refusals = decode(body, self.keys, now_ns=now_ns, lateness_ns=self._lateness_ns)
        requests, results = self._recognised(spans)
        export = Export(
            digest=blake2b(body, digest_size=16).digest(),
            received_ns=now_ns,
            refused=refusals.count,
            requests=requests,
            engines=_engines(spans),
            results=results,
        )
        return Reading(export=export, refusals=refusals, flags=_flags(spans))

    def _recognised(self, spans: SpanBatch) -> tuple[RequestBatch, Mapping[str, int]]:
        """The requests, one row each, and how many spans became what."""
        free = np.ones(len(spans), dtype=np.bool_)
        batches, parts, probes = [], 0, 0
        for convention in CONVENTIONS:
            claimed = _claim(convention.requests, spans, free)
            parts += len(_claim(convention.parts, spans, free)) if convention.parts else 0
            if len(claimed):
                real = self._without_probes(_rows(spans, claimed), convention)
                probes += len(claimed) - len(real)
                batches.append(self._records(real, convention))
        every = concat(batches or [self._records(spans.take(_NO_ROWS), CONVENTIONS[0])])
        requests = join(without_repeats(every))
        # A repeated span and a sibling of n > 1 are parts of the request that stands.
        parts += len(every) - len(requests)
        unmatched = int(np.count_nonzero(free))
        return requests, {"request": len(requests), "part": parts, "probe": probes, "unmatched": unmatched}

    def _without_probes(self, spans: SpanBatch, convention: Convention) -> SpanBatch:
        if convention.probe is None:
            return spans
        return _rows(spans, np.flatnonzero(~convention.probe(spans, self._ignore_routes)))

    def _records(self, spans: SpanBatch, convention: Convention) -> RequestBatch:
        return records_of(spans, convention, self._selector_keys, self._models)


def _keys(selector_keys: frozenset[str]) -> Keys:
    models = frozenset(key for convention in CONVENTIONS for key in convention.models)
    asked = frozenset(key for convention in CONVENTIONS for key in convention.keys)
    return Keys(span=asked | selector_keys, resource=models | selector_keys)


def _claim(match: Match, spans: SpanBatch, free: Mask) -> Ints:
    """The rows of *free* that match; they are free no more."""
    claimed = match.mask(spans) & free
    free &= ~claimed
    return np.flatnonzero(claimed)


def _rows(spans: SpanBatch, rows: Ints) -> SpanBatch:
    """These rows in order, each once; all of them is the usual case and costs nothing."""
    return spans if len(rows) == len(spans) else spans.take(rows)


def _engines(spans: SpanBatch) -> frozenset[str]:
    """Services in which an engine spoke, by any of its spans."""
    scopes = {scope for scope in spans.scope.values if scope.startswith(_ENGINE_SCOPES)}
    codes = np.unique(spans.service.codes[spans.scope.among(scopes)]).tolist()
    named = (spans.service.values[code] for code in codes)
    return frozenset(service for service in named if len(service) <= _LONGEST_SERVICE)


def _flags(spans: SpanBatch) -> dict[str, int]:
    negative = int(np.count_nonzero(spans.start_ns > spans.end_ns))
    return {"negative_duration": negative} if negative else {}
