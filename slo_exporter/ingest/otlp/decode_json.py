"""
From the bytes of an OTLP/JSON export to columns.

The rules and the result are those of `decode`, for the same content the same
columns and refusals. Besides:

1. protobuf's own reader of JSON is not used: it takes hex ids for base64 and
   stores them under wrong ids, and costs a hundred times as much.
2. A fault in what the specification fixes refuses the whole body and says what
   and where, whatever the time and whichever keys are asked for; an id of a
   wrong length refuses its span (J03).
3. What some exporters do otherwise and is plain to understand is read, or passed
   over, and told as a flag.

Source: the OTLP specification, "JSON Protobuf Encoding"
(https://opentelemetry.io/docs/specs/otlp/).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Raw
from opentelemetry.proto.trace.v1 import trace_pb2

from slo_exporter.ingest.otlp.columns import Cells, Value
from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.errors import MalformedError
from slo_exporter.ingest.otlp.json_parts import (
    CAMEL,
    GO_STYLE,
    NULL,
    RESOURCE,
    RESOURCE_SPANS,
    SCOPE,
    SCOPE_SPANS,
    SPAN,
    Event,
    Fields,
    Pair,
    Resource,
    Scope,
    is_there,
    read_attribute,
    read_body,
    read_part,
    read_texts,
    size_of,
)
from slo_exporter.ingest.otlp.json_shape import check_shape
from slo_exporter.ingest.otlp.json_values import FieldError, double, enum, fixed64, id_bytes, int64, uint32
from slo_exporter.ingest.otlp.refusals import LARGEST_PART, Refusals
from slo_exporter.ingest.otlp.spans import EXCEPTION, EXCEPTION_TYPE, SpanBatch
from slo_exporter.ingest.otlp.walk import NO_LISTS, NO_PARENT, Walk, small

SNAKE_CASE: Final = "snake_case"
"""A body with fields such as ``trace_id``, however many."""
LEGACY_SPANS: Final = "legacy_library_spans"
"""A resource with ``instrumentationLibrarySpans``, as before OTLP 0.19: what they hold is not read."""
GO_STYLE_VALUE: Final = "go_style_value"
"""An attribute value in the spelling of Go's own JSON: it is absent."""

_KINDS: Final[Mapping[str, int]] = dict(trace_pb2.Span.SpanKind.items())
_STATUSES: Final[Mapping[str, int]] = dict(trace_pb2.Status.StatusCode.items())
_NO_FIELDS: Final[Fields] = {}
_NO_COLUMNS: Final[Mapping[str, Cells]] = {}


def decode_json(
    body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int
) -> tuple[SpanBatch, Refusals, Mapping[str, int]]:
    """
    Decode one export.

    Returns:
        Its spans, its refused spans, and its flags: how often what was unusual.

    Raises:
        MalformedError: the body is no OTLP/JSON.
        TooLargeError: it has more than `MOST_PARTS`, or a resource or scope over
            `LARGEST_PART`.
    """
    check_shape(body)
    walk = Walk(keys.span, keys.resource, keys.events, keys.lists, now_ns=now_ns, lateness_ns=lateness_ns)
    reader = _JsonReader(walk)
    reader.take(body)
    return walk.batch(), walk.refusals(), dict(reader.flags)


class _JsonReader:
    """One pass over a body."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.flags: Counter[str] = Counter()

    def take(self, body: bytes) -> None:
        """Take every span of *body*."""
        walk, export = self.walk, self._spelled(read_body(body))
        for index, layer in enumerate(walk.bounded(export.get("resourceSpans") or ())):
            place = f"resource_spans[{index}]"
            fields = self._spelled(read_part(RESOURCE_SPANS, layer, place) or _NO_FIELDS)
            self.flags[LEGACY_SPANS] += is_there(fields.get("instrumentationLibrarySpans", NULL))
            self._resource(fields.get("resource", NULL), index, place)
            for inner, scope in enumerate(walk.bounded(fields.get("scopeSpans") or ())):
                self._scope(scope, f"{place}.scope_spans[{inner}]")
        self.flags += Counter()  # without those that are 0

    def _resource(self, text: Raw, index: int, place: str) -> None:
        resource: Resource | None = read_part(RESOURCE, small(text, size_of(text)), f"{place}.resource")
        try:
            self._read((resource and resource.attributes) or (), self.walk.resource_columns, index, NO_LISTS)
        except FieldError as error:
            raise MalformedError(f"{place}.resource.{error}") from None
        self.walk.resources += 1

    def _scope(self, layer: Raw, place: str) -> None:
        """Take the spans of one scope; *place* says where they stand."""
        walk = self.walk
        before = len(walk.rows)
        fields = self._spelled(read_part(SCOPE_SPANS, layer, place) or _NO_FIELDS)
        text = fields.get("scope", NULL)
        scope: Scope | None = read_part(SCOPE, small(text, size_of(text)), f"{place}.scope")
        for index, span in enumerate(walk.bounded(fields.get("spans") or ())):
            self._span(span, f"{place}.spans[{index}]")
        walk.close_scope((scope and scope.name) or "", before)

    def _span(self, text: Raw, place: str) -> None:
        if size_of(text) > LARGEST_PART:
            self.walk.refuse("too_large", place)
            return
        span = read_part(SPAN, text, place)
        if span is None:
            return
        try:
            reason = self._take_span(self._spelled(span))
        except FieldError as error:
            raise MalformedError(f"{place}.{error}") from None
        if reason:
            self.walk.refuse(reason, place)

    def _take_span(self, span: Fields) -> str:
        """Put a span into the rows, unless there is a reason to refuse it."""
        walk, field = self.walk, span.get
        trace_id = id_bytes(field("traceId"), "traceId")
        span_id = id_bytes(field("spanId"), "spanId")
        parent_id = id_bytes(field("parentSpanId"), "parentSpanId")
        start_ns = fixed64(field("startTimeUnixNano"), "startTimeUnixNano")
        end_ns = fixed64(field("endTimeUnixNano"), "endTimeUnixNano")
        kind, status = enum(field("kind"), "kind", _KINDS), field("status")
        code, description = (enum(status.code, "status.code", _STATUSES), status.message) if status else (0, "")
        lost_events, events = uint32(field("droppedEventsCount"), "droppedEventsCount"), field("events")
        reason = walk.limits.reason(trace_id, span_id, parent_id, end_ns)
        # The attributes of a refused span have to be right all the same.
        self._read(field("attributes") or (), _NO_COLUMNS if reason else walk.columns, len(walk.rows), walk.lists)
        if not reason:
            row = (trace_id, span_id, parent_id or NO_PARENT, start_ns, end_ns, kind, code, field("name") or "")
            walk.rows.append(row)
            walk.tell(description, lost_events)
        if events:
            self._take_events(events, is_kept=not reason)
        return reason

    def _take_events(self, events: Sequence[Event | None], *, is_kept: bool) -> None:
        """Take the events of the newest span, or check those of a refused one."""
        walk, last = self.walk, None
        for index, event in enumerate(events):
            if event is None:
                continue
            time_ns = self._time(event, index)
            name = event.name or ""
            if is_kept and name in walk.event_names:
                walk.happened(name, time_ns)
                last = event if name == EXCEPTION else last
        if last is not None:
            walk.stand_in(EXCEPTION_TYPE, read_attribute(last.attributes, EXCEPTION_TYPE))

    def _time(self, event: Event, index: int) -> int:
        written = event.time
        if event.snake_time is not None:
            self.flags[SNAKE_CASE] = 1
            written = event.snake_time if written is None else written
        if written is None:
            return 0
        try:
            return fixed64(written, "timeUnixNano")
        except FieldError as error:
            raise error.within(f"events[{index}]") from None

    def _read(
        self, pairs: Sequence[Pair | None], columns: Mapping[str, Cells], row: int, lists: frozenset[str]
    ) -> None:
        """Put the readable values of asked-for keys into their columns."""
        for index, pair in enumerate(pairs):
            if pair is None or not pair.value:
                continue
            try:
                value = self._value(pair.value)
            except FieldError as error:
                raise error.within(f"attributes[{index}].value") from None
            if value is None and pair.key in lists:
                value = read_texts(pair.value)
            if value is not None and pair.key in columns:
                columns[pair.key][row] = value

    def _value(self, members: Fields) -> Value | None:
        """Read a value; None when there is none that we read."""
        if len(members) == 1:
            [(name, value)] = members.items()
            if name in _READERS:
                return None if value is None else _READERS[name](value, name)
        return self._unusual_value(members)

    def _unusual_value(self, members: Fields) -> Value | None:
        self.flags[GO_STYLE_VALUE] += GO_STYLE in members
        spelled = self._spelled(members)
        there = [name for name in _READERS if spelled.get(name) is not None]
        if len(there) > 1:
            raise FieldError(there[1], f"the value has a {there[0]} already, and can have one only")
        return _READERS[there[0]](spelled[there[0]], there[0]) if there else None

    def _spelled(self, fields: Fields) -> Fields:
        """*fields* by their right names."""
        if CAMEL.keys().isdisjoint(fields):
            return fields
        self.flags[SNAKE_CASE] = 1
        return {CAMEL.get(name, name): value for name, value in fields.items()}


def _as_it_is(value: Value, _: str) -> Value:
    return value


def _absent(_: object, __: str) -> None:
    """Arrays, maps and bytes are no values; what is a list of texts is read apart."""


_READERS: Final[Mapping[str, Callable[[Any, str], Value | None]]] = {
    "stringValue": _as_it_is,
    "intValue": int64,
    "doubleValue": double,
    "boolValue": _as_it_is,
    "bytesValue": _absent,
    "arrayValue": _absent,
    "kvlistValue": _absent,
}
"""How each member of a value is read."""
