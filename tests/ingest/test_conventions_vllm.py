"""vLLM's spans: their fields, their units, and what teaches that there is an engine."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER, engines_of

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.reader import Reader, Reading
from slo_exporter.sli.records import MISSING, Outcome, RequestBatch
from slo_exporter.sli.seen import Seen

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
SCOPE = "vllm.tracing.otel"
LATENCY = "gen_ai.latency."
USAGE = "gen_ai.usage."
WHOLE: Mapping[str, Any] = {
    LATENCY + "e2e": 1.0,
    LATENCY + "time_to_first_token": 0.2,
    LATENCY + "time_in_queue": 0.05,
    LATENCY + "time_in_model_prefill": 0.1,
    LATENCY + "time_in_model_decode": 0.7,
    LATENCY + "time_in_model_inference": 0.85,
    USAGE + "prompt_tokens": 100,
    USAGE + "completion_tokens": 8,
    "gen_ai.request.id": "cmpl-1",
}


@pytest.fixture
def reader() -> Reader:
    """Read with nothing configured."""
    return READER


@pytest.fixture
def requests_of(reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int) -> Callable[..., RequestBatch]:
    """Read the attributes of one `llm_request` span each."""

    def read(*attributes: Mapping[str, Any], **overrides: Any) -> RequestBatch:
        spans = [span(values, name="llm_request", **overrides) for values in attributes]
        return reader.read(export_body(*spans, scope=SCOPE), now_ns).export.requests

    return read


RequestsOf = Callable[..., RequestBatch]


def row(requests: RequestBatch, number: int = 0) -> dict[str, int]:
    """The known number fields of one request."""
    known = {name: int(column[number]) for name, column in requests.fields.items()}
    return {name: value for name, value in known.items() if value != MISSING}


def test_the_attributes_become_a_record(requests_of: RequestsOf) -> None:
    """Seconds become whole nanoseconds; what lies between is derived."""
    requests = requests_of(WHOLE)
    assert row(requests) == {
        "e2e": 1_000_000_000,
        "ttft": 200_000_000,
        "queue": 50_000_000,
        "prefill": 100_000_000,
        "decode": 700_000_000,
        "inference": 850_000_000,
        "preprocess": 50_000_000,
        "postprocess": 100_000_000,
        "inter_token": 100_000_000,
        "prompt_tokens": 100,
        "completion_tokens": 8,
    }
    assert (requests.framework.at(0), requests.service.at(0), requests.model.at(0)) == ("vllm", "chat", None)
    assert not requests.yields.any()


def test_the_published_case_gives_its_records(reader: Reader, otlp_case: Callable[[str], list[bytes]]) -> None:
    """One request, one of two children, and the HTTP span beside the first."""
    [body] = otlp_case("vllm.json")
    reading = reader.read(body, 1_795_953_610 * SECOND_NS)
    requests = reading.export.requests
    ends = requests.end_ns.tolist()
    [http] = [number for number in range(3) if requests.framework.at(number) == "http"]
    assert requests.yields.tolist() == [number == http for number in range(3)]
    assert row(requests, ends.index(1_795_953_602_457_000_000)) == {
        "e2e": 2_451_200_000,
        "ttft": 187_400_000,
        "queue": 21_300_000,
        "prefill": 149_800_000,
        "decode": 2_261_100_000,
        "inference": 2_410_900_000,
        "prompt_tokens": 1520,
        "completion_tokens": 128,
        "inter_token": 17_803_937,
        "preprocess": 16_300_000,
        "postprocess": 2_700_000,
    }
    merged = row(requests, ends.index(1_795_953_604_557_900_000))
    assert (merged["e2e"], merged["ttft"]) == (1_551_900_000, 120_200_000)
    assert (merged["prompt_tokens"], merged["completion_tokens"]) == (300, 147)
    assert reading.export.results == {"request": 3, "part": 4, "probe": 0, "unmatched": 1}
    assert engines_of(reading.export) == {"vllm-llama-70b"}


def test_a_real_capture_holds_676_requests(reader: Reader, otlp_case: Callable[[str], list[bytes]]) -> None:
    """Of 680 spans, six are of two requests; an id used again after 24 s counts again."""
    seen, new, spans = Seen(intervals=True), 0, 0
    for body in otlp_case("vllm_0_32_0_cpu.json"):
        export = reader.read(body, 1_795_994_980 * SECOND_NS).export
        requests = export.requests
        seen.reserve(len(requests), 0)
        assert requests.request_key.all()
        new += int(seen.admit(requests.request_key, requests.start_ns, requests.end_ns).sum())
        seen.keep()
        spans += export.results["request"] + export.results["part"]
        assert engines_of(export) == {"vllm-tiny"}
    assert (spans, new) == (680, 676)


@pytest.mark.parametrize("scope", ["vllm.tracing.otel", "vllm.v1.engine.core", "vllm.model_executor.model_loader"])
def test_start_up_spans_teach_that_there_is_an_engine(
    reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int, scope: str
) -> None:
    """Any span of an engine's scope does; none of them is a request."""
    export = reader.read(export_body(span(kind=1), scope=scope), now_ns).export
    assert engines_of(export) == {"chat"}
    assert export.results == {"request": 0, "part": 0, "probe": 0, "unmatched": 1}
    assert len(export.requests) == 0


@pytest.mark.parametrize("scope", ["vllmish", "vllm.v1x", "vllm"])
def test_other_scopes_teach_nothing(reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int, scope: str) -> None:
    """Beside what is not read the HTTP spans must go on counting."""
    export = reader.read(export_body(span(name="llm_request"), scope=scope), now_ns).export
    assert (engines_of(export), export.results["request"]) == (frozenset(), 0)


@pytest.mark.parametrize("length", [255, 256])
def test_a_service_without_a_sane_name_is_not_learnt(
    reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int, length: int
) -> None:
    """What is learnt is remembered for good; its requests count all the same."""
    body = export_body(span(name="llm_request"), resource={"service.name": "x" * length}, scope=SCOPE)
    export = reader.read(body, now_ns).export
    assert engines_of(export) == ({"x" * length} if length < 256 else frozenset())
    assert export.results["request"] == 1


@pytest.mark.parametrize("ttft", [0.0, -0.5, 0])
def test_a_time_to_first_token_of_zero_or_less_is_missing(requests_of: RequestsOf, ttft: float) -> None:
    """So is what would be derived from it."""
    fields = row(requests_of({**WHOLE, LATENCY + "time_to_first_token": ttft}))
    assert not {"ttft", "preprocess", "postprocess"} & set(fields)


@pytest.mark.parametrize(
    "value",
    [-1.0, -1, float("nan"), float("inf"), 1e9, 1e300, True, "", "fast", "nan", "inf", "1_000", " 1", "-3"],
    ids=repr,
)
def test_what_is_no_duration_is_missing(requests_of: RequestsOf, value: object) -> None:
    """Negative, endless, absurd, and what is no number; 0 stays 0."""
    zero = {LATENCY + "time_in_queue": 0.0, "gen_ai.request.id": "other"}
    requests = requests_of({**WHOLE, LATENCY + "time_in_queue": value}, {**WHOLE, **zero})
    assert "queue" not in row(requests)
    assert row(requests, 1)["queue"] == 0


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [(2, 2_000_000_000), ("0.05", 50_000_000), ("5e-2", 50_000_000), ("2", 2_000_000_000), (1.5e-9, 2), (2.5e-9, 2)],
    ids=repr,
)
def test_a_duration_may_be_whole_or_text(requests_of: RequestsOf, value: object, nanoseconds: int) -> None:
    """A whole double may come as an int, a number as text; halves round to even."""
    assert row(requests_of({**WHOLE, LATENCY + "time_in_queue": value}))["queue"] == nanoseconds


@pytest.mark.parametrize("value", [1.5, -1, 100_000_001, float("nan"), True, "many"], ids=repr)
def test_what_is_no_token_count_is_missing(requests_of: RequestsOf, value: object) -> None:
    """Tokens are whole, and at most a hundred million."""
    assert "prompt_tokens" not in row(requests_of({**WHOLE, USAGE + "prompt_tokens": value}))


@pytest.mark.parametrize("value", [12, 12.0, "12", "12.0"], ids=repr)
def test_a_token_count_may_be_a_double_or_text(requests_of: RequestsOf, value: object) -> None:
    """As long as it is whole."""
    assert row(requests_of({**WHOLE, USAGE + "prompt_tokens": value}))["prompt_tokens"] == 12


def test_e2e_falls_back_to_the_duration_of_the_span(requests_of: RequestsOf) -> None:
    """The span is as long as the request, or a little longer."""
    assert row(requests_of({USAGE + "prompt_tokens": 1})) == {"e2e": SECOND_NS, "prompt_tokens": 1}


def test_inference_falls_back_to_prefill_and_decode(requests_of: RequestsOf) -> None:
    """The engine's own figure comes first."""
    without = {key: value for key, value in WHOLE.items() if not key.endswith("inference")}
    assert row(requests_of(without))["inference"] == 800_000_000


def test_inter_token_falls_back_to_the_time_after_the_first(requests_of: RequestsOf) -> None:
    """(e2e − ttft) / (completion_tokens − 1) where decode is missing, half to even."""
    without = {key: value for key, value in WHOLE.items() if not key.endswith("decode")}
    assert row(requests_of(without))["inter_token"] == 114_285_714


@pytest.mark.parametrize("tokens", [0, 1])
def test_fewer_than_two_tokens_have_no_gap(requests_of: RequestsOf, tokens: int) -> None:
    """There is nothing between them."""
    assert "inter_token" not in row(requests_of({**WHOLE, USAGE + "completion_tokens": tokens}))


def test_negative_differences_are_missing(requests_of: RequestsOf) -> None:
    """Two clocks disagree: the stage between is unknown, not 0."""
    fields = row(requests_of({**WHOLE, LATENCY + "time_in_queue": 0.15, LATENCY + "time_in_model_decode": 0.9}))
    assert not {"preprocess", "postprocess"} & set(fields)
    assert fields["queue"] == 150_000_000


def test_a_long_text_costs_its_length(requests_of: RequestsOf) -> None:
    """A megabyte of digits that is no number after all is read once, not once a digit."""
    assert "queue" not in row(requests_of({**WHOLE, LATENCY + "time_in_queue": "1" * 1_000_000 + "x"}))


def test_status_error_is_an_error(requests_of: RequestsOf) -> None:
    """Otherwise a finished request is ok."""
    assert requests_of(WHOLE, error=True).outcome.tolist() == [Outcome.ERROR]
    assert requests_of(WHOLE).outcome.tolist() == [Outcome.OK]


def test_requests_without_an_id_stay_apart(requests_of: RequestsOf) -> None:
    """No id is no key, and neither is the empty one; a number is its digits."""
    requests = requests_of({}, *({"gen_ai.request.id": other} for other in ("", 7)))
    none, empty, number = requests.request_key.tolist()
    assert none == empty == 0 != number
    [digits] = requests_of({"gen_ai.request.id": "7"}).request_key.tolist()
    assert number == digits


def test_a_span_that_comes_twice_counts_once(reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """The repeat is a part of the request that stands."""
    twice = span({}, name="llm_request")
    reading: Reading = reader.read(export_body(twice, twice, scope=SCOPE), now_ns)
    assert reading.export.results == {"request": 1, "part": 1, "probe": 0, "unmatched": 0}


def test_no_message_content_is_asked_for(reader: Reader) -> None:
    """Prompts and completions are skipped unread."""
    content = {"gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages", "gen_ai.output.messages"}
    assert not content & (reader.keys.span | reader.keys.resource)
