"""
Exports as frameworks send them, and copies of one that tell of other requests.

Ids hold the number of their export, so a copy is the same bytes with another number
in the same places: `Template` makes one in some 0.05 ms, where building costs 10.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

SPANS = 512
STEPS = 200
"""Decoding steps of an SGLang request: its default trace level writes a span for each."""
REQUESTS = 4
"""Of an SGLang export."""
SGLANG_SPANS = REQUESTS * (STEPS + 5)
NUMBERS = {
    "gen_ai.latency.time_to_first_token": 0.1874,
    "gen_ai.latency.e2e": 2.4512,
    "gen_ai.latency.time_in_queue": 0.0213,
    "gen_ai.latency.time_in_model_prefill": 0.1498,
    "gen_ai.latency.time_in_model_decode": 2.2611,
    "gen_ai.latency.time_in_model_inference": 2.4109,
    "gen_ai.request.top_p": 0.95,
    "gen_ai.request.temperature": 0.7,
}
COUNTS = {
    "gen_ai.usage.prompt_tokens": 1520,
    "gen_ai.usage.completion_tokens": 128,
    "gen_ai.request.max_tokens": 512,
    "gen_ai.request.n": 1,
}


def vllm_export(number: int, spans: int = SPANS, service: str = "chat", model: str = "") -> bytes:
    """An export of vLLM request spans with 13 attributes each, as its SDK sends them."""
    request = ExportTraceServiceRequest()
    _vllm_spans(request, number, range(1, spans + 1), service, model)
    return request.SerializeToString()


def many_export(number: int, services: int, models: int, turn: int = 0) -> bytes:
    """`SPANS` vLLM spans, spread over services with so many models each; the next turn goes on where one ended."""
    request = ExportTraceServiceRequest()
    pairs = [(f"chat-{service}", f"model-{model}") for service in range(services) for model in range(models)]
    size = -(-SPANS // len(pairs))
    for place, start in enumerate(range(0, SPANS, size)):
        service, model = pairs[(turn * (SPANS // size) + place) % len(pairs)]
        _vllm_spans(request, number, range(start + 1, min(start + size, SPANS) + 1), service, model)
    return request.SerializeToString()


def _vllm_spans(request: ExportTraceServiceRequest, number: int, places: range, service: str, model: str) -> None:
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    scope = resource.scope_spans.add()
    scope.scope.name = "vllm.tracing.otel"
    end = time.time_ns() - 10**9
    for place in places:
        identity = (number << 32) | place
        span = scope.spans.add(
            trace_id=identity.to_bytes(16),
            span_id=identity.to_bytes(8),
            name="llm_request",
            kind=Span.SPAN_KIND_SERVER,
            start_time_unix_nano=end - 2_451_200_000,
            end_time_unix_nano=end,
        )
        vary = 0.75 + (place * 0.618033988749895) % 1 / 2  # no two alike, or gzip makes nothing of them
        for key, value in NUMBERS.items():
            span.attributes.add(key=key).value.double_value = value * vary
        for key, count in COUNTS.items():
            span.attributes.add(key=key).value.int_value = max(count, int(count * vary))
        if model:
            span.attributes.add(key="gen_ai.response.model").value.string_value = model
        span.attributes.add(key="gen_ai.request.id").value.string_value = f"chatcmpl-{identity:016x}"


def sglang_export(number: int) -> bytes:
    """A few requests with a span for every decoding step."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "sglang"
    scope = resource.scope_spans.add()
    scope.scope.name = "sglang server"
    for place in range(REQUESTS):
        _sglang_request(scope, (number << 32) | ((place + 1) * 1000))
    return request.SerializeToString()


def _sglang_request(scope: ScopeSpans, identity: int) -> None:
    end, trace_id = time.time_ns() - 10**9, identity.to_bytes(16)

    def add(place: int, parent: int, name: str, start_ms: float, end_ms: float) -> Span:
        return scope.spans.add(
            trace_id=trace_id,
            span_id=(identity + place).to_bytes(8),
            parent_span_id=(identity + parent).to_bytes(8) if parent else b"",
            name=name,
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=end - int((4000 - start_ms) * 1e6),
            end_time_unix_nano=end - int((4000 - end_ms) * 1e6),
        )

    root = add(1, 0, f" Req {identity >> 32:08x}", 0, 4000)
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
        # Beside the place of the engine's span in the lower half of its id.
        identity = int.from_bytes(engine.span_id) | 2**31
        for place, name in enumerate(("", " http receive", " http send", " http send")):
            span = scope.spans.add(
                trace_id=engine.trace_id,
                span_id=(identity | place << 16).to_bytes(8),
                parent_span_id=identity.to_bytes(8) if place else b"",
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


def as_json(body: bytes) -> bytes:
    """The same vLLM export as OTLP/JSON."""
    [resource] = ExportTraceServiceRequest.FromString(body).resource_spans
    [scope] = resource.scope_spans
    written = {
        "resource": {"attributes": [_pair(pair) for pair in resource.resource.attributes]},
        "scopeSpans": [{"scope": {"name": scope.scope.name}, "spans": [_span(span) for span in scope.spans]}],
    }
    return json.dumps({"resourceSpans": [written]}, indent=2).encode()


def _span(span: Span) -> dict[str, object]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": [_pair(pair) for pair in span.attributes],
        "status": {},
        "flags": 256,
    }


def _pair(pair: KeyValue) -> dict[str, object]:
    which = pair.value.WhichOneof("value")
    value = getattr(pair.value, which)
    name = {"string_value": "stringValue", "int_value": "intValue", "double_value": "doubleValue"}[which]
    return {"key": pair.key, "value": {name: str(value) if which == "int_value" else value}}


MARK = 0x9DE317C5
"""The number of a template's export: no other four bytes of it are these."""


class Template:
    """
    Copies of one export, each with requests of its own that ended when the template was made.

    Args:
        export_of: makes an export of a number, whose bytes hold it in ids and, in hexadecimal, in texts.
    """

    def __init__(self, export_of: Callable[[int], bytes]) -> None:
        body = export_of(MARK)
        self._bytes = np.frombuffer(body, dtype=np.uint8)
        self._plain = _places(body, MARK.to_bytes(4))
        self._hex = _places(body, f"{MARK:08x}".encode())

    def stamped(self, number: int) -> bytes:
        """The copy of a number below 2^32, the same whenever it is asked for."""
        copy = self._bytes.copy()
        for places, written in ((self._plain, number.to_bytes(4)), (self._hex, f"{number:08x}".encode())):
            if len(places):
                copy[places] = np.frombuffer(written, dtype=np.uint8)
        return copy.tobytes()


def _places(body: bytes, mark: bytes) -> NDArray[np.int64]:
    """Where each byte of each *mark* stands; shape (marks, bytes of one)."""
    found, at = [], body.find(mark)
    while at >= 0:
        found.append(at)
        at = body.find(mark, at + len(mark))
    return np.array(found, dtype=np.int64)[:, None] + np.arange(len(mark)) if found else np.zeros((0, 1), np.int64)


@dataclass(frozen=True, slots=True)
class Stream:
    """A kind of exports."""

    name: str
    export_of: Callable[[int], bytes]
    spans: int
    """In an export."""
    requests: int
    """In an export."""
    service: str


def json_export(number: int) -> bytes:
    """A vLLM export in JSON."""
    return as_json(vllm_export(number))


STREAMS = {
    "vllm": Stream("vLLM", vllm_export, SPANS, SPANS, "chat"),
    "sglang": Stream("SGLang, trace level 3", sglang_export, SGLANG_SPANS, REQUESTS, "sglang"),
    "asgi": Stream("vLLM with HTTP and ASGI spans", mixed_export, 5 * SPANS, SPANS, "chat"),
    "json": Stream("vLLM in JSON", json_export, SPANS, SPANS, "chat"),
}
