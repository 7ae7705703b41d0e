"""Several spans of one request are one record; spans of several requests are several."""

from collections.abc import Mapping
from typing import Any

import pytest
from builders import NOON_NS
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from process_traces import CLIENT, INTERNAL, MS, SERVER, BodyOf, SpanOf, Trace, explained, reasons
from receiving import READER

from slo_exporter.ingest.otlp.roles import roles_of
from slo_exporter.sli.admission import Admission, Role
from slo_exporter.sli.records import LONGEST_SERVICE, Outcome, View
from slo_exporter.sli.texts import texts_of

RAY, VLLM, OTEL = "ray.serve._private.tracing_utils", "vllm.tracing.otel", "opentelemetry.instrumentation.fastapi"
POST: Mapping[str, Any] = {"http.method": "POST", "http.status_code": 200, "http.route": "/v1/chat/completions"}
TOKENS = {"gen_ai.usage.prompt_tokens": 100, "gen_ai.usage.completion_tokens": 35, "gen_ai.latency.e2e": 0.5}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "large"}


@pytest.fixture
def trace(span: SpanOf, now_ns: int) -> Trace:
    """Make spans of one trace."""
    return Trace(span, now_ns)


def engine(trace: Trace, below: Span | None = None, number: int = 1, **more: Any) -> Span:
    """Build a request of vLLM."""
    values = {**TOKENS, "gen_ai.request.id": f"r{number}", **more.pop("values", {})}
    return trace.span("llm_request", values, below=below, kind=SERVER, **more)


def views(*bodies: bytes) -> list[tuple[View, str]]:
    """View and framework of each record of one export."""
    return sorted((record.view, record.framework) for record in explained(*bodies).records)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", ["unknown_service", "unknown_service:java", "chat", "x" * (LONGEST_SERVICE + 1)])
def test_a_service_without_a_name_hides_nobody(name: str, role: Role) -> None:
    """It may have an engine; that it stands behind another would hide all others without a name."""
    is_learnt = name == "chat" or (name.startswith("unknown") and role is Role.ENGINE)
    assert roles_of(texts_of([name]), [0, -1], role) == (frozenset({(name, role)}) if is_learnt else frozenset())


@pytest.mark.parametrize(
    ("name", "kind", "attributes", "scope"),
    [
        ("engine.generate", INTERNAL, {"model": "m"}, "app"),
        ("handle_payload", INTERNAL, {"component": "backend"}, "app"),
        ("http-request", CLIENT, {"uri": "/v1/chat", "method": "POST", "request_id": "1"}, "app"),
        ("http-request", INTERNAL, {"uri": "/v1/chat", "method": "POST"}, "app"),
        ("POST /ask", SERVER, {**POST, "litellm.call_id": "1"}, OTEL),
        ("replica_handle_request D", SERVER, {}, RAY),
        ("Received Proxy Server Request", SERVER, POST, "litellm"),
    ],
)
def test_a_stray_span_hides_no_engine(
    trace: Trace, export_body: BodyOf, name: str, kind: int, attributes: Mapping[str, Any], scope: str
) -> None:
    """Whoever names a span like a framework does is not one."""
    stray = READER.read(export_body(trace.span(name, attributes, kind=kind), scope=scope), NOON_NS).export
    later = READER.read(export_body(engine(trace), scope=VLLM), NOON_NS).export
    admission = Admission([])
    admission.admit([(stray.requests, stray.roles)], 0)
    admission.keep()
    assert len(admission.admit([(later.requests, later.roles)], 0).requests) == 1


def test_what_an_application_calls_counts_by_itself(trace: Trace, export_body: BodyOf) -> None:
    """Behind a call of another program other requests begin, though one trace holds them all."""
    front = trace.span("proxy_http_request D", POST, kind=SERVER)
    call = trace.span("POST", {"http.request.method": "POST"}, below=front, kind=CLIENT)
    engines = [engine(trace, call, number) for number in range(3)]
    service = {"service.name": "llm"}
    found = explained(
        export_body(front, scope=RAY), export_body(call), export_body(*engines, scope=VLLM, resource=service)
    )
    assert sorted(record.service for record in found.records) == ["chat", "llm", "llm", "llm"]


def test_the_children_of_one_request_below_a_front_add_up(trace: Trace, export_body: BodyOf) -> None:
    """N > 1: each made tokens of its own."""
    front = trace.span("proxy_http_request D", POST, kind=SERVER)
    children = [engine(trace, front), engine(trace, front, at=(10, 900))]
    [record] = explained(export_body(front, scope=RAY), export_body(*children, scope=VLLM)).records
    assert (record.framework, record.numbers["completion_tokens"], record.numbers["prompt_tokens"]) == (
        "ray_serve",
        70,
        100,
    )


def test_proxy_and_engine_of_one_name_are_a_record_in_each_view(trace: Trace, export_body: BodyOf) -> None:
    """What the proxy counts is no engine's request."""
    proxy = trace.span("Received Proxy Server Request", POST, kind=SERVER)
    bodies = export_body(proxy, scope="litellm"), export_body(engine(trace, proxy), scope=VLLM)
    assert views(*bodies) == [(View.SERVER, "vllm"), (View.GATEWAY, "litellm")]


@pytest.mark.parametrize("is_sibling", [True, False])
@pytest.mark.parametrize(("code", "outcome"), [(500, Outcome.ERROR), (499, Outcome.CANCELLED), (200, Outcome.ERROR)])
def test_a_failure_that_server_and_engine_tell_of_is_one(
    trace: Trace, export_body: BodyOf, code: int, outcome: Outcome, *, is_sibling: bool
) -> None:
    """The engine's record with what the server answered; the server's for SLOs on HTTP."""
    caller = trace.span("caller", kind=CLIENT)
    status = Status(code=Status.STATUS_CODE_ERROR)
    http = trace.span("POST", {**POST, "http.status_code": code}, below=caller, kind=SERVER, status=status)
    below = engine(trace, caller if is_sibling else http)
    bodies = export_body(caller, resource={"service.name": "other"}), export_body(http), export_body(below, scope=VLLM)
    told = explained(*bodies)
    [record] = told.records
    assert (record.framework, record.outcome, record.numbers["completion_tokens"]) == ("vllm", outcome, 35)
    assert reasons(told)["POST"].startswith("the engine's request tells of this failure")
    export = READER.read(b"".join(bodies), NOON_NS).export
    requests = Admission([]).admit([(export.requests, export.roles)], 0).requests
    assert sorted(zip(requests.shadowed.tolist(), requests.outcome.tolist(), strict=True)) == [
        (False, outcome),
        (True, outcome),
    ]


def test_a_failure_counts_where_its_engine_does_not(trace: Trace, export_body: BodyOf) -> None:
    """The engine stands behind something that counts, or it only prefilled: the server's row is all there is."""
    http = trace.span("POST", {**POST, "http.status_code": 500}, kind=SERVER)
    export = READER.read(export_body(http) + export_body(engine(trace, http), scope=VLLM), NOON_NS).export
    requests = Admission([("chat", Role.BELOW)]).admit([(export.requests, export.roles)], 0).requests
    counted = requests.take(~requests.shadowed)
    assert (counted.framework.at(0), counted.outcome.tolist()) == ("http", [Outcome.ERROR])


def test_what_arrives_at_another_service_is_its_own(trace: Trace, export_body: BodyOf) -> None:
    """A shared engine behind a server of its own: who calls it does not stand for it."""
    front = trace.span("proxy_http_request D", POST, kind=SERVER)
    arrived = trace.span("POST", POST, below=front, kind=SERVER)
    llm = {"service.name": "llm"}
    bodies = export_body(arrived, resource=llm), export_body(engine(trace, arrived), scope=VLLM, resource=llm)
    export = READER.read(export_body(front, scope=RAY) + b"".join(bodies), NOON_NS).export
    assert ("llm", Role.BELOW) not in export.roles
    requests = Admission([]).admit([(export.requests, export.roles)], 0).requests
    counted = requests.take(~requests.shadowed)
    assert sorted(counted.framework.at(row) or "" for row in range(len(counted))) == ["ray_serve", "vllm"]


def test_figures_are_those_of_the_call_that_answered(trace: Trace, export_body: BodyOf) -> None:
    """A second try: the first token came as late as the caller saw it."""
    proxy = trace.span("Received Proxy Server Request", POST, kind=SERVER, at=(0, 1000))
    ttft = "gen_ai.response.time_to_first_chunk"
    tries = [
        trace.span(
            "chat a", {**CHAT, ttft: 0.3, "gen_ai.usage.output_tokens": 2}, below=proxy, kind=CLIENT, at=(0, 500)
        ),
        trace.span(
            "chat b", {**CHAT, ttft: 0.1, "gen_ai.usage.output_tokens": 9}, below=proxy, kind=CLIENT, at=(600, 990)
        ),
    ]
    [record] = explained(export_body(proxy, *tries, scope="litellm")).records
    assert (record.numbers["ttft"], record.numbers["completion_tokens"]) == (700 * MS, 9)


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_first_halves_the_later_one_is_the_requests(trace: Trace, export_body: BodyOf, *, turned: bool) -> None:
    """A second try of the prefill, in whatever order they come."""
    one = {"gen_ai.usage.completion_tokens": 1}
    firsts = [engine(trace, values=one, at=(0, 50)), engine(trace, values=one, at=(60, 110))]
    prefill = export_body(*(firsts[::-1] if turned else firsts), scope=VLLM, resource={"service.name": "a-prefill"})
    [record] = explained(prefill, export_body(engine(trace, at=(120, 620)), scope=VLLM)).records
    assert record.numbers["e2e"] == 560 * MS


def test_a_call_that_takes_several_requests_fails_by_itself(trace: Trace, export_body: BodyOf) -> None:
    """Whose fault it was nobody says."""
    http = trace.span("POST", {**POST, "http.status_code": 500}, kind=SERVER)
    engines = [engine(trace, http, number) for number in range(2)]
    found = explained(export_body(http), export_body(*engines, scope=VLLM)).records
    assert sorted((record.framework, record.outcome) for record in found) == [
        ("http", Outcome.ERROR),
        ("vllm", Outcome.OK),
        ("vllm", Outcome.OK),
    ]


@pytest.mark.parametrize(
    ("name", "kind", "attributes", "records"),
    [
        ("execute_tool search", INTERNAL, {"gen_ai.operation.name": "execute_tool"}, 2),
        ("agent", INTERNAL, {"openinference.span.kind": "AGENT"}, 2),
        ("POST", CLIENT, {"http.request.method": "POST"}, 2),
        ("work", INTERNAL, {}, 1),
    ],
)
def test_nested_calls_of_a_library_are_one_unless_something_acts_between(
    trace: Trace, export_body: BodyOf, name: str, kind: int, attributes: Mapping[str, Any], records: int
) -> None:
    """A tool, an agent or a call of another program begins another request."""
    outer = trace.span("chat large", CHAT, kind=CLIENT)
    between = trace.span(name, attributes, below=outer, kind=kind)
    inner = trace.span("chat small", {**CHAT, "gen_ai.request.model": "small"}, below=between, kind=CLIENT)
    assert len(explained(export_body(outer, between, inner)).records) == records


def test_requests_of_one_trace_with_other_prompts_are_no_halves(trace: Trace, export_body: BodyOf) -> None:
    """An agent asks an embedding model after a chat model."""
    first = engine(trace, values={"gen_ai.usage.completion_tokens": 1, "gen_ai.usage.prompt_tokens": 900}, at=(0, 50))
    other = engine(trace, number=2, values={"gen_ai.usage.prompt_tokens": 7}, at=(60, 160))
    prefill = export_body(first, scope=VLLM, resource={"service.name": "inference-server-prefill"})
    [record] = explained(prefill, export_body(other, scope=VLLM)).records
    assert (record.numbers["prompt_tokens"], record.numbers["e2e"]) == (7, 500 * MS)


def test_many_halves_of_one_id_take_no_longer(trace: Trace, export_body: BodyOf) -> None:
    """Some are looked at for each; every span is told of."""
    one = {"gen_ai.usage.completion_tokens": 1}
    spans = [engine(trace, values=one, at=(0, 50)) for _ in range(1500)]
    spans += [engine(trace, at=(60, 100)) for _ in range(1500)]
    export = READER.read(export_body(*spans, scope=VLLM), NOON_NS).export
    assert export.results["request"] + export.results["part"] == 3000
