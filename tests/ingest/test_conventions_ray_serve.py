"""Ray Serve: the proxy's span counts; router, replica and the engine in it tell more."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from process_traces import MS, SERVER, BodyOf, SpanOf, Trace, case, explained, reasons

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.explanation import Record
from slo_exporter.sli.records import Outcome, View

RAY, VLLM = "ray.serve._private.tracing_utils", "vllm.tracing.otel"
HTTP: Mapping[str, Any] = {"http.method": "POST", "http.status_code": 200, "http.route": "/v1/chat/completions"}
OK = Status(code=Status.STATUS_CODE_OK)
FAILED = Status(code=Status.STATUS_CODE_ERROR)

One = Callable[..., Record]


@pytest.fixture
def trace(span: SpanOf, now_ns: int) -> Trace:
    """Make spans of one trace."""
    return Trace(span, now_ns)


@pytest.fixture
def one(export_body: BodyOf) -> One:
    """Read the one record of spans of Ray."""

    def read(*spans: Span) -> Record:
        [record] = explained(export_body(*spans, scope=RAY)).records
        return record

    return read


def proxy(trace: Trace, attributes: Mapping[str, Any] = HTTP, name: str = "proxy_http_request D", **more: Any) -> Span:
    """Build the span of a proxy."""
    return trace.span(name, attributes, kind=SERVER, **more)


def test_three_server_spans_and_an_engine_are_one_request() -> None:
    """The proxy's latency, the engine's stages and tokens, the model from the router."""
    told = case("ray_serve_vllm.json")
    record = told.records[0]
    assert (record.framework, record.view, record.service) == ("ray_serve", View.SERVER, "ray-llm")
    assert (record.model, record.provenance["model"]) == ("qwen-lora-7", Provenance.PART)
    assert (record.request_id, record.outcome) == ("6f0c", Outcome.OK)
    assert (record.numbers["e2e"], record.provenance["e2e"]) == (812 * MS, Provenance.SPAN)
    stages = {name: record.numbers[name] for name in ("queue", "prefill", "decode", "ttft", "completion_tokens")}
    assert stages == {
        "queue": 50 * MS,
        "prefill": 120 * MS,
        "decode": 600 * MS,
        "ttft": 174 * MS,
        "completion_tokens": 31,
    }
    assert record.provenance["queue"] is record.provenance["prefill"] is Provenance.PART


def test_the_wait_for_a_replica_is_the_queue_where_no_engine_tells_of_one() -> None:
    """No replica took the request: it waited until it was dropped."""
    record = case("ray_serve_vllm.json").records[1]
    assert (record.outcome, record.model) == (Outcome.ERROR, None)
    assert record.numbers == {"e2e": 5000 * MS, "queue": 4998 * MS}
    assert record.provenance["queue"] is Provenance.PART


def test_why_the_other_spans_are_no_requests() -> None:
    """Though router and replica write SERVER spans with HTTP keys."""
    told = case("ray_serve_vllm.json")
    why = reasons(told)
    assert len(told.records) == 2
    assert "part of proxy_http_request" in why["route_to_replica LLMServer __call__"]
    assert "part of proxy_http_request" in why["replica_handle_request LLMServer __call__"]


@pytest.mark.parametrize(
    ("code", "status", "outcome"),
    [
        (200, OK, Outcome.OK),
        (404, FAILED, Outcome.CLIENT_ERROR),
        (408, FAILED, Outcome.ERROR),
        (429, FAILED, Outcome.RATE_LIMITED),
        (499, FAILED, Outcome.CANCELLED),
        (500, FAILED, Outcome.ERROR),
        (503, FAILED, Outcome.ERROR),
        (1000, OK, Outcome.OK),
        (1011, FAILED, Outcome.ERROR),
    ],
)
def test_the_status_code_decides(trace: Trace, one: One, code: int, status: Status, outcome: Outcome) -> None:
    """Ray answers 408 when it took too long itself; a websocket closes with a code of its own."""
    assert one(proxy(trace, {**HTTP, "http.status_code": code}, status=status)).outcome is outcome


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("OK", Outcome.OK),
        ("CANCELLED", Outcome.CANCELLED),
        ("RESOURCE_EXHAUSTED", Outcome.RATE_LIMITED),
        ("INVALID_ARGUMENT", Outcome.CLIENT_ERROR),
        ("UNAUTHENTICATED", Outcome.CLIENT_ERROR),
        ("DEADLINE_EXCEEDED", Outcome.ERROR),
        ("UNAVAILABLE", Outcome.ERROR),
        ("INTERNAL", Outcome.ERROR),
    ],
)
def test_a_grpc_status_decides_by_its_name(trace: Trace, one: One, code: str, outcome: Outcome) -> None:
    """As Ray writes it, whatever the status of the span."""
    keys = {"rpc.system": "grpc", "rpc.grpc.status_code": code}
    status = OK if code == "OK" else FAILED
    record = one(proxy(trace, keys, "proxy_grpc_request D /pkg.S/Method", status=status))
    assert (record.framework, record.outcome) == ("ray_serve", outcome)


def test_a_response_that_never_began_is_incomplete(trace: Trace, one: One) -> None:
    """Neither a code nor a status."""
    assert one(proxy(trace, {"request_id": "r"})).outcome is Outcome.INCOMPLETE


def test_probes_are_no_requests(trace: Trace, export_body: BodyOf) -> None:
    """By route, as of any HTTP server."""
    told = explained(export_body(proxy(trace, {**HTTP, "http.method": "GET", "http.route": "/health"}), scope=RAY))
    assert told.records == []
    assert "ignore_routes" in next(iter(reasons(told).values()))


def test_deployments_that_call_one_another_are_one_request(trace: Trace, one: One) -> None:
    """All waiting counts once, and the first model that is named."""
    front = proxy(trace)
    route = trace.span("route_to_replica A f", {"multiplexed_model_id": ""}, below=front, at=(0, 100), kind=SERVER)
    outer = trace.span("replica_handle_request A f", below=route, at=(100, 900), kind=SERVER)
    model = {"multiplexed_model_id": "m"}
    again = trace.span("route_to_replica B g", model, below=outer, at=(200, 350), kind=SERVER)
    inner = trace.span(
        "replica_handle_request B g", {"multiplexed_model_id": "n"}, below=again, at=(350, 800), kind=SERVER
    )
    record = one(inner, again, outer, route, front)
    assert record.numbers["queue"] == 250 * MS
    assert record.model in ("m", "n")
    assert one(front, route, outer, again, inner).model == "m"


def test_an_engine_without_a_trace_of_its_own_stands_behind_its_replica(
    span: SpanOf, trace: Trace, now_ns: int, export_body: BodyOf
) -> None:
    """Its parent is lost; its service is the replica's."""
    front = proxy(trace)
    replica = trace.span("replica_handle_request D f", below=front, kind=SERVER)
    lost = Trace(span, now_ns)
    engine = lost.engine(lost.span("nowhere"))
    told = explained(export_body(front, replica, scope=RAY), export_body(engine, scope=VLLM))
    assert [record.framework for record in told.records] == ["ray_serve"]
    assert "behind another service" in reasons(told)["llm_request"]


def test_such_names_in_another_scope_are_somebody_elses(trace: Trace, export_body: BodyOf) -> None:
    """A proxy of one's own."""
    told = explained(export_body(proxy(trace), scope="mine"))
    assert [record.framework for record in told.records] == ["http"]
