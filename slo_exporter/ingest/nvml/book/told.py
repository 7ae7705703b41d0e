"""From states to metrics: label values stand in the order of the catalogue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from slo_exporter.ingest.nvml.book.states import NO_INDEX, GpuState, SourceState
from slo_exporter.ingest.nvml.frame import Reason

Readings: TypeAlias = Mapping[str, Mapping[tuple[str, ...], float]]
"""Metric → label values → value."""

INFO_LABELS: Final = (
    *("pci_bus_id", "name", "architecture", "compute_capability", "serial", "vbios"),
    *("driver", "cuda", "minor", "module", "numa"),
)
"""Labels of ``gpu_info`` after ``gpu`` and ``uuid``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted about reading GPUs."""

    restarts: Mapping[str, int]
    stuck: int
    frames: int
    dropped: int
    costs: Mapping[str, Mapping[tuple[str, ...], float]]


def readings(source: SourceState, gpus: Sequence[GpuState], counted: Counted) -> Readings:
    """All metrics; one without samples is left out."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for gpu in gpus:
        _put_gpu(found, source, gpu)
    found["slo_exporter_nvml_info"] = {_who_reads(source): 1.0}
    if source.reason is not Reason.OFF:
        _put_counted(found, source, gpus, counted)
    return {name: samples for name, samples in found.items() if samples}


def _put_gpu(found: dict[str, dict[tuple[str, ...], float]], source: SourceState, gpu: GpuState) -> None:
    who = _labels(gpu)
    found.setdefault("gpu_up", {})[*who, gpu.reason.value] = float(gpu.is_up is True)
    for group in gpu.groups:
        found.setdefault("gpu_group_info", {})[group, *who] = 1.0
    for (metric, labels), value in gpu.values.items():
        found.setdefault(metric, {})[who + labels] = value
    if gpu.info and gpu.gpu != NO_INDEX:
        # Which GPU it is stays true while it is down.
        info = {"driver": source.driver or "", "cuda": source.cuda or "", **gpu.info}
        labels = tuple(info.get(name, "") for name in INFO_LABELS)
        found.setdefault("gpu_info", {})[who + labels] = 1.0


def _labels(gpu: GpuState) -> tuple[str, ...]:
    return ("" if gpu.gpu == NO_INDEX else str(gpu.gpu), gpu.uuid)


def _who_reads(source: SourceState) -> tuple[str, ...]:
    versions = (source.driver or "", source.library or "", source.cuda or "")
    return (source.source, source.reason.value, *versions)


def _put_counted(
    found: dict[str, dict[tuple[str, ...], float]], source: SourceState, gpus: Sequence[GpuState], counted: Counted
) -> None:
    is_read = source.reason is Reason.OK
    found["slo_exporter_nvml_up"] = {(): float(is_read)}
    found["slo_exporter_nvml_restarts_total"] = {(name,): float(count) for name, count in counted.restarts.items()}
    found["slo_exporter_nvml_stuck_children"] = {(): float(counted.stuck)}
    found["slo_exporter_nvml_frames_total"] = {(): float(counted.frames)}
    found["slo_exporter_gpu_records_dropped_total"] = {(): float(counted.dropped)}
    found["slo_exporter_gpus"] = {("expected",): float(len(gpus))}
    if is_read:
        # While nobody reads, nobody can tell how many there are.
        seen = sum(gpu.reason is not Reason.MISSING for gpu in gpus)
        found["slo_exporter_gpus"]["seen",] = float(seen)
    if source.age_s is not None:
        found["slo_exporter_nvml_frame_age_seconds"] = {(): source.age_s}
    found.update({name: dict(samples) for name, samples in counted.costs.items()})
