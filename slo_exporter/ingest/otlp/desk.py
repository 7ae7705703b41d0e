"""
Exports in the decoder threads: from the bytes as they came to the sink.

Rules of this module:

1. Exports that wait are read together; none waits for company.
2. One thread reads them. Threads gain nothing by computing with numpy at once,
   since it gives up the interpreter at every step and they only hand it to and
   fro: 434 futex calls an export, a fifth of the CPU time.
3. A large body has another thread: nobody shall wait for the end of it.
4. A bug of ours that one export brings out, and a lack of memory, fail that alone.
   Whatever is raised, the thread goes on: nobody else would take what waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final, Literal, Protocol

from slo_exporter.clock import Clock
from slo_exporter.ingest.otlp.callbacks import call_back
from slo_exporter.ingest.otlp.errors import ExportError
from slo_exporter.ingest.otlp.export import Encoding, Outcome, Sink, Waiting
from slo_exporter.ingest.otlp.gzip_body import gunzip
from slo_exporter.ingest.otlp.in_flight import Lease
from slo_exporter.ingest.otlp.reader import Body, Reading, Turn

ProtocolName = Literal["grpc", "http"]
"""Which listener brought an export."""

_LARGE_BYTES: Final = 1 << 20
"""A decompressed body of this size is large."""
_GROUP: Final = 64
"""The most exports that are read together."""
_GROUP_BYTES: Final = 5 << 20
"""No more are read together once they have so many bytes, compressed or not: a bound on how long one waits."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Threads that decode."""

    executor: Executor
    """Two of them: one for groups, one for large bodies."""
    turn: Lock
    """Held by whoever computes with numpy."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who sent a body and waits for its answer."""

    protocol: ProtocolName
    encoding: Encoding
    """Of the body, once decompressed, and of the answer."""
    lease: Lease
    """Holds the bytes of the body."""
    answer: "asyncio.Future[bytes]"
    """Done when the client gave up."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One body as it came."""

    body: bytes
    gzip_limit: int | None
    """Set when the body is gzip: the most bytes it may become."""
    client: Client


class Reads(Protocol):
    """Makes exports of bodies: a `Reader`."""

    def read_all(self, bodies: Sequence[Body], turn: Turn) -> list[Reading | ExportError]:
        """Read bodies together, computing with numpy in *turn*."""
        ...


class Answers(Protocol):
    """Answers clients, each once, on the event loop where it waits."""

    def kept(self, client: Client, reading: Reading, refused: int) -> None:
        """Say that it is kept, and how many of its spans are refused, by the reading that stands."""
        ...

    def failed(self, client: Client, error: Exception) -> None:
        """Say that it is not kept."""
        ...


_Unpacked = tuple[Client, bytes | Exception]
_Read = Sequence[tuple[Client, Reading | Exception]]


class Desk:
    """
    Reads exports and gives them to the sink.

    Attributes:
        reader: makes exports of bodies; may be replaced.

    Args:
        reader: the first of them.
        sink: keeps exports.
        clock: says when an export was received.
        workers: threads that decode, and the turn they take with the writer.
        answers: tells clients what became of their exports.
    """

    def __init__(self, reader: Reads, sink: Sink, clock: Clock, workers: Workers, answers: Answers) -> None:
        self.reader = reader
        self._sink = sink
        self._clock = clock
        self._turn = workers.turn
        self._answers = answers
        self._groups = _Lane(workers.executor, self._read_group, self._deliver, workers.turn, _GROUP)
        self._large = _Lane(workers.executor, self._read_large, self._deliver, nullcontext(), 1)

    def put(self, arrival: Arrival) -> None:
        """Have *arrival* read as soon as a thread is free."""
        lane = self._groups if len(arrival.body) < _LARGE_BYTES else self._large
        lane.put(arrival)

    def _read_group(self, arrivals: Sequence[Arrival]) -> _Read:
        small: list[_Unpacked] = []
        for client, plain in map(_unpacked, arrivals):
            if isinstance(plain, bytes) and len(plain) >= _LARGE_BYTES:
                self._large.put(Arrival(plain, None, client))
            else:
                small.append((client, plain))
        return self._read(small, self._turn)

    def _read_large(self, arrivals: Sequence[Arrival]) -> _Read:
        return self._read([_unpacked(arrival) for arrival in arrivals], nullcontext())

    def _read(self, unpacked: Sequence[_Unpacked], turn: Turn) -> _Read:
        now_ns = self._clock.now_ns()
        bodies = [Body(plain, now_ns, client.encoding) for client, plain in unpacked if isinstance(plain, bytes)]
        said = iter(self._said(bodies, turn))
        return [(client, next(said) if isinstance(plain, bytes) else plain) for client, plain in unpacked]

    def _said(self, bodies: Sequence[Body], turn: Turn) -> Sequence[Reading | Exception]:
        """What each body says, or why it cannot be read; alone, should its company not be readable."""
        try:
            return self.reader.read_all(bodies, turn)
        except Exception as bug:  # noqa: BLE001 - no input may end the thread
            return [bug] if len(bodies) == 1 else [self._said([body], turn)[0] for body in bodies]

    def _deliver(self, read: _Read) -> None:
        """Straight to the sink, not by way of the event loop, which it would have to be woken for."""
        self._sink.put([self._waiting(client, said) for client, said in read if isinstance(said, Reading)])
        call_back(
            (client.answer.get_loop(), partial(self._answers.failed, client, said))
            for client, said in read
            if not isinstance(said, Reading)
        )

    def _waiting(self, client: Client, reading: Reading) -> Waiting:
        return Waiting(reading.export, client.answer.get_loop(), partial(self._answer, client, reading))

    def _answer(self, client: Client, reading: Reading, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            self._answers.failed(client, outcome)
        else:
            self._answers.kept(client, reading, outcome)


def _unpacked(arrival: Arrival) -> _Unpacked:
    """Decompress; an error comes without the frames, which hold the body in pieces."""
    if arrival.gzip_limit is None:
        return arrival.client, arrival.body
    try:
        return arrival.client, gunzip(arrival.body, arrival.gzip_limit, arrival.client.lease.grow)
    except ExportError as error:
        error.__context__ = None
        return arrival.client, error.with_traceback(None)
    except Exception as bug:  # noqa: BLE001 - no input may end the thread
        return arrival.client, bug


class _Lane:
    """Arrivals that one thread at a time works off, when it is its turn; as many at once as wait, up to *most*."""

    def __init__(
        self,
        executor: Executor,
        read: Callable[[Sequence[Arrival]], _Read],
        deliver: Callable[[_Read], None],
        turn: Turn,
        most: int,
    ) -> None:
        self._executor = executor
        self._read = read
        self._deliver = deliver
        self._turn = turn
        self._most = most
        self._waiting: deque[Arrival] = deque()
        self._is_busy = False
        self._lock = Lock()

    def put(self, arrival: Arrival) -> None:
        with self._lock:
            self._waiting.append(arrival)
            is_busy, self._is_busy = self._is_busy, True
        if not is_busy:
            self._executor.submit(self._run)

    def _run(self) -> None:
        while (read := self._next()) is not None:
            self._deliver(read)  # the bodies are let go by now

    def _next(self) -> _Read | None:
        group = self._taken()
        try:
            return self._read(group) if group else None
        except Exception as bug:  # noqa: BLE001 - the lane would stay busy for ever
            return [(arrival.client, bug) for arrival in group]

    def _taken(self) -> Sequence[Arrival]:
        with self._turn, self._lock:
            group, size = list[Arrival](), 0
            while self._waiting and len(group) < self._most and size < _GROUP_BYTES:
                group.append(self._waiting.popleft())
                size += len(group[-1].body)
            self._is_busy = bool(group)
            return group
