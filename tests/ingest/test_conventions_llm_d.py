"""llm-d and the Gateway API inference extension: one request of the gateway, none of the rest."""

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from process_traces import CLIENT, INTERNAL, MS, SERVER, BodyOf, SpanOf, Trace, case, explained, reasons

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.sli.records import Outcome, View

GIE, ROUTER = "gateway-api-inference-extension", "llm-d-router/pkg/epp/handlers"
MODEL: Mapping[str, Any] = {"gen_ai.request.model": "m", "gen_ai.request.id": "r"}
HTTP: Mapping[str, Any] = {"http.request.method": "POST", "http.response.status_code": 200}


@pytest.fixture
def trace(span: SpanOf, now_ns: int) -> Trace:
    """Make spans of one trace."""
    return Trace(span, now_ns)


def test_a_split_request_is_one_of_the_gateway_and_one_of_the_server() -> None:
    """The picker stays until the end; two engines share the work, and the second one's figures are the request's."""
    gateway, server = case("llm_d_prefill_decode.json").records
    assert (gateway.framework, gateway.view, gateway.service) == ("llm_d", View.GATEWAY, "inference-scheduler")
    assert (gateway.model, gateway.provenance["model"]) == ("meta-llama/Llama-3.1-8B", Provenance.PART)
    assert (gateway.numbers, gateway.outcome) == ({"e2e": 1003 * MS}, Outcome.OK)

    assert (server.framework, server.view, server.service) == ("vllm", View.SERVER, "inference-server-decode")
    assert server.request_id == "chatcmpl-5d2c"
    stages = {
        name: server.numbers[name] for name in ("queue", "prefill", "decode", "prompt_tokens", "completion_tokens")
    }
    assert stages == {
        "queue": 12 * MS,
        "prefill": 130 * MS,
        "decode": 800 * MS,
        "prompt_tokens": 2048,
        "completion_tokens": 64,
    }
    assert server.numbers["ttft"] == (172 - 10 + 22) * MS


def test_why_the_other_spans_are_no_requests() -> None:
    """Work of the picker and of the sidecar, with whatever keys."""
    why = reasons(case("llm_d_prefill_decode.json"))
    of_picker = ("request_orchestration", "run_scheduler_profile", "filter_endpoints", "pick_endpoints")
    assert {why[name] for name in (*of_picker, "pick_disagg_profile")} == {"part of request 00000000000000e1"}
    of_sidecar = ("llm_d.pd_proxy.POST /v1/chat/completions", "forward_request", "prefill", "decode")
    assert {why[name].partition(",")[0] for name in of_sidecar} == {"a part in llm_d"}


@pytest.mark.parametrize(
    ("name", "scope", "service"),
    [
        ("gateway.ext_proc.request", GIE, "epp"),
        ("gateway.ext_proc.request", "anything", "epp"),
        ("gateway.request", GIE, "epp"),
        ("gateway.request", "llm-d-inference-scheduler", "epp"),
        ("gateway.request", ROUTER, "epp"),
        ("request", ROUTER, "epp"),
        ("request", "llm-d-router", "epp"),
        ("request", "", "inference-scheduler"),
        ("gateway.request", "main", "llm-d-inference-scheduler"),
    ],
)
def test_the_picker_counts_by_every_name_it_had(
    trace: Trace, export_body: BodyOf, name: str, scope: str, service: str
) -> None:
    """Where the name is anybody's, by its scope or by its usual service."""
    body = export_body(trace.span(name, kind=SERVER), scope=scope, resource={"service.name": service})
    [record] = explained(body).records
    assert (record.framework, record.view, record.outcome) == ("llm_d", View.GATEWAY, Outcome.OK)


@pytest.mark.parametrize(
    ("name", "attributes", "scope", "kind"),
    [
        ("request", {}, "my-gateway", SERVER),
        ("request", {}, ROUTER, INTERNAL),
        ("gateway.request", MODEL, "github.com/other/gateway", SERVER),
        ("filter_endpoints", {**MODEL, "gen_ai.operation.name": "chat"}, "other", INTERNAL),
        ("run_scheduler_profile", {**MODEL, "gen_ai.operation.name": "chat"}, "llm-d-router", INTERNAL),
        ("request_orchestration", {**MODEL, **HTTP}, ROUTER, SERVER),
        ("gateway.request_orchestration", {"target_model": "m"}, GIE, SERVER),
        ("llm_d.pd_proxy.request", {**MODEL, **HTTP}, "llm-d-inference-scheduler", SERVER),
        ("llm_d.pd_proxy.POST /v1/completions", HTTP, "otelhttp", SERVER),
        ("llm_d.pd_proxy.GET /health", HTTP, "otelhttp", SERVER),
        ("llm_d.pd_proxy.prefill", {"gen_ai.operation.name": "chat"}, "", CLIENT),
        ("decode", {"llm_d.pd_proxy.connector": "nixlv2", "gen_ai.operation.name": "chat"}, "x", INTERNAL),
        ("chat m", {"gen_ai.operation.name": "chat"}, "llm-d-kv-cache", CLIENT),
    ],
)
def test_what_carries_its_keys_is_no_request(
    trace: Trace, export_body: BodyOf, name: str, attributes: Mapping[str, Any], scope: str, kind: int
) -> None:
    """Neither the HTTP convention nor the one of clients claims what is its own."""
    told = explained(export_body(trace.span(name, attributes, kind=kind), scope=scope))
    assert told.records == []


@pytest.mark.parametrize(
    ("name", "attributes", "kind", "framework"),
    [
        ("gateway.request", HTTP, SERVER, "http"),
        ("prefill", {"gen_ai.operation.name": "chat"}, INTERNAL, "gen_ai"),
    ],
)
def test_others_may_use_its_names(
    trace: Trace, export_body: BodyOf, name: str, attributes: Mapping[str, Any], kind: int, framework: str
) -> None:
    """Where neither scope nor service nor keys are its own."""
    [record] = explained(export_body(trace.span(name, attributes, kind=kind), scope="other")).records
    assert record.framework == framework


@pytest.mark.parametrize("scope", ["gateway-api-inference-extension/bbr/extproc", "llm-d-inference-payload-processor"])
def test_the_body_router_is_no_second_request(trace: Trace, export_body: BodyOf, scope: str) -> None:
    """It asks the same way, under the same name."""
    asked = trace.span("gateway.request", kind=SERVER)
    told = explained(
        export_body(asked, scope=scope), export_body(trace.span("gateway.request", MODEL, kind=SERVER), scope=ROUTER)
    )
    assert [(record.framework, record.model) for record in told.records] == [("llm_d", "m")]


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("inference error: BadRequest - model not found in request body", Outcome.CLIENT_ERROR),
        ("inference error: ResourceExhausted - failed to find target endpoint", Outcome.RATE_LIMITED),
        ("inference error: InferencePoolResourceExhausted - no room", Outcome.RATE_LIMITED),
        ("inference error: ServiceUnavailable - no endpoint", Outcome.ERROR),
        ("ModelServerError", Outcome.ERROR),
        ("BadRequest", Outcome.ERROR),
        ("", Outcome.ERROR),
    ],
)
def test_the_message_of_a_failure_says_whose_it_is(
    trace: Trace, export_body: BodyOf, message: str, outcome: Outcome
) -> None:
    """By the code that it begins with; a failure of the model server has none."""
    failed = Status(code=Status.STATUS_CODE_ERROR, message=message)
    [record] = explained(export_body(trace.span("request", kind=SERVER, status=failed), scope=ROUTER)).records
    assert record.outcome is outcome


def test_each_request_of_a_trace_has_its_own_model(trace: Trace, export_body: BodyOf) -> None:
    """An agent asks for two; the older name of one makes no difference."""
    agent = trace.span("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "x"})

    def asked(name: str, model: str) -> list[Span]:
        request = trace.span(name, below=agent, kind=SERVER)
        work = trace.span("gateway.request_orchestration", {"target_model": model}, below=request, kind=SERVER)
        return [request, work]

    spans = [agent, *asked("request", "a"), *asked("gateway.ext_proc.request", "b")]
    told = explained(export_body(*spans, scope="llm-d-router"))
    assert [record.model for record in told.records] == ["a", "b"]
