"""What each metric measures, and what it can be: garbage is refused, never shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Unit(StrEnum):
    """In what a metric is given."""

    BYTES = "bytes"
    WATTS = "watts"
    JOULES = "joules"
    CELSIUS = "celsius"
    RATIO = "ratio"
    SECONDS = "seconds"
    HERTZ = "hertz"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric's unit, and its least and greatest value that can be true."""

    unit: Unit
    low: float
    high: float


_RATIO: Final = Quantity(Unit.RATIO, 0, 1.05)
"""GPM rounds up to a little more than all."""
_MEMORY: Final = Quantity(Unit.BYTES, 0, 2.0**44)
"""16 TiB: a GB300 has 288 GiB, and unified memory counts the host's."""
_TRAFFIC: Final = Quantity(Unit.BYTES, 0, 1e15)
"""In one window: NVLink of a GB300 carries 1.8e12 a second."""
_POWER: Final = Quantity(Unit.WATTS, 0, 10_000)
"""A GB300 module takes 1.4 kW."""
_TEMPERATURE: Final = Quantity(Unit.CELSIUS, 1, 150)
"""0 stands for a sensor that is not there: memory on GDDR."""
_CLOCK: Final = Quantity(Unit.HERTZ, 0, 20e9)
_FLAG: Final = Quantity(Unit.COUNT, 0, 1)
_FEW: Final = Quantity(Unit.COUNT, 0, 64)
_ERRORS: Final = Quantity(Unit.COUNT, 0, 2.0**48)
_TIME: Final = Quantity(Unit.SECONDS, 0, 3e9)
"""A century."""
_LINKS: Final = Quantity(Unit.COUNT, 0, 1024)

QUANTITIES: Final[Mapping[str, Quantity]] = {
    "gpu_clock_max_hertz": _CLOCK,
    "gpu_temperature_threshold_celsius": _TEMPERATURE,
    "gpu_pcie_link_max_generation": Quantity(Unit.COUNT, 1, 16),
    "gpu_pcie_link_max_width": Quantity(Unit.COUNT, 1, 64),
    "gpu_utilization_ratio": _RATIO,
    "gpu_memory_bandwidth_busy_ratio": _RATIO,
    "gpu_memory_total_bytes": Quantity(Unit.BYTES, 1, _MEMORY.high),
    "gpu_memory_used_bytes": _MEMORY,
    "gpu_memory_free_bytes": _MEMORY,
    "gpu_memory_reserved_bytes": _MEMORY,
    "gpu_power_watts": _POWER,
    "gpu_power_average_watts": _POWER,
    "gpu_temperature_celsius": _TEMPERATURE,
    "gpu_clock_hertz": _CLOCK,
    "gpu_performance_state": Quantity(Unit.COUNT, 0, 15),
    "gpu_clock_event_active": _FLAG,
    "gpu_sm_active_ratio": _RATIO,
    "gpu_tensor_active_ratio": _RATIO,
    "gpu_dram_active_ratio": _RATIO,
    "gpu_graphics_active_ratio": _RATIO,
    "gpu_sm_occupancy_ratio": _RATIO,
    "gpu_pipe_active_ratio": _RATIO,
    "gpu_power_limit_watts": _POWER,
    "gpu_module_power_watts": _POWER,
    "gpu_energy_joules_total": Quantity(Unit.JOULES, 0, 1e13),
    "gpu_engine_utilization_ratio": _RATIO,
    "gpu_pcie_link_generation": Quantity(Unit.COUNT, 1, 16),
    "gpu_pcie_link_width": Quantity(Unit.COUNT, 1, 64),
    "gpu_ecc_errors_total": _ERRORS,
    "gpu_remapped_rows": _ERRORS,
    "gpu_remapped_rows_pending": _FLAG,
    "gpu_remapped_rows_failure": _FLAG,
    "gpu_retired_pages": _ERRORS,
    "gpu_retired_pages_pending": _FLAG,
    "gpu_recovery_action": _FEW,
    "gpu_compute_processes": Quantity(Unit.COUNT, 0, 65_536),
    "gpu_clock_event_seconds_total": _TIME,
    "gpu_temperature_margin_celsius": Quantity(Unit.CELSIUS, -100, 150),
    "gpu_bar1_total_bytes": _MEMORY,
    "gpu_bar1_used_bytes": _MEMORY,
    "gpu_pcie_replays_total": _ERRORS,
    "gpu_nvlink_links": _LINKS,
    "gpu_nvlink_errors_total": _ERRORS,
    "gpu_fabric_state": _FEW,
    "gpu_mig_enabled": _FLAG,
    "gpu_busy_seconds_total": _TIME,
    "gpu_sm_active_seconds_total": _TIME,
    "gpu_tensor_active_seconds_total": _TIME,
    "gpu_dram_active_seconds_total": _TIME,
    "gpu_graphics_active_seconds_total": _TIME,
    "gpu_observed_seconds_total": _TIME,
    "gpu_pcie_bytes_total": _TRAFFIC,
    "gpu_nvlink_bytes_total": _TRAFFIC,
    "gpu_process_memory_bytes": _MEMORY,
    "gpu_process_sm_ratio": _RATIO,
}
"""By metric: everything that a capability gives, as a sample or as what a counter grew by."""

GROWING: Final = frozenset(
    {
        "gpu_busy_seconds_total",
        "gpu_sm_active_seconds_total",
        "gpu_tensor_active_seconds_total",
        "gpu_dram_active_seconds_total",
        "gpu_graphics_active_seconds_total",
        "gpu_observed_seconds_total",
        "gpu_pcie_bytes_total",
        "gpu_nvlink_bytes_total",
    }
)
"""Counters that a capability lets grow through `Gpu.grow`, not samples."""


def is_plausible(metric: str, value: float) -> bool:
    """Whether *value* can be true; NaN and infinities cannot."""
    quantity = QUANTITIES[metric]
    return quantity.low <= value <= quantity.high
