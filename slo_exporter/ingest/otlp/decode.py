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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from slo_exporter.ingest.otlp.columns import LIST_ELEMENTS, Cells, list_text
from slo_exporter.ingest.otlp.envelope import opened, resources_of
from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError
from slo_exporter.ingest.otlp.refusals import LARGEST_PART, Refusals
from slo_exporter.ingest.otlp.spans import EXCEPTION, EXCEPTION_TYPE, SpanBatch
from slo_exporter.ingest.otlp.walk import MOST_PARTS, NO_LISTS, NO_PARENT, Walk, small

_EMPTY_PARTS: Final = (b"\x0a\x00", b"\x12\x00", b"\x1a\x00")
"""Empty resources, heads, scopes, spans, schema URLs: even as bytes each takes twenty times its size."""

_READABLE: Final = frozenset({"string_value", "bool_value", "int_value", "double_value"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The attribute keys and event names that somebody asks for."""

    span: frozenset[str] = frozenset()
    """`STATUS_DESCRIPTION` and `EXCEPTION_TYPE` are filled too where a span has no such attribute."""
    resource: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    """Names of span events."""
    lists: frozenset[str] = frozenset()
    """Of the keys of spans those whose arrays of texts are read, as JSON text; other arrays are no value."""


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
    if has_too_many_empty_parts(body):
        raise TooLargeError(f"the body has over {MOST_PARTS} empty parts")
    walk = Walk(keys.span, keys.resource, keys.events, keys.lists, now_ns=now_ns, lateness_ns=lateness_ns)
    try:
        _take(walk, body)
    except DecodeError as error:
        raise MalformedError(f"the body of {len(body)} bytes is no ExportTraceServiceRequest: {error}") from None
    return walk.batch(), walk.refusals()


def has_too_many_empty_parts(body: bytes) -> bool:
    """Say whether a body is refused for its empty parts, before anything is made of it."""
    return len(body) > MOST_PARTS and any(body.count(empty) > MOST_PARTS for empty in _EMPTY_PARTS)


def _take(walk: Walk, body: bytes) -> None:
    """Take every span of *body*."""
    for index, layer in enumerate(walk.bounded(resources_of(body))):
        resource, scopes = _opened(walk, layer)
        _read(Resource.FromString(resource).attributes, walk.resource_columns, index, NO_LISTS)
        walk.resources += 1
        for inner, scope in enumerate(scopes):
            _take_scope(walk, scope, f"resource_spans[{index}].scope_spans[{inner}]")


def _opened(walk: Walk, layer: bytes) -> tuple[bytes, Sequence[bytes]]:
    head, parts = opened(layer)
    return small(head, len(head)), walk.bounded(parts)


def _take_scope(walk: Walk, layer: bytes, place: str) -> None:
    """Take the spans of one scope; *place* says where they stand."""
    before = len(walk.rows)
    scope, spans = _opened(walk, layer)
    for index, packed in enumerate(spans):
        reason = _take_span(walk, packed) if len(packed) <= LARGEST_PART else "too_large"
        if reason:
            walk.refuse(reason, f"{place}.spans[{index}]")
    walk.close_scope(InstrumentationScope.FromString(scope).name, before)


def _take_span(walk: Walk, packed: bytes) -> str:
    """Put a span into the rows, unless there is a reason to refuse it; it is gone before the next one exists."""
    span = Span.FromString(packed)
    trace_id, span_id, parent_id = span.trace_id, span.span_id, span.parent_span_id
    end_ns = span.end_time_unix_nano
    reason = walk.limits.reason(trace_id, span_id, parent_id, end_ns)
    if not reason:
        _read(span.attributes, walk.columns, len(walk.rows), walk.lists)
        start_ns, status = span.start_time_unix_nano, span.status
        row = (trace_id, span_id, parent_id or NO_PARENT, start_ns, end_ns, span.kind, status.code, span.name)
        walk.rows.append(row)
        if status.message or span.dropped_events_count:
            walk.tell(status.message, span.dropped_events_count)
        if walk.event_names and span.events:
            _take_events(walk, span.events)
    return reason


def _take_events(walk: Walk, events: Iterable[Span.Event]) -> None:
    """Take the events of the newest span."""
    asked, last, kind = walk.event_names, None, None
    for event in events:
        name = event.name
        if name in asked:
            walk.happened(name, event.time_unix_nano)
            last = event if name == EXCEPTION else last
    for pair in last.attributes if last is not None else ():
        if pair.key == EXCEPTION_TYPE and _is_text(pair.value):
            kind = pair.value.string_value
    walk.stand_in(EXCEPTION_TYPE, kind)


def _read(pairs: Iterable[KeyValue], columns: Mapping[str, Cells], row: int, lists: frozenset[str]) -> None:
    """Put the readable values of asked-for keys into their columns."""
    for pair in pairs:
        cells = columns.get(pair.key)
        if cells is not None:
            value: AnyValue = pair.value
            which = value.WhichOneof("value")
            if which in _READABLE:
                cells[row] = getattr(value, which)
            elif which == "array_value" and pair.key in lists:
                text = text_of_array(value.array_value)
                if text is not None:
                    cells[row] = text


def text_of_array(array: ArrayValue) -> str | None:
    """Write an array as JSON; None when an element is no text."""
    values = array.values
    if len(values) > LIST_ELEMENTS or not all(map(_is_text, values)):
        return None
    return list_text([value.string_value for value in values])


def _is_text(value: AnyValue) -> bool:
    return value.WhichOneof("value") == "string_value"
