from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from slo_exporter.demo.spans import Emitter
from slo_exporter.demo.traffic import CHAT, PROBE, Call, Generation

EPOCH_NS = 1_700_000_000_000_000_000

ANSWER = Generation(
    prompt_tokens=200,
    completion_tokens=41,
    preprocess_s=0.002,
    queue_s=0.010,
    prefill_s=0.030,
    decode_s=1.0,
    postprocess_s=0.001,
)


def call(status: int, generation: Generation | None = None, route: str = CHAT) -> Call:
    """A call that takes 1.045 s from the tenth second on."""
    return Call(arrived_s=10.0, ended_s=11.045, route=route, status=status, generation=generation)


def emitted(*calls: Call) -> list[ReadableSpan]:
    """What the SDK hands to its exporter for *calls*."""
    exporter = InMemorySpanExporter()
    emitter = Emitter(SimpleSpanProcessor(exporter))
    for one in calls:
        emitter.emit(one, EPOCH_NS)
    return list(exporter.get_finished_spans())


def attributes(span: ReadableSpan) -> Mapping[str, object]:
    """The attributes of a span that has some."""
    assert span.attributes is not None
    return span.attributes


def context(span: ReadableSpan | SpanContext | None) -> SpanContext:
    """Ids of a span, or of a parent that must be there."""
    found = span.context if isinstance(span, ReadableSpan) else span
    assert found is not None
    return found


def test_an_answer_is_an_engine_span_and_its_http_sibling() -> None:
    """Both are SERVER spans of service chat under one remote caller."""
    engine, http = emitted(call(200, ANSWER))

    assert (engine.name, http.name) == ("llm_request", f"POST {CHAT}")
    assert (engine.kind, http.kind) == (SpanKind.SERVER, SpanKind.SERVER)
    assert engine.resource.attributes["service.name"] == "chat"
    assert engine.instrumentation_scope is not None
    assert engine.instrumentation_scope.name == "vllm.tracing.otel"
    assert context(engine.parent).is_remote
    assert context(engine.parent).span_id == context(http.parent).span_id
    assert context(engine).trace_id == context(http).trace_id


def test_the_engine_writes_its_figures_in_seconds() -> None:
    """Latencies are doubles in seconds, token counts whole numbers."""
    engine, _ = emitted(call(200, ANSWER))
    figures = attributes(engine)

    assert figures["gen_ai.latency.time_to_first_token"] == pytest.approx(0.042)
    assert figures["gen_ai.latency.e2e"] == pytest.approx(1.043)
    assert figures["gen_ai.latency.time_in_queue"] == 0.010
    assert figures["gen_ai.latency.time_in_model_prefill"] == 0.030
    assert figures["gen_ai.latency.time_in_model_decode"] == 1.0
    assert figures["gen_ai.latency.time_in_model_inference"] == pytest.approx(1.030)
    assert figures["gen_ai.usage.prompt_tokens"] == 200
    assert figures["gen_ai.usage.completion_tokens"] == 41


def test_the_engine_says_no_model_and_no_error() -> None:
    """As with vLLM V1, the model is only known to configuration."""
    engine, _ = emitted(call(200, ANSWER))

    assert not any("model" in key and "time_in" not in key for key in attributes(engine))
    assert engine.status.status_code is StatusCode.UNSET


def test_times_count_from_the_epoch() -> None:
    """Start and end are those of the call, to the nanosecond of its seconds."""
    engine, http = emitted(call(200, ANSWER))

    assert engine.start_time == http.start_time == EPOCH_NS + 10_000_000_000
    assert engine.end_time == EPOCH_NS + 11_043_000_000
    assert http.end_time == EPOCH_NS + 11_045_000_000


@pytest.mark.parametrize(
    ("status", "span_status"),
    [(500, StatusCode.ERROR), (429, StatusCode.UNSET), (499, StatusCode.UNSET)],
)
def test_a_failure_shows_in_the_http_span_only(status: int, span_status: StatusCode) -> None:
    """The engine is silent about calls it did not finish."""
    (http,) = emitted(call(status))

    assert http.name == f"POST {CHAT}"
    assert attributes(http)["http.response.status_code"] == status
    assert http.status.status_code is span_status


def test_a_probe_is_a_get_without_an_engine_span() -> None:
    """Probes look like requests to an HTTP instrumentation."""
    (http,) = emitted(call(200, route=PROBE))

    assert http.name == "GET /health"
    assert attributes(http)["http.route"] == "/health"


def test_ids_are_fresh_for_equal_calls() -> None:
    """Repeating a seed must not look like a repeated export."""
    spans = emitted(call(200, ANSWER), call(200, ANSWER))
    engines = [span for span in spans if span.name == "llm_request"]

    assert len({context(span).trace_id for span in spans}) == 2
    assert len({context(span).span_id for span in spans}) == 4
    assert len({attributes(span)["gen_ai.request.id"] for span in engines}) == 2
