"""
Exports and errands on their way from the event loop to the writer, and the answers back.

Its bytes are bounded by `InFlight`: an export holds them until it is answered.
An errand is whatever else only the writer's thread may do: change a definition,
correct counts.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.ingest.otlp.export import Export

_GROUP: Final = 256
"""The most exports of one commit: a bound on how long one waits for the others."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An export whose client waits."""

    export: Export
    answer: "asyncio.Future[int]"
    """How many of its spans are refused."""


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

    async def submit(self, export: Export) -> int:
        """
        Return once *export* and its effect are durable.

        Returns:
            How many of its spans are refused, by the reading that stands.

        Raises:
            RefusedError: it is not kept, or not known to be; the client comes again.
        """
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        with self._change:
            if self.refusing is not None:
                raise RefusedError(self.refusing)
            self._waiting.append(Waiting(export, answer))
            self._change.notify()
        return await answer

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
    for one in waiting:
        settle(one.answer, refused[one.export.digest])


def refuse(waiting: Iterable[Waiting], error: Exception) -> None:
    """Tell the clients that their exports are not kept, or not known to be."""
    for one in waiting:
        settle(one.answer, error)


def settle(answer: "asyncio.Future[Any]", outcome: object) -> None:
    """Answer from the writer's thread; an exception is raised where the answer is awaited."""
    with contextlib.suppress(RuntimeError):  # the loop is gone, and the client with it
        answer.get_loop().call_soon_threadsafe(_set, answer, outcome)


def _set(future: "asyncio.Future[Any]", outcome: object) -> None:
    if future.done():  # the client gave up
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
