"""
When the receivers were accepting: what coverage is measured against.

Intervals are half-open ``[from, to)`` in nanoseconds since the epoch. A slice
is covered when the receivers were accepting in any part of it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from slo_exporter.sli.counting import SLICE_NS, SLICE_S
from slo_exporter.sli.records import Ints
from slo_exporter.slo.budgets import Floats
from slo_exporter.slo.windows import Range

_START, _END = itemgetter(0), itemgetter(1)


class Uptime:
    """Intervals of accepting, oldest first, neither overlapping nor touching."""

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._intervals: list[tuple[int, int]] = []
        for start, end in sorted(intervals):
            self.add(start, end)

    def add(self, start_ns: int, end_ns: int) -> None:
        """
        Add an interval, which is most often the newest one gone on.

        One that ends before it starts, since the clock was set back, adds nothing.
        """
        if end_ns < start_ns:
            return
        first = bisect_left(self._intervals, start_ns, key=_END)
        behind = bisect_right(self._intervals, end_ns, key=_START)
        if first < behind:
            start_ns = min(start_ns, self._intervals[first][0])
            end_ns = max(end_ns, self._intervals[behind - 1][1])
        self._intervals[first:behind] = [(start_ns, end_ns)]

    def copy(self) -> "Uptime":
        """The same, as it is now."""
        same = Uptime()
        same._intervals = self._intervals.copy()
        return same

    def extended(self, start_ns: int, end_ns: int) -> "Uptime":
        """The same uptime with one more interval, which may be the newest one gone on."""
        longer = self.copy()
        longer.add(start_ns, end_ns)
        return longer

    def forget(self, before_ns: int) -> None:
        """Drop the intervals that ended before *before_ns*, as SQL does; the newest one stays."""
        del self._intervals[: bisect_left(self._intervals[:-1], before_ns, key=_END)]

    @property
    def until_ns(self) -> int | None:
        """The end of the newest interval; None before the first."""
        return self._intervals[-1][1] if self._intervals else None

    def covered(self, span: Range) -> int:
        """How many slices of *span* were covered."""
        covered, reached = 0, span.start
        for start_ns, end_ns in self._intervals:
            first = max(start_ns // SLICE_NS * SLICE_S, reached)
            last = min(-(-end_ns // SLICE_NS) * SLICE_S, span.end)
            if last > first:
                covered += (last - first) // SLICE_S
                reached = last
        return covered

    def ratio(self, span: Range) -> float | None:
        """Covered slices over all slices of *span*; None if it has none."""
        slices = (span.end - span.start) // SLICE_S
        return self.covered(span) / slices if slices > 0 else None

    def ratios(self, starts: Ints, end: int) -> Floats:
        """The `ratio` of each range from one of *starts*, which are slice edges, to *end*; NaN where it is None."""
        bounds = np.array(self._intervals, dtype=np.int64).reshape(-1, 2)
        lasts = np.minimum(-(-bounds[:, 1] // SLICE_NS) * SLICE_S, end)
        firsts = np.maximum(bounds[:, 0] // SLICE_NS * SLICE_S, np.concatenate([[starts.min(initial=end)], lasts[:-1]]))
        widths = np.maximum(lasts - firsts, 0)
        covered_by = np.concatenate([[0], np.cumsum(widths)])
        at = np.searchsorted(lasts, starts, side="right")
        cut = np.maximum(starts - np.append(firsts, end)[at], 0)
        covered, slices = covered_by[-1] - covered_by[at] - cut, end - starts
        ratios: Floats = np.divide(covered, slices, out=np.full(starts.shape, np.nan), where=slices > 0)
        return ratios

    def within(self, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """The parts of ``[start_ns, end_ns)`` in which the receivers were accepting, oldest first."""
        if start_ns >= end_ns:
            return []
        first = bisect_right(self._intervals, start_ns, key=_END)
        behind = bisect_left(self._intervals, end_ns, key=_START)
        return [(max(start, start_ns), min(end, end_ns)) for start, end in self._intervals[first:behind]]

    def up_ns(self, start_ns: int, end_ns: int) -> int:
        """For how many nanoseconds of ``[start_ns, end_ns)`` the receivers were accepting."""
        return sum(end - start for start, end in self.within(start_ns, end_ns))
