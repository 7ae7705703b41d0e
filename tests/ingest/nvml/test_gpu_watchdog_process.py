"""Real children: small programs that speak, hang and die. Deadlines are real, and short."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from gpu_book_builders import HELLO
from structlog.testing import capture_logs

from slo_exporter.clock import SystemClock
from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.frame import Frame, Reason
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.watch.backoff import Pauses
from slo_exporter.ingest.nvml.watch.process import Process
from slo_exporter.ingest.nvml.watch.running import Patience
from slo_exporter.ingest.nvml.watch.watchdog import Watchdog

ORDER = Order(frames_fd=-1, note_fd=-1)
PATIENCE = Patience(
    first_frame_s=20.0, frame_s=1.5, ending_s=0.1, stuck_s=0.2, pauses=Pauses(first_s=0.05, longest_s=0.1, good_s=60.0)
)
SOON_S = 30.0

START = """
import os, signal, sys, time
from slo_exporter.ingest.nvml.frame import Fault, Frame, GpuReading, Hello, Reason, line
from slo_exporter.ingest.nvml.note import Note, written
from slo_exporter.ingest.nvml.order import read

order = read(sys.argv[1])
note = Note(order.note_fd)

def say(*said):
    for one in said:
        os.write(order.frames_fd, one if isinstance(one, bytes) else line(one))

def frame():
    return Frame(at_ns=time.time_ns(), seconds=1.0, gpus=[GpuReading(gpu=0, uuid="GPU-aaaa", reason=Reason.OK)])

hello = Hello("nvml", os.getpid(), "580.159")
ready = lambda: say(hello, frame())
"""
SERVE = "ready()\nwhile True:\n    time.sleep(0.1)\n    say(frame())\n"


class Heard(GpuBook):
    """A book that tells the test when something changed."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.reasons: list[Reason] = []
        self.frames = 0
        self._news = threading.Condition()

    def frame(self, frame: Frame) -> Any:
        """Count it."""
        with self._news:
            self.frames += 1
            self._news.notify_all()
        return super().frame(frame)

    def fault(self, reason: Reason, message: str = "", gpu: int | None = None) -> None:
        """Remember why."""
        super().fault(reason, message, gpu)
        with self._news:
            self.reasons.append(reason)
            self._news.notify_all()

    def await_(self, what: Callable[[], bool]) -> None:
        """Wait until it is so."""
        with self._news:
            assert self._news.wait_for(what, SOON_S)


class Den:
    """A watchdog over real children that run a script."""

    def __init__(self, folder: Path) -> None:
        self.book = Heard()
        self.children: list[Process] = []
        self._script = folder / "child.py"
        self.watchdog: Watchdog

    def run(self, script: str, *, child: type[Process] = Process, patience: Patience = PATIENCE) -> None:
        """Start."""
        self._script.write_text(START + script)

        def spawn(order: Order) -> Process:
            self.children.append(child([sys.executable, str(self._script)], order))
            return self.children[-1]

        self.watchdog = Watchdog(ORDER, self.book, SystemClock(), patience=patience, spawn=spawn)
        self.watchdog.start()

    def stop(self) -> float:
        """Stop; give the seconds that took."""
        started = time.monotonic()
        self.watchdog.stop()
        return time.monotonic() - started

    def join(self) -> None:
        """Wait for the thread's end."""
        thread = self.watchdog._thread
        assert thread is not None
        thread.join(SOON_S)
        assert not thread.is_alive()


@pytest.fixture
def den(tmp_path: Path) -> Iterator[Den]:
    """A watchdog over real children; all are gone afterwards."""
    with capture_logs():
        den = Den(tmp_path)
        yield den
        den.stop()
        den.join()
    for child in den.children:
        assert not _lives(child.pid)


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_child_that_reads_is_heard(den: Den) -> None:
    """Frame after frame; it ends with the watchdog, and stop() waits for nothing."""
    den.run(SERVE)
    den.book.await_(lambda: den.book.frames >= 5)
    assert [gpu.uuid for gpu in den.book.gpus()] == ["GPU-aaaa"]
    assert den.book.source().driver == HELLO.driver
    assert den.stop() < 0.1
    den.join()
    assert len(den.children) == 1


def test_a_child_that_hangs_is_replaced_without_the_call(den: Den) -> None:
    """The note tells which; the next one leaves it out."""
    den.run(
        "ready()\n"
        "if not order.without:\n    note.put(written(0, 'energy')); time.sleep(600)\n"
        "assert order.without == ((0, 'energy'),)\n" + SERVE.removeprefix("ready()\n")
    )
    den.book.await_(lambda: den.book.frames >= 5)
    assert den.book.reasons == [Reason.HANG]
    assert len(den.children) == 2


def test_a_call_that_hangs_before_the_first_frame_has_the_patience_of_any_call(den: Den) -> None:
    """Not that of a start: the others wait for it."""
    den.run(
        "say(hello)\n"
        "if not order.without:\n    note.put(written(0, 'open')); time.sleep(600)\n"
        "assert order.without == ((0, '*'),)\n" + SERVE.removeprefix("ready()\n"),
        patience=replace(PATIENCE, first_frame_s=600.0, opening_s=600.0),
    )
    den.book.await_(lambda: den.book.frames >= 3)
    assert den.book.reasons == [Reason.HANG]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("note.put(written(0, 'gpm')); os.kill(os.getpid(), signal.SIGSEGV)", Reason.CRASH),
        ("os.abort()", Reason.CRASH),
        ("sys.exit(3)", Reason.EXIT),
        ("pass", Reason.EXIT),
        ("say(b'driver says hello\\n'); time.sleep(600)", Reason.GARBAGE),
        ("while True: say(b'x' * 65536)", Reason.GARBAGE),
        ("while True: say(frame())", Reason.GARBAGE),
        ("os.close(order.frames_fd); time.sleep(600)", Reason.EXIT),
        ("say(Fault(Reason.CONTAINER_LOST, 'nvmlDeviceGetCount_v2', 999, 'gone'))", Reason.CONTAINER_LOST),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)", Reason.HANG),
    ],
)
def test_each_way_to_fail_is_recognised_and_healed(den: Den, tmp_path: Path, script: str, reason: Reason) -> None:
    """The first child fails after a frame, the second reads."""
    mark = str(tmp_path / "failed")
    fail = f"if not os.path.exists({mark!r}):\n    open({mark!r}, 'w').close()\n    ready()\n"
    den.run(fail + indent(script, "    ") + "\nelse:\n" + indent(SERVE, "    "))
    den.book.await_(lambda: len(den.book.reasons) >= 1)
    frames = den.book.frames
    den.book.await_(lambda: den.book.frames >= frames + 4)
    assert den.book.reasons == [reason]
    assert len(den.children) == 2


def test_what_a_library_prints_reaches_no_frame(den: Den) -> None:
    """Standard output is the log."""
    den.run("print('NVML: hello', flush=True)\n" + SERVE)
    den.book.await_(lambda: den.book.frames >= 5)
    assert den.book.reasons == []


def test_a_child_sees_the_end_of_its_input_when_we_stop(den: Den, tmp_path: Path) -> None:
    """It may clean up before SIGKILL comes."""
    mark = tmp_path / "clean"
    den.run(
        f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()\nsys.stdin.read()\nopen({str(mark)!r}, 'w').close()\n",
        patience=Patience(ending_s=SOON_S),
    )
    den.book.await_(lambda: den.book.frames >= 1)
    den.stop()
    den.join()
    assert mark.exists()


class Undying(Process):
    """A child that SIGKILL does not reach, as one in the driver; `release` lets it."""

    released = threading.Event()

    def kill(self) -> None:
        """In vain."""
        if self.released.is_set():
            super().kill()


def test_stuck_children_are_never_waited_for(den: Den) -> None:
    """Two, and no third until one is gone; stop() leaves them to themselves."""
    Undying.released.clear()
    hang = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nready()\ntime.sleep(600)\n"
    den.run(hang, child=Undying)
    den.book.await_(lambda: Reason.STUCK in den.book.reasons)
    assert den.book.reasons == [Reason.HANG, Reason.HANG, Reason.STUCK]
    assert len(den.children) == 2
    assert all(_lives(child.pid) for child in den.children)
    Undying.released.set()
    den.children[0].kill()
    den.book.await_(lambda: den.book.frames >= 3)
    Undying.released.clear()
    assert den.stop() < 0.1
    den.join()
    Undying.released.set()
    for child in den.children:
        if _lives(child.pid):
            os.kill(child.pid, signal.SIGKILL)
    for child in den.children[1:]:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child.pid, 0)


def test_no_descriptor_is_left_open(den: Den) -> None:
    """However many children came and went."""
    den.run("ready()\n")
    den.book.await_(lambda: len(den.book.reasons) >= 3)
    before = _open_files()
    den.book.await_(lambda: len(den.book.reasons) >= 13)
    assert _open_files() <= before + 4


def test_a_command_that_is_not_there_is_tried_again() -> None:
    """Without a descriptor left."""
    before = _open_files()
    for _ in range(5):
        with pytest.raises(OSError, match="nowhere"):
            Process(["/nowhere/python"], ORDER)
    assert _open_files() == before


def test_the_interpreters_end_takes_the_child_along(tmp_path: Path) -> None:
    """Even when stop() is not called, or was called just before, and the child ignores SIGTERM."""
    script, told = tmp_path / "child.py", tmp_path / "pid"
    script.write_text(START + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVE)
    parent = f"""
import pathlib, sys, threading
from functools import partial
from slo_exporter.clock import SystemClock
from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.watch.process import Process
from slo_exporter.ingest.nvml.watch.watchdog import Watchdog

heard = threading.Event()
class Book(GpuBook):
    def frame(self, frame):
        heard.set()
        return super().frame(frame)
book = Book(SystemClock())
watchdog = Watchdog(Order(frames_fd=-1, note_fd=-1), book, SystemClock(),
                    spawn=partial(Process, [sys.executable, {str(script)!r}]))
watchdog.start()
assert heard.wait({SOON_S})
pathlib.Path({str(told)!r}).write_text(str(watchdog._running.reader.pid))
if "stop" in sys.argv:
    watchdog.stop()
"""
    for how in ("stop", "run"):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", parent, how],
            capture_output=True,
            text=True,
            check=True,
            timeout=SOON_S,
        )
        assert "Warning" not in done.stderr
        pid = int(told.read_text())
        deadline = time.monotonic() + SOON_S
        while _lives(pid):
            assert time.monotonic() < deadline
