"""Any OTLP message: strategies, and what makes two decoded exports equal."""

import numpy as np
from builders import NOON_NS
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.ingest.otlp.spans import EXCEPTION, EXCEPTION_TYPE, STATUS_DESCRIPTION, SpanBatch

LATENESS_NS = 600 * SECOND_NS
KEYS = sorted({key for convention in CONVENTIONS for key in convention.keys} | {"k", "service.name", "unread"})
PSEUDO_KEYS = [EXCEPTION_TYPE, STATUS_DESCRIPTION]
EVENTS = ["first", "second", EXCEPTION]
TEXTS = st.one_of(st.text(max_size=8), st.floats().map(repr), st.integers().map(str), st.sampled_from(["/health", "a"]))

scalars = st.one_of(
    st.builds(AnyValue),
    st.builds(AnyValue, string_value=TEXTS),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue, double_value=st.floats()),
    st.builds(AnyValue, bytes_value=st.binary(max_size=4)),
    st.just(AnyValue(array_value=ArrayValue())),
)
texts_values = st.builds(AnyValue, string_value=TEXTS)
arrays = st.one_of(st.lists(texts_values, max_size=3), st.lists(scalars, max_size=3), st.just([AnyValue()]))
values = st.one_of(
    scalars, arrays.map(lambda elements: AnyValue(array_value=ArrayValue(values=elements))), texts_values
)
attributes = st.lists(
    st.builds(KeyValue, key=st.one_of(st.sampled_from(KEYS), st.sampled_from(["k", *PSEUDO_KEYS])), value=values),
    max_size=8,
)
times = st.one_of(st.integers(0, 2**64 - 1), st.integers(NOON_NS - 2 * LATENESS_NS, NOON_NS + LATENESS_NS))
enum_numbers = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(0, 5))
ids = st.one_of(st.binary(max_size=17), st.sampled_from([bytes(8), b"\1" * 8, bytes(16), b"\1" * 16]))

events = st.lists(
    st.builds(
        Span.Event,
        name=st.sampled_from([*EVENTS, "other", ""]),
        time_unix_nano=st.one_of(times, st.integers(0, 3)),
        attributes=st.lists(st.builds(KeyValue, key=st.sampled_from([EXCEPTION_TYPE, "k"]), value=values), max_size=3),
    ),
    max_size=4,
)
spans = st.builds(
    Span,
    trace_id=ids,
    span_id=ids,
    parent_span_id=ids,
    name=st.one_of(st.sampled_from(["llm_request", "GET", ""]), st.text(max_size=4)),
    kind=enum_numbers,
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=attributes,
    status=st.builds(Status, code=enum_numbers, message=TEXTS),
    events=events,
    dropped_events_count=st.integers(0, 2**32 - 1),
)
good_spans = st.builds(
    Span,
    trace_id=st.binary(min_size=16, max_size=16).filter(any),
    span_id=st.just(b"\1" * 8),
    name=st.sampled_from(["llm_request", "GET"]),
    kind=st.just(2),
    start_time_unix_nano=times,
    end_time_unix_nano=st.integers(NOON_NS - LATENESS_NS, NOON_NS),
    attributes=attributes,
    status=st.builds(Status, message=st.sampled_from(["", "", "aborted"])),
    events=events,
    dropped_events_count=st.sampled_from([0, 0, 1]),
)


def message(scopes: list[list[Span]], pairs: list[KeyValue]) -> ExportTraceServiceRequest:
    """Spread spans over resources and scopes."""
    export = ExportTraceServiceRequest()
    for index, group in enumerate(scopes):
        resource_spans = ResourceSpans(scope_spans=[ScopeSpans(spans=group)])
        resource_spans.scope_spans[0].scope.name = "vllm.tracing.otel" if index % 2 else "other"
        resource_spans.resource.attributes.extend(pairs)
        export.resource_spans.append(resource_spans)
    return export


messages = st.builds(message, st.lists(st.lists(st.one_of(spans, good_spans), max_size=4), max_size=4), attributes)


def assert_equal(one: SpanBatch, other: SpanBatch) -> None:
    """Every column of both is the same."""
    for column in ("trace_id", "span_id", "parent_id", "start_ns", "end_ns", "kind", "status"):
        assert getattr(one, column).tolist() == getattr(other, column).tolist(), column
    for column in ("name", "scope", "service"):
        left, right = getattr(one, column), getattr(other, column)
        assert (left.values, left.codes.tolist()) == (right.values, right.codes.tolist()), column
    for left, right in ((one.attributes, other.attributes), (one.resource, other.resource)):
        assert left.keys() == right.keys()
        for key in left:
            assert left[key].kind.tolist() == right[key].kind.tolist(), key
            assert np.array_equal(left[key].number, right[key].number, equal_nan=True), key
            assert left[key].text.values == right[key].text.values, key
            assert left[key].text.codes.tolist() == right[key].text.codes.tolist(), key
    assert one.events.keys() == other.events.keys()
    for name in one.events:
        assert one.events[name].tolist() == other.events[name].tolist(), name
    lost = [None if batch.lost_events is None else batch.lost_events.tolist() for batch in (one, other)]
    assert lost[0] == lost[1]
