"""
The child: ``python -m slo_exporter.ingest.nvml.child ORDER``.

It may hang or die in the driver at any call; its parent sees that. It ends when
its standard input ends, or at SIGTERM, and never answers anyone but its parent.
"""

import gc
import importlib
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Final, TypeAlias

from slo_exporter.clock import SystemClock
from slo_exporter.ingest.nvml import frame, order
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, Reason
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.reading.faults import fault_of

EXIT_FAULT: Final = 1
EXIT_USAGE: Final = 2
_SOURCES: Final[Mapping[str, str]] = {
    "nvml": "reading.poller",
    "simulated": "simulation.simulated",
    "replay": "recordings.replay",
}
"""Module by source: each has ``run(order, write, wait, clock)``."""

Write: TypeAlias = Callable[[Hello | Frame | Fault], object]
Wait: TypeAlias = Callable[[float], bool]


class Ending:
    """
    Waits, and knows when it is time to end: standard input is at its end, or SIGTERM came.

    A signal is written to a pipe of our own: else Python would go on waiting after it.
    """

    def __init__(self) -> None:
        self._signals, woken = os.pipe()
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, _heard)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal: the parent ends us
        self._poll = select.poll()
        for descriptor in (sys.stdin.fileno(), self._signals):
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait so long; True when it is time to end."""
        return any(self._is_end(descriptor) for descriptor, _ in self._poll.poll(seconds * 1000))

    def _is_end(self, descriptor: int) -> bool:
        """Nothing is ever said on standard input: what comes is thrown away."""
        return descriptor == self._signals or not os.read(descriptor, 4096)


def _heard(_number: int, _frame: FrameType | None) -> None:
    """The wakeup pipe says it."""


class Pipe:
    """
    Where lines for the parent go.

    Args:
        descriptor: of the pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, said: Hello | Frame | Fault) -> None:
        """Write a line, whole."""
        rest = memoryview(frame.line(said))
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]


def main(arguments: Sequence[str]) -> int:
    """Do what the order in *arguments* says; the exit code."""
    if len(arguments) != 1:
        return EXIT_USAGE
    os.dup2(2, 1)  # what a library prints must not reach anyone who reads our output
    asked = order.read(arguments[0])
    pipe = Pipe(asked.frames_fd)
    try:
        _read(asked, pipe.write, Ending().wait)
    except BrokenPipeError:  # the parent is gone, and nobody is left to tell
        return 0
    except Exception as error:  # noqa: BLE001
        return _give_up(pipe, error)
    return 0


def _read(asked: Order, write: Write, wait: Wait) -> None:
    """Only what the source needs is imported: this process must stay small."""
    module = importlib.import_module(f"slo_exporter.ingest.nvml.{_SOURCES[asked.source]}")
    gc.freeze()  # what was imported stays: it need not be looked through again
    module.run(asked, write, wait, SystemClock())


def _give_up(pipe: Pipe, error: Exception) -> int:
    """Say why, as the last line."""
    try:
        pipe.write(_fault(error))
    except OSError:
        return EXIT_FAULT
    return EXIT_FAULT


def _fault(error: Exception) -> Fault:
    if isinstance(error, NvmlError):
        return fault_of(error)
    return Fault(Reason.EXIT, "", 0, f"{type(error).__name__} at {_place(error)}: {error}")


def _place(error: Exception) -> str:
    """File and line where *error* was raised, told without `traceback`, which would cost a megabyte."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "nowhere" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
