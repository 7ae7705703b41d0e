"""
A call as OpenTelemetry spans, written and sent by the real SDK.

They look like what vLLM V1 behind an instrumented FastAPI sends:

1. Every call is an HTTP SERVER span. An answered chat call has also an
   `llm_request` SERVER span: its sibling, both are children of the caller.
2. The engine's figures are attributes, in seconds. It says no model, and
   nothing at all about a call that failed.
3. Ids are fresh in every run, whatever the seed: a receiver counts a span once.

Source: vllm/v1/engine/output_processor.py and vllm/tracing (vLLM 0.32);
OpenTelemetry semantic conventions for HTTP spans 1.44.
"""

import os
import threading
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.util.types import AttributeValue

from slo_exporter.demo.traffic import CHAT, FAILED, Call, Generation

SERVICE: Final = "chat"
ENGINE_SCOPE: Final = "vllm.tracing.otel"
HTTP_SCOPE: Final = "opentelemetry.instrumentation.fastapi"

FLUSH_S: Final = 0.7
"""What `Sender.close` grants the last export."""


class Emitter:
    """Writes calls as spans of service ``chat``."""

    def __init__(self, processor: SpanProcessor) -> None:
        resource = Resource.create(
            {
                "service.name": SERVICE,
                "vllm.instrumenting_module_name": "vllm.llm_engine",
                "vllm.process_id": str(os.getpid()),
            }
        )
        provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(processor)
        self._engine = provider.get_tracer(ENGINE_SCOPE)
        self._http = provider.get_tracer(HTTP_SCOPE)
        self._ids = RandomIdGenerator()

    def emit(self, call: Call, epoch_ns: int) -> None:
        """Write the spans of *call*, whose seconds count from *epoch_ns*."""
        caller = self._caller()
        arrived_ns = epoch_ns + _ns(call.arrived_s)
        if call.generation is not None:
            self._write_engine(call.generation, caller, arrived_ns)
        self._write_http(call, caller, arrived_ns, epoch_ns + _ns(call.ended_s))

    def _caller(self) -> trace.SpanContext:
        """The remote parent: whoever called sent a traceparent header."""
        return trace.SpanContext(
            trace_id=self._ids.generate_trace_id(),
            span_id=self._ids.generate_span_id(),
            is_remote=True,
            trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
        )

    def _write_engine(self, generation: Generation, caller: trace.SpanContext, arrived_ns: int) -> None:
        span = self._engine.start_span(
            "llm_request",
            context=_under(caller),
            kind=trace.SpanKind.SERVER,
            attributes=_figures(generation) | {"gen_ai.request.id": f"chatcmpl-{caller.trace_id:032x}"},
            start_time=arrived_ns,
        )
        span.end(arrived_ns + _ns(generation.e2e_s))

    def _write_http(self, call: Call, caller: trace.SpanContext, arrived_ns: int, ended_ns: int) -> None:
        method = "POST" if call.route == CHAT else "GET"
        span = self._http.start_span(
            f"{method} {call.route}",
            context=_under(caller),
            kind=trace.SpanKind.SERVER,
            attributes={
                "http.request.method": method,
                "http.route": call.route,
                "url.path": call.route,
                "url.scheme": "http",
                "http.response.status_code": call.status,
            },
            start_time=arrived_ns,
        )
        if call.status >= FAILED:
            span.set_attribute("error.type", str(call.status))
            span.set_status(trace.StatusCode.ERROR)
        span.end(ended_ns)


def _under(parent: trace.SpanContext) -> Context:
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _figures(generation: Generation) -> dict[str, AttributeValue]:
    return {
        "gen_ai.latency.time_to_first_token": generation.ttft_s,
        "gen_ai.latency.e2e": generation.e2e_s,
        "gen_ai.latency.time_in_queue": generation.queue_s,
        "gen_ai.latency.time_in_model_prefill": generation.prefill_s,
        "gen_ai.latency.time_in_model_decode": generation.decode_s,
        "gen_ai.latency.time_in_model_inference": generation.prefill_s + generation.decode_s,
        "gen_ai.usage.prompt_tokens": generation.prompt_tokens,
        "gen_ai.usage.completion_tokens": generation.completion_tokens,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.max_tokens": 1024,
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.n": 1,
    }


class Sender:
    """Sends finished spans to an OTLP/gRPC endpoint once a second."""

    def __init__(self, endpoint: str) -> None:
        # A proxy from the environment would swallow what goes to loopback.
        options = (("grpc.enable_http_proxy", 0),)
        self._exporter: SpanExporter = OTLPSpanExporter(
            endpoint=endpoint,
            insecure=True,
            channel_options=options,  # type: ignore[arg-type]  # declared as texts, but gRPC wants a number here
        )
        self.processor = BatchSpanProcessor(self._exporter, schedule_delay_millis=1000)

    def close(self) -> None:
        """Send what is left, for at most `FLUSH_S`."""
        # The processor would wait half a minute for an endpoint that is away.
        hurry = threading.Timer(FLUSH_S, self._exporter.shutdown)
        hurry.daemon = True
        hurry.start()
        self.processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK left it without types
        hurry.cancel()
