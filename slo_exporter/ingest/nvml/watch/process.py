"""
A child that reads GPUs, as its parent holds it.

Nobody waits for it: a child that hangs in the driver does not die of SIGKILL.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import slo_exporter
from slo_exporter.ingest.nvml import note
from slo_exporter.ingest.nvml.order import Order

PYTHON: Final = (sys.executable, "-S", "-m")
"""
Without ``site``: what an environment imports at every start, a child need not hold.

Measured on a machine with PyTorch: 2 MiB.
"""
COMMAND: Final = (*PYTHON, "slo_exporter.ingest.nvml.child")
_HOME: Final = str(Path(slo_exporter.__file__).parents[1])
"""The one place where the child finds more than the standard library."""
_CHUNK: Final = 1 << 16
_STDERR: Final = 2


class Reader(Protocol):
    """A child, as the watchdog sees it."""

    @property
    def pid(self) -> int:
        """For the log."""
        ...

    @property
    def frames_fd(self) -> int:
        """To be polled for what the child says."""
        ...

    def read(self) -> bytes | None:
        """What the child said; empty at the end, None when there is nothing now."""
        ...

    def note(self) -> tuple[int, str] | None:
        """GPU and call that are, or were, under way."""
        ...

    def steps(self) -> int:
        """How many calls it noted: a number that changes while it gets on."""
        ...

    def ask_to_end(self) -> None:
        """Let it clean up and end; called from any thread, any number of times."""
        ...

    def kill(self) -> None:
        """End it, if it can be ended."""
        ...

    def exit_code(self) -> int | None:
        """Negative: the signal that ended it. None while it lives."""
        ...

    def leave(self) -> None:
        """Give up its pipe and its note; a child that still lives is left to itself."""
        ...


class Process:
    """
    A child process.

    Args:
        command: what to run; the order is added as the last argument.
        order: whose descriptors are filled in here.

    Raises:
        OSError: it could not be started.
    """

    def __init__(self, command: Sequence[str], order: Order) -> None:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            self.frames_fd, frames = os.pipe()
            ours.callback(os.close, self.frames_fd)
            theirs.callback(os.close, frames)
            os.set_blocking(self.frames_fd, False)
            memory = note.create()
            theirs.callback(os.close, memory)
            self._note = note.Note(memory)
            ours.callback(self._note.close)
            self._popen = subprocess.Popen(  # noqa: S603 - our own module
                [*command, replace(order, frames_fd=frames, note_fd=memory).text()],
                stdin=subprocess.PIPE,
                # Whatever a library prints goes to the log.
                stdout=_STDERR,
                pass_fds=(frames, memory),
                env={**os.environ, "PYTHONPATH": _HOME},
                bufsize=0,
                # Ctrl-C is for us: we end the child.
                start_new_session=True,
            )
            ours.callback(self._close_input)
            self._ours = ours.pop_all()

    @property
    def pid(self) -> int:
        """For the log."""
        return self._popen.pid

    def read(self) -> bytes | None:
        """What the child said; empty at the end, None when there is nothing now."""
        try:
            return os.read(self.frames_fd, _CHUNK)
        except BlockingIOError:
            return None

    def note(self) -> tuple[int, str] | None:
        """GPU and call that are, or were, under way."""
        return self._note.read()

    def steps(self) -> int:
        """How many calls it noted: a number that changes while it gets on."""
        return self._note.count()

    def ask_to_end(self) -> None:
        """Close its standard input and send SIGTERM; called from any thread, any number of times."""
        self._close_input()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._signal(signal.SIGKILL)

    def exit_code(self) -> int | None:
        """Negative: the signal that ended it. None while it lives."""
        return self._popen.poll()

    def leave(self) -> None:
        """Give up its pipe and its note; a child that still lives is left to itself."""
        if self._popen.poll() is None:
            # It is none of ours any more: Popen would complain about a child that still runs.
            self._popen.returncode = -signal.SIGKILL
        self._ours.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._popen.send_signal(number)

    def _close_input(self) -> None:
        if self._popen.stdin is not None:
            self._popen.stdin.close()


def signal_name(number: int) -> str:
    """``SIGSEGV``; a number where it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
