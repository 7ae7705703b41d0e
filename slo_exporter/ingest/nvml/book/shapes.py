"""
Which values a child may send, and within which bounds.

Whatever else comes is left out and counted: a broken child cannot break /metrics.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from slo_exporter.ingest.nvml.frame import Sample

Key: TypeAlias = tuple[str, tuple[str, ...]]
"""(metric, values of its labels after ``gpu`` and ``uuid``)."""

MOST_GPUS: Final = 64
"""Four times the largest machine."""
MOST_INDEX: Final = 1024
"""NVML's; beyond is none."""
MOST_SAMPLES: Final = 4096
"""Of one GPU."""
LONGEST_TEXT: Final = 128
"""Characters of a label value."""
UNKNOWN: Final = "unknown"
"""Stands for names that are no metric of ours."""

_PLAIN: Final = """
    gpu_pcie_link_max_generation gpu_pcie_link_max_width
    gpu_utilization_ratio gpu_memory_bandwidth_busy_ratio
    gpu_memory_total_bytes gpu_memory_used_bytes gpu_memory_free_bytes gpu_memory_reserved_bytes
    gpu_power_watts gpu_power_average_watts gpu_performance_state
    gpu_sm_active_ratio gpu_tensor_active_ratio gpu_dram_active_ratio gpu_graphics_active_ratio gpu_sm_occupancy_ratio
    gpu_module_power_watts gpu_pcie_link_generation gpu_pcie_link_width
    gpu_remapped_rows_pending gpu_remapped_rows_failure gpu_retired_pages_pending
    gpu_recovery_action gpu_compute_processes
    gpu_temperature_margin_celsius gpu_bar1_total_bytes gpu_bar1_used_bytes gpu_pcie_replays_total
    gpu_fabric_state gpu_mig_enabled
"""
_ONE_LABEL: Final = """
    gpu_clock_max_hertz gpu_temperature_threshold_celsius
    gpu_temperature_celsius gpu_clock_hertz gpu_clock_event_active gpu_pipe_active_ratio
    gpu_power_limit_watts gpu_energy_joules_total gpu_engine_utilization_ratio gpu_remapped_rows gpu_retired_pages
    gpu_nvlink_links gpu_nvlink_errors_total
"""
_TWO_LABELS: Final = "gpu_ecc_errors_total gpu_clock_event_seconds_total"

SAMPLED: Final[Mapping[str, int]] = {
    **dict.fromkeys(_PLAIN.split(), 0),
    **dict.fromkeys(_ONE_LABEL.split(), 1),
    **dict.fromkeys(_TWO_LABELS.split(), 2),
}
"""Metrics that a child reads, and how many labels each has of its own."""

ADDED: Final[Mapping[str, int]] = {
    "gpu_busy_seconds_total": 0,
    "gpu_sm_active_seconds_total": 0,
    "gpu_tensor_active_seconds_total": 0,
    "gpu_dram_active_seconds_total": 0,
    "gpu_graphics_active_seconds_total": 0,
    "gpu_observed_seconds_total": 0,
    "gpu_pcie_bytes_total": 1,
    "gpu_nvlink_bytes_total": 1,
    "gpu_energy_joules_total": 1,
    "gpu_clock_event_seconds_total": 2,
}
"""Metrics whose growth a child tells, likewise."""


def sampled(samples: Iterable[Sample], refused: Counter[str]) -> dict[Key, float]:
    """Samples that can be shown; the others are counted in *refused* by metric."""
    return dict(_sift(samples, SAMPLED, refused))


def added(samples: Iterable[Sample], refused: Counter[str]) -> dict[Key, float]:
    """Growth that can be added, summed per counter; the others are counted in *refused* by metric."""
    grown: dict[Key, float] = {}
    for key, amount in _sift(samples, ADDED, refused):
        if amount < 0:
            refused[key[0]] += 1
        else:
            grown[key] = grown.get(key, 0.0) + amount
    return grown


def texts(labels: Mapping[str, str], metric: str, refused: Counter[str]) -> dict[str, str]:
    """Labels of which none is too long; the others are counted."""
    short = {name: text for name, text in labels.items() if len(text) <= LONGEST_TEXT}
    if len(short) < len(labels):
        refused[metric] += len(labels) - len(short)
    return short


def _sift(samples: Iterable[Sample], shapes: Mapping[str, int], refused: Counter[str]) -> Iterator[tuple[Key, float]]:
    for number, (metric, labels, value) in enumerate(samples):
        if metric not in shapes:
            refused[UNKNOWN] += 1
        elif number >= MOST_SAMPLES or not _is_sound(labels, value, shapes[metric]):
            refused[metric] += 1
        else:
            yield (metric, labels), value


def _is_sound(labels: tuple[str, ...], value: float, expected: int) -> bool:
    return len(labels) == expected and math.isfinite(value) and all(len(text) <= LONGEST_TEXT for text in labels)
