"""
What it costs to understand every framework, in one process and one run.

    python benchmarks/conventions.py [--rounds 30]

Each line is CPU time of reading one export (decoding and recognising), the
median of alternating rounds. *One convention*: a vLLM stream read by a program
that knows nothing but vLLM and HTTP. *All*: the same stream, read by this one.
*With HTTP*: each vLLM request with the SERVER span of FastAPI and its ASGI spans
beside it, for which every convention is asked. *SGLang level 3*: requests with
200 spans of decoding steps each, as its default trace level writes them, in
spans a second beside the vLLM stream.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from ingest import vllm_export
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from slo_exporter.ingest.otlp.conventions import registry
from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.http_server import HTTP_SERVER
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.ingest.otlp.conventions.vllm import VLLM
from slo_exporter.ingest.otlp.decode import decode
from slo_exporter.ingest.otlp.reader import Reader

LATENESS_NS = 600 * 10**9
STEPS = 200
REQUESTS = 4


def sglang_export(number: int) -> bytes:
    """A few requests with a span for every decoding step."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "sglang"
    scope = resource.scope_spans.add()
    scope.scope.name = "sglang server"
    for index in range(REQUESTS):
        _sglang_request(scope, number * REQUESTS + index + 1)
    return request.SerializeToString()


def _sglang_request(scope: ScopeSpans, identity: int) -> None:
    end, trace_id = time.time_ns() - 10**9, identity.to_bytes(16)

    def add(place: int, parent: int, name: str, start_ms: float, end_ms: float) -> Span:
        return scope.spans.add(
            trace_id=trace_id,
            span_id=(identity * 1000 + place).to_bytes(8),
            parent_span_id=(identity * 1000 + parent).to_bytes(8) if parent else b"",
            name=name,
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=end - int((4000 - start_ms) * 1e6),
            end_time_unix_nano=end - int((4000 - end_ms) * 1e6),
        )

    root = add(1, 0, f" Req {identity:08x}", 0, 4000)
    for key, seconds in (("time_to_first_token", 0.06), ("e2e", 4.0), ("time_in_model_decode", 3.94)):
        root.attributes.add(key=f"gen_ai.latency.{key}").value.double_value = seconds
    for key, count in (("prompt", 256), ("completion", STEPS), ("cached", 64)):
        root.attributes.add(key=f"gen_ai.usage.{key}_tokens").value.int_value = count
    root.attributes.add(key="gen_ai.request.id").value.string_value = f"{identity:032x}"
    root.attributes.add(key="gen_ai.response.model").value.string_value = "qwen"
    thread = add(2, 1, "Scheduler [TP 0] (host:b1946ac9 | pid:120)", 1, 3999)
    thread.attributes.add(key="tp_rank").value.int_value = 0
    for place, (name, start, stop) in enumerate(
        (("prefill_waiting", 2, 20), ("prefill_forward", 20, 60), ("decode_forward", 60, 3999)), start=3
    ):
        add(place, 2, name, start, stop)
    for step in range(STEPS):
        loop = add(10 + step, 5, "decode_loop", 60 + step * 19, 60 + step * 19 + 19)
        loop.attributes.add(key="decode_ct").value.int_value = step


def mixed_export(number: int) -> bytes:
    """A vLLM export with the HTTP server's spans of the same requests."""
    request = ExportTraceServiceRequest.FromString(vllm_export(number))
    scope = request.resource_spans[0].scope_spans.add()
    scope.scope.name = "opentelemetry.instrumentation.fastapi"
    for engine in request.resource_spans[0].scope_spans[0].spans:
        identity = int.from_bytes(engine.span_id)
        for place, name in enumerate(("", " http receive", " http send", " http send")):
            span = scope.spans.add(
                trace_id=engine.trace_id,
                span_id=(2**40 + identity * 8 + place).to_bytes(8),
                parent_span_id=(2**40 + identity * 8).to_bytes(8) if place else b"",
                name=f"POST /v1/chat/completions{name}",
                kind=Span.SPAN_KIND_INTERNAL if place else Span.SPAN_KIND_SERVER,
                start_time_unix_nano=engine.start_time_unix_nano,
                end_time_unix_nano=engine.end_time_unix_nano,
            )
            texts = (
                {"asgi.event.type": name[6:]} if place else {"http.request.method": "POST", "http.route": "/v1/chat"}
            )
            for key, text in texts.items():
                span.attributes.add(key=key).value.string_value = text
            if not place:
                span.attributes.add(key="http.response.status_code").value.int_value = 200
    return request.SerializeToString()


@dataclass(frozen=True)
class Stream:
    """Exports that a program reads."""

    name: str
    conventions: tuple[Convention, ...]
    export_of: Callable[[int], bytes]
    spans: int
    beside: int
    """Number of the stream that it is compared with."""


def reader_of(conventions: tuple[Convention, ...]) -> Reader:
    """A reader that knows some conventions alone."""
    every, registry.CONVENTIONS = registry.CONVENTIONS, conventions
    try:
        return Reader(Declared(), lateness_ns=LATENESS_NS)
    finally:
        registry.CONVENTIONS = every


def recognising(reader: Reader, body: bytes) -> float:
    """The share of reading that is not decoding."""
    now_ns, reading, decoding = time.time_ns(), [], []
    for _ in range(40):
        started = time.process_time()
        decode(body, reader.keys, now_ns=now_ns, lateness_ns=LATENESS_NS)
        decoded = time.process_time()
        reader.read(body, now_ns)
        decoding.append(decoded - started)
        reading.append(time.process_time() - decoded)
    return 1 - median(decoding) / median(reading)


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=30)
    rounds = arguments.parse_args().rounds
    streams = (
        Stream("vLLM, one convention", (VLLM, HTTP_SERVER), vllm_export, 512, 0),
        Stream("vLLM, all conventions", CONVENTIONS, vllm_export, 512, 0),
        Stream("with HTTP, one", (VLLM, HTTP_SERVER), mixed_export, 5 * 512, 2),
        Stream("with HTTP, all", CONVENTIONS, mixed_export, 5 * 512, 2),
        Stream("SGLang level 3, all", CONVENTIONS, sglang_export, REQUESTS * (STEPS + 5), 0),
    )
    readers = [reader_of(stream.conventions) for stream in streams]
    spent: list[list[float]] = [[] for _ in streams]
    for number in range(rounds + 3):
        for stream, reader, times in zip(streams, readers, spent, strict=True):
            body = stream.export_of(number)
            before = time.process_time()
            reader.read(body, time.time_ns())
            times.append(time.process_time() - before)
    rates = [stream.spans / median(times[3:]) for stream, times in zip(streams, spent, strict=True)]
    print(f"recognising takes {recognising(readers[1], vllm_export(0)):.0%} of reading a vLLM span")
    for stream, rate in zip(streams, rates, strict=True):
        print(f"{stream.name:24} {rate:10,.0f} spans per CPU-second  {rate / rates[stream.beside]:5.2f}")


if __name__ == "__main__":
    main()
