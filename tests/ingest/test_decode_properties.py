"""Any message and any bytes: nothing crashes, and what became of the spans adds up."""

import pytest
from builders import NOON_NS
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.ingest.otlp.errors import MalformedError
from slo_exporter.ingest.otlp.reader import Reader

LATENESS_NS = 600 * SECOND_NS
READER = Reader(selector_keys=frozenset({"k"}), models={}, lateness_ns=LATENESS_NS, ignore_routes=("/health",))

KEYS = sorted({key for convention in CONVENTIONS for key in convention.keys} | {"k", "service.name", "unread"})
TEXTS = st.one_of(st.text(max_size=8), st.floats().map(repr), st.integers().map(str), st.sampled_from(["/health", "a"]))

values = st.one_of(
    st.builds(AnyValue),
    st.builds(AnyValue, string_value=TEXTS),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue, double_value=st.floats()),
    st.builds(AnyValue, bytes_value=st.binary(max_size=4)),
    st.just(AnyValue(array_value=ArrayValue())),
)
attributes = st.lists(st.builds(KeyValue, key=st.sampled_from(KEYS), value=values), max_size=8)
times = st.one_of(st.integers(0, 2**64 - 1), st.integers(NOON_NS - 2 * LATENESS_NS, NOON_NS + LATENESS_NS))
enum_numbers = st.one_of(st.integers(-(2**31), 2**31 - 1), st.just(2))
ids = st.one_of(st.binary(max_size=17), st.sampled_from([bytes(8), b"\1" * 8, bytes(16), b"\1" * 16]))

spans = st.builds(
    Span,
    trace_id=ids,
    span_id=ids,
    parent_span_id=ids,
    name=st.sampled_from(["llm_request", "GET", ""]),
    kind=enum_numbers,
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=attributes,
    status=st.builds(Status, code=enum_numbers),
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


@given(st.lists(st.lists(st.one_of(spans, good_spans), max_size=4), max_size=4), attributes)
def test_every_span_is_accepted_or_refused(scopes: list[list[Span]], pairs: list[KeyValue]) -> None:
    """No valid message crashes, and what became of its spans adds up."""
    reading = READER.read(message(scopes, pairs).SerializeToString(), NOON_NS)
    total = sum(map(len, scopes))
    assert reading.refusals.total == total
    assert sum(reading.export.results.values()) + reading.refusals.count == total
    assert len(reading.export.requests) == reading.export.results["request"]


@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_malformed(body: bytes) -> None:
    """Which of the two, the protobuf library says."""
    assert_judged_as_the_library_does(body)


@given(st.lists(good_spans, min_size=1, max_size=3), st.data())
def test_damaged_messages_are_read_or_malformed(group: list[Span], data: st.DataObject) -> None:
    """A cut or a changed byte is no other matter."""
    body = bytearray(message([group], []).SerializeToString())
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert_judged_as_the_library_does(bytes(body[: data.draw(st.integers(0, len(body)))]))


def assert_judged_as_the_library_does(body: bytes) -> None:
    """Read layer by layer, a body is as well formed as it is read whole."""
    try:
        ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        with pytest.raises(MalformedError):
            READER.read(body, NOON_NS)
    else:
        READER.read(body, NOON_NS)
