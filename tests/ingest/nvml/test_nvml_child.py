import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stub_bench import environment
from stub_library import ANY, Stub

from slo_exporter.ingest.nvml import child, frame, note
from slo_exporter.ingest.nvml.note import Note
from slo_exporter.ingest.nvml.order import Order


class Child:
    """The child as its parent starts it."""

    def __init__(self, variables: dict[str, str], **order: Any) -> None:
        frames, writes = os.pipe()
        self.note_fd = note.create()
        asked = Order(frames_fd=writes, note_fd=self.note_fd, **order)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "slo_exporter.ingest.nvml.child", asked.text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(writes, self.note_fd),
            env=variables,
        )
        os.close(writes)
        self.lines = os.fdopen(frames, "rb")

    def said(self) -> dict[str, Any]:
        """The next line."""
        found: dict[str, Any] = json.loads(self.lines.readline())
        return found

    def end(self) -> int:
        """Close its standard input; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(10)

    def printed(self) -> tuple[bytes, bytes]:
        """What it wrote to output and error output, when it has ended."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return self.process.stdout.read(), self.process.stderr.read()

    def close(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr, self.lines):
            assert pipe is not None
            pipe.close()
        os.close(self.note_fd)


@pytest.fixture
def start(stub: Stub) -> Iterator[Any]:
    """Start children, and end them."""
    children: list[Child] = []

    def begin(**order: Any) -> Child:
        children.append(Child(environment(stub), **order))
        return children[-1]

    yield begin
    for begun in children:
        begun.close()


def test_it_says_who_it_is_and_then_what_it_read(start: Any) -> None:
    """A hello, and a frame at once."""
    begun = start()
    hello, first = begun.said()["hello"], begun.said()["frame"]
    assert (hello["source"], hello["driver"], hello["cuda"]) == ("nvml", "580.159.04", "13.0")
    assert [gpu["gpu"] for gpu in first["gpus"]] == [0, 1]


def test_it_ends_when_its_standard_input_ends(start: Any) -> None:
    """A parent that dies takes it along."""
    begun = start()
    begun.said()
    assert begun.end() == 0


def test_it_ends_at_sigterm_and_not_at_sigint(start: Any) -> None:
    """SIGINT of a terminal goes to the parent, too, which ends it."""
    begun = start()
    begun.said()
    begun.said()
    begun.process.send_signal(signal.SIGINT)
    assert begun.said()["frame"]["gpus"]
    begun.process.send_signal(signal.SIGTERM)
    assert begun.process.wait(10) == 0


def test_it_ends_quietly_when_nobody_reads(start: Any) -> None:
    """A broken pipe is no fault."""
    begun = start()
    begun.said()
    begun.lines.close()
    assert begun.process.wait(10) == 0
    assert begun.printed() == (b"", b"")


def test_what_a_library_prints_reaches_nobody_who_reads_output(start: Any, stub: Stub) -> None:
    """It goes to the error output."""
    stub.on(ANY, "DeviceGetPerformanceState", "print")
    begun = start()
    begun.said()
    assert begun.said()["frame"]["gpus"]
    assert begun.end() == 0
    output, errors = begun.printed()
    assert output == b""
    assert b"a library that talks" in errors


def test_a_fault_is_its_last_line(start: Any, stub: Stub) -> None:
    """No driver: why, and exit 1."""
    stub.on("-", "InitWithFlags", "return 9")
    begun = start()
    assert begun.said()["fault"]["reason"] == "no_driver"
    assert begun.process.wait(10) == child.EXIT_FAULT


def test_no_library_is_a_fault(tmp_path: Path) -> None:
    """A machine without NVIDIA's driver is normal."""
    begun = Child({**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert begun.said()["fault"]["reason"] == "no_library"
    begun.close()


def test_a_driver_upgrade_is_a_fault(start: Any, stub: Stub) -> None:
    """Recognised at the next call."""
    begun = start()
    begun.said()
    begun.said()
    stub.upgrade_driver()
    fault = begun.said()
    while "fault" not in fault:
        fault = begun.said()
    assert fault["fault"]["reason"] == "version_mismatch"


def test_a_call_that_hangs_is_in_the_note(start: Any, stub: Stub) -> None:
    """Which GPU, and which capability."""
    begun = start()
    begun.said()
    begun.said()
    stub.on(1, "DeviceGetMemoryInfo_v2", "hang")
    mark = Note(begun.note_fd)
    while mark.read() != (1, "memory"):
        assert begun.process.poll() is None
    mark.close()


def test_a_call_that_kills_it_is_in_the_note(start: Any, stub: Stub) -> None:
    """The note outlives it."""
    stub.on(0, "DeviceGetUtilizationRates", "segv")
    begun = start()
    assert begun.process.wait(10) == -signal.SIGSEGV
    mark = Note(begun.note_fd)
    assert mark.read() == (0, "utilization")
    mark.close()


def test_an_error_of_our_own_is_told_with_its_place(capfd: pytest.CaptureFixture[str]) -> None:
    """Type, file and line; nothing on the error output."""
    fault = child._fault(_raised())
    assert fault.reason is frame.Reason.EXIT
    assert fault.text.startswith("ZeroDivisionError at test_nvml_child.py:")
    assert capfd.readouterr().err == ""


def _raised() -> Exception:
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        return error
    raise AssertionError


def test_it_imports_the_standard_library_and_nothing_else() -> None:
    """And of that not what is big: it must stay small."""
    script = (
        "import sys; before = set(sys.modules); "
        "import slo_exporter.ingest.nvml.child, slo_exporter.ingest.nvml.reading.poller; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert imported - sys.stdlib_module_names == {"slo_exporter"}
    assert not imported & {"asyncio", "logging", "multiprocessing", "pathlib", "subprocess", "threading", "traceback"}


def test_it_stays_small_with_16_gpus(start: Any, stub: Stub) -> None:
    """Without what NVIDIA's library needs: less than 16 MiB of anonymous memory."""
    stub.gpus(16)
    begun = start()
    for _ in range(3):
        begun.said()
    status = Path(f"/proc/{begun.process.pid}/status").read_text()
    anonymous_kib = int(status.split("RssAnon:")[1].split()[0])
    assert anonymous_kib < 16 * 1024


PARENT = """
import select
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.watch.process import COMMAND, Process

child = Process(COMMAND, Order(frames_fd=-1, note_fd=-1))
select.select([child.frames_fd], [], [])
print(child.pid, child.read().decode(), flush=True)
select.select([], [], [])
"""


def test_a_child_that_hangs_does_not_outlive_a_parent_that_is_killed(stub: Stub) -> None:
    """It cannot see that its standard input has ended."""
    stub.on(ANY, "DeviceGetCount_v2", "hang")
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment(stub)) as parent:
        assert parent.stdout is not None
        pid, said = parent.stdout.readline().split(maxsplit=1)
        child = os.pidfd_open(int(pid))
        assert said.startswith(b'{"hello"')
        parent.kill()
    try:
        assert select.select([child], [], [], 10)[0] == [child]
    finally:
        os.close(child)
