"""One GPU's part of a frame, checked and ready to be booked: done before the book is locked."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from slo_exporter.ingest.host.processes import ProcessUse
from slo_exporter.ingest.nvml.book import records, shapes
from slo_exporter.ingest.nvml.book.shapes import Key
from slo_exporter.ingest.nvml.frame import Frame, GpuReading, Process, Tier

Uses: TypeAlias = Callable[[Iterable[int]], Mapping[int, ProcessUse]]
"""What processes use of the CPU and of memory, by the host's ids; `ingest.host.processes.of`."""

MOST_PROCESSES: Final = 128
"""Of one GPU: a thousand series of one server's GPUs."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """What can be booked of one reading."""

    reading: GpuReading
    info: Mapping[str, str]
    tiers: Mapping[Tier, Mapping[Key, float]]
    grown: Mapping[Key, float]
    processes: Mapping[Key, float] | None
    second: records.Fields


def sift(frame: Frame, uses: Uses | None, refused: Counter[str]) -> list[Sifted]:
    """Check a frame; what is left out is counted in *refused* by metric."""
    sound = [reading for reading in frame.gpus if _is_sound(reading)][: shapes.MOST_GPUS]
    if len(sound) < len(frame.gpus):
        refused["gpu_up"] += len(frame.gpus) - len(sound)
    pids = {process.pid for reading in sound for process in (reading.processes or ())[:MOST_PROCESSES]}
    found = uses(pids) if uses is not None and pids else {}
    return [_one(reading, found, refused) for reading in sound]


def _is_sound(reading: GpuReading) -> bool:
    return 0 <= reading.gpu < shapes.MOST_INDEX and len(reading.uuid) <= shapes.LONGEST_TEXT


def _one(reading: GpuReading, uses: Mapping[int, ProcessUse], refused: Counter[str]) -> Sifted:
    tiers = {tier: shapes.sampled(samples, refused) for tier, samples in reading.tiers.items()}
    processes = reading.processes
    if processes is not None and len(processes) > MOST_PROCESSES:
        refused["gpu_process_memory_bytes"] += len(processes) - MOST_PROCESSES
    return Sifted(
        reading,
        shapes.texts(reading.info, "gpu_info", refused),
        tiers,
        shapes.added(reading.added, refused),
        None if processes is None else dict(_processes(processes[:MOST_PROCESSES], uses)),
        records.fields(reading, tiers.get(Tier.NORMAL, {})),
    )


def _processes(processes: Iterable[Process], uses: Mapping[int, ProcessUse]) -> Iterator[tuple[Key, float]]:
    for process in processes:
        use = uses.get(process.pid)
        labels = (str(process.pid), use.name[: shapes.LONGEST_TEXT] if use else "")
        known = {
            "gpu_process_memory_bytes": process.memory_bytes,
            "gpu_process_sm_ratio": process.sm_ratio,
            "gpu_process_cpu_seconds_total": use.cpu_seconds if use else None,
            "gpu_process_resident_bytes": use.resident_bytes if use else None,
        }
        yield from (((metric, labels), float(value)) for metric, value in known.items() if value is not None)
