"""OpenLLMetry: every name of a call, what its events tell, and what they no longer tell."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.documents import Document, documents_of
from slo_exporter.ingest.otlp.explain import explain
from slo_exporter.ingest.otlp.explanation import Explanation, Record
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli.records import MISSING, Outcome, View

INTERNAL, SERVER, CLIENT = range(1, 4)
MS = 1_000_000
SCOPE = "opentelemetry.instrumentation.openai.v1"
CHUNK, OLD_CHUNK = "gen_ai.content.completion.chunk", "llm.content.completion.chunk"
CHAT: Mapping[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
OLD_CHAT: Mapping[str, Any] = {"llm.request.type": "chat", "gen_ai.request.model": "gpt-3.5-turbo"}
CASES = Path(__file__).parent / "cases"
DECLARED = Declared(selector_keys=frozenset(), models={}, ignore_routes=())

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
Read = Callable[..., Export]


@pytest.fixture
def call(span: SpanOf) -> SpanOf:
    """Build the span of a call, 1 s long, with chunks so many ms after its start."""

    def build(attributes: Mapping[str, Any], *, chunks: Sequence[int] = (), event: str = CHUNK, **more: Any) -> Span:
        built = span(attributes, **{"kind": CLIENT, "name": "openai.chat", **more})
        for after_ms in chunks:
            built.events.add(name=event, time_unix_nano=built.start_time_unix_nano + after_ms * MS)
        return built

    return build


@pytest.fixture
def read(call: SpanOf, export_body: BodyOf, now_ns: int) -> Read:
    """Read one call."""

    def reading(attributes: Mapping[str, Any], *, scope: str = SCOPE, **more: Any) -> Export:
        return READER.read(export_body(call(attributes, **more), scope=scope), now_ns).export

    return reading


@pytest.fixture(params=["protobuf", "json"])
def told(request: pytest.FixtureRequest, otlp_case: Callable[[str], list[bytes]]) -> Explanation:
    """Explain the case file, in either encoding."""
    if request.param == "json":
        return explain(documents_of((CASES / "openllmetry.json").read_bytes()), DECLARED)
    return explain([Document(body, is_json=False) for body in otlp_case("openllmetry.json")], DECLARED)


def of_trace(told: Explanation, beginning: str) -> Record:
    """The record of the trace whose id begins so."""
    [record] = [record for record in told.records if record.trace_id.startswith(beginning)]
    return record


def known(export: Export, field: str) -> int | None:
    """The value of a field of the only request."""
    [value] = export.requests.number(field).tolist()
    return None if value == MISSING else value


def test_every_call_of_the_case_is_a_request_of_a_client(told: Explanation) -> None:
    """Four spans, four records."""
    assert told.ignored == []
    assert [(record.framework, record.view) for record in told.records] == [("openllmetry", View.CLIENT)] * 4


def test_a_stream_tells_its_first_chunk(told: Explanation) -> None:
    """And what is derived from it says so."""
    record = of_trace(told, "35c7")
    assert (record.model, record.request_id, record.outcome) == ("gpt-4o-2024-08-06", "chatcmpl-a", Outcome.OK)
    assert record.numbers == {
        "e2e": 395 * MS,
        "ttft": 310 * MS,
        "inter_token": 85 * MS // 4,
        "prompt_tokens": 20,
        "completion_tokens": 5,
    }
    assert record.provenance == {
        "e2e": Provenance.SPAN,
        "ttft": Provenance.EVENT,
        "inter_token": Provenance.DERIVED,
        "prompt_tokens": Provenance.ATTRIBUTE,
        "completion_tokens": Provenance.ATTRIBUTE,
        "model": Provenance.ATTRIBUTE,
    }


def test_a_stream_that_lost_its_first_chunk_has_no_ttft(told: Explanation) -> None:
    """The first one left, a second after the start, is not the first one sent."""
    record = of_trace(told, "23af")
    assert record.numbers == {"e2e": 2300 * MS, "prompt_tokens": 20, "completion_tokens": 200}


def test_the_old_names_tell_the_same(told: Explanation) -> None:
    """`llm.request.type`, its events and its tokens."""
    record = of_trace(told, "9106")
    assert (record.model, record.numbers["ttft"]) == ("gpt-3.5-turbo-0125", 150 * MS)
    assert (record.numbers["prompt_tokens"], record.numbers["completion_tokens"]) == (15, 3)


def test_a_refused_call_is_the_clients_error(told: Explanation) -> None:
    """By the name of its class."""
    record = of_trace(told, "5f20")
    assert (record.model, record.outcome) == ("gpt-4o", Outcome.CLIENT_ERROR)


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("openai.chat", "chat"),
        ("openai.completion", "text_completion"),
        ("openai.embeddings", "embeddings"),
        ("openai.response", "chat"),
        ("openai.realtime", "chat"),
        ("anthropic.chat", "chat"),
        ("bedrock.converse", "chat"),
        ("gemini.generate_content", "generate_content"),
        ("ChatOpenAI.chat", "chat"),
    ],
)
def test_a_library_and_what_it_is_asked_for_name_a_call(read: Read, name: str, operation: str) -> None:
    """The scope is of the library, and so it is not asked."""
    export = read({"gen_ai.operation.name": operation}, name=name, scope="x")
    assert (export.requests.framework.at(0), export.results["request"]) == ("openllmetry", 1)


@pytest.mark.parametrize("name", ["chat gpt-4o", "generate_content gemini"])
def test_a_name_of_the_conventions_is_gen_ai(read: Read, name: str) -> None:
    """OpenTelemetry's own instrumentations have scopes that begin alike."""
    assert read(CHAT, name=name).requests.framework.at(0) == "gen_ai"


@pytest.mark.parametrize("kind", [CLIENT, INTERNAL])
@pytest.mark.parametrize("asked", ["chat", "completion", "embedding"])
def test_before_operations_the_type_says_what_was_asked(read: Read, asked: str, kind: int) -> None:
    """Whatever the name of the span."""
    export = read({"llm.request.type": asked}, kind=kind, name="vertexai.predict")
    assert (export.requests.framework.at(0), export.results["request"]) == ("openllmetry", 1)


@pytest.mark.parametrize("name", ["openai.response", "sagemaker.completion"])
def test_some_calls_are_known_by_their_name_alone(read: Read, name: str) -> None:
    """They had neither an operation nor a type."""
    assert read({"gen_ai.request.model": "m"}, name=name).requests.framework.at(0) == "openllmetry"
    assert read({}, name=name).results["unmatched"] == 1


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"traceloop.span.kind": "workflow"}, "joke.workflow"),
        ({"traceloop.span.kind": "task", "traceloop.entity.name": "draft"}, "draft.task"),
        ({"traceloop.span.kind": "agent"}, "planner.agent"),
        ({"traceloop.span.kind": "tool"}, "search.tool"),
        ({"gen_ai.operation.name": "invoke_agent"}, "openai.chat"),
        ({"llm.request.type": "rerank"}, "cohere.rerank"),
        ({"llm.request.type": "unknown"}, "cohere.chat"),
    ],
    ids=repr,
)
def test_what_asks_for_no_text_is_unmatched(read: Read, attributes: Mapping[str, Any], name: str) -> None:
    """Workflows and their like, agents, and ranking."""
    assert read(attributes, name=name, kind=INTERNAL).results == {"request": 0, "part": 0, "probe": 0, "unmatched": 1}


def test_a_session_is_a_part_and_what_is_asked_in_it_counts(call: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """Two responses of a realtime session are two requests."""
    session = call(CHAT, name="openai.session")
    below = {"trace_id": session.trace_id, "parent_span_id": session.span_id, "name": "openai.realtime"}
    export = READER.read(export_body(session, call(CHAT, **below), call(CHAT, **below)), now_ns).export
    assert export.results == {"request": 2, "part": 1, "probe": 0, "unmatched": 0}


@pytest.mark.parametrize("event", [CHUNK, OLD_CHUNK])
def test_the_earliest_chunk_ends_ttft(read: Read, event: str) -> None:
    """In whatever order they stand."""
    assert known(read(CHAT, chunks=(300, 200, 400), event=event), "ttft") == 200 * MS


def test_an_attribute_comes_before_an_event(read: Read) -> None:
    """What the client measured itself is nearer to it."""
    assert known(read({**CHAT, "gen_ai.response.time_to_first_chunk": 0.1}, chunks=(200,)), "ttft") == 100 * MS


def test_a_chunk_before_the_start_is_no_first_chunk(read: Read) -> None:
    """The clock was set between the two."""
    export = read({**CHAT, "gen_ai.usage.output_tokens": 5}, chunks=(-5,))
    assert (known(export, "ttft"), known(export, "inter_token"), known(export, "e2e")) == (None, None, SECOND_NS)


def test_without_chunks_there_is_no_ttft(read: Read) -> None:
    """The call did not stream."""
    assert known(read({**CHAT, "gen_ai.usage.output_tokens": 5}), "ttft") is None


@pytest.mark.parametrize(("tokens", "between"), [(0, None), (1, None), (2, 800 * MS), (5, 200 * MS)])
def test_few_tokens_have_no_gap(read: Read, tokens: int, between: int | None) -> None:
    """None, or one; 0 tokens are known, not missing."""
    export = read({**CHAT, "gen_ai.usage.output_tokens": tokens}, chunks=(200,))
    assert (known(export, "inter_token"), known(export, "completion_tokens")) == (between, tokens)


@pytest.mark.parametrize("prefix", ["gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"])
def test_cached_tokens_stand_beside_the_others(read: Read, prefix: str) -> None:
    """They are not added to the prompt."""
    export = read({**CHAT, "gen_ai.usage.input_tokens": 20, prefix: 8})
    assert (known(export, "prompt_tokens"), known(export, "cached_tokens")) == (20, 8)


@pytest.mark.parametrize(
    ("error_type", "outcome"),
    [
        ("RateLimitError", Outcome.RATE_LIMITED),
        ("rate_limit_exceeded", Outcome.RATE_LIMITED),
        ("NotFoundError", Outcome.CLIENT_ERROR),
        ("APITimeoutError", Outcome.ERROR),
    ],
)
def test_errors_are_classified_as_everywhere(read: Read, error_type: str, outcome: Outcome) -> None:
    """By class or by code."""
    assert read({**CHAT, "error.type": error_type}, error=True).requests.outcome.tolist() == [outcome]


def test_an_abandoned_stream_is_ok(read: Read) -> None:
    """Its span says so, and nothing else tells."""
    assert read(CHAT, chunks=(200,)).requests.outcome.tolist() == [Outcome.OK]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(chunks=st.lists(st.integers(0, 999), min_size=1, max_size=20), lost=st.integers(0, 3), old=st.booleans())
def test_ttft_is_the_first_chunk_or_nothing(read: Read, chunks: Sequence[int], lost: int, *, old: bool) -> None:
    """Nothing as soon as any event is lost."""
    attributes, event = (OLD_CHAT, OLD_CHUNK) if old else (CHAT, CHUNK)
    export = read(attributes, chunks=chunks, event=event, dropped_events_count=lost)
    assert known(export, "ttft") == (None if lost else min(chunks) * MS)
