"""
When the receivers were accepting: what coverage is measured against.

Intervals are half-open ``[from, to)`` in nanoseconds since the epoch. A slice
is covered when the receivers were accepting in any part of it.
"""

from collections.abc import Iterable

from slo_exporter.sli.counting import SLICE_NS, SLICE_S
from slo_exporter.slo.windows import Range


class Uptime:
    """Intervals of accepting, oldest first, not overlapping."""

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._intervals: list[tuple[int, int]] = []
        for start, end in sorted(intervals):
            self.add(start, end)

    def add(self, start_ns: int, end_ns: int) -> None:
        """Add an interval that does not begin before the newest one does."""
        if self._intervals and start_ns <= self._intervals[-1][1]:
            last_start, last_end = self._intervals.pop()
            start_ns, end_ns = min(last_start, start_ns), max(last_end, end_ns)
        self._intervals.append((start_ns, end_ns))

    def extended(self, start_ns: int, end_ns: int) -> "Uptime":
        """The same uptime with one more interval, which may be the newest one gone on."""
        return Uptime([*self._intervals, (start_ns, end_ns)])

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
