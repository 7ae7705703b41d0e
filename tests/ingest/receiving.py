"""A receiver with both listeners, on a sink and a clock that a test holds."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from threading import Lock

from builders import ManualClock

from slo_exporter.clock import SECOND_NS
from slo_exporter.daemon.http_server import HttpServer
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.desk import Reads, Workers
from slo_exporter.ingest.otlp.errors import ExportError
from slo_exporter.ingest.otlp.export import Export, Waiting
from slo_exporter.ingest.otlp.grpc_server import GrpcServer, Patience
from slo_exporter.ingest.otlp.http_app import OtlpHttpApp
from slo_exporter.ingest.otlp.in_flight import InFlight
from slo_exporter.ingest.otlp.reader import Body, Reader, Reading, Turn
from slo_exporter.ingest.otlp.receiver import Receiver
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
        self.answered = 0
        self._changed = asyncio.Condition()
        self._keeping: set[asyncio.Task[None]] = set()

    def put(self, waiting: Sequence[Waiting]) -> None:
        """Keep exports, each by itself, after the gate opened."""
        for one in waiting:
            one.loop.call_soon_threadsafe(partial(self._start, one))

    async def entered(self, exports: int = 1) -> None:
        """Wait until so many exports have come."""
        async with asyncio.timeout(SOON_S), self._changed:
            await self._changed.wait_for(lambda: self.waiting >= exports)

    async def settled(self, exports: int = 1) -> None:
        """Wait until so many exports were answered."""
        async with asyncio.timeout(SOON_S), self._changed:
            await self._changed.wait_for(lambda: self.answered >= exports)

    def _start(self, one: Waiting) -> None:
        task = asyncio.get_running_loop().create_task(self._keep(one))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def _keep(self, one: Waiting) -> None:
        async with self._changed:
            self.waiting += 1
            self._changed.notify_all()
        if self.gated:
            await self.gate.wait()
        one.answer(self._outcome(one.export))
        async with self._changed:
            self.answered += 1
            self._changed.notify_all()

    def _outcome(self, export: Export) -> int | Exception:
        if self.error:
            return self.error
        self.exports.append(export)
        return export.refused if self.refused_first is None else self.refused_first


class BrokenReader:
    """Has a bug."""

    def read_all(self, bodies: Sequence[Body], turn: Turn) -> list[Reading | ExportError]:
        """Fail as no input should make it fail."""
        raise LookupError(f"{len(bodies)} bodies in {turn}")


class SlowReader:
    """Reads only when a test lets it."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def read_all(self, bodies: Sequence[Body], turn: Turn) -> list[Reading | ExportError]:
        """Wait in the worker thread, then read."""
        assert self.go_on.wait(SOON_S)
        return READER.read_all(bodies, turn)


@contextmanager
def receiver_on(sink: RecordingSink, *, reader: Reads = READER, in_flight_bytes: int = 64 * MIB) -> Iterator[Receiver]:
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
