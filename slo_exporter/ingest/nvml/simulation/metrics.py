"""
What two states of a simulated GPU, a second apart, are as metrics.

Rules of this module:

1. Every metric that an H200 gives is here, under the same names and labels.
2. Ratios are means between the two states, so that gauges and counters agree.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.frame import Activity, Process, Sample, Tier, Xid
from slo_exporter.ingest.nvml.simulation.physics import MAX_SM_HERTZ, XID, XID_EVERY, SimulatedGpu, State

UUIDS: Final = tuple(f"GPU-51313131-0000-4000-8000-00000000000{index}" for index in range(2))
_BUS: Final = ("00000000:1b:00.0", "00000000:43:00.0")

_TOTAL_BYTES: Final = 150_754_820_096.0
"""Of an H200, and below what its driver keeps."""
_RESERVED_BYTES: Final = 644_939_776.0
_USED: Final = 0.78
"""An engine allocates most of the memory when it starts, and keeps it."""
_LIMIT_C: Final = 87.0
"""Where an H200 begins to slow down."""

_COMPUTING: Final = 0.97
"""Share of the busy time in which it does more than copy."""
_MEMORY_HOTTER: Final = 5.0
_PIPES: Final = {"int": 0.15, "fp32": 0.12, "fp16": 0.06}
"""Of the time in which streaming multiprocessors are active."""
_WAYS: Final = ("receive", "transmit")
_NEVER_COUNTED: Final = ("idle", "application_clocks", "display_clocks")
"""Reasons without a counter of the hardware's, which never come here; hw_slowdown is the fourth."""

_REASONS: Final = (
    *("idle", "application_clocks", "sw_power_cap", "hw_slowdown", "sync_boost"),
    *("sw_thermal", "hw_thermal", "power_brake", "display_clocks"),
)
"""In the order of their bits."""

_ALWAYS_ONCE: Final[Sequence[Sample]] = (
    ("gpu_clock_max_hertz", ("sm",), MAX_SM_HERTZ),
    ("gpu_clock_max_hertz", ("memory",), 3_201e6),
    ("gpu_clock_max_hertz", ("graphics",), MAX_SM_HERTZ),
    ("gpu_clock_max_hertz", ("video",), 1_545e6),
    ("gpu_temperature_threshold_celsius", ("shutdown",), 95.0),
    ("gpu_temperature_threshold_celsius", ("slowdown",), 89.0),
    ("gpu_temperature_threshold_celsius", ("memory_max",), 95.0),
    ("gpu_temperature_threshold_celsius", ("gpu_max",), _LIMIT_C),
    ("gpu_pcie_link_max_generation", (), 5.0),
    ("gpu_pcie_link_max_width", (), 16.0),
)
_ALWAYS_NORMAL: Final[Sequence[Sample]] = (
    ("gpu_memory_total_bytes", (), _TOTAL_BYTES),
    ("gpu_memory_used_bytes", (), _TOTAL_BYTES * _USED),
    ("gpu_memory_free_bytes", (), _TOTAL_BYTES * (1 - _USED) - _RESERVED_BYTES),
    ("gpu_memory_reserved_bytes", (), _RESERVED_BYTES),
    ("gpu_clock_hertz", ("memory",), 3_201e6),
    ("gpu_clock_hertz", ("video",), 1_545e6),
    ("gpu_performance_state", (), 0.0),
    *(("gpu_pipe_active_ratio", (pipe,), 0.0) for pipe in ("fp64", "dfma_tensor", "dmma_tensor", "imma_tensor")),
)
_ALWAYS_SLOW: Final[Sequence[Sample]] = (
    *(("gpu_power_limit_watts", (kind,), 700.0) for kind in ("enforced", "default", "max", "requested")),
    ("gpu_power_limit_watts", ("min",), 200.0),
    *(("gpu_engine_utilization_ratio", (engine,), 0.0) for engine in ("encoder", "decoder", "jpeg", "ofa")),
    ("gpu_pcie_link_generation", (), 5.0),
    ("gpu_pcie_link_width", (), 16.0),
    ("gpu_ecc_errors_total", ("uncorrected", "volatile"), 0.0),
    ("gpu_ecc_errors_total", ("uncorrected", "aggregate"), 0.0),
    ("gpu_remapped_rows", ("uncorrected",), 0.0),
    ("gpu_remapped_rows_failure", (), 0.0),
    ("gpu_recovery_action", (), 0.0),
    ("gpu_compute_processes", (), 1.0),
    *(
        ("gpu_clock_event_seconds_total", (why, "counter"), 0.0)
        for why in ("sw_power_cap", "sync_boost", "power_brake")
    ),
)
_ALWAYS_RARE: Final[Sequence[Sample]] = (
    ("gpu_bar1_total_bytes", (), float(256 << 30)),
    ("gpu_bar1_used_bytes", (), float(2 << 20)),
    ("gpu_pcie_replays_total", (), 0.0),
    ("gpu_nvlink_links", ("up",), 18.0),
    ("gpu_nvlink_links", ("down",), 0.0),
    *(("gpu_nvlink_errors_total", (kind,), 0.0) for kind in ("replay", "recovery", "crc")),
    ("gpu_fabric_state", (), 3.0),
    ("gpu_mig_enabled", (), 0.0),
)


@dataclass(frozen=True, slots=True)
class Span:
    """What a GPU did between two instants."""

    gpu: SimulatedGpu
    start: State
    end: State

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end.elapsed_s - self.start.elapsed_s

    def grown(self, name: str) -> float:
        """What a quantity came to; no cancellation makes it negative."""
        return max(self.end.totals[name] - self.start.totals[name], 0.0)

    def mean(self, name: str) -> float:
        """Of a quantity, by the second."""
        return self.grown(name) / self.seconds


def info(index: int) -> Mapping[str, str]:
    """Labels of ``gpu_info``; it has no serial number."""
    return {
        "pci_bus_id": _BUS[index],
        "name": "Simulated H200",
        "architecture": "hopper",
        "compute_capability": "9.0",
        "minor": str(index),
        "module": str(index + 1),
    }


def activity(span: Span) -> Activity:
    """Of a fast period."""
    return Activity(
        seconds=span.seconds,
        sm=span.mean("sm"),
        tensor=span.mean("tensor"),
        dram=span.mean("dram"),
        power_watts=span.end.watts,
        reasons=span.end.reasons,
    )


def process(span: Span) -> Process:
    """The only one: this process, which is one of the host's that is surely ours."""
    return Process(os.getpid(), int(_TOTAL_BYTES * _USED), span.mean("sm"))


def xids(span: Span, now_ns: int) -> Sequence[Xid]:
    """One at the beginning of every third incident, on the GPU that gets hot; *now_ns* is the span's end."""
    begun = range(span.start.incidents, span.end.incidents) if span.gpu.gets_hot else ()
    starts = (span.gpu.incidents.start(number) for number in begun if number % XID_EVERY == 0)
    return [Xid(XID, now_ns - round((span.end.elapsed_s - start) * SECOND_NS)) for start in starts]


def added(span: Span) -> Sequence[Sample]:
    """What the counters grew by."""
    return (
        ("gpu_observed_seconds_total", (), span.seconds),
        ("gpu_busy_seconds_total", (), span.grown("busy")),
        ("gpu_graphics_active_seconds_total", (), span.grown("busy") * _COMPUTING),
        *((f"gpu_{name}_active_seconds_total", (), span.grown(name)) for name in ("sm", "tensor", "dram")),
        *(("gpu_pcie_bytes_total", (way,), span.grown(f"pcie_{way}")) for way in _WAYS),
        *(("gpu_nvlink_bytes_total", (way,), span.grown("nvlink")) for way in _WAYS),
        *(("gpu_clock_event_seconds_total", (why, "sampled"), 0.0) for why in _NEVER_COUNTED),
        (
            "gpu_clock_event_seconds_total",
            ("hw_slowdown", "sampled"),
            span.end.very_hot_seconds - span.start.very_hot_seconds,
        ),
    )


def _once(_: Span) -> Sequence[Sample]:
    return _ALWAYS_ONCE


def _normal(span: Span) -> Sequence[Sample]:
    return (
        *_ALWAYS_NORMAL,
        ("gpu_utilization_ratio", (), span.mean("busy")),
        ("gpu_memory_bandwidth_busy_ratio", (), span.mean("dram") * 0.8),
        ("gpu_power_watts", (), span.end.watts),
        ("gpu_power_average_watts", (), span.mean("watts")),
        ("gpu_temperature_celsius", ("gpu",), float(round(span.end.celsius))),
        ("gpu_temperature_celsius", ("memory",), float(round(span.end.celsius + _MEMORY_HOTTER))),
        ("gpu_clock_hertz", ("sm",), span.end.sm_hertz),
        ("gpu_clock_hertz", ("graphics",), span.end.sm_hertz),
        *(
            ("gpu_clock_event_active", (reason,), float(span.end.reasons >> bit & 1))
            for bit, reason in enumerate(_REASONS)
        ),
        ("gpu_sm_active_ratio", (), span.mean("sm")),
        ("gpu_tensor_active_ratio", (), span.mean("tensor")),
        ("gpu_dram_active_ratio", (), span.mean("dram")),
        ("gpu_graphics_active_ratio", (), span.mean("busy") * _COMPUTING),
        ("gpu_sm_occupancy_ratio", (), span.mean("occupancy")),
        *(("gpu_pipe_active_ratio", (pipe,), span.mean("sm") * share) for pipe, share in _PIPES.items()),
        ("gpu_pipe_active_ratio", ("hmma_tensor",), span.mean("tensor")),
    )


def _slow(span: Span) -> Sequence[Sample]:
    remapped = float(-(-span.end.incidents // XID_EVERY)) if span.gpu.gets_hot else 0.0
    return (
        *_ALWAYS_SLOW,
        ("gpu_energy_joules_total", ("counter",), span.end.totals["watts"]),
        ("gpu_ecc_errors_total", ("corrected", "volatile"), 2 * remapped),
        ("gpu_ecc_errors_total", ("corrected", "aggregate"), 2 * remapped),
        ("gpu_remapped_rows", ("corrected",), remapped),
        ("gpu_remapped_rows_pending", (), float(remapped > 0)),
        ("gpu_clock_event_seconds_total", ("sw_thermal", "counter"), span.end.hot_seconds),
        ("gpu_clock_event_seconds_total", ("hw_thermal", "counter"), span.end.very_hot_seconds),
    )


def _rare(span: Span) -> Sequence[Sample]:
    return (*_ALWAYS_RARE, ("gpu_temperature_margin_celsius", (), float(max(round(_LIMIT_C - span.end.celsius), 0))))


READ: Final[Mapping[Tier, Callable[[Span], Sequence[Sample]]]] = {
    Tier.ONCE: _once,
    Tier.RARE: _rare,
    Tier.SLOW: _slow,
    Tier.NORMAL: _normal,
}
"""The tiers that have samples."""
