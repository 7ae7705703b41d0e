"""OpenInference: which kinds of spans are requests, their keys, and layers of clients that tell of one call."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from receiving import READER

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.documents import Document
from slo_exporter.ingest.otlp.explain import explain
from slo_exporter.ingest.otlp.explanation import Explanation
from slo_exporter.sli.records import Outcome, View

INTERNAL, SERVER, CLIENT = range(1, 4)
MS = 1_000_000
KIND = "openinference.span.kind"
FIRST = "First Token Stream Event"
LLM: Mapping[str, Any] = {KIND: "LLM", "llm.model_name": "gpt-4o"}
CHAT: Mapping[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
DECLARED = Declared(selector_keys=frozenset(), models={}, ignore_routes=())

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


@pytest.fixture
def call(span: SpanOf) -> SpanOf:
    """Build an INTERNAL span below another one, or below none; 1 s long, with events so many ms after its start."""

    def build(attributes: Mapping[str, Any], above: Span | None = None, /, **more: Any) -> Span:
        events = more.pop("events", {})
        place = {} if above is None else {"trace_id": above.trace_id, "parent_span_id": above.span_id}
        built = span(attributes, **{"kind": INTERNAL, "name": "ChatCompletion", **place, **more})
        for name, after_ms in events.items():
            built.events.add(name=name, time_unix_nano=built.start_time_unix_nano + after_ms * MS)
        return built

    return build


@pytest.fixture
def told(call: SpanOf, export_body: BodyOf) -> Callable[..., Explanation]:
    """Explain one call."""

    def explaining(attributes: Mapping[str, Any], **more: Any) -> Explanation:
        return explain([Document(export_body(call(attributes, **more)), is_json=False)], DECLARED)

    return explaining


Told = Callable[..., Explanation]


def failed(span: Span, exception: str | None) -> Span:
    """The span with status ERROR and the event of an exception."""
    span.status.code = Status.STATUS_CODE_ERROR
    if exception is not None:
        event = span.events.add(name="exception", time_unix_nano=span.end_time_unix_nano)
        attribute = event.attributes.add(key="exception.type")
        attribute.value.string_value = exception
    return span


def test_a_stream_is_a_request_with_all_its_keys(told: Told) -> None:
    """Each with where it comes from."""
    usage = {"prompt": 20, "completion": 5, "total": 25, "prompt_details.cache_read": 8}
    stream = {**LLM, **{f"llm.token_count.{name}": number for name, number in usage.items()}}
    [record] = told(stream, events={FIRST: 200}).records
    assert (record.framework, record.view, record.model) == ("openinference", View.CLIENT, "gpt-4o")
    assert record.numbers == {
        "e2e": 1000 * MS,
        "ttft": 200 * MS,
        "inter_token": 200 * MS,
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "cached_tokens": 8,
    }
    assert (record.provenance["ttft"], record.provenance["inter_token"]) == (Provenance.EVENT, Provenance.DERIVED)
    assert (record.provenance["e2e"], record.provenance["cached_tokens"]) == (Provenance.SPAN, Provenance.ATTRIBUTE)


def test_an_embedding_names_its_model_apart(told: Told) -> None:
    """Under a key of its own."""
    [record] = told({KIND: "EMBEDDING", "embedding.model_name": "ada", "llm.token_count.prompt": 7}).records
    assert (record.model, record.numbers["prompt_tokens"], record.outcome) == ("ada", 7, Outcome.OK)


def test_the_model_that_answered_comes_first(told: Told) -> None:
    """Before the one of the call, and before GenAI's."""
    named = {**LLM, "llm.response.model_name": "gpt-4o-2024", "gen_ai.response.model": "other"}
    assert told(named).records[0].model == "gpt-4o-2024"


@pytest.mark.parametrize("kind", ["CHAIN", "AGENT", "TOOL", "RETRIEVER", "RERANKER", "GUARDRAIL", "EVALUATOR"])
def test_other_kinds_are_no_requests_and_say_why(told: Told, kind: str) -> None:
    """They ask no model."""
    [ignored] = told({KIND: kind}).ignored
    assert ignored.reason == f"no request of openinference: {KIND} is {kind}, needed: EMBEDDING or LLM"


def test_names_of_gen_ai_beside_its_own_give_it_an_id(told: Told) -> None:
    """It stays the same framework."""
    [record] = told({**LLM, **CHAT, "gen_ai.response.id": "r1"}).records
    assert (record.framework, record.request_id) == ("openinference", "r1")


def test_the_first_token_counts_though_later_events_are_lost(told: Told) -> None:
    """There is one event of that name."""
    [record] = told(LLM, events={FIRST: 200}, dropped_events_count=9).records
    assert record.numbers["ttft"] == 200 * MS


@pytest.mark.parametrize("events", [{}, {FIRST: -5}])
def test_without_a_first_token_after_the_start_there_is_no_ttft(told: Told, events: Mapping[str, int]) -> None:
    """No stream, or a clock that was set."""
    assert "ttft" not in told(LLM, events=events).records[0].numbers


@pytest.mark.parametrize(
    ("exception", "outcome"),
    [
        ("openai.RateLimitError", Outcome.RATE_LIMITED),
        ("openai.BadRequestError", Outcome.CLIENT_ERROR),
        ("asyncio.exceptions.CancelledError", Outcome.CANCELLED),
        ("openai.APITimeoutError", Outcome.ERROR),
        (None, Outcome.ERROR),
    ],
)
def test_the_exception_says_how_it_ended(
    call: SpanOf, export_body: BodyOf, now_ns: int, exception: str | None, outcome: Outcome
) -> None:
    """It is an event: there is no error type."""
    export = READER.read(export_body(failed(call(LLM), exception)), now_ns).export
    assert export.requests.outcome.tolist() == [outcome]


def test_an_exception_that_was_handled_is_no_failure(call: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """The status of the span decides."""
    span = failed(call(LLM), "openai.RateLimitError")
    span.status.code = Status.STATUS_CODE_OK
    assert READER.read(export_body(span), now_ns).export.requests.outcome.tolist() == [Outcome.OK]


def test_layers_of_clients_in_one_service_are_one_request(call: SpanOf, export_body: BodyOf) -> None:
    """The outermost stands, and takes from each what it does not know, the nearest first."""
    outer = call(LLM)
    chain = call({KIND: "CHAIN"}, outer)
    middle = call({**CHAT, "gen_ai.usage.output_tokens": 5}, chain, kind=CLIENT, name="openai.chat")
    middle.events.add(name="gen_ai.content.completion.chunk", time_unix_nano=middle.start_time_unix_nano + 200 * MS)
    inner = {**CHAT, "gen_ai.response.id": "r1", "gen_ai.usage.output_tokens": 6, "gen_ai.usage.input_tokens": 20}
    body = export_body(outer, chain, middle, call(inner, middle, kind=CLIENT, name="chat gpt-4o"))
    told = explain([Document(body, is_json=False)], DECLARED)
    [record] = told.records
    assert (record.framework, record.span_id) == ("openinference", outer.span_id.hex())
    assert record.numbers == {
        "e2e": 1000 * MS,
        "ttft": 200 * MS,
        "inter_token": 200 * MS,
        "prompt_tokens": 20,
        "completion_tokens": 5,
    }
    assert record.provenance["ttft"] is Provenance.PART
    assert len(told.ignored) == 3


def test_layers_of_two_services_are_two_requests(call: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """Each of them calls."""
    outer = call(LLM)
    inner = call(CHAT, outer, kind=CLIENT, name="openai.chat")
    body = export_body(outer) + export_body(inner, resource={"service.name": "proxy"})
    assert READER.read(body, now_ns).export.results["request"] == 2


def test_attempts_beside_one_another_count_each(call: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """A retry is a call of its own."""
    chain = call({KIND: "CHAIN"})
    body = export_body(chain, failed(call(LLM, chain), "openai.RateLimitError"), call(LLM, chain))
    export = READER.read(body, now_ns).export
    assert sorted(export.requests.outcome.tolist()) == sorted([Outcome.OK, Outcome.RATE_LIMITED])
