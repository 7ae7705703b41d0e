"""
Seconds of GPUs, for SLIs: one row a GPU and second.

Rules of this module:

1. A GPU has at most one row of a second, however the wall clock is set.
2. While no frame comes, expected GPUs have rows all the same: with ``up`` 0
   where this GPU is to blame, else with nothing, since nobody can tell.
3. Rows that nobody takes are kept for 20 minutes, the longest lateness.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.book import xids
from slo_exporter.ingest.nvml.book.shapes import Key
from slo_exporter.ingest.nvml.frame import OF_ONE_GPU, Activity, GpuReading, Reason
from slo_exporter.sli.gpus import GPU_FIELDS, WHOLE, Gpu, GpuBatch
from slo_exporter.sli.records import MISSING

KEPT_S: Final = 1200
"""The longest `lateness`: an older row is refused anyway."""
AHEAD_NS: Final = 60 * SECOND_NS
"""How far a frame's clock may be ahead of ours, as a span's may."""
REACH_S: Final = 10
"""How far back seconds without a frame are filled: twice the deadline of one. A machine that slept was not there."""

_NEAR_NS: Final = 3 * SECOND_NS // 4
"""So near is a second that a frame can stand for; nearer to the nearest, and all that follow would be late too."""

THROTTLED: Final = 0x08 | 0x20 | 0x40 | 0x80
"""hw_slowdown, sw_thermal, hw_thermal, power_brake."""
POWER_CAPPED: Final = 0x04
_THROTTLED: Final = ("hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
_FAULTS: Final = frozenset({Reason.HANG, Reason.CRASH})

_FIELDS: Final = tuple(GPU_FIELDS)
_OWED: Final = ("xids", "critical_xids")
_COLUMNS: Final = 2 + len(_FIELDS)
"""End in seconds, GPU, and the fields."""
_MOST: Final = 10**6
"""Watts and degrees beyond are none."""
_MOST_RANGES: Final = 64
"""Of seconds that have a row, per GPU: each step of the clock makes one."""

Fields: TypeAlias = Mapping[str, int]
"""Those that are known, by name of `GPU_FIELDS`."""


def up(reason: Reason, *, is_blamed: bool) -> Fields:
    """Whether a GPU is up; without an entry when nobody can tell."""
    if reason is Reason.OK:
        return {"up": WHOLE}
    return {"up": 0} if reason in OF_ONE_GPU or (is_blamed and reason in _FAULTS) else {}


def fields(reading: GpuReading, values: Mapping[Key, float]) -> Fields:
    """
    What a frame tells of one GPU's second, but for ``up``.

    Args:
        reading: of which `activity` and `xids` are looked at.
        values: the samples of its normal tier.
    """
    if reading.reason is not Reason.OK:
        return _xids(reading) if reading.xids else {}
    activity = reading.activity
    found = {
        "utilization": _plain(values, "gpu_utilization_ratio"),
        "memory": _memory(values),
        "sm_active": _first(_mean(activity, "sm"), _plain(values, "gpu_sm_active_ratio")),
        "tensor_active": _first(_mean(activity, "tensor"), _plain(values, "gpu_tensor_active_ratio")),
        "dram_active": _first(_mean(activity, "dram"), _plain(values, "gpu_dram_active_ratio")),
        "throttled": _first(_share(activity, THROTTLED), _active(values, _THROTTLED)),
        "power_capped": _first(_share(activity, POWER_CAPPED), _active(values, ("sw_power_cap",))),
    }
    ratios = {
        name: round(min(ratio, 1.0) * WHOLE) for name, ratio in found.items() if ratio is not None and 0 <= ratio < 2
    }
    watts = _first(_mean(activity, "power_watts"), _plain(values, "gpu_power_watts"))
    counts = {
        "temperature": values.get(("gpu_temperature_celsius", ("gpu",))),
        "power": _first(watts, _plain(values, "gpu_power_average_watts")),
    }
    plausible = {name: round(count) for name, count in counts.items() if count is not None and abs(count) < _MOST}
    return {**ratios, **plausible, **_xids(reading)}


def _xids(reading: GpuReading) -> Fields:
    critical = sum(xids.action(xid.xid) in xids.CRITICAL for xid in reading.xids)
    return {"xids": len(reading.xids), "critical_xids": critical}


def _first(best: float | None, other: float | None) -> float | None:
    return other if best is None else best


def _plain(values: Mapping[Key, float], metric: str) -> float | None:
    return values.get((metric, ()))


def _memory(values: Mapping[Key, float]) -> float | None:
    used, total = _plain(values, "gpu_memory_used_bytes"), _plain(values, "gpu_memory_total_bytes")
    return used / total if used is not None and total else None


def _mean(activity: Iterable[Activity], name: str) -> float | None:
    """Weighted by the length of the periods that tell."""
    told = [(period.seconds, value) for period in activity if (value := getattr(period, name)) is not None]
    seconds = sum(length for length, _ in told)
    return sum(length * value for length, value in told) / seconds if seconds > 0 else None


def _share(activity: Iterable[Activity], bits: int) -> float | None:
    """Share of the time in which one of the reasons held."""
    told = [(period.seconds, period.reasons & bits != 0) for period in activity if period.reasons is not None]
    seconds = sum(length for length, _ in told)
    return sum(length for length, held in told if held) / seconds if seconds > 0 else None


def _active(values: Mapping[Key, float], reasons: Iterable[str]) -> float | None:
    told = [values[key] for reason in reasons if (key := ("gpu_clock_event_active", (reason,))) in values]
    return max(told, default=None)


class _Seconds:
    """Which seconds of a GPU have a row: ranges, both ends included, in order."""

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []

    def claim(self, second: int) -> bool:
        """Take a second, unless it is taken."""
        place = bisect_right(self._ranges, second, key=lambda found: found[0])
        if place and self._ranges[place - 1][1] >= second:
            return False
        if place and self._ranges[place - 1][1] == second - 1:
            self._ranges[place - 1][1] = second
        else:
            self._ranges.insert(place, [second, second])
        self._join(max(place - 1, 0))
        return True

    def _join(self, place: int) -> None:
        for one in (place + 1, place):
            if one + 1 < len(self._ranges) and self._ranges[one][1] + 1 == self._ranges[one + 1][0]:
                self._ranges[one][1] = self._ranges.pop(one + 1)[1]
        if len(self._ranges) > _MOST_RANGES:
            del self._ranges[0]


class GpuRecords:
    """
    Rows that wait to be taken.

    Attributes:
        dropped: rows that nobody will see: too many waited, the frame's clock was odd, or its second had a row.

    Args:
        lateness_ns: a frame that is older is not counted, as no span is.
    """

    def __init__(self, lateness_ns: int) -> None:
        self.dropped = 0
        self._lateness_ns = lateness_ns
        # A row is 14 integers side by side: 20 minutes of 8 GPUs are 1 MiB.
        self._rows = array("q")
        self._gpus: dict[Gpu, int] = {}
        self._seconds: dict[str, _Seconds] = {}
        self._owed: dict[str, Fields] = {}
        """XIDs of rows that were dropped, by GPU: the next row has them."""

    def is_odd(self, at_ns: int, now_ns: int, rows: int) -> bool:
        """Whether a frame's clock tells a time that cannot be; its *rows* are dropped then."""
        odd = at_ns > now_ns + AHEAD_NS or at_ns < now_ns - self._lateness_ns
        self.dropped += rows if odd else 0
        return odd

    def add(self, at_ns: int, gpu: Gpu, found: Fields) -> None:
        """
        Add the second that ended about *at_ns*: the nearest, or the next to it where that has a row and this one fits.

        Else, as after the clock was set back, the row is dropped; its XIDs are the next one's.
        """
        nearest, below = (at_ns + SECOND_NS // 2) // SECOND_NS, at_ns // SECOND_NS
        seconds, owed = self._seconds_of(gpu), self._owed.pop(_key(gpu), {})
        found = {**found, **{name: found.get(name, 0) + count for name, count in owed.items()}}
        for second in (nearest, below if nearest > below else below + 1):
            if abs(second * SECOND_NS - at_ns) <= _NEAR_NS and seconds.claim(second):
                self._append(second, gpu, found)
                return
        self.dropped += 1
        if found.get("xids"):
            self._owed[_key(gpu)] = {name: found[name] for name in _OWED}

    def fill(self, now_ns: int, since_ns: int, gpu: Gpu, found: Fields) -> None:
        """Add the seconds from *since_ns* to *now_ns* that have no row: no frame tells of them."""
        newest = now_ns // SECOND_NS
        seconds = self._seconds_of(gpu)
        for second in range(max(since_ns // SECOND_NS, newest - REACH_S) + 1, newest + 1):
            if seconds.claim(second):
                self._append(second, gpu, found)

    def take(self) -> GpuBatch | None:
        """Give what came since the last time, and forget it."""
        if not self._rows:
            return None
        table = np.array(self._rows, dtype=np.int64).reshape(-1, _COLUMNS)
        batch = GpuBatch(
            end_ns=table[:, 0] * SECOND_NS,
            gpus=tuple(self._gpus),
            gpu=table[:, 1].astype(np.int32),
            fields={name: table[:, 2 + place].copy() for place, name in enumerate(_FIELDS)},
        )
        self._rows, self._gpus = array("q"), {}
        return batch

    def give_back(self, batch: GpuBatch) -> None:
        """Keep what could not be counted now, before what came since."""
        codes = np.array([self._code(gpu) for gpu in batch.gpus], dtype=np.int64)
        columns = [batch.end_ns // SECOND_NS, codes[batch.gpu], *(batch.number(name) for name in _FIELDS)]
        older = array("q", np.column_stack(columns).astype(np.int64).tobytes())
        self._rows = older + self._rows
        self._bound()

    def _append(self, second: int, gpu: Gpu, found: Fields) -> None:
        self._rows.extend((second, self._code(gpu), *(found.get(name, MISSING) for name in _FIELDS)))
        self._bound()

    def _bound(self) -> None:
        over = len(self._rows) // _COLUMNS - KEPT_S * max(1, len(self._seconds))
        if over > 0:
            del self._rows[: over * _COLUMNS]
            self.dropped += over

    def _code(self, gpu: Gpu) -> int:
        return self._gpus.setdefault(gpu, len(self._gpus))

    def _seconds_of(self, gpu: Gpu) -> _Seconds:
        return self._seconds.setdefault(_key(gpu), _Seconds())


def _key(gpu: Gpu) -> str:
    return gpu.uuid or str(gpu.index)
