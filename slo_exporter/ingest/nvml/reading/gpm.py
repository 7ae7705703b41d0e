"""
Activity and traffic of GPU performance monitoring (GPM): Hopper and later.

A metric is what happened between two samples, which must lie 100 ms apart:
nearer ones alternate between the truth, 0 and NaN. Fast windows reach from cycle to
cycle, the others over about a second, both over the same samples.
"""

import math
from collections.abc import Mapping, Sequence
from ctypes import c_void_p
from typing import Any, Final, TypeAlias

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.buffers import GpmRequest
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.driver.library import Nvml
from slo_exporter.ingest.nvml.frame import Sample, Tier
from slo_exporter.ingest.nvml.reading import quantities
from slo_exporter.ingest.nvml.reading.capability import Capability
from slo_exporter.ingest.nvml.reading.gpu import Gpu

_SUPPORT: Final = "nvmlGpmQueryDeviceSupport"
_METRICS: Final = "nvmlGpmMetricsGet"
_CALLS: Final = (_SUPPORT, "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", _METRICS)
_SHORTEST_NS: Final = 100_000_000
"""Source: NVML API reference, and NVIDIA's answer in DCGM issue 310; measured on an H200."""
_LONGEST_NS: Final = 600 * SECOND_NS
"""Beyond, the counters under GPM may have wrapped."""

_SCALES: Final = {b"%": 0.01, b"MiB/s": float(1 << 20)}
"""By the unit in the answer."""
_Series: TypeAlias = tuple[str, Any]
"""A metric, and its labels or what else belongs to it."""

_SM, _TENSOR, _DRAM = 2, 5, 10
_PULSE: Final[Mapping[int, tuple[str, str]]] = {
    _SM: ("gpu_sm_active_ratio", "gpu_sm_active_seconds_total"),
    _TENSOR: ("gpu_tensor_active_ratio", "gpu_tensor_active_seconds_total"),
    _DRAM: ("gpu_dram_active_ratio", "gpu_dram_active_seconds_total"),
}
_PIPE: Final = "gpu_pipe_active_ratio"
_SHARES: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {
    _SM: ("gpu_sm_active_ratio", ()),
    _TENSOR: ("gpu_tensor_active_ratio", ()),
    _DRAM: ("gpu_dram_active_ratio", ()),
    4: (_PIPE, ("int",)),
    6: (_PIPE, ("dfma_tensor",)),
    7: (_PIPE, ("hmma_tensor",)),
    8: (_PIPE, ("dmma_tensor",)),
    9: (_PIPE, ("imma_tensor",)),
    11: (_PIPE, ("fp64",)),
    12: (_PIPE, ("fp32",)),
    13: (_PIPE, ("fp16",)),
    3: ("gpu_sm_occupancy_ratio", ()),
}
_BYTES: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {
    20: ("gpu_pcie_bytes_total", ("transmit",)),
    21: ("gpu_pcie_bytes_total", ("receive",)),
    60: ("gpu_nvlink_bytes_total", ("receive",)),
    61: ("gpu_nvlink_bytes_total", ("transmit",)),
}
"""Rates, as the counters that they become. Mind the order: PCIe has transmit first, NVLink receive."""
_LINKS: Final = (60, 61)
_SECOND: Final = {**_SHARES, **_BYTES}
_GRAPHICS: Final[Mapping[int, tuple[str, tuple[str, ...]]]] = {1: ("gpu_graphics_active_ratio", ())}
"""
NVML_GPM_METRIC_GRAPHICS_UTIL

It alone costs 1.8 ms on an H200, all the others together 20 µs: seldom read, over a window
that is as much longer.
"""


class Windows:
    """
    The samples of one GPU: each reader's window reaches from where it last read to the newest.

    A reader that comes within 100 ms of the newest sample shares it.
    """

    __slots__ = ("_newest", "_now", "_nvml", "_samples", "_starts", "_taken_ns")

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._now = nvml.clock.monotonic_ns
        self._samples: list[c_void_p] = []
        self._taken_ns: list[int] = []
        self._starts: dict[str, int] = {}
        """Reader → place of the sample that its window starts with."""
        self._newest: int | None = None

    def read(self, gpu: Gpu, reader: str, ids: tuple[int, ...]) -> tuple[GpmRequest, float] | None:
        """What happened since *reader* last read, and in how many seconds; None where that cannot be told."""
        newest = self._fresh(gpu)
        start = self._starts.get(reader)
        if start == newest:
            return None
        self._starts[reader] = newest
        if start is None:
            return None
        length_ns = self._taken_ns[newest] - self._taken_ns[start]
        if not _SHORTEST_NS <= length_ns <= _LONGEST_NS:
            return None
        request = self._nvml.gpm_metrics(ids, self._samples[start], self._samples[newest])
        return request, length_ns / SECOND_NS

    def _fresh(self, gpu: Gpu) -> int:
        """Place of a sample of now."""
        newest = self._newest
        if newest is not None and self._now() - self._taken_ns[newest] < _SHORTEST_NS:
            return newest
        place = self._free()
        self._nvml.gpm_sample_get(gpu.handle, self._samples[place])
        self._taken_ns[place] = self._now()
        self._newest = place
        return place

    def _free(self) -> int:
        """Place of a sample that no window starts with."""
        used = {*self._starts.values(), self._newest}
        for place in range(len(self._samples)):
            if place not in used:
                return place
        self._samples.append(self._nvml.gpm_sample_alloc())
        self._taken_ns.append(0)
        return len(self._samples) - 1

    def close(self) -> None:
        """Give the samples back."""
        while self._samples:
            self._nvml.gpm_sample_free(self._samples.pop())


def _windows(gpu: Gpu) -> Windows:
    if gpu.windows is None:
        if not gpu.nvml.gpm_is_supported(gpu.handle):
            raise NvmlError(codes.NOT_SUPPORTED, _SUPPORT)
        gpu.windows = Windows(gpu.nvml)
    return gpu.windows


def _measured(gpu: Gpu, reader: str, metrics: Mapping[int, _Series]) -> tuple[Sequence[tuple[int, float]], float]:
    """What answered, in base units: (id, ratio or bytes a second); and the seconds it is of."""
    ids = gpu.gpm_ids.get(reader)
    if ids is None:
        ids = gpu.gpm_ids[reader] = tuple(metrics)
    found = _windows(gpu).read(gpu, reader, ids)
    if found is None:
        return (), 0.0
    request, seconds = found
    answered = []
    for number, metric in request.metrics:
        if metric.nvmlReturn:
            _leave_out(gpu, reader, number, metric.nvmlReturn)
            continue
        name = metrics[number][0]
        value = metric.value * _SCALES.get(metric.metricInfo.unit, math.nan)
        if quantities.is_plausible(name, value):
            answered.append((number, value))
        else:
            gpu.refuse(name)
    return answered, seconds


def _leave_out(gpu: Gpu, reader: str, number: int, code: int) -> None:
    """Count a refused metric; one that is refused for good is not asked again."""
    gpu.nvml.call[_METRICS].count_error(code)
    behaviour = codes.behaviour(code)
    if behaviour in {Behaviour.GPU_DOWN, Behaviour.FAULT}:
        raise NvmlError(code, _METRICS)
    if behaviour is Behaviour.DROP:
        gpu.gpm_ids[reader] = tuple(asked for asked in gpu.gpm_ids[reader] if asked != number)
        if not gpu.gpm_ids[reader]:
            raise NvmlError(code, _METRICS)


def _pulse(gpu: Gpu) -> Sequence[Sample]:
    answered, seconds = _measured(gpu, "pulse", _PULSE)
    if not answered:
        return ()
    shares = dict(answered)
    pulse = gpu.pulse
    pulse.seconds = seconds
    pulse.sm, pulse.tensor, pulse.dram = shares.get(_SM), shares.get(_TENSOR), shares.get(_DRAM)
    for number, share in answered:
        gpu.grow(_PULSE[number][1], (), share * seconds)
    gpu.grow("gpu_observed_seconds_total", (), seconds)
    return [(_PULSE[number][0], (), share) for number, share in answered]


def _second(gpu: Gpu) -> Sequence[Sample]:
    answered, seconds = _measured(gpu, "second", _SECOND)
    for number, value in answered:
        if number in _BYTES:
            gpu.grow(*_BYTES[number], value * seconds)
    gpu.counts_link_bytes = gpu.counts_link_bytes or any(number in _LINKS for number, _ in answered)
    return [(*_SHARES[number], share) for number, share in answered if number in _SHARES]


def _graphics(gpu: Gpu) -> Sequence[Sample]:
    answered, seconds = _measured(gpu, "graphics", _GRAPHICS)
    for _, share in answered:
        gpu.grow("gpu_graphics_active_seconds_total", (), share * seconds)
    return [(*_GRAPHICS[number], share) for number, share in answered]


def _metrics_of(*tables: Mapping[int, _Series]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(series[0] for table in tables for series in table.values()))


CAPABILITIES: Final = (
    Capability(
        name="gpm_pulse",
        tier=Tier.FAST,
        calls=_CALLS,
        metrics=(
            *_metrics_of(_PULSE),
            *(counter for _, counter in _PULSE.values()),
            "gpu_observed_seconds_total",
        ),
        read=_pulse,
    ),
    Capability(name="gpm_second", tier=Tier.NORMAL, calls=_CALLS, metrics=_metrics_of(_SECOND), read=_second),
    Capability(
        name="gpm_graphics",
        tier=Tier.SLOW,
        calls=_CALLS,
        metrics=(*_metrics_of(_GRAPHICS), "gpu_graphics_active_seconds_total"),
        read=_graphics,
    ),
)
