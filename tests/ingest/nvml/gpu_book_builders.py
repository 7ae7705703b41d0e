"""Frames that the tests of the book, the records and the watchdog are told."""

from collections.abc import Sequence
from typing import Any

from builders import NOON_NS, ManualClock

from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.frame import Frame, GpuReading, Hello, Reason, Tier

UUIDS = ("GPU-aaaa", "GPU-bbbb", "GPU-cccc", "GPU-dddd")
HELLO = Hello("nvml", 42, "580.159", "13.580.159", "13.0")


def reading(gpu: int = 0, **overrides: Any) -> GpuReading:
    """A GPU that can be read, with one value in the normal tier."""
    fields: dict[str, Any] = {
        "gpu": gpu,
        "uuid": UUIDS[gpu] if gpu < len(UUIDS) else f"GPU-{gpu}",
        "reason": Reason.OK,
        "tiers": {Tier.NORMAL: [("gpu_utilization_ratio", (), 0.5)]},
    }
    return GpuReading(**{**fields, **overrides})


def lost(gpu: int = 0, reason: Reason = Reason.LOST, **overrides: Any) -> GpuReading:
    """A GPU that cannot be read."""
    return reading(gpu, reason=reason, tiers={}, **overrides)


def frame(*gpus: GpuReading, at_ns: int = NOON_NS, **overrides: Any) -> Frame:
    """One cycle."""
    return Frame(at_ns=at_ns, seconds=1.0, gpus=gpus, **overrides)


class Bench:
    """A book with a clock that moves a second from frame to frame."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.book = GpuBook(self.clock, **settings)
        self.book.hello(HELLO)

    def see(self, *gpus: GpuReading, **overrides: Any) -> None:
        """A second passes, a frame comes."""
        self.clock.forward(1)
        self.book.frame(frame(*gpus, at_ns=self.clock.ns, **overrides))

    def samples(self, metric: str) -> dict[tuple[str, ...], float]:
        """What /metrics would show of one metric."""
        return dict(self.book.readings().get(metric, {}))

    def rows(self, *names: str) -> list[tuple[int | None, ...]]:
        """Take the records: (second since noon, index of the GPU, the fields *names*)."""
        batch = self.book.take()
        if batch is None:
            return []
        columns: Sequence[Any] = [batch.number(name) for name in names]
        return [
            (
                (int(batch.end_ns[row]) - NOON_NS) // 10**9,
                batch.gpus[batch.gpu[row]].index,
                *(None if column[row] == -(2**63) else int(column[row]) for column in columns),
            )
            for row in range(len(batch))
        ]
