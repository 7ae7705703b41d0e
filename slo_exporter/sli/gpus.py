"""
What GPUs did, second by second, in columns: what SLIs on GPUs are computed from.

Rules of this module:

1. A missing value is `MISSING`. Missing is not 0.
2. Ratios are whole billionths, so that thresholds compare exactly.
3. Row i of every column is the same GPU in the same second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.records import MISSING, Ints, Kind, Mask

WHOLE: int = 10**9
"""A ratio of 1, in a column."""

GPU_FIELDS: Mapping[str, Kind] = {
    "up": Kind.RATIO,
    "utilization": Kind.RATIO,
    "memory": Kind.RATIO,
    "sm_active": Kind.RATIO,
    "tensor_active": Kind.RATIO,
    "dram_active": Kind.RATIO,
    "throttled": Kind.RATIO,
    "power_capped": Kind.RATIO,
    "temperature": Kind.COUNT,
    "power": Kind.COUNT,
    "xids": Kind.COUNT,
    "critical_xids": Kind.COUNT,
}
"""
Fields of a record.

up: 1 while the GPU can be read, 0 once it failed, missing while nobody can tell
(NVML hangs, the driver is being upgraded). utilization: share of time in which
any kernel ran. memory: used of total, without what the driver reserves.
sm_active, tensor_active, dram_active: GPM, averaged over the second. throttled:
share of the second in which the clocks were held down for heat, hardware
slowdown or power brake. power_capped: by the power limit, which a busy GPU meets
in good health. temperature: whole degrees Celsius. power: whole watts. xids: errors that the
driver reported; critical_xids: those that ask to reset the GPU, to
reboot, or for support.
"""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Which GPU."""

    index: int
    """NVML's; not stable across reboots."""
    uuid: str
    name: str = ""
    groups: frozenset[str] = frozenset()
    """Of ``gpu.groups``."""


@dataclass(frozen=True, slots=True)
class GpuSelector:
    """Which GPUs an SLO is about: those that match every key; without keys all of this host."""

    service: str
    """Whose SLO it is; GPUs belong to a service by ``group``."""
    matches: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(gpu, uuid, name or group; any of these texts)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBatch:
    """Seconds of GPUs, one row each."""

    end_ns: Ints
    """End of the second, nanoseconds since the epoch."""
    gpus: Sequence[Gpu]
    """The distinct ones."""
    gpu: NDArray[np.int32]
    """Shape (rows,): index in *gpus*."""
    fields: Mapping[str, Ints] = field(default_factory=dict)
    """Columns by name of `GPU_FIELDS`; an absent one is missing everywhere."""

    def __len__(self) -> int:
        """How many rows."""
        return len(self.end_ns)

    def number(self, name: str) -> Ints:
        """The column *name*, `MISSING` where unknown."""
        column = self.fields.get(name)
        return np.full(len(self), MISSING, dtype=np.int64) if column is None else column

    def take(self, rows: Ints | Mask) -> "GpuBatch":
        """The same columns for some rows."""
        return GpuBatch(
            end_ns=self.end_ns[rows],
            gpus=self.gpus,
            gpu=self.gpu[rows],
            fields={name: column[rows] for name, column in self.fields.items()},
        )
