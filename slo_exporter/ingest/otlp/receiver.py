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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from slo_exporter.clock import Clock
from slo_exporter.ingest.otlp.answers import repeated, success
from slo_exporter.ingest.otlp.desk import Arrival, Client, Desk, ProtocolName, Reads, Workers
from slo_exporter.ingest.otlp.doubt_counts import Doubts
from slo_exporter.ingest.otlp.errors import ExportError, FailedError, RefusedError
from slo_exporter.ingest.otlp.export import Encoding, Sink
from slo_exporter.ingest.otlp.in_flight import InFlight
from slo_exporter.ingest.otlp.reader import Reading

Counts = Counter[tuple[str, ...]]
"""A count per tuple of label values."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReceiverCounts:
    """What was received since the process began."""

    exports: Counts = field(default_factory=Counter)
    """By (protocol, result): accepted, or the `ExportError.result`."""
    refused_exports: Counts = field(default_factory=Counter)
    """By (protocol, reason), as the `RefusedError` said."""
    decoded: Counts = field(default_factory=Counter)
    """Accepted exports by (decoder,)."""
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

    def __init__(self, reader: Reads, sink: Sink, clock: Clock, in_flight: InFlight, workers: Workers) -> None:
        self.in_flight = in_flight
        self.counts = ReceiverCounts()
        self._desk = Desk(reader, sink, clock, workers, self)
        self._known_bugs: set[type[Exception]] = set()

    async def receive(
        self, body: bytes, protocol: ProtocolName, encoding: Encoding = "protobuf", *, gzip_limit: int | None = None
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
            answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._desk.put(Arrival(body, gzip_limit, Client(protocol, encoding, lease, answer)))
        return await answer

    def read_with(self, reader: Reads) -> None:
        """Read what comes from now on with *reader*: SLOs name other attributes."""
        self._desk.reader = reader

    @contextmanager
    def counting_failures(self, protocol: ProtocolName) -> Iterator[None]:
        """Count an error that passes; a bug of ours becomes a `FailedError`."""
        try:
            yield
        except Exception as error:
            failure = self._failure(error, protocol)
            if failure is error:
                raise
            raise failure from error

    def kept(self, client: Client, reading: Reading, refused: int) -> None:
        """Count and answer an export that is kept."""
        client.lease.close()
        self._count(reading, client.protocol)
        is_first = refused == reading.refusals.count
        answer = success(reading.refusals, reading.flags) if is_first else repeated(refused)
        if not client.answer.done():
            client.answer.set_result(answer.written(client.encoding))

    def failed(self, client: Client, error: Exception) -> None:
        """Count and answer an export that is not kept."""
        client.lease.close()
        failure = self._failure(error, client.protocol)
        if not client.answer.done():
            client.answer.set_exception(failure)

    def _count(self, reading: Reading, protocol: ProtocolName) -> None:
        self.counts.exports[protocol, "accepted"] += 1
        self.counts.decoded[reading.decoder,] += 1
        for counts, counted in (
            (self.counts.spans, reading.export.results),
            (self.counts.refused_spans, reading.refusals.by_reason),
            (self.counts.flagged_spans, reading.flags),
        ):
            for label, count in counted.items():
                counts[label,] += count
        self.counts.doubts.add(reading.export.doubts)

    def _failure(self, error: Exception, protocol: ProtocolName) -> ExportError:
        """Count an error; the one to tell: a bug of ours is logged, once per kind."""
        if not isinstance(error, ExportError):
            if type(error) not in self._known_bugs:
                self._known_bugs.add(type(error))
                _log.error("otlp_export_failed", kind=type(error).__name__, exc_info=error)
            error = FailedError()
        self.counts.exports[protocol, error.result] += 1
        if isinstance(error, RefusedError):
            self.counts.refused_exports[protocol, error.reason] += 1
        return error
