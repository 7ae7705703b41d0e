"""
Exporters in a process of their own: bodies are made first, then sent.

*Closed loop*: each exporter sends its next export when the last one was answered. *Open
loop*: exports leave at scheduled instants, whatever became of earlier ones, and latency
counts from the instant at which an export was due: no answer that is slow keeps others
from being measured.
"""

import asyncio
import gzip
import http.client
import multiprocessing
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Self

import grpc
from traffic import STREAMS, Template, vllm_export

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
EXPORTERS = 16
_TIMEOUT_S = 60.0
_OWN_CONNECTION = ("grpc.use_local_subchannel_pool", 1)
"""Channels of one process share a connection otherwise; exporters are processes."""
_NUMBERS = count(1)
"""No two exports of a run have the same."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A closed loop."""

    wall_s: float
    cpu_s: float
    """Of the exporters."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An open loop."""

    latency_ms: Sequence[float]
    """Of exports that were accepted, from the instant at which each was due."""
    refused: int
    failed: int
    """Neither accepted nor refused within a minute."""
    late_ms: Sequence[float]
    """How much later than due each left."""


class Exporters:
    """The process; a context manager that ends it."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def __enter__(self) -> Self:
        self._pool.submit(time.process_time).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def prepare(self, stream: str, exports: int, *, is_gzip: bool = False) -> None:
        """Make so many bodies."""
        self._pool.submit(_prepare, stream, _numbers(exports), is_gzip).result()

    def send(self, way: str, port: int) -> Sent:
        """Send what was prepared."""
        return self._pool.submit(_send, way, port).result()

    def busy_for(self, seconds: float) -> "Future[None]":
        """Compute, as exporters do, and nothing else."""
        return self._pool.submit(_keep_busy, seconds)

    def at_rate(self, port: int, exports_a_second: float, spans: int, seconds: float) -> "Future[Answered]":
        """Send vLLM exports at a steady rate over gRPC."""
        numbers = _numbers(int(exports_a_second * seconds))
        return self._pool.submit(_at_rate, port, exports_a_second, spans, numbers)


def _numbers(exports: int) -> range:
    first = next(_NUMBERS)
    for _ in range(exports):
        last = next(_NUMBERS)
    return range(first, last)


_prepared: list[bytes] = []


def _prepare(stream: str, numbers: range, is_gzip: bool) -> None:  # noqa: FBT001 - through a process pool
    template = Template(STREAMS[stream].export_of)
    bodies = map(template.stamped, numbers)
    _prepared[:] = [gzip.compress(body, 6, mtime=0) for body in bodies] if is_gzip else bodies


def _send(way: str, port: int) -> Sent:
    shares = [_prepared[place::EXPORTERS] for place in range(EXPORTERS)]
    threads = [threading.Thread(target=WAYS[way].send, args=(port, share)) for share in shares]
    wall, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Sent(time.perf_counter() - wall, time.process_time() - cpu)


def send_grpc(port: int, bodies: Sequence[bytes], compression: grpc.Compression | None = None) -> None:
    """Send the bodies one after the other over a connection of its own."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", [_OWN_CONNECTION], compression) as channel:
        export = channel.unary_unary(EXPORT)
        for body in bodies:
            export(body, timeout=_TIMEOUT_S)


def send_grpc_gzip(port: int, bodies: Sequence[bytes]) -> None:
    """The same, each compressed by gRPC."""
    send_grpc(port, bodies, grpc.Compression.Gzip)


def _poster(content_type: str, **headers: str) -> Callable[[int, Sequence[bytes]], None]:
    sent = {"Content-Type": content_type, **headers}

    def send(port: int, bodies: Sequence[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        for body in bodies:
            connection.request("POST", "/v1/traces", body, sent)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == http.HTTPStatus.OK, answer.status
        connection.close()

    return send


@dataclass(frozen=True, slots=True)
class Way:
    """How exports come."""

    name: str
    send: Callable[[int, Sequence[bytes]], None]
    stream: str = ""
    """Of the bodies; empty: whatever is asked for."""
    is_gzip: bool = False
    """Bodies are compressed before."""
    is_grpc: bool = False


WAYS: Mapping[str, Way] = {
    "grpc": Way("gRPC", send_grpc, is_grpc=True),
    "grpc-gzip": Way("gRPC, gzip", send_grpc_gzip, is_grpc=True),
    "http": Way("HTTP", _poster("application/x-protobuf")),
    "http-gzip": Way("HTTP, gzip", _poster("application/x-protobuf", **{"Content-Encoding": "gzip"}), is_gzip=True),
    "http-json": Way("HTTP/JSON", _poster("application/json"), stream="json"),
}


def _keep_busy(seconds: float) -> None:
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        vllm_export(0, 64)


def _at_rate(port: int, exports_a_second: float, spans: int, numbers: range) -> Answered:
    template = Template(lambda number: vllm_export(number, spans))
    return asyncio.run(_open_loop(port, 1 / exports_a_second, template, numbers))


async def _open_loop(port: int, every_s: float, template: Template, numbers: range) -> Answered:
    loop = asyncio.get_running_loop()
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", [_OWN_CONNECTION]) for _ in range(EXPORTERS)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    calls = [channel.unary_unary(EXPORT) for channel in channels]
    latency_ms: list[float] = []
    codes: list[grpc.StatusCode] = []

    async def export(place: int, due: float) -> None:
        try:
            await calls[place % EXPORTERS](template.stamped(numbers[place]), timeout=_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            codes.append(error.code())
        else:
            latency_ms.append(1000 * (loop.time() - due))

    late_ms, tasks = [], []
    begin = loop.time() + 0.1
    for place in range(len(numbers)):
        due = begin + place * every_s
        if (ahead := due - loop.time()) > 0:
            await asyncio.sleep(ahead)
        late_ms.append(1000 * (loop.time() - due))
        tasks.append(asyncio.create_task(export(place, due)))
    await asyncio.gather(*tasks)
    await asyncio.gather(*(channel.close() for channel in channels))
    refused = codes.count(grpc.StatusCode.UNAVAILABLE)
    return Answered(sorted(latency_ms), refused, len(codes) - refused, sorted(late_ms))


def share(ordered: Sequence[float], part: float) -> float:
    """The value that *part* of them do not exceed: nearest rank."""
    return ordered[max(0, min(len(ordered) - 1, -int(-part * len(ordered) // 1) - 1))]
