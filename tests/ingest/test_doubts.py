"""What is doubtful is counted by service and reason, and never repaired."""

from collections.abc import Callable, Mapping

import pytest
from builders import NOON_NS
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER

from slo_exporter.clock import SECOND_NS

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
VLLM = "vllm.tracing.otel"
LATENCY, USAGE = "gen_ai.latency.", "gen_ai.usage."
WHOLE = {LATENCY + "e2e": 1.0, USAGE + "prompt_tokens": 9, USAGE + "completion_tokens": 3, "model": "llama"}


def doubts(body: bytes) -> Mapping[tuple[str, str], int]:
    """What the export of *body* makes doubtful."""
    return READER.read(body, NOON_NS).export.doubts


def request(span: SpanOf, attributes: Mapping[str, object] = WHOLE, **more: object) -> Span:
    """Build a request of vLLM."""
    return span(attributes, name="llm_request", **more)


def test_a_whole_request_is_not_doubtful(span: SpanOf, export_body: BodyOf) -> None:
    """Nothing is said of what is as it should be."""
    assert doubts(export_body(request(span), scope=VLLM)) == {}


@pytest.mark.parametrize(
    ("ended_s_ago", "reason"),
    [(601, "late"), (-61, "in_future"), (-2, "skewed")],
)
def test_ends_at_odd_times(span: SpanOf, export_body: BodyOf, ended_s_ago: int, reason: str) -> None:
    """Refused, or counted with a doubt."""
    end = NOON_NS - ended_s_ago * SECOND_NS
    odd = request(span, start_time_unix_nano=end - SECOND_NS, end_time_unix_nano=end)
    assert doubts(export_body(odd, scope=VLLM)) == {("chat", reason): 1}


def test_spans_that_cannot_be_right(span: SpanOf, export_body: BodyOf) -> None:
    """Ids, and an end before the start."""
    bad = request(span, trace_id=b"short")
    backwards = request(span, start_time_unix_nano=NOON_NS, end_time_unix_nano=NOON_NS - SECOND_NS)
    found = doubts(export_body(bad, backwards, scope=VLLM))
    assert found == {("chat", "invalid"): 1, ("chat", "negative_duration"): 1}


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        (("model",), "model_missing"),
        ((USAGE + "prompt_tokens", USAGE + "completion_tokens"), "tokens_missing"),
    ],
)
def test_a_request_that_says_less(span: SpanOf, export_body: BodyOf, missing: tuple[str, ...], reason: str) -> None:
    """Of those that went well: who failed has no tokens."""
    less = {key: value for key, value in WHOLE.items() if key not in missing}
    assert doubts(export_body(request(span, less), request(span, less), scope=VLLM)) == {("chat", reason): 2}
    assert doubts(export_body(request(span, less, error=True), scope=VLLM)) == {}


@pytest.mark.parametrize(
    ("stages", "is_odd"),
    [
        ({"time_in_queue": 0.5, "time_in_model_prefill": 0.6, "time_to_first_token": 1.0}, True),
        ({"time_in_queue": 0.4, "time_in_model_prefill": 0.6, "time_to_first_token": 1.0}, False),
        ({"time_to_first_token": 0.5, "time_in_model_decode": 0.509}, False),
        ({"time_to_first_token": 0.5, "time_in_model_decode": 0.52}, True),
        ({"time_in_queue": 2.0}, True),
        ({"time_in_model_prefill": 0.3, "time_in_model_decode": 0.3, "time_in_model_inference": 0.5}, True),
        ({"time_in_model_prefill": 0.2, "time_in_model_decode": 0.3, "time_in_model_inference": 0.5}, False),
    ],
)
def test_stages_longer_than_their_whole(
    span: SpanOf, export_body: BodyOf, stages: Mapping[str, float], *, is_odd: bool
) -> None:
    """By more than a millisecond and a hundredth."""
    told = {**WHOLE, **{LATENCY + name: seconds for name, seconds in stages.items()}}
    assert doubts(export_body(request(span, told), scope=VLLM)) == ({("chat", "stages_exceed"): 1} if is_odd else {})


def test_spans_that_nobody_knows_and_requests_without_an_end(span: SpanOf, export_body: BodyOf) -> None:
    """Each of its own service."""
    http = span({"http.request.method": "POST"})
    other = export_body(span(), resource={"service.name": "other"})
    assert doubts(export_body(http) + other) == {("chat", "incomplete"): 1, ("other", "unmatched"): 1}


def test_a_part_outside_of_its_request(span: SpanOf, export_body: BodyOf) -> None:
    """By over a second: their clocks differ."""
    step = span(name="train.step")
    below = {"trace_id": step.trace_id, "parent_span_id": step.span_id, "name": "train.data_load"}
    start = step.start_time_unix_nano
    early = span(**below, start_time_unix_nano=start - 3 * SECOND_NS, end_time_unix_nano=start - 2 * SECOND_NS)
    assert doubts(export_body(step, span(**below))) == {}
    assert doubts(export_body(step, early)) == {("chat", "skewed"): 1}
