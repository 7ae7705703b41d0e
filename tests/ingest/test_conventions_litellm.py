"""LiteLLM: the proxy's span counts, the call of the model tells more of it, all else is no request."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from process_traces import CLIENT, INTERNAL, MS, SERVER, BodyOf, SpanOf, Trace, case, explained, reasons
from receiving import READER

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.explanation import Record
from slo_exporter.sli.admission import Admission
from slo_exporter.sli.records import Outcome, View

PROXY, SCOPE = "Received Proxy Server Request", "litellm"
PATH: Mapping[str, Any] = {"url.path": "/v1/chat/completions"}
CALL: Mapping[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
FAILED = Status(code=Status.STATUS_CODE_ERROR)

One = Callable[..., Record]


@pytest.fixture
def trace(span: SpanOf, now_ns: int) -> Trace:
    """Make spans of one trace."""
    return Trace(span, now_ns)


@pytest.fixture
def one(export_body: BodyOf) -> One:
    """Read the one record of spans."""

    def read(*spans: Span, scope: str = SCOPE, service: str = "gateway") -> Record:
        [record] = explained(export_body(*spans, scope=scope, resource={"service.name": service})).records
        return record

    return read


def test_a_proxy_and_its_call_are_one_request() -> None:
    """Version 1: latency of the proxy, tokens and model of the call, in texts; the engine's view is its own."""
    gateway, limited, server = case("litellm_v1.json").records
    assert (gateway.framework, gateway.view, gateway.service) == ("litellm", View.GATEWAY, "litellm")
    assert (gateway.model, gateway.request_id, gateway.outcome) == ("llama-70b-0924", "c-1", Outcome.OK)
    assert gateway.numbers == {
        "e2e": 900 * MS,
        "preprocess": 12_500_000,
        "prompt_tokens": 1520,
        "completion_tokens": 128,
    }
    assert gateway.provenance == {
        "e2e": Provenance.SPAN,
        "preprocess": Provenance.ATTRIBUTE,
        "prompt_tokens": Provenance.PART,
        "completion_tokens": Provenance.PART,
        "model": Provenance.PART,
    }
    assert (limited.framework, limited.outcome) == ("litellm", Outcome.RATE_LIMITED)
    assert (server.framework, server.view) == ("vllm", View.SERVER)


def test_why_the_other_spans_of_version_1_are_no_requests() -> None:
    """Services, guardrails, the raw call, a failure told twice, administration."""
    told = case("litellm_v1.json")
    why = reasons(told)
    assert len(told.records) == 3
    of_proxy = ("auth", "redis", "guardrail")
    assert {why[name] for name in of_proxy} == {f"part of {PROXY} 0000000000000011"}
    assert why["litellm_request"] == f"part of {PROXY} 0000000000000011: the same request, a layer of its own"
    assert why["raw_gen_ai_request"] == "part of litellm_request 0000000000000015"
    assert why["Failed Proxy Server Request"] == f"part of {PROXY} 0000000000000021"
    assert why[PROXY] == "a probe: its route is one of ignore_routes, or asks no model"


def test_a_server_span_and_a_call_are_one_request() -> None:
    """Version 2: FastAPI's span is the request; a call for LiteLLM's own purposes, databases and caches are none."""
    told = case("litellm_v2.json")
    [record] = told.records
    assert (record.framework, record.view, record.service) == ("litellm", View.GATEWAY, "gateway")
    assert (record.model, record.request_id, record.outcome) == ("gpt-4o-2024-08-06", "c-2", Outcome.OK)
    assert record.numbers == {
        "e2e": 900 * MS,
        "ttft": 210 * MS,
        "inter_token": 16_375_000,
        "prompt_tokens": 300,
        "completion_tokens": 41,
        "cached_tokens": 128,
    }
    why = reasons(told)
    assert why["GET /v1/models"] == "a probe: its route is one of ignore_routes, or asks no model"
    of_request = ("auth /v1/chat/completions", "redis.get llm_response", "execute_guardrail pii", "chat router-mini")
    assert {why[name] for name in of_request} == {"part of POST /v1/chat/completions 0000000000000011"}


def test_the_proxy_may_tell_of_the_call_itself(trace: Trace, one: One) -> None:
    """As version 1 does where nothing asks for a span of its own; the tracer's name is the operator's."""
    told = {**PATH, **CALL, "gen_ai.usage.prompt_tokens": 7, "gen_ai.usage.completion_tokens": "3"}
    record = one(trace.span(PROXY, told, kind=SERVER), scope="my-tracer")
    assert (record.framework, record.view, record.model) == ("litellm", View.GATEWAY, "m")
    assert (record.numbers["prompt_tokens"], record.numbers["completion_tokens"]) == (7, 3)


@pytest.mark.parametrize(
    ("attributes", "scope", "service"),
    [
        ({"litellm.call_id": "c"}, "opentelemetry.instrumentation.fastapi", "gateway"),
        ({"litellm.api_key.hash": "h"}, "opentelemetry.instrumentation.fastapi", "gateway"),
        ({"http.request.method": "POST"}, SCOPE, "gateway"),
        ({"http.request.method": "POST"}, "opentelemetry.instrumentation.fastapi", "litellm"),
        ({"http.method": "POST", "http.target": "/v1/chat/completions"}, "x", "litellm"),
    ],
)
def test_the_server_span_of_version_2_is_known(
    trace: Trace, one: One, attributes: Mapping[str, Any], scope: str, service: str
) -> None:
    """By keys that LiteLLM adds, by its scope, or by the service's usual name."""
    record = one(trace.span("POST /v1/chat/completions", attributes, kind=SERVER), scope=scope, service=service)
    assert (record.framework, record.view) == ("litellm", View.GATEWAY)


def test_any_other_http_server_is_none_of_it(trace: Trace, one: One) -> None:
    """The same span of another service."""
    record = one(
        trace.span("POST /v1", {"http.request.method": "POST", "http.response.status_code": 200}, kind=SERVER),
        scope="fastapi",
    )
    assert (record.framework, record.view) == ("http", View.SERVER)


@pytest.mark.parametrize(
    ("attributes", "counts"),
    [
        ({}, True),
        (PATH, True),
        ({"url.path": "/chat/completions"}, True),
        ({"url.path": "/vertex_ai/v1/projects/p/models/m:generateContent"}, True),
        ({"url.path": "/v1beta/models/gemini:generateContent"}, True),
        ({"url.path": "/v1/messages?beta=true"}, True),
        ({"url.path": "/v1/models"}, False),
        ({"url.path": "/models"}, False),
        ({"url.path": "/model/info"}, False),
        ({"http.route": "/key/generate"}, False),
        ({"url.path": "/health/readiness"}, False),
        ({"url.path": "/health"}, False),
        ({"url.path": "/mcp/tools/call"}, False),
        ({**PATH, "http.request.method": "GET"}, False),
    ],
)
def test_what_asks_no_model_is_no_request(
    trace: Trace, export_body: BodyOf, attributes: Mapping[str, Any], *, counts: bool
) -> None:
    """A proxy writes a span for its administration too."""
    told = explained(export_body(trace.span(PROXY, attributes, kind=SERVER), scope=SCOPE))
    assert bool(told.records) is counts


@pytest.mark.parametrize(
    ("attributes", "status", "outcome"),
    [
        ({"http.response.status_code": 200}, None, Outcome.OK),
        ({}, None, Outcome.OK),
        ({}, FAILED, Outcome.ERROR),
        ({"http.response.status_code": 401, "error.type": "ProxyException"}, FAILED, Outcome.CLIENT_ERROR),
        ({"error.code": "400", "error.type": "BadRequestError"}, FAILED, Outcome.CLIENT_ERROR),
        ({"error.code": "429"}, FAILED, Outcome.RATE_LIMITED),
        ({"error.type": "litellm.RateLimitError"}, FAILED, Outcome.RATE_LIMITED),
        ({"error.code": "503"}, FAILED, Outcome.ERROR),
        ({"http.response.status_code": 408, "error.code": "408", "error.type": "Timeout"}, FAILED, Outcome.ERROR),
        ({"error.code": "408", "error.type": "APITimeoutError"}, FAILED, Outcome.ERROR),
        ({"http.response.status_code": 499}, FAILED, Outcome.CANCELLED),
        ({"error.type": "ContextWindowExceededError"}, FAILED, Outcome.CLIENT_ERROR),
    ],
)
def test_the_error_and_the_status_code_decide(
    trace: Trace, one: One, attributes: Mapping[str, Any], status: Status | None, outcome: Outcome
) -> None:
    """LiteLLM's code is a text, and its 408 is of what it asked."""
    assert one(trace.span(PROXY, {**PATH, **attributes}, kind=SERVER, status=status or Status())).outcome is outcome


def test_an_error_of_another_request_hides_no_status_code(trace: Trace, export_body: BodyOf) -> None:
    """Each span's own code decides: what else its export holds has no say."""
    limited = trace.span(PROXY, {**PATH, "error.code": "429"}, kind=SERVER, status=FAILED)
    missing = trace.span(PROXY, {**PATH, "http.status_code": 404}, kind=SERVER)
    told = explained(export_body(limited, missing, scope=SCOPE))
    assert [record.outcome for record in told.records] == [Outcome.RATE_LIMITED, Outcome.CLIENT_ERROR]


def test_a_request_that_was_tried_again_ended_as_its_last_call(trace: Trace, one: One) -> None:
    """A stream that broke has sent its 200 before."""
    front = trace.span(PROXY, {**PATH, "http.response.status_code": 200}, kind=SERVER)
    first = trace.span("litellm_request", CALL, below=front, at=(10, 100), status=FAILED)
    last = trace.span("litellm_request", CALL, below=front, at=(110, 990))
    broken = trace.span("litellm_request", CALL, below=front, at=(110, 990), status=FAILED)
    assert one(front, first, last).outcome is Outcome.OK
    assert one(front, broken).outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("name", "kind"), [("litellm_request", INTERNAL), ("my generation", INTERNAL), ("chat m", CLIENT)]
)
def test_the_library_by_itself_counts_its_calls(
    trace: Trace, export_body: BodyOf, now_ns: int, name: str, kind: int
) -> None:
    """Until a proxy of its service is seen, which counts from then on."""
    call = export_body(trace.span(name, CALL, kind=kind), scope=SCOPE)
    proxy = export_body(trace.span(PROXY, PATH, kind=SERVER), scope=SCOPE)
    again = export_body(trace.span(name, CALL, kind=kind), scope=SCOPE)
    admission, counted = Admission(()), []
    for body in (call, proxy, again):
        export = READER.read(body, now_ns).export
        counted.append(admission.admit([(export.requests, export.roles)], now_ns).requests)
        admission.keep()
    assert [len(requests) for requests in counted] == [1, 1, 0]
    assert {requests.framework.at(0) for requests in counted[:2]} == {"litellm"}
    assert {int(view) for requests in counted for view in requests.view} == {View.GATEWAY}


def test_an_application_with_the_library_keeps_its_http_requests(
    trace: Trace, export_body: BodyOf, now_ns: int
) -> None:
    """The library is no engine of the service, whose own view is the server's."""
    http = trace.span("POST /ask", {"http.request.method": "POST", "http.response.status_code": 200}, kind=SERVER)
    body = export_body(http, scope="fastapi") + export_body(
        trace.span("chat m", CALL, below=http, kind=CLIENT), scope=SCOPE
    )
    export = READER.read(body, now_ns).export
    admitted = Admission(()).admit([(export.requests, export.roles)], now_ns).requests
    assert sorted(zip(admitted.view.tolist(), admitted.shadowed.tolist(), strict=True)) == [
        (View.SERVER, False),
        (View.GATEWAY, False),
    ]


@pytest.mark.parametrize(
    ("name", "attributes", "kind"),
    [
        ("redis", {"db.system": "redis", "gen_ai.request.model": "m"}, CLIENT),
        ("postgres.select LiteLLM_SpendLogs", {"gen_ai.request.model": "m"}, CLIENT),
        ("guardrail", {"openinference.span.kind": "GUARDRAIL"}, INTERNAL),
        ("execute_guardrail pii", {"gen_ai.request.model": "m"}, INTERNAL),
        ("raw_gen_ai_request", CALL, INTERNAL),
        ("tools/call weather", {"gen_ai.operation.name": "execute_tool"}, CLIENT),
        ("chat c", {**CALL, "litellm.request.purpose": "autorouter_classifier"}, CLIENT),
        ("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m"}, CLIENT),
    ],
)
def test_what_is_no_call_of_a_model_never_counts(
    trace: Trace, export_body: BodyOf, name: str, attributes: Mapping[str, Any], kind: int
) -> None:
    """Alone, without any request above it."""
    told = explained(export_body(trace.span(name, attributes, kind=kind), scope=SCOPE))
    assert told.records == []


def test_each_request_of_a_trace_has_its_own_tokens(trace: Trace, export_body: BodyOf) -> None:
    """An agent asks twice."""
    agent = trace.span("agent", {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m"})
    fronts = [trace.span(PROXY, PATH, below=agent, kind=SERVER) for _ in range(2)]
    calls = [
        trace.span("litellm_request", {**CALL, "gen_ai.usage.output_tokens": 5 + i}, below=front)
        for i, front in enumerate(fronts)
    ]
    told = explained(export_body(agent, scope="app"), export_body(*fronts, *calls, scope=SCOPE))
    assert [record.numbers["completion_tokens"] for record in told.records] == [5, 6]
