"""
From a GPU to an error budget: NVML, reader, watchdog, book, writer, SQL and API, in a time of the test's own.

The reader is the child's, in this process; that it lives in one of its own is
tested with real processes in tests/system. A slice is judged by the first
heartbeat, each 5 s, that is 30 s after its end.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import LATENESS_NS, RETENTION_NS, ManualClock
from committing import committer_of
from starlette.testclient import TestClient
from stub_bench import Bench
from stub_library import Stub
from test_board import board_of

from slo_exporter.config import slo_file
from slo_exporter.config.gpu_form import GpuSettings
from slo_exporter.daemon.gpus import Gpus
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.driver.library import Nvml
from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, line
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.reading.faults import fault_of
from slo_exporter.ingest.nvml.reading.poller import Poller, hello
from slo_exporter.ingest.nvml.watch.process import Reader
from slo_exporter.ingest.nvml.watch.watchdog import Watchdog
from slo_exporter.web.api.app import create
from slo_exporter.web.metrics.requests import RequestMetrics

SLOS = """\
apiVersion: slo-exporter/v1
service: gpus
slos:
  - name: utilization
    objective: 90%
    window: 1d
    indicator: {gpus: {}, timeslice: 10s, good: mean(utilization) >= 40%}
  - name: availability
    objective: 90%
    window: 1d
    indicator: {gpus: {}, timeslice: 10s, good: min(up) >= 100%}
"""
CYCLE_S = 0.25
DRIVER_NOT_LOADED = 9


class Child:
    """The reader of GPUs as the watchdog sees it, without a process."""

    pid = 4711
    frames_fd = -1

    def __init__(self, bench: Bench, order: Order) -> None:
        self._bench = bench
        self._cycle = 0
        self._said: list[bytes] = []
        self._code: int | None = None
        nvml = Nvml(bench.clock, str(bench.library))
        self._poller = Poller(nvml, bench.clock, order, bench.note, self._say)
        try:
            nvml.open()
            self._say(hello(nvml))
        except NvmlError as error:
            self._give_up(error)

    def cycle(self) -> None:
        """Read once, unless it gave up."""
        if self._code is not None:
            return
        try:
            self._poller.cycle(self._cycle)
        except NvmlError as error:
            self._give_up(error)
        self._cycle += 1

    def read(self) -> bytes | None:
        """What it said since the last time."""
        said, self._said = b"".join(self._said), []
        return said or (None if self._code is None else b"")

    def note(self) -> tuple[int, str] | None:
        """Which call is under way."""
        return self._bench.note.read()

    def ask_to_end(self) -> None:
        """End."""
        self._code = self._code or 0

    def kill(self) -> None:
        """End."""
        self._code = self._code or -9

    def exit_code(self) -> int | None:
        """None while it reads."""
        return self._code

    def leave(self) -> None:
        """Nothing is left to be given up."""

    def _say(self, said: Hello | Frame | Fault) -> None:
        self._said.append(line(said))

    def _give_up(self, error: NvmlError) -> None:
        self._say(fault_of(error))
        self._code = 1


class Host:
    """A server on a database, whose time a test lets pass."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self._folder = folder
        (folder / "slos.yaml").write_text(SLOS)
        self.start()

    @property
    def stub(self) -> Stub:
        """The GPUs."""
        return self.bench.stub

    @property
    def clock(self) -> ManualClock:
        """Of everything here."""
        return self.bench.clock

    def start(self) -> None:
        """Start the server."""
        settings = GpuSettings(source="nvml")
        slos = slo_file.load([self._folder / "slos.yaml"], RETENTION_NS, settings.groups)
        self.committer = committer_of(f"sqlite:///{self._folder / 'counts.db'}", slos, self.clock)
        self.child: Child | None = None
        gpus = Gpus(settings, self.clock, LATENESS_NS)
        self.watchdog = Watchdog(Order(frames_fd=-1, note_fd=-1), gpus._book, self.clock, spawn=self._spawn)
        self._inbox = Inbox()
        self._writer = Writer(self.committer, self._inbox, self.clock, lambda: None, gpus)
        self._writer.open()
        board = board_of(self.committer, self.clock)
        board._gpus = gpus
        self._api = TestClient(create(board, RequestMetrics(), self.clock))

    def stop(self) -> None:
        """Stop the server."""
        self._writer._finish()
        self.committer.close()

    def live(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / CYCLE_S)):
            self.watchdog.turn()
            if self.child is not None:
                self.child.cycle()
            self.watchdog.turn()
            self._writer._turn(self._inbox.take(0))
            self.bench.step(CYCLE_S)

    def budget(self, slo: str) -> Any:
        """What the API answers."""
        return self._api.get(f"/api/v1/slos/gpus/{slo}/budget").raise_for_status().json()

    def events(self, slo: str) -> tuple[int, int]:
        """Good and bad slices."""
        events = self.budget(slo)["events"]
        return events["good"], events["bad"]

    def reasons(self) -> list[str]:
        """Of the GPUs, by index."""
        return [gpu["reason"] for gpu in self._api.get("/api/v1/gpus").raise_for_status().json()["items"]]

    def _spawn(self, order: Order) -> Reader:
        self.child = Child(self.bench, order)
        return self.child


@pytest.fixture
def bench(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Two GPUs under load, and a library in this process."""
    return Bench(Stub(nvml_library, tmp_path).load("*", "matmul"), tmp_path, monkeypatch)


@pytest.fixture
def host(bench: Bench, tmp_path: Path) -> Iterator[Host]:
    """A server that was just started."""
    host = Host(bench, tmp_path)
    yield host
    host.stop()


def test_idle_gpus_burn_the_budget_of_utilization(host: Host) -> None:
    """Slices under load are good, idle ones bad, and a restart in the middle of one changes no verdict."""
    host.live(100)
    assert host.events("utilization") == (6, 0)
    assert host.budget("utilization")["burn_rate"]["5m"] == 0

    host.stub.load("*", "idle")
    host.live(25)
    before = host.budget("utilization")
    host.stop()
    host.start()
    after = host.budget("utilization")
    same = ("sli", "events", "budget", "burn_rate")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    host.live(55)
    assert host.events("utilization") == (10, 4)
    assert host.budget("utilization")["burn_rate"]["5m"] > 1
    assert host.events("availability") == (14, 0)


def test_a_lost_gpu_is_bad_and_nvml_that_is_away_is_no_data(host: Host) -> None:
    """A lost one counts until it is found again, half a minute later; who cannot tell accuses nobody."""
    host.live(20)
    host.stub.on(1, "@readings", "return 15")
    host.live(20)
    assert host.reasons() == ["ok", "lost"]
    host.stub.heal()
    host.live(60)
    assert host.reasons() == ["ok", "ok"]
    assert host.events("availability") == (3, 3)

    host.stub.on("*", "*", f"return {DRIVER_NOT_LOADED}")
    host.live(60)
    assert host.reasons() == ["no_driver", "no_driver"]
    assert host.events("availability") == (7, 3)
    host.stub.heal()
    host.live(100)
    assert host.reasons() == ["ok", "ok"]
    # Of 22 slices six passed while nobody could tell.
    assert host.events("availability") == (13, 3)
    assert host.events("utilization") == (16, 0)
