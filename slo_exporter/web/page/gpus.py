"""The strip of GPUs on the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slo_exporter.web import gpu_wording
from slo_exporter.web.api.models_gpus import GpuItem, GpuList
from slo_exporter.web.gpu_wording import Level

_SIGNS: Final = {
    Level.FINE: ("ok", "●"),
    Level.NOTE: ("ok", "●"),
    Level.UNKNOWN: ("no-data", "○"),
    Level.WARNING: ("at-risk", "▲"),
    Level.FAILURE: ("exhausted", "■"),
}
"""As states of SLOs are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One GPU."""

    gpu: str
    about: str
    """Its name and groups, as far as known."""
    utilization: str
    sm_active: str
    memory: str
    bar: float | None
    """Percent of the memory that is used; None where that is unknown."""
    power: str
    temperature: str
    css: str
    mark: str
    word: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """All GPUs."""

    names: str
    source: str
    """That they are not those of this machine, where they are not."""
    message: str
    """Why they cannot be read; empty when all is well."""
    rows: Sequence[GpuRow]


def strip(found: GpuList) -> Strip | None:
    """The GPUs by index; None where there are none."""
    if not found.items:
        return None
    return Strip(
        names=gpu_wording.names(found.items),
        source=gpu_wording.SOURCES.get(found.source, ""),
        message="" if found.reason == "ok" else found.message or gpu_wording.reason(found.reason),
        rows=[_row(gpu, found.as_of) for gpu in found.items],
    )


def _row(gpu: GpuItem, now: datetime | None) -> GpuRow:
    seen = gpu_wording.findings(gpu, now)
    css, mark = _SIGNS[seen[0].level]
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    return GpuRow(
        gpu=gpu_wording.index(gpu),
        about=", ".join([*([gpu_wording.name(gpu)] if gpu.name else []), *gpu.groups]),
        utilization=gpu_wording.percent(gpu.utilization),
        sm_active=gpu_wording.percent(gpu.sm_active),
        memory=gpu_wording.with_unit(gpu_wording.of(gpu_wording.gib(used), gpu_wording.gib(total)), "GiB"),
        bar=None if used is None or not total else round(min(used / total, 1) * 100, 1),
        power=gpu_wording.with_unit(
            gpu_wording.of(gpu_wording.whole(gpu.power_watts), gpu_wording.whole(gpu.power_limit_watts)), "W"
        ),
        temperature=gpu_wording.with_unit(gpu_wording.whole(gpu.temperature_celsius), "°C"),
        css=css,
        mark=mark,
        word=seen[0].word,
        why="; ".join(found.text for found in seen if found.text),
    )
