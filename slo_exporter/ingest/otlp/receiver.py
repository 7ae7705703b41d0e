"""
One export from its bytes to its answer, whichever protocol brought it.

Rules of this module:

1. Decompressing and decoding happen in worker threads, never on the event
   loop (C16).
2. The answer is made only after the sink kept the export.
3. An export that was received is carried to its end, even when its client
   gave up waiting: its bytes stay accounted for, and a retry is a duplicate
   that the sink knows.
4. Counters are touched only on the event loop.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final, Literal

import structlog

from slo_exporter.clock import Clock
from slo_exporter.ingest.otlp.answers import repeated, success
from slo_exporter.ingest.otlp.doubt_counts import Doubts
from slo_exporter.ingest.otlp.errors import ExportError, FailedError, RefusedError
from slo_exporter.ingest.otlp.export import Encoding, Sink
from slo_exporter.ingest.otlp.gzip_body import gunzip
from slo_exporter.ingest.otlp.in_flight import InFlight, Lease
from slo_exporter.ingest.otlp.reader import Reader, Reading

Protocol = Literal["grpc", "http"]
Counts = Counter[tuple[str, ...]]
"""A count per tuple of label values."""

_LARGE_BYTES: Final = 1 << 20
"""A body of this size takes no turn: nobody shall wait for the end of it."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Workers:
    """Threads that decode."""

    executor: Executor
    turn: Lock
    """
    Held by whoever computes with numpy. Threads gain nothing by computing at
    once, since numpy gives up the interpreter at every step and they only
    hand it to and fro: 434 futex calls an export, a fifth of the CPU time.
    """


@dataclass(frozen=True, slots=True)
class ReceiverCounts:
    """What was received since the process began."""

    exports: Counts = field(default_factory=Counter)
    """By (protocol, result): accepted, or the `ExportError.result`."""
    refused_exports: Counts = field(default_factory=Counter)
    """By (protocol, reason), as the `RefusedError` said."""
    spans: Counts = field(default_factory=Counter)
    """Spans of accepted exports by (result,), see `Export.results`."""
    refused_spans: Counts = field(default_factory=Counter)
    """Spans of accepted exports that were refused, by (reason,)."""
    flagged_spans: Counts = field(default_factory=Counter)
    """Spans counted with a doubt, by (flag,)."""
    doubts: Doubts = field(default_factory=Doubts)
    """What is doubtful about accepted exports, by service and reason."""


class Receiver:
    """
    Takes exports from the listeners and gives them to the sink.

    Args:
        reader: makes an export of a body.
        sink: keeps exports.
        clock: says when an export was received.
        in_flight: bounds the bytes of unanswered exports.
        workers: threads that decode, and the turn they take with the writer.
    """

    def __init__(self, reader: Reader, sink: Sink, clock: Clock, in_flight: InFlight, workers: Workers) -> None:
        self._reader = reader
        self.in_flight = in_flight
        self.counts = ReceiverCounts()
        self._sink = sink
        self._clock = clock
        self._workers = workers.executor
        self._turn = workers.turn
        self._under_way: set[asyncio.Task[bytes]] = set()
        self._known_bugs: set[type[Exception]] = set()

    async def receive(
        self, body: bytes, protocol: Protocol, encoding: Encoding = "protobuf", *, gzip_limit: int | None = None
    ) -> bytes:
        """
        Decode, keep and answer one export.

        Args:
            body: the message as it came.
            protocol: which listener brought it.
            encoding: how the message is written, once decompressed.
            gzip_limit: set when *body* is gzip: the most bytes it may become.

        Returns:
            An ExportTraceServiceResponse in the same encoding.

        Raises:
            ExportError: it is not kept; only after a `RefusedError` is it to
                be sent again.
        """
        with self.counting_failures(protocol):
            lease = self.in_flight.lease(len(body))
        read = partial(self._read, body, encoding, gzip_limit, lease)
        task = asyncio.create_task(self._take(read, protocol, encoding))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        task.add_done_callback(lambda _: lease.close())
        return await asyncio.shield(task)

    def read_with(self, reader: Reader) -> None:
        """Read what comes from now on with *reader*: SLOs name other attributes."""
        self._reader = reader

    @contextmanager
    def counting_failures(self, protocol: Protocol) -> Iterator[None]:
        """Count an error that passes; a bug of ours becomes a `FailedError`."""
        try:
            yield
        except ExportError as error:
            self._count_failure(error, protocol)
            raise
        except Exception as bug:
            self._report(bug)
            failed = FailedError()
            self._count_failure(failed, protocol)
            raise failed from bug

    async def _take(self, read: Callable[[], Reading | ExportError], protocol: Protocol, encoding: Encoding) -> bytes:
        with self.counting_failures(protocol):
            loop = asyncio.get_running_loop()
            reading = await loop.run_in_executor(self._workers, read)
            if isinstance(reading, ExportError):
                raise reading
            refused = await self._sink.submit(reading.export)
            self._count(reading, protocol)
            is_first = refused == reading.refusals.count
            answer = success(reading.refusals, reading.flags) if is_first else repeated(refused)
            return answer.written(encoding)

    def _read(self, body: bytes, encoding: Encoding, gzip_limit: int | None, lease: Lease) -> Reading | ExportError:
        """Read in a worker thread; an error comes back without the frames, which hold the body in pieces."""
        try:
            plain = body if gzip_limit is None else gunzip(body, gzip_limit, lease.grow)
            with self._turn if len(plain) < _LARGE_BYTES else nullcontext():
                return self._reader.read(plain, self._clock.now_ns(), encoding)
        except ExportError as error:
            error.__context__ = None
            return error.with_traceback(None)

    def _count(self, reading: Reading, protocol: Protocol) -> None:
        self.counts.exports[protocol, "accepted"] += 1
        for counts, counted in (
            (self.counts.spans, reading.export.results),
            (self.counts.refused_spans, reading.refusals.by_reason),
            (self.counts.flagged_spans, reading.flags),
        ):
            counts.update({(label,): count for label, count in counted.items()})
        self.counts.doubts.add(reading.export.doubts)

    def _count_failure(self, error: ExportError, protocol: Protocol) -> None:
        self.counts.exports[protocol, error.result] += 1
        if isinstance(error, RefusedError):
            self.counts.refused_exports[protocol, error.reason] += 1

    def _report(self, bug: Exception) -> None:
        """Log a bug, once per kind."""
        if type(bug) not in self._known_bugs:
            self._known_bugs.add(type(bug))
            _log.error("otlp_export_failed", kind=type(bug).__name__, exc_info=bug)
