"""GET /api/v1/gpus: what the GPUs of this host do."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Final, TypeAlias

from fastapi import APIRouter, Depends

from slo_exporter.clock import SECOND_NS
from slo_exporter.web import wording
from slo_exporter.web.api import problems
from slo_exporter.web.api.dependencies import FromSources, require_known_parameters
from slo_exporter.web.api.models_gpus import GpuItem, GpuList, HostAnswer, XidItem
from slo_exporter.web.board import GpusView, GpuView

# GPUs are seen without any count: not require_loaded.
router = APIRouter(prefix="/api/v1/gpus", tags=["GPUs"], dependencies=[Depends(require_known_parameters)])

_Values: TypeAlias = Mapping[tuple[str, tuple[str, ...]], float]

_RECOVERY_ACTIONS: Final = (
    *("none", "reset", "reboot", "drain_p2p", "drain_and_reset"),
    *("recover_imex_domain", "reset_bus", "reboot_system"),
)
"""By number: nvmlDeviceGpuRecoveryAction_t of nvml.h."""

_FABRIC_STATES: Final = ("not_supported", "not_started", "in_progress", "completed")
"""By number: NVML_GPU_FABRIC_STATE_* of nvml.h."""

_NUMBERS: Final[Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    "utilization": (("gpu_utilization_ratio", ()),),
    "sm_active": (("gpu_sm_active_ratio", ()),),
    "tensor_active": (("gpu_tensor_active_ratio", ()),),
    "dram_active": (("gpu_dram_active_ratio", ()),),
    "graphics_active": (("gpu_graphics_active_ratio", ()),),
    "memory_used_bytes": (("gpu_memory_used_bytes", ()),),
    "memory_total_bytes": (("gpu_memory_total_bytes", ()),),
    "memory_reserved_bytes": (("gpu_memory_reserved_bytes", ()),),
    "power_watts": (("gpu_power_watts", ()), ("gpu_power_average_watts", ())),
    "power_limit_watts": (("gpu_power_limit_watts", ("enforced",)),),
    "energy_joules": (("gpu_energy_joules_total", ("counter",)), ("gpu_energy_joules_total", ("integrated",))),
    "temperature_celsius": (("gpu_temperature_celsius", ("gpu",)),),
    "memory_temperature_celsius": (("gpu_temperature_celsius", ("memory",)),),
    "temperature_margin_celsius": (("gpu_temperature_margin_celsius", ()),),
    "sm_clock_hertz": (("gpu_clock_hertz", ("sm",)),),
    "sm_clock_max_hertz": (("gpu_clock_max_hertz", ("sm",)),),
}
"""Members of `GpuItem` that are one value: the first of these metrics that the GPU tells."""

_COUNTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "pcie_generation": ("gpu_pcie_link_generation", ()),
    "pcie_width": ("gpu_pcie_link_width", ()),
    "pcie_max_generation": ("gpu_pcie_link_max_generation", ()),
    "pcie_max_width": ("gpu_pcie_link_max_width", ()),
    "nvlinks_up": ("gpu_nvlink_links", ("up",)),
    "nvlinks_down": ("gpu_nvlink_links", ("down",)),
    "ecc_uncorrected": ("gpu_ecc_errors_total", ("uncorrected", "volatile")),
}
"""Members that are whole."""

_FLAGS: Final[Mapping[str, str]] = {
    "remapped_rows_pending": "gpu_remapped_rows_pending",
    "remapped_rows_failure": "gpu_remapped_rows_failure",
    "retired_pages_pending": "gpu_retired_pages_pending",
}
"""Members that are true or false."""

_WORDS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "recovery_action": ("gpu_recovery_action", _RECOVERY_ACTIONS),
    "fabric_state": ("gpu_fabric_state", _FABRIC_STATES),
}
"""Members that are one of several words, by number."""

_OF_HOST: Final[Mapping[str, str]] = {
    "memory_total_bytes": "host_memory_total_bytes",
    "memory_available_bytes": "host_memory_available_bytes",
    "cgroup_cpu_limit_cores": "cgroup_cpu_limit_cores",
    "cgroup_cpu_throttled_seconds": "cgroup_cpu_throttled_seconds_total",
    "cgroup_memory_used_bytes": "cgroup_memory_used_bytes",
    "cgroup_memory_limit_bytes": "cgroup_memory_limit_bytes",
}


@router.get("", responses=problems.described(422, 500))
async def list_gpus(sources: FromSources) -> GpuList:
    """List the GPUs of this host by index, and say how they are read; without a GPU the list is empty."""
    now_ns = sources.clock.now_ns()
    return answer(sources.board.gpus(), now_ns)


def answer(view: GpusView, now_ns: int) -> GpuList:
    """All GPUs, as the API shows them."""
    age_s = view.age_s
    return GpuList(
        source=view.source,
        reason=view.reason,
        message=view.message,
        driver=view.driver,
        library=view.library,
        cuda=view.cuda,
        age_seconds=age_s,
        as_of=None if age_s is None else wording.utc(now_ns - round(age_s * SECOND_NS)),
        items=[_item(gpu) for gpu in sorted(view.gpus, key=lambda gpu: (gpu.gpu < 0, gpu.gpu, gpu.uuid))],
        host=_host(view.host),
    )


def _item(gpu: GpuView) -> GpuItem:
    values = _finite(gpu.values)
    numbers: dict[str, Any] = {
        member: next((values[key] for key in keys if key in values), None) for member, keys in _NUMBERS.items()
    }
    counts: dict[str, Any] = {member: _whole(values.get(key)) for member, key in _COUNTS.items()}
    flags: dict[str, Any] = {member: _flag(values.get((metric, ()))) for member, metric in _FLAGS.items()}
    named: dict[str, Any] = {
        member: _word(_whole(values.get((metric, ()))), words) for member, (metric, words) in _WORDS.items()
    }
    return GpuItem(
        gpu=gpu.gpu if gpu.gpu >= 0 else None,
        uuid=gpu.uuid,
        name=gpu.info.get("name") or None,
        pci_bus_id=gpu.info.get("pci_bus_id") or None,
        up=gpu.is_up,
        reason=gpu.reason,
        groups=sorted(gpu.groups),
        clock_events=_clock_events(values),
        xids=_xids(values),
        left_out=[name for (name,) in _labelled(values, "slo_exporter_nvml_left_out")],
        **numbers,
        **counts,
        **flags,
        **named,
    )


def _finite(values: _Values) -> _Values:
    """What is undefined is absent, whoever handed it over."""
    return {key: value for key, value in values.items() if isfinite(value)}


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _labelled(values: _Values, metric: str) -> dict[tuple[str, ...], float]:
    return {labels: value for (name, labels), value in sorted(values.items()) if name == metric}


def _clock_events(values: _Values) -> list[str] | None:
    flags = _labelled(values, "gpu_clock_event_active")
    return [reason for (reason,), flag in flags.items() if flag and reason != "idle"] if flags else None


def _flag(value: float | None) -> bool | None:
    return None if value is None else bool(value)


def _word(number: int | None, words: Sequence[str]) -> str | None:
    if number is None:
        return None
    return words[number] if 0 <= number < len(words) else str(number)


def _xids(values: _Values) -> list[XidItem]:
    last = _labelled(values, "gpu_xid_last_timestamp_seconds")
    items = [
        XidItem(xid=int(xid), action=action, count=int(count), last=_instant(last.get((xid,))))
        for (xid, action), count in _labelled(values, "gpu_xid_errors_total").items()
        if count
    ]
    return sorted(items, key=lambda item: item.xid)


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else wording.utc(round(seconds * SECOND_NS))


def _host(told: _Values) -> HostAnswer:
    values = _finite(told)
    numbers: dict[str, Any] = {member: values.get((metric, ())) for member, metric in _OF_HOST.items()}
    pressure: dict[str, dict[str, float]] = {}
    for (resource, kind), seconds in _labelled(values, "host_pressure_seconds_total").items():
        pressure.setdefault(resource, {})[kind] = seconds
    return HostAnswer(
        cpus=_whole(values.get(("host_cpus", ()))),
        cpu_seconds=_by_mode(values, "host_cpu_seconds_total"),
        pressure_seconds=pressure,
        cgroup_cpu_seconds=_by_mode(values, "cgroup_cpu_seconds_total"),
        **numbers,
    )


def _by_mode(values: _Values, metric: str) -> dict[str, float]:
    return {mode: seconds for (mode,), seconds in _labelled(values, metric).items()}
