"""Who computes on a GPU."""

from collections.abc import Sequence
from typing import Final

from slo_exporter.ingest.nvml.frame import Process, Sample, Tier
from slo_exporter.ingest.nvml.reading.capability import Capability
from slo_exporter.ingest.nvml.reading.gpu import Gpu

_NOT_TOLD: Final = (1 << 64) - 1
"""NVML_VALUE_NOT_AVAILABLE"""
_WHOLE: Final = 100


def _shares(gpu: Gpu) -> Sequence[Sample]:
    """Asked only where processes are wanted: it costs milliseconds."""
    if not gpu.lists_processes:
        return ()
    last = gpu.seen.get("process_shares", 0)
    gpu.process_shares = {}
    for found in gpu.nvml.process_utilization(gpu.handle, last):
        gpu.seen["process_shares"] = max(gpu.seen.get("process_shares", 0), found.timeStamp)
        if found.smUtil > _WHOLE:
            gpu.refuse("gpu_process_sm_ratio")
        else:
            gpu.process_shares[found.pid] = found.smUtil / _WHOLE
    return ()


def _processes(gpu: Gpu) -> Sequence[Sample]:
    found = gpu.nvml.processes(gpu.handle)
    if gpu.lists_processes:
        gpu.processes = [
            Process(
                process.pid,
                None if process.usedGpuMemory == _NOT_TOLD else process.usedGpuMemory,
                gpu.process_shares.get(process.pid),
            )
            for process in found
        ]
    return (("gpu_compute_processes", (), len(found)),)


CAPABILITIES: Final = (
    Capability(
        name="process_shares",
        tier=Tier.SLOW,
        calls=("nvmlDeviceGetProcessUtilization",),
        metrics=("gpu_process_sm_ratio",),
        read=_shares,
    ),
    Capability(
        name="processes",
        tier=Tier.SLOW,
        calls=("nvmlDeviceGetComputeRunningProcesses_v3",),
        metrics=("gpu_compute_processes", "gpu_process_memory_bytes"),
        read=_processes,
    ),
)
"""In this order: the second takes along what the first found."""
