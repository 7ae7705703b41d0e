"""What the book tells others: one GPU, and how all are read."""

from collections.abc import Mapping
from dataclasses import dataclass

from slo_exporter.ingest.nvml.book.shapes import Key
from slo_exporter.ingest.nvml.frame import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """One GPU as it is now."""

    gpu: int
    """NVML index; `NO_INDEX` where it was never seen."""
    uuid: str
    """Empty where it never answered; its PCI bus id where it is known by that only."""
    is_up: bool | None
    """None while nobody can tell."""
    reason: Reason
    groups: tuple[str, ...]
    info: Mapping[str, str]
    """Labels of ``gpu_info`` beside ``gpu`` and ``uuid``; kept while the GPU is down."""
    values: Mapping[Key, float]
    """What can be told now; of a GPU that is down, its XIDs and what is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """How GPUs are read."""

    source: str
    """nvml, simulated, replay or off."""
    reason: Reason
    message: str
    """One sentence for people; empty when all is well."""
    driver: str | None
    library: str | None
    cuda: str | None
    age_s: float | None
    """Of the newest frame; None without one."""


@dataclass(frozen=True, slots=True)
class Change:
    """A GPU whose reason is another one than in the frame before."""

    gpu: int
    uuid: str
    before: Reason
    reason: Reason


NO_INDEX = -1
"""Stands for the index of a GPU that was never seen, but is named in ``gpu.groups``."""
