"""GenAI client spans: which are requests, every name of a key, and how a call ended."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.reader import Reading
from slo_exporter.sli.records import MISSING, Outcome, RequestBatch, View

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = range(1, 6)
CHAT: Mapping[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
USAGE = "gen_ai.usage."

ReadingOf = Callable[..., Reading]


@pytest.fixture
def reading_of(span: Callable[..., Span], export_body: Callable[..., bytes], now_ns: int) -> ReadingOf:
    """Read CLIENT spans, one for each mapping of attributes."""

    def read(*attributes: Mapping[str, Any], **overrides: Any) -> Reading:
        spans = [span(values, **{"kind": CLIENT, "name": "call", **overrides}) for values in attributes]
        return READER.read(export_body(*spans), now_ns)

    return read


def known(requests: RequestBatch, row: int = 0) -> dict[str, int]:
    """The number fields of a request that have a value."""
    numbers = {name: int(column[row]) for name, column in requests.fields.items()}
    return {name: number for name, number in numbers.items() if number != MISSING}


@pytest.mark.parametrize("operation", ["chat", "text_completion", "generate_content", "embeddings"])
@pytest.mark.parametrize("kind", [CLIENT, INTERNAL])
def test_asking_a_model_is_a_request(reading_of: ReadingOf, operation: str, kind: int) -> None:
    """Over the network or in the same process; its view is the client's."""
    requests = reading_of({"gen_ai.operation.name": operation}, kind=kind).export.requests
    assert (requests.view.tolist(), requests.framework.at(0)) == ([View.CLIENT], "gen_ai")
    assert not requests.yields.any()


@pytest.mark.parametrize(
    ("attributes", "overrides"),
    [
        ({"gen_ai.operation.name": "invoke_agent"}, {}),
        ({"gen_ai.operation.name": "create_agent"}, {}),
        ({"gen_ai.operation.name": "execute_tool"}, {"kind": INTERNAL}),
        ({"gen_ai.operation.name": "invoke_agent", "gen_ai.system": "openai"}, {"name": "chat m"}),
        ({"gen_ai.operation.name": "CHAT"}, {}),
        ({"gen_ai.operation.name": 7}, {}),
        ({"gen_ai.request.model": "m", "gen_ai.request.id": "r"}, {"name": "route_request", "kind": INTERNAL}),
        (CHAT, {"kind": SERVER}),
        (CHAT, {"kind": PRODUCER}),
        (CHAT, {"kind": CONSUMER}),
        ({"http.request.method": "POST", "http.response.status_code": 200}, {"name": "POST"}),
        ({}, {"name": "chat m"}),
    ],
    ids=repr,
)
def test_what_asks_no_model_is_unmatched(
    reading_of: ReadingOf, attributes: Mapping[str, Any], overrides: Mapping[str, Any]
) -> None:
    """Agents, tools, routers, other kinds, the HTTP call below, and a name alone."""
    assert reading_of(attributes, **overrides).export.results == {"request": 0, "part": 0, "probe": 0, "unmatched": 1}


@pytest.mark.parametrize(
    ("name", "kind", "requests"),
    [
        ("chat gpt-4", CLIENT, 1),
        ("chat", CLIENT, 1),
        ("text_completion davinci", CLIENT, 1),
        ("chat gpt-4", INTERNAL, 0),
        ("chatter gpt-4", CLIENT, 0),
        ("invoke_agent chat", CLIENT, 0),
        ("GET /chat", CLIENT, 0),
    ],
)
@pytest.mark.parametrize("key", ["gen_ai.system", "gen_ai.request.model"])
def test_before_operations_the_name_begins_with_it(
    reading_of: ReadingOf, key: str, name: str, kind: int, requests: int
) -> None:
    """Until 1.26, CLIENT spans alone, which had to name system and model."""
    assert reading_of({key: "x"}, name=name, kind=kind).export.results["request"] == requests


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        (("input_tokens", "prompt_tokens"), "prompt_tokens"),
        (("output_tokens", "completion_tokens"), "completion_tokens"),
        (
            ("cache_read.input_tokens", "cache_read_input_tokens", "input_tokens.cached", "cached_tokens"),
            "cached_tokens",
        ),
    ],
)
def test_every_name_of_a_key_is_read_and_the_newest_first(
    reading_of: ReadingOf, keys: tuple[str, ...], field: str
) -> None:
    """A span may carry several; one that has no number gives way to the next."""
    every = {USAGE + key: number for number, key in enumerate(keys, start=1)}
    rows = [{**CHAT, USAGE + key: 7} for key in keys] + [{**CHAT, **every}, {**CHAT, **every, USAGE + keys[0]: -1}]
    assert reading_of(*rows).export.requests.fields[field].tolist() == [*[7] * len(keys), 1, 2]


@pytest.mark.parametrize(
    ("written", "tokens"),
    [(44, 44), (44.0, 44), ("44", 44), (44.5, None), ("many", None), (True, None), (-1, None)],
    ids=repr,
)
def test_tokens_are_whole_however_they_are_written(reading_of: ReadingOf, written: object, tokens: int | None) -> None:
    """An int, its text, or a double without a fraction."""
    requests = reading_of({**CHAT, USAGE + "input_tokens": written}).export.requests
    assert known(requests).get("prompt_tokens") == tokens


def test_a_stream_has_a_first_chunk_and_gaps(reading_of: ReadingOf) -> None:
    """Seconds; the rest of the span is divided by the gaps between tokens."""
    stream = {**CHAT, "gen_ai.response.time_to_first_chunk": 0.2, USAGE + "output_tokens": 5}
    fields = known(reading_of(stream).export.requests)
    expected = {"e2e": SECOND_NS, "ttft": 200_000_000, "inter_token": 200_000_000, "completion_tokens": 5}
    assert fields == expected
    assert set(known(reading_of({**CHAT, USAGE + "output_tokens": 5}).export.requests)) == {"e2e", "completion_tokens"}


def test_a_first_token_is_in_nanoseconds(reading_of: ReadingOf) -> None:
    """LoongSuite's key, of an int or its text; behind the key of the conventions, and 0 is missing."""
    key = "gen_ai.response.time_to_first_token"
    both = {**CHAT, key: 350_000_000, "gen_ai.response.time_to_first_chunk": 0.2}
    rows = [{**CHAT, key: 350_000_000}, {**CHAT, key: "350000000"}, both, {**CHAT, key: 0}]
    ttft = reading_of(*rows).export.requests.fields["ttft"].tolist()
    assert ttft == [350_000_000, 350_000_000, 200_000_000, MISSING]


@pytest.mark.parametrize(
    ("provider", "operation", "name"),
    [
        ("aws.bedrock", "text_completion", "text_completion amazon.titan-text"),
        ("gcp.vertex_ai", "generate_content", "generate_content gemini-2.5-pro"),
        ("azure.ai.inference", "embeddings", "embeddings text-embedding-3"),
        ("dashscope", "chat", "chat qwen-max"),
    ],
)
def test_every_provider_is_read_alike(reading_of: ReadingOf, provider: str, operation: str, name: str) -> None:
    """Under the old key of a provider and under the new one."""
    call = {"gen_ai.operation.name": operation, "gen_ai.request.model": "m"}
    requests = reading_of(
        {**call, "gen_ai.system": provider}, {**call, "gen_ai.provider.name": provider}, name=name
    ).export.requests
    assert [requests.framework.at(row) for row in (0, 1)] == ["gen_ai", "gen_ai"]


@pytest.mark.parametrize("operation", ["retrieval", "rerank_documents", "react", "enter", "apply_guardrail", "goto"])
def test_operations_of_vendors_that_ask_no_model_are_unmatched(reading_of: ReadingOf, operation: str) -> None:
    """Retrieval, ranking, the steps of an agent, guardrails, the edges of a graph."""
    reading = reading_of({"gen_ai.operation.name": operation, "gen_ai.request.model": "m"}, name=f"{operation} m")
    assert reading.export.results["unmatched"] == 1


def test_choices_share_the_tokens(reading_of: ReadingOf) -> None:
    """Two answers of three tokens have two gaps each."""
    stream = {**CHAT, "gen_ai.response.time_to_first_chunk": 0.2, USAGE + "output_tokens": 6}
    assert known(reading_of({**stream, "gen_ai.request.choice.count": 2}).export.requests)["inter_token"] == 400_000_000


def test_the_model_that_answered_comes_first(reading_of: ReadingOf) -> None:
    """The one that was asked for stands in where none answered."""
    requests = reading_of(CHAT, {**CHAT, "gen_ai.response.model": "m-2024"}).export.requests
    assert [requests.model.at(row) for row in (0, 1)] == ["m", "m-2024"]


def test_two_layers_that_tell_of_one_response_are_one_request(reading_of: ReadingOf) -> None:
    """The id of the response joins them, and its tokens are not added up."""
    layer = {**CHAT, "gen_ai.response.id": "r1", USAGE + "output_tokens": 5}
    export = reading_of(layer, layer, {**layer, "gen_ai.response.id": "r2"}).export
    assert (export.results["request"], export.results["part"]) == (2, 1)
    assert export.requests.fields["completion_tokens"].tolist() == [5, 5]


@pytest.mark.parametrize(
    ("error_type", "expected"),
    [
        ("RateLimitError", Outcome.RATE_LIMITED),
        ("<class 'openai.RateLimitError'>", Outcome.RATE_LIMITED),
        ("anthropic.RateLimitError", Outcome.RATE_LIMITED),
        ("google.api_core.exceptions.ResourceExhausted", Outcome.RATE_LIMITED),
        ("RESOURCE_EXHAUSTED", Outcome.RATE_LIMITED),
        ("rate_limit_error", Outcome.RATE_LIMITED),
        ("rate-limit-error", Outcome.RATE_LIMITED),
        ("TooManyRequests", Outcome.RATE_LIMITED),
        ("com.openai.errors.RateLimitException", Outcome.RATE_LIMITED),
        ("botocore.errorfactory.ThrottlingException", Outcome.RATE_LIMITED),
        ("ServiceQuotaExceededException", Outcome.RATE_LIMITED),
        ("429", Outcome.RATE_LIMITED),
        (429, Outcome.RATE_LIMITED),
        ("<class 'openai.NotFoundError'>", Outcome.CLIENT_ERROR),
        ("BadRequestError", Outcome.CLIENT_ERROR),
        ("openai.error.InvalidRequestError", Outcome.CLIENT_ERROR),
        ("AuthenticationError", Outcome.CLIENT_ERROR),
        ("PermissionDeniedError", Outcome.CLIENT_ERROR),
        ("UnprocessableEntityError", Outcome.CLIENT_ERROR),
        ("google.genai.errors.ClientError", Outcome.CLIENT_ERROR),
        ("InvalidArgument", Outcome.CLIENT_ERROR),
        ("invalid_request_error", Outcome.CLIENT_ERROR),
        ("com.openai.errors.BadRequestException", Outcome.CLIENT_ERROR),
        ("ValidationException", Outcome.CLIENT_ERROR),
        ("litellm.exceptions.ContextWindowExceededError", Outcome.CLIENT_ERROR),
        ("404", Outcome.CLIENT_ERROR),
        (400, Outcome.CLIENT_ERROR),
        ("asyncio.exceptions.CancelledError", Outcome.CANCELLED),
        ("<class 'asyncio.exceptions.CancelledError'>", Outcome.CANCELLED),
        ("APIUserAbortError", Outcome.CANCELLED),
        ("context.Canceled", Outcome.CANCELLED),
        ("java.util.concurrent.CancellationException", Outcome.CANCELLED),
        ("System.Threading.Tasks.TaskCanceledException", Outcome.CANCELLED),
        ("499", Outcome.CANCELLED),
        ("APITimeoutError", Outcome.ERROR),
        ("<class 'openai.APIConnectionError'>", Outcome.ERROR),
        ("InternalServerError", Outcome.ERROR),
        ("OverloadedError", Outcome.ERROR),
        ("_OTHER", Outcome.ERROR),
        ("pydantic_core.ValidationError", Outcome.ERROR),
        ("Exception", Outcome.ERROR),
        ("timeout", Outcome.ERROR),
        ("503", Outcome.ERROR),
        (529, Outcome.ERROR),
        (7, Outcome.ERROR),
        ("'>", Outcome.ERROR),
        ("NotFound was not the last", Outcome.ERROR),
    ],
    ids=repr,
)
@pytest.mark.parametrize("with_status", [True, False])
def test_the_last_name_of_an_error_says_how_it_ended(
    reading_of: ReadingOf, error_type: object, expected: Outcome, *, with_status: bool
) -> None:
    """Whether or not the span's status says so too."""
    requests = reading_of({**CHAT, "error.type": error_type}, error=with_status).export.requests
    assert requests.outcome.tolist() == [expected]


@pytest.mark.parametrize(
    ("attributes", "error", "expected"),
    [
        ({}, False, Outcome.OK),
        ({}, True, Outcome.ERROR),
        ({"error.type": ""}, False, Outcome.OK),
        ({"http.response.status_code": 429}, True, Outcome.RATE_LIMITED),
        ({"http.status_code": 404}, True, Outcome.CLIENT_ERROR),
        ({"http.response.status_code": 200}, False, Outcome.OK),
        (
            {"error.type": "google.genai.errors.ClientError", "http.response.status_code": 429},
            True,
            Outcome.RATE_LIMITED,
        ),
        ({"error.type": "APIStatusError", "http.response.status_code": 403}, True, Outcome.CLIENT_ERROR),
    ],
    ids=repr,
)
def test_without_a_known_name_code_and_status_decide(
    reading_of: ReadingOf, attributes: Mapping[str, Any], expected: Outcome, *, error: bool
) -> None:
    """A call without a fault is ok: its span has no status to set."""
    assert reading_of({**CHAT, **attributes}, error=error).export.requests.outcome.tolist() == [expected]


@pytest.mark.parametrize(
    ("attributes", "error", "expected"),
    [
        ({"exception.type": "openai.RateLimitError"}, True, Outcome.RATE_LIMITED),
        ({"exception.type": "openai.RateLimitError"}, False, Outcome.OK),
        ({"exception.type": "openai.RateLimitError", "error.type": "timeout"}, True, Outcome.ERROR),
        ({"exception.type": "openai.RateLimitError", "error.type": ""}, True, Outcome.RATE_LIMITED),
    ],
    ids=repr,
)
def test_without_an_error_type_the_exception_of_a_failure_decides(
    reading_of: ReadingOf, attributes: Mapping[str, Any], expected: Outcome, *, error: bool
) -> None:
    """One that was recorded in a call that went well was handled."""
    assert reading_of({**CHAT, **attributes}, error=error).export.requests.outcome.tolist() == [expected]


def test_a_long_error_type_costs_its_length(reading_of: ReadingOf) -> None:
    """Of a megabyte only the end is looked at."""
    requests = reading_of({**CHAT, "error.type": "a" * 1_000_000 + " RateLimitError"}).export.requests
    assert requests.outcome.tolist() == [Outcome.RATE_LIMITED]
