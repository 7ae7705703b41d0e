"""
Exports and errands on their way from the event loop to the writer, and the answers back.

Its bytes are bounded by `InFlight`: an export holds them until it is answered.
An errand is whatever else only the writer's thread may do: change a definition,
correct counts.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from slo_exporter.ingest.otlp.callbacks import call_back
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.ingest.otlp.export import Waiting

_GROUP: Final = 256
"""The most exports of one commit: a bound on how long one waits for the others."""


@dataclass(frozen=True, slots=True)
class Errand:
    """Something for the writer to do between two commits."""

    work: Callable[[], object]
    answer: "asyncio.Future[Any]"
    """What *work* gave, or raised."""


_T = TypeVar("_T")


class Inbox:
    """
    A `Sink`: exports wait here for the writer.

    Attributes:
        refusing: why nothing is taken, a short word; None while accepting.
    """

    def __init__(self) -> None:
        self.refusing: str | None = "starting"
        self._waiting: deque[Waiting] = deque()
        self._errands: deque[Errand] = deque()
        self._change = threading.Condition()
        self._closed = False

    def put(self, waiting: Sequence[Waiting]) -> None:
        """Take exports, from any thread; each is answered once it is durable, or refused."""
        with self._change:
            refusing = self.refusing
            if refusing is None:
                self._waiting.extend(waiting)
                self._change.notify()
        if refusing is not None:
            refuse(waiting, RefusedError(refusing))

    async def ask(self, work: Callable[[], _T]) -> _T:
        """
        Have *work* done in the writer's thread, between two commits.

        Raises:
            RefusedError: it is not done, or not known to be; what *work* raises passes too.
        """
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        with self._change:
            if self.refusing is not None:
                raise RefusedError(self.refusing)
            self._errands.append(Errand(work, answer))
            self._change.notify()
        return await answer

    def take(self, patience_s: float) -> tuple[Waiting, ...]:
        """Wait up to *patience_s* for something to do and take the exports; none is an answer too."""
        with self._change:
            if not self._waiting and not self._errands and not self._closed:
                self._change.wait(patience_s)
            return tuple(self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP)))

    def errand(self) -> Errand | None:
        """Take the errand that waits longest, if any does."""
        with self._change:
            return self._errands.popleft() if self._errands else None

    def errands(self) -> tuple[Errand, ...]:
        """Take the errands that wait."""
        with self._change:
            taken = tuple(self._errands)
            self._errands.clear()
            return taken

    def close(self) -> None:
        """Take nothing more; what waits is still worked on."""
        with self._change:
            self.refusing, self._closed = "draining", True
            self._change.notify()

    def accept(self) -> None:
        """Take exports from now on, unless closed."""
        with self._change:
            if not self._closed:
                self.refusing = None

    def refuse(self, reason: str) -> None:
        """Take no exports for now."""
        with self._change:
            if not self._closed:
                self.refusing = reason

    @property
    def is_done(self) -> bool:
        """Closed and empty."""
        with self._change:
            return self._closed and not self._waiting and not self._errands


def keep(waiting: Iterable[Waiting], refused: Mapping[bytes, int]) -> None:
    """Tell the clients that their exports are kept, and how many spans of each body are refused."""
    call_back((one.loop, partial(one.answer, refused[one.export.digest])) for one in waiting)


def refuse(waiting: Iterable[Waiting], error: Exception) -> None:
    """Tell the clients that their exports are not kept, or not known to be."""
    call_back((one.loop, partial(one.answer, error)) for one in waiting)


def settle(answer: "asyncio.Future[Any]", outcome: object) -> None:
    """Answer from the writer's thread; an exception is raised where the answer is awaited."""
    call_back([(answer.get_loop(), partial(_set, answer, outcome))])


def _set(future: "asyncio.Future[Any]", outcome: object) -> None:
    if future.done():  # whoever asked gave up
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
