"""The stub in the test's own process, in a time of the test's own."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from builders import ManualClock
from stub_library import Stub

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml import note
from slo_exporter.ingest.nvml.driver.library import Nvml
from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, Sample
from slo_exporter.ingest.nvml.note import Note
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.reading import identity
from slo_exporter.ingest.nvml.reading.capabilities import BY_NAME
from slo_exporter.ingest.nvml.reading.device import Device
from slo_exporter.ingest.nvml.reading.gpu import Gpu
from slo_exporter.ingest.nvml.reading.identity import Identity
from slo_exporter.ingest.nvml.reading.poller import Poller
from slo_exporter.ingest.nvml.reading.rhythm import PERIOD_NS
from slo_exporter.ingest.nvml.reading.xid_events import XidEvents


class Bench:
    """
    A library of its own copy, which no other test has loaded; the stub and our clock stand at the same time.

    Args:
        stub: to drive.
        folder: of the test.
        monkeypatch: to name the control file.
    """

    def __init__(self, stub: Stub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stub = stub
        self.clock = ManualClock()
        self.library = shutil.copy(stub.library, folder / "libnvidia-ml-of-this-test.so.1")
        for name, value in stub.environment.items():
            monkeypatch.setenv(name, value)
        stub.stand_at(self.clock.ns // 1000)
        self.nvml = Nvml(self.clock, str(self.library))
        self.note = Note(note.create())
        self.cycle = -1
        self.said: list[Hello | Frame | Fault] = []

    def opened(self, index: int = 0) -> Gpu:
        """A GPU of an initialised library."""
        self.nvml.open()
        return identity.open_gpu(self.nvml, index, Identity())

    def step(self, seconds: float) -> None:
        """Let time pass, for the stub too."""
        self.clock.forward(seconds)
        self.stub.stand_at(self.clock.ns // 1000)

    def read(self, gpu: Gpu, capability: str) -> dict[tuple[str, ...], float]:
        """What a capability tells: {(metric, *labels): value}."""
        return flat(BY_NAME[capability].read(gpu))

    def grown(self, gpu: Gpu) -> dict[tuple[str, ...], float]:
        """What counters grew by since the last time."""
        grown = {(metric, *labels): amount for (metric, labels), amount in gpu.added.items()}
        gpu.added.clear()
        return grown

    def device(self, index: int = 0, **options: object) -> Device:
        """A device of an initialised library."""
        self.nvml.open()
        events = XidEvents(self.nvml, self.note)
        return Device(self.nvml, index, self.clock, self.note, events, **options)  # type: ignore[arg-type]

    def poller(self, **order: object) -> Poller:
        """A poller of an initialised library; what it writes is in `said`."""
        self.nvml.open()
        asked = Order(frames_fd=-1, note_fd=-1, **order)  # type: ignore[arg-type]
        return Poller(self.nvml, self.clock, asked, self.note, self.said.append)

    def run(self, polled: Device | Poller, seconds: float) -> None:
        """Cycle for so long."""
        for _ in range(round(seconds * SECOND_NS / PERIOD_NS)):
            self.cycle += 1
            if isinstance(polled, Device):
                polled.poll(self.cycle)
            else:
                polled.cycle(self.cycle)
            self.step(PERIOD_NS / SECOND_NS)

    @property
    def frames(self) -> list[Frame]:
        """The frames that were written."""
        return [said for said in self.said if isinstance(said, Frame)]


def flat(samples: Sequence[Sample]) -> dict[tuple[str, ...], float]:
    """{(metric, *labels): value}."""
    return {(metric, *labels): value for metric, labels, value in samples}


def environment(stub: Stub) -> dict[str, str]:
    """Of a program that loads the stub."""
    return {**os.environ, **stub.environment}
