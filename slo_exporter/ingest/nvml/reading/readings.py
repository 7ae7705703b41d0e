"""What one getter each tells."""

from collections.abc import Sequence
from typing import Final

from slo_exporter.ingest.nvml.driver import abi, codes
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.frame import Sample, Tier
from slo_exporter.ingest.nvml.reading.capability import Capability
from slo_exporter.ingest.nvml.reading.gpu import Gpu

_MEGA: Final = 1e6
_PERCENT: Final = 0.01
_MILLI: Final = 1e-3


def _utilization(gpu: Gpu) -> Sequence[Sample]:
    found = gpu.nvml.struct("nvmlDeviceGetUtilizationRates", gpu.handle, abi.Utilization)
    return (
        ("gpu_utilization_ratio", (), found.gpu * _PERCENT),
        ("gpu_memory_bandwidth_busy_ratio", (), found.memory * _PERCENT),
    )


def _memory(gpu: Gpu) -> Sequence[Sample]:
    if gpu.choices.get("memory") is not abi.Memory:
        try:
            return _memory_v2(gpu)
        except NvmlError as error:
            if codes.behaviour(error.code) is not Behaviour.DROP:
                raise
        gpu.choices["memory"] = abi.Memory
    return _memory_v1(gpu)


def _memory_v2(gpu: Gpu) -> Sequence[Sample]:
    found = gpu.nvml.struct("nvmlDeviceGetMemoryInfo_v2", gpu.handle, abi.MemoryV2, abi.MEMORY_V2)
    return (
        ("gpu_memory_total_bytes", (), found.total),
        ("gpu_memory_used_bytes", (), found.used),
        ("gpu_memory_free_bytes", (), found.free),
        ("gpu_memory_reserved_bytes", (), found.reserved),
    )


def _memory_v1(gpu: Gpu) -> Sequence[Sample]:
    """Here *used* counts what is reserved, and nothing tells how much that is."""
    found = gpu.nvml.struct("nvmlDeviceGetMemoryInfo", gpu.handle, abi.Memory)
    return (
        ("gpu_memory_total_bytes", (), found.total),
        ("gpu_memory_used_bytes", (), found.used),
        ("gpu_memory_free_bytes", (), found.free),
    )


def _bar1(gpu: Gpu) -> Sequence[Sample]:
    found = gpu.nvml.struct("nvmlDeviceGetBAR1MemoryInfo", gpu.handle, abi.Bar1Memory)
    return (("gpu_bar1_total_bytes", (), found.bar1Total), ("gpu_bar1_used_bytes", (), found.bar1Used))


def _temperature(gpu: Gpu) -> Sequence[Sample]:
    if gpu.choices.get("temperature") is None:
        try:
            found = gpu.nvml.struct("nvmlDeviceGetTemperatureV", gpu.handle, abi.Temperature, abi.TEMPERATURE_V1)
        except NvmlError as error:
            if codes.behaviour(error.code) is not Behaviour.DROP:
                raise
            gpu.choices["temperature"] = "nvmlDeviceGetTemperature"
        else:
            return (("gpu_temperature_celsius", ("gpu",), found.temperature),)
    degrees = gpu.nvml.number("nvmlDeviceGetTemperature", gpu.handle, abi.GPU_SENSOR)
    return (("gpu_temperature_celsius", ("gpu",), degrees),)


def _margin(gpu: Gpu) -> Sequence[Sample]:
    kind, version = abi.MarginTemperature, abi.MARGIN_TEMPERATURE_V1
    found = gpu.nvml.struct("nvmlDeviceGetMarginTemperature", gpu.handle, kind, version)
    return (("gpu_temperature_margin_celsius", (), found.marginTemperature),)


def _energy(gpu: Gpu) -> Sequence[Sample]:
    joules = gpu.nvml.long("nvmlDeviceGetTotalEnergyConsumption", gpu.handle) * _MILLI
    return (("gpu_energy_joules_total", ("counter",), joules),)


def _mig(gpu: Gpu) -> Sequence[Sample]:
    current, _ = gpu.nvml.pair("nvmlDeviceGetMigMode", gpu.handle)
    return (("gpu_mig_enabled", (), current),)


def _fabric(gpu: Gpu) -> Sequence[Sample]:
    found = gpu.nvml.struct("nvmlDeviceGetGpuFabricInfoV", gpu.handle, abi.FabricInfoV2, abi.FABRIC_INFO_V2)
    if not found.state:  # NVML_GPU_FABRIC_STATE_NOT_SUPPORTED
        raise NvmlError(codes.NOT_SUPPORTED, "nvmlDeviceGetGpuFabricInfoV")
    return (("gpu_fabric_state", (), found.state),)


def _number(
    tier: Tier, call: str, arguments: tuple[int, ...], metric: str, labels: tuple[str, ...] = (), *, scale: float = 1
) -> Capability:
    """A capability that is one unsigned int."""

    def read(gpu: Gpu) -> Sequence[Sample]:
        return ((metric, labels, gpu.nvml.number(call, gpu.handle, *arguments) * scale),)

    plain = metric.removeprefix("gpu_").removesuffix("_hertz").removesuffix("_celsius")
    return Capability(name="_".join((plain, *labels)), tier=tier, calls=(call,), metrics=(metric,), read=read)


def _engine(engine: str, call: str) -> Capability:
    labels = (engine,)

    def read(gpu: Gpu) -> Sequence[Sample]:
        share, _ = gpu.nvml.pair(call, gpu.handle)
        return (("gpu_engine_utilization_ratio", labels, share * _PERCENT),)

    metrics = ("gpu_engine_utilization_ratio",)
    return Capability(name=f"engine_{engine}", tier=Tier.SLOW, calls=(call,), metrics=metrics, read=read)


_CLOCKS: Final = (("sm", 1), ("memory", 2), ("graphics", 0), ("video", 3))
"""NVML_CLOCK_*"""
_THRESHOLDS: Final = (("shutdown", 0), ("slowdown", 1), ("memory_max", 2), ("gpu_max", 3))
"""NVML_TEMPERATURE_THRESHOLD_*"""
_ENGINES: Final = (
    ("encoder", "nvmlDeviceGetEncoderUtilization"),
    ("decoder", "nvmlDeviceGetDecoderUtilization"),
    ("jpeg", "nvmlDeviceGetJpgUtilization"),
    ("ofa", "nvmlDeviceGetOfaUtilization"),
)

CAPABILITIES: Final = (
    Capability(
        name="utilization",
        tier=Tier.NORMAL,
        calls=("nvmlDeviceGetUtilizationRates",),
        metrics=("gpu_utilization_ratio", "gpu_memory_bandwidth_busy_ratio"),
        read=_utilization,
    ),
    Capability(
        name="memory",
        tier=Tier.NORMAL,
        calls=("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"),
        metrics=(
            "gpu_memory_total_bytes",
            "gpu_memory_used_bytes",
            "gpu_memory_free_bytes",
            "gpu_memory_reserved_bytes",
        ),
        read=_memory,
    ),
    Capability(
        name="temperature",
        tier=Tier.NORMAL,
        calls=("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
        metrics=("gpu_temperature_celsius",),
        read=_temperature,
    ),
    *(
        _number(Tier.NORMAL, "nvmlDeviceGetClockInfo", (kind,), "gpu_clock_hertz", (clock,), scale=_MEGA)
        for clock, kind in _CLOCKS
    ),
    _number(Tier.NORMAL, "nvmlDeviceGetPerformanceState", (), "gpu_performance_state"),
    Capability(
        name="energy",
        tier=Tier.SLOW,
        calls=("nvmlDeviceGetTotalEnergyConsumption",),
        metrics=("gpu_energy_joules_total",),
        read=_energy,
    ),
    *(_engine(engine, call) for engine, call in _ENGINES),
    _number(Tier.SLOW, "nvmlDeviceGetCurrPcieLinkGeneration", (), "gpu_pcie_link_generation"),
    _number(Tier.SLOW, "nvmlDeviceGetCurrPcieLinkWidth", (), "gpu_pcie_link_width"),
    Capability(
        name="temperature_margin",
        tier=Tier.RARE,
        calls=("nvmlDeviceGetMarginTemperature",),
        metrics=("gpu_temperature_margin_celsius",),
        read=_margin,
    ),
    Capability(
        name="bar1",
        tier=Tier.RARE,
        calls=("nvmlDeviceGetBAR1MemoryInfo",),
        metrics=("gpu_bar1_total_bytes", "gpu_bar1_used_bytes"),
        read=_bar1,
    ),
    Capability(
        name="fabric",
        tier=Tier.RARE,
        calls=("nvmlDeviceGetGpuFabricInfoV",),
        metrics=("gpu_fabric_state",),
        read=_fabric,
    ),
    Capability(name="mig", tier=Tier.RARE, calls=("nvmlDeviceGetMigMode",), metrics=("gpu_mig_enabled",), read=_mig),
    *(
        _number(Tier.ONCE, "nvmlDeviceGetMaxClockInfo", (kind,), "gpu_clock_max_hertz", (clock,), scale=_MEGA)
        for clock, kind in _CLOCKS
    ),
    *(
        _number(
            Tier.ONCE, "nvmlDeviceGetTemperatureThreshold", (kind,), "gpu_temperature_threshold_celsius", (threshold,)
        )
        for threshold, kind in _THRESHOLDS
    ),
    _number(Tier.ONCE, "nvmlDeviceGetMaxPcieLinkGeneration", (), "gpu_pcie_link_max_generation"),
    _number(Tier.ONCE, "nvmlDeviceGetMaxPcieLinkWidth", (), "gpu_pcie_link_max_width"),
)
