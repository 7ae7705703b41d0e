"""GPUs as the web is told of them: healthy, busy, troubled and lost ones."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from builders import NOON_NS

from slo_exporter.web.board import GpusView, GpuView, Readings

GIB = 2**30
XID_S = NOON_NS // 10**9 - 300
"""When the XIDs of `troubled` came: five minutes before noon."""

Values = Mapping[tuple[str, tuple[str, ...]], float]
NOTHING: Values = MappingProxyType({})

REASONS = (
    *("idle", "application_clocks", "sw_power_cap", "hw_slowdown", "sync_boost"),
    *("sw_thermal", "hw_thermal", "power_brake", "display_clocks"),
)
PIPES = ("int", "fp64", "fp32", "fp16", "dfma_tensor", "hmma_tensor", "dmma_tensor", "imma_tensor")


def info(gpu: int) -> Mapping[str, str]:
    """Labels of an H200."""
    return {
        "pci_bus_id": f"00000000:{0x18 + gpu:02X}:00.0",
        "name": "NVIDIA H200",
        "architecture": "hopper",
        "compute_capability": "9.0",
        "serial": f"16530240{gpu:05d}",
        "vbios": "96.00.BC.00.01",
        "driver": "580.159.04",
        "cuda": "13.0",
        "minor": str(gpu),
        "module": str(gpu + 1),
        "numa": "",
    }


def uuid(gpu: int) -> str:
    """The name that never changes."""
    return f"GPU-{gpu:08x}-1111-2222-3333-444455556666"


def values(busy: float = 0.98, *, reasons: Sequence[str] = ()) -> dict[tuple[str, tuple[str, ...]], float]:
    """Every value that an H200 tells, under a load; *reasons* hold its clocks down."""
    ratios = {"sm": 0.946, "tensor": 0.918, "dram": 0.17, "graphics": 1.0}
    named: dict[str, dict[tuple[str, ...], float]] = {
        "gpu_utilization_ratio": {(): busy},
        **{f"gpu_{part}_active_ratio": {(): busy * ratio} for part, ratio in ratios.items()},
        **{f"gpu_{part}_active_seconds_total": {(): 3600 * busy * ratio} for part, ratio in ratios.items()},
        "gpu_busy_seconds_total": {(): 3600 * busy},
        "gpu_observed_seconds_total": {(): 3600.0},
        "gpu_sm_occupancy_ratio": {(): 0.21},
        "gpu_pipe_active_ratio": {(pipe,): 0.01 for pipe in PIPES},
        "gpu_memory_bandwidth_busy_ratio": {(): 0.31},
        "gpu_engine_utilization_ratio": {(engine,): 0.0 for engine in ("decoder", "jpeg", "ofa")},
        "gpu_memory_total_bytes": {(): 150_754_820_096.0},
        "gpu_memory_used_bytes": {(): 121.4 * GIB},
        "gpu_memory_free_bytes": {(): 150_754_820_096.0 - 644_939_776 - 121.4 * GIB},
        "gpu_memory_reserved_bytes": {(): 644_939_776.0},
        "gpu_bar1_total_bytes": {(): 256.0 * GIB},
        "gpu_bar1_used_bytes": {(): 1.0 * GIB},
        "gpu_power_watts": {(): 689.6},
        "gpu_power_average_watts": {(): 690.2},
        "gpu_module_power_watts": {(): 700.0},
        "gpu_power_limit_watts": {(kind,): 700.0 for kind in ("enforced", "default", "max", "requested")},
        "gpu_energy_joules_total": {("counter",): 2_557_324.5},
        "gpu_temperature_celsius": {("gpu",): 63.0, ("memory",): 71.0},
        "gpu_temperature_margin_celsius": {(): 22.0},
        "gpu_temperature_threshold_celsius": {("shutdown",): 95.0},
        "gpu_clock_hertz": {("sm",): 1.515e9, ("memory",): 3.201e9, ("graphics",): 1.515e9, ("video",): 1.2e9},
        "gpu_clock_max_hertz": {("sm",): 1.98e9, ("memory",): 3.201e9},
        "gpu_performance_state": {(): 0.0},
        "gpu_clock_event_active": {(reason,): float(reason in reasons) for reason in REASONS},
        "gpu_clock_event_seconds_total": {("sw_power_cap", "counter"): 2.1, ("hw_slowdown", "sampled"): 0.0},
        "gpu_pcie_bytes_total": {("receive",): 5.2e10, ("transmit",): 1e9},
        "gpu_nvlink_bytes_total": {("receive",): 3.7e11, ("transmit",): 3.7e11},
        "gpu_compute_processes": {(): 1.0},
        "gpu_xid_errors_total": {("48", "reset_gpu"): 0.0, ("79", "reboot"): 0.0},
        "gpu_recovery_action": {(): 0.0},
        "gpu_ecc_errors_total": {
            (kind, scope): 0.0 for kind in ("corrected", "uncorrected") for scope in ("volatile", "aggregate")
        },
        "gpu_remapped_rows": {("corrected",): 0.0, ("uncorrected",): 0.0},
        "gpu_remapped_rows_pending": {(): 0.0},
        "gpu_remapped_rows_failure": {(): 0.0},
        "gpu_retired_pages": {("single_bit",): 0.0},
        "gpu_retired_pages_pending": {(): 0.0},
        "gpu_pcie_link_generation": {(): 5.0},
        "gpu_pcie_link_max_generation": {(): 5.0},
        "gpu_pcie_link_width": {(): 16.0},
        "gpu_pcie_link_max_width": {(): 16.0},
        "gpu_pcie_replays_total": {(): 0.0},
        "gpu_nvlink_links": {("up",): 18.0, ("down",): 0.0},
        "gpu_nvlink_errors_total": {(kind,): 0.0 for kind in ("replay", "recovery", "crc")},
        "gpu_fabric_state": {(): 3.0},
        "gpu_mig_enabled": {(): 0.0},
    }
    return {(name, labels): value for name, numbers in named.items() for labels, value in numbers.items()}


def healthy(gpu: int = 0, groups: Sequence[str] = ("chat",), changed: Values = NOTHING) -> GpuView:
    """A busy GPU with nothing wrong; *changed* values replace its own, and NaN takes one away."""
    now = {key: value for key, value in {**values(), **changed}.items() if value == value}  # noqa: PLR0124 - NaN
    return GpuView(gpu=gpu, uuid=uuid(gpu), is_up=True, reason="ok", groups=tuple(groups), info=info(gpu), values=now)


def troubled(gpu: int = 0) -> GpuView:
    """A GPU with everything wrong that one which answers can have."""
    wrong: Values = {
        **{("gpu_clock_event_active", (reason,)): 1.0 for reason in ("sw_power_cap", "hw_slowdown", "sw_thermal")},
        ("gpu_xid_errors_total", ("48", "reset_gpu")): 2.0,
        ("gpu_xid_last_timestamp_seconds", ("48",)): float(XID_S),
        ("gpu_recovery_action", ()): 4.0,
        ("gpu_ecc_errors_total", ("uncorrected", "volatile")): 3.0,
        ("gpu_remapped_rows_pending", ()): 1.0,
        ("gpu_remapped_rows_failure", ()): 1.0,
        ("gpu_retired_pages_pending", ()): 1.0,
        ("gpu_fabric_state", ()): 2.0,
        ("gpu_nvlink_links", ("up",)): 16.0,
        ("gpu_nvlink_links", ("down",)): 2.0,
        ("gpu_pcie_link_width", ()): 8.0,
        ("slo_exporter_nvml_left_out", ("module_power",)): 1.0,
    }
    return healthy(gpu, changed=wrong)


def failed(gpu: int = 0, reason: str = "lost") -> GpuView:
    """A GPU that cannot be read: only what it was and its XIDs are known."""
    known: Values = {
        ("gpu_xid_errors_total", ("79", "reboot")): 1.0,
        ("gpu_xid_last_timestamp_seconds", ("79",)): XID_S,
    }
    return GpuView(gpu=gpu, uuid=uuid(gpu), is_up=False, reason=reason, groups=("chat",), info=info(gpu), values=known)


def untold(gpu: int = 0, reason: str = "starting") -> GpuView:
    """A GPU of which nobody can tell."""
    return GpuView(gpu=gpu, uuid=uuid(gpu), is_up=None, reason=reason, groups=(), info={}, values={})


HOST: Values = {
    ("host_cpus", ()): 64.0,
    **{("host_cpu_seconds_total", (mode,)): 1000.0 for mode in ("user", "nice", "system", "iowait", "irq", "softirq")},
    ("host_cpu_seconds_total", ("idle",)): 94_000.0,
    ("host_cpu_seconds_total", ("steal",)): 0.0,
    ("host_memory_total_bytes", ()): 512.0 * GIB,
    ("host_memory_available_bytes", ()): 392.5 * GIB,
    **{("host_pressure_seconds_total", (what, "some")): 12.5 for what in ("cpu", "memory", "io")},
    ("host_pressure_seconds_total", ("io", "full")): 3.25,
    ("cgroup_cpu_seconds_total", ("user",)): 30.0,
    ("cgroup_cpu_seconds_total", ("system",)): 6.0,
    ("cgroup_cpu_limit_cores", ()): 8.0,
    ("cgroup_cpu_throttled_seconds_total", ()): 0.5,
    ("cgroup_memory_used_bytes", ()): 4.0 * GIB,
    ("cgroup_memory_limit_bytes", ()): 16.0 * GIB,
}


def read(*gpus: GpuView, source: str = "nvml", reason: str = "ok", message: str = "") -> GpusView:
    """GPUs that are read now."""
    return GpusView(
        source=source,
        reason=reason,
        message=message,
        driver="580.159.04",
        library="13.580.159.04",
        cuda="13.0",
        age_s=0.4,
        gpus=gpus,
        host=HOST,
    )


def unread(source: str = "off", reason: str = "off", message: str = "") -> GpusView:
    """A machine whose GPUs are not read."""
    return GpusView(
        source=source,
        reason=reason,
        message=message,
        driver=None,
        library=None,
        cuda=None,
        age_s=None,
        gpus=(),
        host=HOST,
    )


def elsewhere(gpu: int = 0) -> GpuView:
    """A GPU of `gpu.groups` that is not there: only its UUID is known."""
    return replace(failed(gpu, "missing"), gpu=-1, info={}, values={})


def readings(view: GpusView) -> Readings:
    """What the daemon hands to /metrics for the same GPUs."""
    shown: dict[str, dict[tuple[str, ...], float]] = {}
    for (name, labels), value in view.host.items():
        shown.setdefault(name, {})[labels] = value
    for gpu in view.gpus:
        own = (str(gpu.gpu), gpu.uuid)
        shown.setdefault("gpu_up", {})[*own, gpu.reason] = float(gpu.is_up is True)
        shown.setdefault("gpu_info", {})[*own, *info(gpu.gpu).values()] = 1.0
        for group in gpu.groups:
            shown.setdefault("gpu_group_info", {})[group, *own] = 1.0
        for (name, labels), value in gpu.values.items():
            shown.setdefault(name, {})[*own, *labels] = value
    return shown


def processes(view: GpusView) -> Readings:
    """A process on each GPU: what `gpu.processes` adds."""
    shown = {"memory_bytes": 121.4 * GIB, "sm_ratio": 0.93, "cpu_seconds_total": 3600.0, "resident_bytes": 9.5 * GIB}
    keys = [(str(gpu.gpu), gpu.uuid, str(4711 + gpu.gpu), "python3") for gpu in view.gpus]
    return {f"gpu_process_{name}": dict.fromkeys(keys, value) for name, value in shown.items()}


def reader() -> Readings:
    """What the part that reads GPUs counts about itself."""
    call = ("nvmlDeviceGetUtilizationRates",)
    return {
        "slo_exporter_nvml_up": {(): 1.0},
        "slo_exporter_nvml_info": {("nvml", "ok", "580.159.04", "13.580.159.04", "13.0"): 1.0},
        "slo_exporter_gpus": {("expected",): 2.0, ("seen",): 2.0},
        "slo_exporter_nvml_frame_age_seconds": {(): 0.4},
        "slo_exporter_nvml_frames_total": {(): 3600.0},
        "slo_exporter_nvml_restarts_total": {("hang",): 1.0},
        "slo_exporter_nvml_stuck_children": {(): 0.0},
        "slo_exporter_nvml_left_out": {("0", uuid(0), "energy"): 1.0},
        "slo_exporter_nvml_calls_total": {call: 3600.0},
        "slo_exporter_nvml_call_seconds_total": {call: 0.0072},
        "slo_exporter_nvml_errors_total": {(*call, "not_supported"): 1.0},
        "slo_exporter_nvml_values_refused_total": {("gpu_temperature_celsius",): 1.0},
        "slo_exporter_gpu_records_dropped_total": {(): 0.0},
    }


def nothing_known(*gpus: GpuView) -> GpusView:
    """GPUs before the first reading."""
    return replace(unread("nvml", "starting"), gpus=gpus, host={})
