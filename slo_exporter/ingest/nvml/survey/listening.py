"""A child that a command waits for, line by line, each with a deadline."""

import select
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.watch.messages import Lines
from slo_exporter.ingest.nvml.watch.process import PYTHON, Process

DYING_S: Final = 1.0
"""By then a child is gone after SIGKILL, or it is stuck in the driver."""
_ASKING_EVERY_S: Final = 0.01
SURVEY: Final = (*PYTHON, "slo_exporter.ingest.nvml.survey.survey")


class SilentError(Exception):
    """No line came by the deadline."""


class Listening:
    """
    A child that runs until the context is left.

    Args:
        command: what to run; the order is added.
        order: what is asked of it.
    """

    def __init__(self, command: Sequence[str], order: Order, clock: Clock) -> None:
        self._clock = clock
        self._process = Process(command, order)
        self._lines = Lines()
        self._ready: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._process.leave()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def line(self, within_s: float) -> bytes | None:
        """
        Wait for the next line; None after the last one.

        Raises:
            SilentError: none came in that time.
            GarbageError: it is longer than any line of ours.
        """
        until_ns = self._clock.monotonic_ns() + int(within_s * SECOND_NS)
        while not self._ready:
            left_s = (until_ns - self._clock.monotonic_ns()) / SECOND_NS
            if left_s <= 0 or not select.select([self._process.frames_fd], [], [], left_s)[0]:
                raise SilentError
            chunk = self._process.read()
            if chunk == b"":
                return None
            self._ready = list(self._lines.feed(chunk or b""))
        return self._ready.pop(0)

    def under_way(self) -> tuple[int, str] | None:
        """GPU and call in which it is, or was when it ended."""
        return self._process.note()

    def kill(self) -> int | None:
        """End it, if it has not ended: its exit code, or None where it is stuck past SIGKILL."""
        if self._process.exit_code() is None:
            self._process.kill()
        return self.exit_code(DYING_S)

    def exit_code(self, within_s: float) -> int | None:
        """Wait for its end."""
        until_ns = self._clock.monotonic_ns() + int(within_s * SECOND_NS)
        while (code := self._process.exit_code()) is None and self._clock.monotonic_ns() < until_ns:
            select.select([], [], [], _ASKING_EVERY_S)
        return code
