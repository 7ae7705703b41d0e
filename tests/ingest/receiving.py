"""A receiver with both listeners, on a sink and a clock that a test holds."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from threading import Lock

from builders import ManualClock

from slo_exporter.clock import SECOND_NS
from slo_exporter.daemon.http_server import HttpServer
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.export import Encoding, Export
from slo_exporter.ingest.otlp.grpc_server import GrpcServer, Patience
from slo_exporter.ingest.otlp.http_app import OtlpHttpApp
from slo_exporter.ingest.otlp.in_flight import InFlight
from slo_exporter.ingest.otlp.reader import Reader, Reading
from slo_exporter.ingest.otlp.receiver import Receiver, Workers
from slo_exporter.sli.admission import Role

MIB = 1024 * 1024
READER = Reader(Declared(), lateness_ns=600 * SECOND_NS)
"""Reads with nothing declared."""

SOON_S = 10
"""Far above what anything here takes; a busy machine is no failure."""


def engines_of(export: Export) -> set[str]:
    """Services that the export shows to have an engine."""
    return {service for service, role in export.roles if role is Role.ENGINE}


class RecordingSink:
    """Keeps exports in a list; may be told to fail, or to wait for `gate`."""

    def __init__(self, error: Exception | None = None, *, gated: bool = False) -> None:
        self.exports: list[Export] = []
        self.waiting = 0
        self.error = error
        self.gate = asyncio.Event()
        self.gated = gated
        self.refused_first: int | None = None
        """Set: every body came before, and so many of its spans were refused then."""
        self._entered = asyncio.Condition()

    async def submit(self, export: Export) -> int:
        """Keep *export*, after the gate opened."""
        async with self._entered:
            self.waiting += 1
            self._entered.notify_all()
        if self.gated:
            await self.gate.wait()
        if self.error:
            raise self.error
        self.exports.append(export)
        return export.refused if self.refused_first is None else self.refused_first

    async def entered(self, exports: int = 1) -> None:
        """Wait until so many exports have come."""
        async with asyncio.timeout(SOON_S), self._entered:
            await self._entered.wait_for(lambda: self.waiting >= exports)


class BrokenReader:
    """Has a bug."""

    def read(self, body: bytes, now_ns: int, encoding: Encoding) -> Reading:
        """Fail as no input should make it fail."""
        raise LookupError(f"{len(body)} bytes at {now_ns} in {encoding}")


class SlowReader:
    """Reads only when a test lets it."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def read(self, body: bytes, now_ns: int, encoding: Encoding) -> Reading:
        """Wait in the worker thread, then read."""
        assert self.go_on.wait(SOON_S)
        return READER.read(body, now_ns, encoding)


@contextmanager
def receiver_on(
    sink: RecordingSink, *, reader: Reader | BrokenReader | SlowReader = READER, in_flight_bytes: int = 64 * MIB
) -> Iterator[Receiver]:
    """Make a receiver with two worker threads."""
    with ThreadPoolExecutor(2) as workers:
        yield Receiver(reader, sink, ManualClock(), InFlight(in_flight_bytes), Workers(workers, Lock()))


@asynccontextmanager
async def grpc_on(receiver: Receiver, max_bytes: int = 16 * MIB) -> AsyncIterator[str]:
    """Listen for gRPC; give the address."""
    server = GrpcServer(receiver, "127.0.0.1:0", max_bytes, Patience(handshake_s=SOON_S))
    port = await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@asynccontextmanager
async def http_on(
    receiver: Receiver, max_bytes: int = 16 * MIB, *, body_timeout_s: float = SOON_S
) -> AsyncIterator[int]:
    """Listen for HTTP; give the port."""
    server = HttpServer(OtlpHttpApp(receiver, max_bytes, body_timeout_s=body_timeout_s), "127.0.0.1", 0)
    port = await server.start()
    try:
        yield port
    finally:
        await server.stop(0)
