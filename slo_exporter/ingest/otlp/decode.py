"""
From the bytes of an ExportTraceServiceRequest to columns.

Rules of this module:

1. The protobuf library is the authority on what is well formed.
2. One pass, one span at a time. An attribute whose key nobody asked for is
   skipped unread.
3. A bad span is refused and counted; it never takes its batch with it (C04).
4. Unknown fields, flags and enum numbers are tolerated (C10).
5. Of duplicate keys the last with a readable value wins.
6. Text is interned per batch only: nothing outlives the export.
7. Work and memory are bounded by the body's size, whatever its shape.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from slo_exporter.ingest.otlp.columns import Cells, attributes_of, enums_of, services_of, words_of
from slo_exporter.ingest.otlp.envelope import opened, resources_of
from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError
from slo_exporter.ingest.otlp.refusals import FUTURE_NS, LARGEST_PART, LOCATIONS_TOLD, Limits, Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import texts_of

MOST_PARTS: Final = 2**19
"""Resources, scopes and spans of an export; 16 MiB hold 430,000 of the smallest valid spans."""

_EMPTY_PARTS: Final = (b"\x0a\x00", b"\x12\x00", b"\x1a\x00")
"""Empty resources, heads, scopes, spans, schema URLs: even as bytes each takes twenty times its size."""

_SERVICE: Final = "service.name"
_INT64_MAX: Final = 2**63 - 1
_INTERNAL: Final = 1
_KINDS: Final = range(1, 6)
_STATUSES: Final = range(3)

_READABLE: Final = frozenset({"string_value", "bool_value", "int_value", "double_value"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The attribute keys that somebody asks for."""

    span: frozenset[str] = frozenset()
    resource: frozenset[str] = frozenset()


_Row = tuple[bytes, bytes, bytes, int, int, int, int, str]
"""An accepted span without its attributes: trace id, span id, parent id, start, end, kind, status, name."""
_NO_PARENT: Final = bytes(8)


def decode(body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> tuple[SpanBatch, Refusals]:
    """
    Decode one export.

    Spans that ended before ``now_ns - lateness_ns`` or more than `FUTURE_NS`
    after ``now_ns`` are refused, as are those with invalid ids and those over
    `LARGEST_PART`.

    Raises:
        MalformedError: the body is not protobuf, or a text in it is not UTF-8.
        TooLargeError: it has more than `MOST_PARTS`, or a resource or scope over
            `LARGEST_PART`.

    Source: opentelemetry-proto, collector/trace/v1/trace_service.proto.
    """
    if len(body) > MOST_PARTS and any(body.count(empty) > MOST_PARTS for empty in _EMPTY_PARTS):
        raise TooLargeError(f"the body has over {MOST_PARTS} empty parts")
    walk = _Walk(keys, now_ns=now_ns, lateness_ns=lateness_ns)
    try:
        walk.take(body)
    except DecodeError as error:
        raise MalformedError(f"the body of {len(body)} bytes is no ExportTraceServiceRequest: {error}") from None
    return walk.batch(), walk.refusals()


class _Walk:
    """What one pass over a body collects."""

    def __init__(self, keys: Keys, *, now_ns: int, lateness_ns: int) -> None:
        self._limits = Limits(oldest_ns=now_ns - lateness_ns, newest_ns=now_ns + FUTURE_NS)
        self._lateness_ns = lateness_ns
        self._parts = 0
        self._rows: list[_Row] = []
        self._columns: dict[str, Cells] = {key: {} for key in keys.span}
        self._resource_keys = keys.resource
        self._resource_columns: dict[str, Cells] = {key: {} for key in keys.resource | {_SERVICE}}
        self._resources = 0
        self._scopes: list[tuple[str, int, int]] = []
        self._refused: Counter[str] = Counter()
        self._locations: dict[str, list[str]] = {}

    def take(self, body: bytes) -> None:
        """Take every span of *body*."""
        for index, layer in enumerate(self._bounded(resources_of(body))):
            resource, scopes = self._opened(layer)
            _read(Resource.FromString(resource).attributes, self._resource_columns, index)
            self._resources += 1
            for inner, scope in enumerate(scopes):
                self._scope(scope, f"resource_spans[{index}].scope_spans[{inner}]")

    def _opened(self, layer: bytes) -> tuple[bytes, Sequence[bytes]]:
        head, parts = opened(layer)
        if len(head) > LARGEST_PART:
            raise TooLargeError(f"a resource or scope is over {LARGEST_PART} bytes")
        return head, self._bounded(parts)

    def _bounded(self, parts: Sequence[bytes]) -> Sequence[bytes]:
        self._parts += len(parts)
        if self._parts > MOST_PARTS:
            raise TooLargeError(f"the body has over {MOST_PARTS} resources, scopes and spans")
        return parts

    def _scope(self, layer: bytes, place: str) -> None:
        """Take the spans of one scope; *place* says where they stand."""
        rows, columns, limits = self._rows, self._columns, self._limits
        before = len(rows)
        scope, spans = self._opened(layer)
        for index, packed in enumerate(spans):
            if len(packed) > LARGEST_PART:
                self._refuse("too_large", f"{place}.spans[{index}]")
                continue
            span = Span.FromString(packed)
            trace_id, span_id, parent_id = span.trace_id, span.span_id, span.parent_span_id
            end_ns = span.end_time_unix_nano
            reason = limits.reason(trace_id, span_id, parent_id, end_ns)
            if reason:
                self._refuse(reason, f"{place}.spans[{index}]")
            else:
                _read(span.attributes, columns, len(rows))
                start_ns, status = span.start_time_unix_nano, span.status.code
                rows.append(
                    (trace_id, span_id, parent_id or _NO_PARENT, start_ns, end_ns, span.kind, status, span.name)
                )
            del span  # before the next one exists: either may be large
        self._scopes.append((InstrumentationScope.FromString(scope).name, self._resources - 1, len(rows) - before))

    def _refuse(self, reason: str, place: str) -> None:
        self._refused[reason] += 1
        places = self._locations.setdefault(reason, [])
        if len(places) < LOCATIONS_TOLD:
            places.append(place)

    def refusals(self) -> Refusals:
        """What was not accepted."""
        return Refusals(
            total=len(self._rows) + self._refused.total(),
            lateness_ns=self._lateness_ns,
            by_reason=dict(self._refused),
            locations={reason: tuple(places) for reason, places in self._locations.items()},
        )

    def batch(self) -> SpanBatch:
        """The accepted spans in columns."""
        rows = len(self._rows)
        trace, span, parent, start, end, kind, status, name = zip(*self._rows, strict=True) if rows else ((),) * 8
        names, owners, counts = zip(*self._scopes, strict=True) if self._scopes else ((),) * 3
        in_scope = np.repeat(np.arange(len(counts)), np.array(counts, dtype=np.int64))
        in_resource = np.array(owners, dtype=np.int64)[in_scope]
        resource = attributes_of(self._resource_columns, self._resources)
        return SpanBatch(
            trace_id=words_of(trace).reshape(-1, 2),
            span_id=words_of(span),
            parent_id=words_of(parent),
            # A start beyond int64 lies after any end all the same.
            start_ns=np.minimum(np.array(start, dtype=np.uint64), np.uint64(_INT64_MAX)).astype(np.int64),
            end_ns=np.array(end, dtype=np.int64),
            kind=enums_of(kind, _KINDS, _INTERNAL),
            status=enums_of(status, _STATUSES, 0),
            name=texts_of(name),
            scope=texts_of(names).take(in_scope),
            service=services_of(resource.get(_SERVICE), self._resources).take(in_resource),
            attributes=attributes_of(self._columns, rows),
            resource={key: c.take(in_resource) for key, c in resource.items() if key in self._resource_keys},
        )


def _read(pairs: Iterable[KeyValue], columns: Mapping[str, Cells], row: int) -> None:
    """Put the readable values of asked-for keys into their columns."""
    for pair in pairs:
        cells = columns.get(pair.key)
        if cells is not None:
            value: AnyValue = pair.value
            which = value.WhichOneof("value")
            if which in _READABLE:
                cells[row] = getattr(value, which)
