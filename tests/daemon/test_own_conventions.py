"""The server reads spans as its settings say."""

from collections.abc import Callable
from pathlib import Path

import pytest
from builders import NOON_NS
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from slo_exporter.config import settings
from slo_exporter.daemon import wiring
from slo_exporter.ingest.otlp.decoders import AUTHORITY


@pytest.fixture
def body() -> Callable[..., bytes]:
    """Build an export of one vLLM request with the attribute of a time in seconds."""

    def build(key: str, seconds: float) -> bytes:
        message = ExportTraceServiceRequest()
        resource_spans = message.resource_spans.add()
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = "vllm.tracing.otel"
        span = scope_spans.spans.add(
            name="llm_request",
            kind="SPAN_KIND_SERVER",
            trace_id=bytes(15) + b"1",
            span_id=bytes(7) + b"1",
            start_time_unix_nano=NOON_NS - 10**9,
            end_time_unix_nano=NOON_NS,
        )
        span.attributes.append(KeyValue(key=key, value=AnyValue(double_value=seconds)))
        return message.SerializeToString()

    return build


def test_the_reader_of_the_server_knows_a_renamed_key(tmp_path: Path, body: Callable[..., bytes]) -> None:
    """Also after the SLOs have changed, when another reader takes over."""
    path = tmp_path / "c.yaml"
    path.write_text("conventions: [{extends: vllm, fields: {queue: {key: queue_time, unit: s}}}]\nmodels: {}")
    found = settings.load(path, environ={})

    for selector_keys in (frozenset[str](), frozenset({"tier"})):
        export = wiring._reader(found, AUTHORITY, selector_keys).read(body("queue_time", 0.25), NOON_NS).export
        assert export.requests.fields["queue"].tolist() == [250_000_000]


@pytest.mark.parametrize(
    ("text", "framework", "is_silent"),
    [
        ("models: {}", "vllm", True),
        ("conventions: [{framework: fork, extends: vllm, requests: {scopes: fork}}]", "fork", True),
        ("conventions: [{framework: mine, engine: true, requests: {scopes: mine}}]", "mine", False),
    ],
)
def test_silent_engines_are_those_in_use(tmp_path: Path, text: str, framework: str, *, is_silent: bool) -> None:
    """What extends one that tells of no failure tells of none either."""
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert (framework in wiring._silent(settings.load(path, environ={}))) == is_silent
