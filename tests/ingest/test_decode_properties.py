"""Any message and any bytes: nothing crashes, and what became of the spans adds up."""

import pytest
from builders import NOON_NS
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from otlp_messages import LATENESS_NS, good_spans, message, messages

from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.errors import MalformedError
from slo_exporter.ingest.otlp.reader import Reader

READER = Reader(Declared(selector_keys=frozenset({"k"}), ignore_routes=("/health",)), lateness_ns=LATENESS_NS)


@given(messages)
def test_every_span_is_accepted_or_refused(export: ExportTraceServiceRequest) -> None:
    """No valid message crashes, and what became of its spans adds up."""
    reading = READER.read(export.SerializeToString(), NOON_NS)
    total = sum(len(scope.spans) for resource in export.resource_spans for scope in resource.scope_spans)
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
