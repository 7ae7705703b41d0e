"""Runs a source that needs no GPU, in time that only passes when it waits."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from builders import ManualClock

from slo_exporter.clock import Clock
from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, line
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.watch.messages import decode

Said = Hello | Frame | Fault
Source = Callable[[Order, Callable[[Said], object], Callable[[float], bool], Clock], None]


@dataclass
class Play:
    """A source's listener; *oversleeps* is how much longer than asked each wait takes."""

    seconds: float
    oversleeps: float = 0.0
    clock: ManualClock = field(default_factory=ManualClock)
    said: list[Said] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def run(self, source: Source, order: Order) -> list[Said]:
        """Everything that the source says until the time is over."""
        source(order, self.said.append, self.wait, self.clock)
        return self.said

    def wait(self, seconds: float) -> bool:
        """Let time pass; True once it is over."""
        self.waits.append(seconds)
        self.clock.forward(seconds + self.oversleeps)
        return self.clock.monotonic_ns() > self.seconds * 1e9


def order(recording: str = "", *, processes: bool = False) -> Order:
    """An order for no pipe at all."""
    return Order(frames_fd=-1, note_fd=-1, recording=recording, processes=processes)


def heard(said: Said) -> Said:
    """What the parent reads of it."""
    written = line(said)
    assert json.loads(written)
    return decode(written)
