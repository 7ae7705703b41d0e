"""Busy seconds, of the ring in which the driver keeps utilisation samples: the integral between readings."""

import struct
from collections.abc import Sequence
from typing import Final

from slo_exporter.ingest.nvml.driver import abi
from slo_exporter.ingest.nvml.frame import Sample, Tier
from slo_exporter.ingest.nvml.reading.capability import Capability
from slo_exporter.ingest.nvml.reading.gpu import Gpu

_BUSY: Final = "gpu_busy_seconds_total"
_LONGEST_US: Final = 2_000_000
"""Samples lie up to a second apart (nvml.h): a longer gap is one that the ring forgot, and counts as nothing."""
_WHOLE: Final = 100
_US: Final = 1e-6


def _busy(gpu: Gpu) -> Sequence[Sample]:
    # What happened before the first reading, the child before this one has told.
    last, is_first = gpu.seen.get("ring", 0), "ring" not in gpu.seen
    kind, found = gpu.nvml.utilization_samples(gpu.handle, last)
    busy = 0.0
    for at, share in struct.iter_unpack(f"=Q{abi.VALUE_FORMATS[kind]}", found):
        if at <= last:
            continue
        if not 0 <= share <= _WHOLE:
            gpu.refuse(_BUSY)
        elif at - last <= _LONGEST_US:
            busy += share * (at - last)
        last = at
    gpu.seen["ring"] = last
    gpu.grow(_BUSY, (), 0.0 if is_first else busy * _US / _WHOLE)
    return ()


CAPABILITIES: Final = (
    Capability(name="busy_seconds", tier=Tier.SLOW, calls=("nvmlDeviceGetSamples",), metrics=(_BUSY,), read=_busy),
)
