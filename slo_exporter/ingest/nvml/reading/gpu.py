"""One GPU as the reading functions see it: its handle, and what they must remember from call to call."""

from collections.abc import Sequence
from ctypes import c_void_p
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slo_exporter.ingest.nvml.driver.library import Nvml

if TYPE_CHECKING:
    from slo_exporter.ingest.nvml.frame import Process
    from slo_exporter.ingest.nvml.reading.gpm import Windows


@dataclass(slots=True)
class Pulse:
    """What the fast tier found in one cycle, for `Activity`; None where it does not tell."""

    seconds: float | None = None
    """Length of the GPM window."""
    sm: float | None = None
    tensor: float | None = None
    dram: float | None = None
    power_watts: float | None = None
    reasons: int | None = None


@dataclass(slots=True, kw_only=True)
class Gpu:
    """
    A GPU that answers.

    Thrown away when the GPU is lost: a new one starts without memories.
    """

    nvml: Nvml
    index: int
    handle: c_void_p
    uuid: str
    pulse: Pulse = field(default_factory=Pulse)
    """Emptied by its owner before each fast cycle."""
    added: dict[tuple[str, tuple[str, ...]], float] = field(default_factory=dict)
    """What counters grew by: (metric, labels) → growth; emptied by its owner."""
    refused: dict[str, int] = field(default_factory=dict)
    """Raw values that could not be true, by metric; emptied by its owner."""
    windows: "Windows | None" = None
    """Of GPM; None until it is first read."""
    seen: dict[str, int] = field(default_factory=dict)
    """Timestamps and counters at the last reading, by what they are of."""
    choices: dict[str, object] = field(default_factory=dict)
    """What this GPU was found to answer (which ids, which version), by capability."""
    gpm_ids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Which metrics of GPM this GPU was found to answer, by reader."""
    counts_link_bytes: bool = False
    """GPM told what NVLink carried."""
    counted_reasons: frozenset[str] | None = None
    """Clock event reasons that the hardware counts in seconds; None until that was read."""
    lists_processes: bool = False
    """Whether `processes` is wanted."""
    process_shares: dict[int, float] = field(default_factory=dict)
    """PID → share of the streaming multiprocessors."""
    processes: "Sequence[Process] | None" = None
    """Emptied by its owner."""

    def grow(self, metric: str, labels: tuple[str, ...], amount: float) -> None:
        """Add to a counter."""
        key = (metric, labels)
        self.added[key] = self.added.get(key, 0.0) + amount

    def refuse(self, metric: str) -> None:
        """Count a raw value that could not be true."""
        self.refused[metric] = self.refused.get(metric, 0) + 1
