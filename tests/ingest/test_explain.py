"""What `explain` says of spans: the records, and why every other span is none."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.documents import Document, documents_of
from slo_exporter.ingest.otlp.explain import UnreadableError, explain
from slo_exporter.ingest.otlp.explanation import Explanation, Record
from slo_exporter.sli.records import Outcome, View

CASES = Path(__file__).parent / "cases"
DECLARED = Declared(selector_keys=frozenset(), models={}, ignore_routes=("/health",))
HTTP: Mapping[str, Any] = {"http.request.method": "GET", "http.response.status_code": 200}
CHAT: Mapping[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}
VLLM = "vllm.tracing.otel"
INTERNAL, CLIENT = 1, 3

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


def explained(*bodies: bytes) -> Explanation:
    """Explain protobuf exports."""
    return explain([Document(body, is_json=False) for body in bodies], DECLARED)


def case(name: str) -> Explanation:
    """Explain a case file."""
    return explain(documents_of((CASES / name).read_bytes()), DECLARED)


def reasons(explanation: Explanation) -> dict[str, str]:
    """The reason by the name of the span."""
    return {ignored.name: ignored.reason for ignored in explanation.ignored}


def test_every_span_is_a_record_or_ignored() -> None:
    """In the order of the file, records with all that is known."""
    told = case("genai_semconv_client_server.json")
    assert len(told.records) + len(told.ignored) == 9
    assert [record.view for record in told.records] == [View.CLIENT] * 5 + [View.SERVER]
    assert told.records[1].outcome is Outcome.RATE_LIMITED
    first = told.records[0]
    assert (first.framework, first.service, first.request_id) == ("gen_ai", "chat-app", "chatcmpl-1")
    assert first.trace_id == "ca9d0150bf92fa5fd2fb061f60c24474"
    assert first.numbers["e2e"] == 2_480_000_000
    assert first.provenance["e2e"] is Provenance.SPAN
    assert first.provenance["ttft"] is Provenance.ATTRIBUTE


def test_a_server_shows_what_only_its_client_knows() -> None:
    """The model, and the cached tokens; marked as not its own."""
    server = case("genai_semconv_client_server.json").records[-1]
    assert (server.model, server.numbers["cached_tokens"]) == ("llama-70b", 1024)
    assert server.provenance["model"] is server.provenance["cached_tokens"] is Provenance.DERIVED
    assert server.provenance["queue"] is Provenance.ATTRIBUTE


@pytest.fixture
def model_shown(span: SpanOf, export_body: BodyOf) -> Callable[..., list[str | None]]:
    """The models of servers' records beside calls of clients; each is a request id and a trace."""

    def show(servers: list[tuple[str, int]], clients: list[tuple[str, int]]) -> list[str | None]:
        def trace(number: int) -> bytes:
            return (1000 + number).to_bytes(16, "big")

        requests = [span({"gen_ai.request.id": i}, name="llm_request", trace_id=trace(t)) for i, t in servers]
        calls = [span({**CHAT, "gen_ai.response.id": i}, kind=CLIENT, trace_id=trace(t)) for i, t in clients]
        told = explained(export_body(*requests, scope=VLLM) + export_body(*calls, resource={"service.name": "app"}))
        return [record.model for record in told.records if record.view is View.SERVER]

    return show


@pytest.mark.parametrize(
    ("servers", "clients", "models"),
    [
        ([("a", 1)], [("a", 2)], ["m"]),
        ([("a", 1)], [("b", 1)], ["m"]),
        ([("a", 1)], [("b", 2)], [None]),
        ([("a", 1), ("b", 1)], [("c", 1)], [None, None]),
        ([("a", 1)], [("b", 1), ("c", 1)], [None]),
        ([("a", 1), ("b", 1)], [("b", 1)], [None, "m"]),
        ([("", 1)], [("", 2)], [None]),
        ([("a", 1)], [], [None]),
    ],
)
def test_a_model_is_shown_only_when_the_request_is_certain(
    model_shown: Callable[..., list[str | None]],
    servers: list[tuple[str, int]],
    clients: list[tuple[str, int]],
    models: list[str | None],
) -> None:
    """Equal ids, or the only two of their views in a trace."""
    assert model_shown(servers, clients) == models


def test_parts_say_of_which_request(span: SpanOf, export_body: BodyOf) -> None:
    """By its name and id, however far above it stands."""
    server = span(HTTP, name="GET /")
    child = {"kind": INTERNAL, "trace_id": server.trace_id}
    between = span(name="work", parent_span_id=server.span_id, **child)
    send = span({"asgi.event.type": "x"}, name="send", parent_span_id=between.span_id, **child)
    lost = span({"asgi.event.type": "x"}, name="lost", kind=INTERNAL, parent_span_id=b"12345678")
    why = reasons(explained(export_body(server, between, send, lost)))
    assert why["send"] == f"part of GET / {server.span_id.hex()}"
    assert why["lost"] == "a part in http, never a request; none stands above it in this export"


def test_a_part_is_said_to_fill_a_field_only_where_it_does(span: SpanOf, export_body: BodyOf) -> None:
    """Not behind what the step says itself, nor if it ends before it starts."""
    says, asks = span({"train.data_wait": 0.5}, name="train.step"), span(name="train.step")

    def load(owner: Span, **times: int) -> Span:
        ids = {"trace_id": owner.trace_id, "parent_span_id": owner.span_id}
        return span(name="train.data_load", kind=INTERNAL, **ids, **times)

    loads = [load(says), load(asks), load(asks, end_time_unix_nano=asks.end_time_unix_nano - 10**10)]
    told = explained(export_body(says, asks, *loads))
    assert [ignored.reason for ignored in told.ignored] == [
        f"part of train.step {says.span_id.hex()}",
        f"part of train.step {asks.span_id.hex()}, fills data_wait",
        f"part of train.step {asks.span_id.hex()}",
    ]


def test_a_chain_of_parts_costs_its_length(span: SpanOf, export_body: BodyOf) -> None:
    """And belongs to what stands at its end."""
    server = span(HTTP, name="GET /")
    above, chain = server.span_id, []
    for _ in range(3_000):
        chain.append(span({"asgi.event.type": "x"}, kind=INTERNAL, trace_id=server.trace_id, parent_span_id=above))
        above = chain[-1].span_id
    told = explained(export_body(server, *reversed(chain)))
    assert {ignored.reason for ignored in told.ignored} == {f"part of GET / {server.span_id.hex()}"}


def test_spans_of_an_old_exporter_are_named() -> None:
    """They are not read, and so they are neither refused nor unknown."""
    told = case("otlp_invalid/pre_0_15_instrumentation_library.json")
    reason = "not read: it stands in instrumentationLibrarySpans, as before OTLP 0.19"
    assert (told.records, reasons(told)) == ([], {"llm_request": reason})


def test_parents_in_a_circle_end(span: SpanOf, export_body: BodyOf) -> None:
    """Ids come from the wire."""
    ids = {"trace_id": (77).to_bytes(16, "big"), "kind": INTERNAL}
    one, two = (77).to_bytes(8, "big"), (78).to_bytes(8, "big")
    circle = [
        span({"asgi.event.type": "x"}, name="a", span_id=one, parent_span_id=two, **ids),
        span({"asgi.event.type": "x"}, name="b", span_id=two, parent_span_id=one, **ids),
    ]
    assert len(explained(export_body(*circle)).ignored) == 2


def test_a_part_that_fills_a_field_says_so() -> None:
    """And the record says that the field came from a part."""
    told = case("training_step.json")
    assert reasons(told)["train.data_load"].endswith(", fills data_wait")
    assert [record.provenance["data_wait"] for record in told.records] == [Provenance.PART] * 2
    assert [record.provenance["step"] for record in told.records] == [Provenance.SPAN] * 2


@pytest.mark.parametrize(
    ("attributes", "overrides", "scope", "reason"),
    [
        ({"http.request.method": "POST"}, {"kind": CLIENT}, "x", "no request of http: kind is CLIENT, needed: SERVER"),
        ({}, {}, "x", "no request of http: it has no http.method or http.request.method"),
        ({}, {"kind": INTERNAL}, "x", "no framework that is known here writes such a span"),
        (
            {"gen_ai.operation.name": "invoke_agent"},
            {"kind": INTERNAL},
            "x",
            (
                "no request of gen_ai: gen_ai.operation.name is invoke_agent,"
                " needed: chat, embeddings, generate_content or text_completion"
            ),
        ),
        (CHAT, {"kind": 4}, "x", "no request of gen_ai: kind is PRODUCER, needed: CLIENT or INTERNAL"),
        (
            {},
            {"name": "load", "kind": INTERNAL},
            "vllm.v1.engine.core",
            "no request of vllm: other work of the engine, whose requests are llm_request in scope vllm.tracing.otel",
        ),
        (
            {},
            {"name": "llm_request"},
            "mine",
            "no request of vllm: scope is mine, needed: vllm.tracing.otel",
        ),
        (
            {"gen_ai.request.model": "m"},
            {"name": "route", "kind": CLIENT},
            "x",
            "no request of gen_ai: name does not begin with chat, embeddings, generate_content or text_completion",
        ),
        ({"http.method": "GET", "http.route": "/health"}, {}, "x", "a probe: its route is one of ignore_routes"),
        ({"train.rank": 3}, {"name": "train.step"}, "x", "train.rank is 3, and only rank 0 counts"),
    ],
    ids=repr,
)
def test_a_span_that_does_not_count_says_why(
    span: SpanOf,
    export_body: BodyOf,
    attributes: Mapping[str, Any],
    overrides: Mapping[str, Any],
    scope: str,
    reason: str,
) -> None:
    """The nearest convention, and what it lacks."""
    told = explained(export_body(span(attributes, **overrides), scope=scope))
    assert ([ignored.reason for ignored in told.ignored], len(told.records)) == ([reason], 0)


def test_an_http_span_beside_an_engine_yields(span: SpanOf, export_body: BodyOf) -> None:
    """Unless it failed."""
    engine = export_body(span(name="start", kind=INTERNAL), scope="vllm.v1.engine.core")
    http = [span(HTTP, name="fine"), span({**HTTP, "http.response.status_code": 500}, name="failed")]
    told = explained(engine + export_body(*http))
    assert [record.outcome for record in told.records] == [Outcome.ERROR]
    assert reasons(told)["fine"].startswith("yields to the engine: ")


def test_what_was_counted_before_says_so(span: SpanOf, export_body: BodyOf) -> None:
    """In the same export and in an earlier one; by its span, and by its request id."""

    def request(name: str = "llm_request") -> Span:
        return span({"gen_ai.request.id": "r"}, name=name)

    first, sibling, later = request(), request(), request()
    told = explained(export_body(first, first, sibling, scope=VLLM), export_body(first, later, scope=VLLM))
    assert len(told.records) == 1
    assert [ignored.reason for ignored in told.ignored] == [
        "repeated: the same span stands before it in this export",
        f"part of llm_request {first.span_id.hex()}: same request id, and their times overlap",
        "repeated: the same span came in an earlier export",
        f"part of llm_request {first.span_id.hex()}: same request id, and their times overlap",
    ]
    told = explained(export_body(first, scope=VLLM), export_body(later, scope=VLLM))
    assert [ignored.reason for ignored in told.ignored] == [
        "same request id as a request of an earlier export, and their times overlap: it counted there"
    ]


def test_refused_spans_have_a_name_as_far_as_they_are_told(span: SpanOf, export_body: BodyOf) -> None:
    """Beyond ten of a kind their positions are not known."""
    bad = [span(HTTP, name=f"bad {number}", trace_id=bytes(16)) for number in range(12)]
    told = explained(export_body(span(HTTP), *bad))
    assert {ignored.reason for ignored in told.ignored} == {"refused: trace id is all zero"}
    assert [ignored.name for ignored in told.ignored] == [*(f"bad {n}" for n in range(10)), "", ""]


def test_no_span_is_too_old(span: SpanOf, export_body: BodyOf) -> None:
    """Nor ahead of its time: a file is explained whenever it was written."""
    times = [span(HTTP, start_time_unix_nano=1, end_time_unix_nano=end) for end in (2, 4 * 10**18)]
    assert len(explained(export_body(*times)).records) == 2


def test_a_negative_duration_is_flagged(span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """It counts, without a duration."""
    [record] = explained(export_body(span(HTTP, start_time_unix_nano=now_ns))).records
    assert (record.flags, dict(record.numbers)) == (("negative_duration",), {})


def test_a_bad_export_is_named(span: SpanOf, export_body: BodyOf) -> None:
    """By its number, where there are several."""
    with pytest.raises(UnreadableError, match=r"^the body of 1 bytes"):
        explained(b"\xff")
    with pytest.raises(UnreadableError, match=r"^export 2: the body of 1 bytes"):
        explained(export_body(span(HTTP)), b"\xff")


def test_a_real_capture_has_676_requests() -> None:
    """Over many exports, in order."""
    told = case("vllm_0_32_0_cpu.json")
    requests: list[Record] = [record for record in told.records if record.framework == "vllm"]
    assert len(requests) == 676
    assert all(set(record.provenance) == set(record.numbers) for record in requests)


def test_a_number_is_shown_as_the_id_that_it_is(span: SpanOf, export_body: BodyOf) -> None:
    """Its digits, all of them; 0 is one too."""
    ids = (0, 7, 2**62 + 1)
    requests = [span({"gen_ai.request.id": number}, name="llm_request") for number in ids]
    assert [r.request_id for r in explained(export_body(*requests, scope=VLLM)).records] == [str(n) for n in ids]
