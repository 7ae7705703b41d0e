"""MLflow: values that are JSON text, whatever it holds."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.documents import Document
from slo_exporter.ingest.otlp.explain import explain
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli.records import MISSING, Outcome, View

INTERNAL = 1
MS = 1_000_000
TYPE, MODEL, USAGE = "mlflow.spanType", "mlflow.llm.model", "mlflow.chat.tokenUsage"
CHAT: Mapping[str, Any] = {TYPE: '"CHAT_MODEL"', MODEL: '"gpt-4o"'}
TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
Read = Callable[..., Export]


@pytest.fixture
def call(span: SpanOf) -> SpanOf:
    """Build the INTERNAL span of a function, 1 s long, with events so many ms after its start."""

    def build(attributes: Mapping[str, Any], **more: Any) -> Span:
        events = more.pop("events", {})
        built = span(attributes, **{"kind": INTERNAL, "name": "Completions", **more})
        for name, after_ms in events.items():
            built.events.add(name=name, time_unix_nano=built.start_time_unix_nano + after_ms * MS)
        return built

    return build


@pytest.fixture
def read(call: SpanOf, export_body: BodyOf, now_ns: int) -> Read:
    """Read one call."""

    def reading(attributes: Mapping[str, Any], **more: Any) -> Export:
        return READER.read(export_body(call(attributes, **more)), now_ns).export

    return reading


def tokens(export: Export) -> list[int | None]:
    """The counts of the only request, None where missing."""
    values = [int(export.requests.number(field)[0]) for field in TOKENS]
    return [None if value == MISSING else value for value in values]


def test_a_stream_is_a_request_with_all_its_values(call: SpanOf, export_body: BodyOf) -> None:
    """Out of JSON text, each with where it comes from."""
    usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25, "cache_read_input_tokens": 8}
    body = export_body(call({**CHAT, USAGE: json.dumps(usage)}, events={"mlflow.chunk.item.0": 200}))
    [record] = explain(
        [Document(body, is_json=False)], Declared(selector_keys=frozenset(), models={}, ignore_routes=())
    ).records
    assert (record.framework, record.view, record.model) == ("mlflow", View.CLIENT, "gpt-4o")
    assert record.numbers == {
        "e2e": 1000 * MS,
        "ttft": 200 * MS,
        "inter_token": 200 * MS,
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "cached_tokens": 8,
    }
    assert (record.provenance["ttft"], record.provenance["cached_tokens"]) == (Provenance.EVENT, Provenance.ATTRIBUTE)


@pytest.mark.parametrize("kind", ["LLM", "CHAT_MODEL", "EMBEDDING"])
@pytest.mark.parametrize("form", ['"{}"', "{}"])
def test_what_asks_a_model_is_a_request(read: Read, kind: str, form: str) -> None:
    """In quotes, as it writes, or without."""
    export = read({TYPE: form.format(kind)})
    assert (export.requests.framework.at(0), export.results["request"]) == ("mlflow", 1)


@pytest.mark.parametrize("kind", ["AGENT", "CHAIN", "TOOL", "RETRIEVER", "RERANKER", "GUARDRAIL", "UNKNOWN", "llm"])
def test_what_asks_none_is_unmatched(read: Read, kind: str) -> None:
    """Agents, tools, and whatever stands around a call."""
    assert read({TYPE: f'"{kind}"'}).results["unmatched"] == 1


def test_a_model_around_a_model_is_one_request(call: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """The outer one stands, with the tokens of the inner one."""
    outer = call({TYPE: '"LLM"'})
    inner = call({**CHAT, USAGE: '{"output_tokens": 5}'}, trace_id=outer.trace_id, parent_span_id=outer.span_id)
    export = READER.read(export_body(outer, inner), now_ns).export
    assert (export.results["request"], export.results["part"]) == (1, 1)
    assert (export.requests.model.at(0), tokens(export)) == ("gpt-4o", [None, 5, None])


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ('"gpt-4o"', "gpt-4o"),
        ("gpt-4o", "gpt-4o"),
        ('"a\\"b"', 'a"b'),
        ('"caf\\u00e9"', "café"),
        ('""', None),
        ('"half', '"half'),
        ('"a" and "b"', '"a" and "b"'),
        ('"\\ud800"', '"\\ud800"'),
        ("null", "null"),
        (7, None),
    ],
    ids=repr,
)
def test_a_model_loses_its_quotes(read: Read, written: object, model: str | None) -> None:
    """What is no JSON text of a text is the name itself."""
    assert read({TYPE: '"LLM"', MODEL: written}).requests.model.at(0) == model


@pytest.mark.parametrize(
    ("usage", "prompt"),
    [
        ('{"input_tokens": 0}', 0),
        ('{"input_tokens": "7"}', 7),
        ('{"input_tokens": "7 tokens"}', None),
        ('{"input_tokens": -1}', None),
        ('{"input_tokens": 1.5}', None),
        ('{"input_tokens": true}', None),
        ('{"input_tokens": null}', None),
        ("{}", None),
        ("[]", None),
        ("", None),
        ("7", None),
        ("{", None),
        ('{"input_tokens": ' + "9" * 5000 + "}", None),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_usage_that_says_nothing_is_missing(read: Read, usage: str, prompt: int | None) -> None:
    """And 0 is no nothing."""
    assert tokens(read({**CHAT, USAGE: usage}))[0] == prompt


def test_usage_need_not_be_text(read: Read) -> None:
    """Another type is no usage."""
    assert tokens(read({**CHAT, USAGE: 7})) == [None, None, None]


def test_the_first_chunk_counts_though_later_ones_are_lost(read: Read) -> None:
    """Its number is in its name; a stream that lost it has no first chunk."""
    first = read(CHAT, events={"mlflow.chunk.item.0": 200, "mlflow.chunk.item.1": 300}, dropped_events_count=3)
    lost = read(CHAT, events={"mlflow.chunk.item.73": 900}, dropped_events_count=73)
    assert first.requests.number("ttft").tolist() == [200 * MS]
    assert lost.requests.number("ttft").tolist() == [MISSING]


def test_the_exception_says_how_it_ended(call: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """By the name of its class, without its module."""
    span = call(CHAT, error=True)
    attribute = span.events.add(name="exception", time_unix_nano=span.end_time_unix_nano).attributes.add()
    attribute.key, attribute.value.string_value = "exception.type", "RateLimitError"
    assert READER.read(export_body(span), now_ns).export.requests.outcome.tolist() == [Outcome.RATE_LIMITED]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["input_tokens", "output_tokens"]), inner),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(usage=JSON.map(json.dumps) | st.text(st.characters(exclude_categories=["Cs"])), model=JSON.map(json.dumps))
def test_no_text_is_too_odd(read: Read, usage: str, model: str) -> None:
    """Whatever stands there, the request is read, and a count is a count."""
    export = read({**CHAT, USAGE: usage, MODEL: model})
    assert export.results["request"] == 1
    assert all(count is None or count >= 0 for count in tokens(export))
    (export.requests.model.at(0) or "").encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(prompt=st.integers(0, 10**8), completion=st.integers(0, 10**8))
def test_counts_come_out_as_they_went_in(read: Read, prompt: int, completion: int) -> None:
    """Exactly."""
    usage = json.dumps({"input_tokens": prompt, "output_tokens": completion})
    assert tokens(read({**CHAT, USAGE: usage})) == [prompt, completion, None]
