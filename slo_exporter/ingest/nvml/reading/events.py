"""Why clocks are held down now, as flags."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.frame import Sample, Tier
from slo_exporter.ingest.nvml.reading.capability import Capability
from slo_exporter.ingest.nvml.reading.gpu import Gpu

REASONS: Final[Mapping[int, str]] = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x100: "display_clocks",
}
"""nvmlClocksEventReason*"""
_ALL: Final = 0x1FF
_CURRENT: Final = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""The new name since driver 535, and the old one of the same function."""
_SUPPORTED: Final = ("nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetSupportedClocksThrottleReasons")


@lru_cache(maxsize=64)
def named(bits: int) -> tuple[str, ...]:
    """The reasons of a bit mask; bits from the future are left out."""
    return tuple(reason for bit, reason in REASONS.items() if bits & bit)


def supported(gpu: Gpu) -> int:
    """The reasons that this GPU can tell, asked once."""
    found = gpu.seen.get("supported_reasons")
    if found is None:
        found = gpu.seen["supported_reasons"] = _ask_supported(gpu)
    return found


def _ask_supported(gpu: Gpu) -> int:
    """A driver that does not tell is taken to tell all."""
    try:
        return gpu.nvml.long(gpu.nvml.first_there(*_SUPPORTED), gpu.handle) & _ALL
    except NvmlError as error:
        if codes.behaviour(error.code) is not Behaviour.DROP:
            raise
        return _ALL


def _current(gpu: Gpu) -> Sequence[Sample]:
    bits = gpu.nvml.long(gpu.nvml.first_there(*_CURRENT), gpu.handle)
    gpu.pulse.reasons = bits
    return _flags(bits, supported(gpu))


@lru_cache(maxsize=64)
def _flags(bits: int, can_tell: int) -> tuple[Sample, ...]:
    return tuple(
        ("gpu_clock_event_active", (reason,), float(bool(bits & bit)))
        for bit, reason in REASONS.items()
        if can_tell & bit
    )


CAPABILITIES: Final = tuple(
    Capability(name=name, tier=tier, calls=(*_CURRENT, *_SUPPORTED), metrics=("gpu_clock_event_active",), read=_current)
    for name, tier in (("clock_event_pulse", Tier.FAST), ("clock_events", Tier.NORMAL))
)
