"""Numbered exports, and clients that send each until it is acknowledged."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SPANS = 5
SLOW = 2
"""Of the spans of an export so many miss the objective."""


def numbered_export(number: int, end: int | None = None) -> bytes:
    """An export that no other number gives: `SPANS` HTTP requests that ended at *end*, or just now."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    service = resource.resource.attributes.add(key="service.name")
    service.value.string_value = "chat"
    spans = resource.scope_spans.add().spans
    end = end or time.time_ns()
    for index in range(SPANS):
        milliseconds = 200 if index < SLOW else 20
        span = spans.add(
            trace_id=number.to_bytes(8) + (index + 1).to_bytes(8),
            span_id=(number * SPANS + index + 1).to_bytes(8),
            name="POST /v1/chat/completions",
            kind=Span.SPAN_KIND_SERVER,
            start_time_unix_nano=end - milliseconds * 1_000_000,
            end_time_unix_nano=end,
        )
        span.attributes.add(key="http.request.method").value.string_value = "POST"
        span.attributes.add(key="http.response.status_code").value.int_value = 200
    return request.SerializeToString()


@dataclass
class Load:
    """
    Clients in threads that send numbered exports over gRPC.

    What is not acknowledged is sent again, what was acknowledged sometimes too.
    """

    port: int
    threads: int = 4
    first: int = 0
    """No export of another load has a number from here on."""
    acknowledged: int = 0
    sent: int = 0
    age_s: Callable[[int], int] = lambda _: 0
    """How long ago the requests of a number ended."""
    ends_ns: list[int] = field(default_factory=list)
    _next: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _change: threading.Condition = field(default_factory=threading.Condition)
    _running: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Start sending."""
        self._next = self.first
        self._running = [threading.Thread(target=self._send, args=(seed,)) for seed in range(self.threads)]
        for thread in self._running:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Send what is not acknowledged yet, then stop."""
        self.stop()

    def has_acknowledged(self, exports: int) -> None:
        """Wait until so many exports were acknowledged."""
        with self._change:
            assert self._change.wait_for(lambda: self.acknowledged >= exports, timeout=60)

    def stop(self) -> None:
        """Begin nothing new, and wait until everything begun is acknowledged."""
        self._stop.set()
        for thread in self._running:
            thread.join()

    def _begin(self) -> bytes:
        with self._change:
            self._next += 1
            self.sent += 1
            number, end_ns = self._next, time.time_ns() - self.age_s(self._next) * 10**9
            self.ends_ns.append(end_ns)
        return numbered_export(number, end_ns)

    def _send(self, seed: int) -> None:
        chance = random.Random(seed)
        old: deque[bytes] = deque(maxlen=50)
        options = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
        with grpc.insecure_channel(f"127.0.0.1:{self.port}", options=options) as channel:
            export = channel.unary_unary(EXPORT)
            while not self._stop.is_set():
                body = self._begin()
                while not _acknowledged(export, body):
                    pass
                with self._change:
                    self.acknowledged += 1
                    self._change.notify_all()
                old.append(body)
                if chance.random() < 0.2:
                    _acknowledged(export, chance.choice(old))


def _acknowledged(export: grpc.UnaryUnaryMultiCallable, body: bytes) -> bool:
    try:
        export(body, timeout=5, wait_for_ready=True)
    except grpc.RpcError:
        return False
    return True
