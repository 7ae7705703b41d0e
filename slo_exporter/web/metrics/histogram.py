"""
A histogram family in columns: one row a label set, with an exemplar per bucket.

A duration is compared with a bucket's bound in whole nanoseconds, ``<=``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.insight.labels import Found, Labels
from slo_exporter.insight.steps import Steps
from slo_exporter.sli.records import Ints
from slo_exporter.web.metrics.exemplars import Exemplars, Shown

BOUNDS_NS: Final = tuple(
    milliseconds * 10**6
    for milliseconds in (
        *(1, 2, 5, 10, 20, 50, 100, 200, 500),
        *(1_000, 2_000, 5_000, 10_000, 20_000, 30_000),
        *(60_000, 120_000, 300_000, 600_000),
    )
)
"""
Upper bounds of the buckets of requests and stages, inclusive.

From a cache hit to the longest generation that clients wait for: 1-2-5 steps up
to 20 s, then the usual timeouts.
"""

FIRST_TOKEN_BOUNDS_NS: Final = tuple(
    milliseconds * 10**6
    for milliseconds in (
        *(1, 2, 5, 10, 20, 50, 75, 100, 150, 200, 300, 400, 500, 750),
        *(1_000, 1_500, 2_000, 3_000, 5_000, 7_500, 10_000, 20_000, 30_000),
        *(60_000, 120_000, 300_000, 600_000),
    )
)
"""
Upper bounds of the time to the first token, inclusive.

Objectives lie between 50 ms and 10 s, so steps there are no wider than 1.5 to 2;
a full queue reaches the timeouts.
"""

PER_TOKEN_BOUNDS_NS: Final = tuple(
    milliseconds * 10**6
    for milliseconds in (
        *(1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500),
        *(1_000, 2_500, 5_000, 10_000),
    )
)
"""
Upper bounds of the time per output token, inclusive.

People read some 5 to 20 tokens a second, so objectives lie between 10 and 200 ms;
a token that takes 10 s is a stall, and how long one it is no histogram need tell.
"""

LENGTH_BOUNDS_NS: Final = tuple(
    milliseconds * 10**6 for milliseconds in (100, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 300_000)
)
"""Upper bounds of the duration by length, inclusive: few, as each length has a series of its own."""


@dataclass(frozen=True, slots=True)
class HistogramSeries:
    """The counters of one label set."""

    labels: Labels
    part: str | None
    """Value of the family's `part_label`; None where it has none."""
    buckets: tuple[int, ...]
    """Durations by bucket, not cumulative; the last is beyond all bounds."""
    seconds: float
    """Sum of all durations."""


@dataclass(frozen=True, slots=True)
class Family:
    """A histogram family at one instant."""

    bounds_ns: tuple[int, ...]
    series: tuple[HistogramSeries, ...]
    exemplars: Exemplars
    """One row for each of *series*, in the same order."""
    part_label: str = ""
    """What tells the series of one label set apart, such as ``stage``."""


class Histogram:
    """
    Counts durations by row and bucket.

    Args:
        rows: how many label sets there may be.
        bounds_ns: upper bounds of the buckets, inclusive.
    """

    def __init__(self, rows: int, bounds_ns: tuple[int, ...] = BOUNDS_NS) -> None:
        self._bounds_ns = bounds_ns
        self._steps = Steps(np.array(bounds_ns, dtype=np.int64))
        self._buckets = np.zeros((rows, len(bounds_ns) + 1), dtype=np.int64)
        # Float, because nanoseconds of many concurrent requests pass 2**63 within days.
        self._seconds = np.zeros(rows, dtype=np.float64)
        self._exemplars = Exemplars.empty(rows, len(bounds_ns) + 1)

    def add(self, found: Found, durations_ns: Ints, shown: Shown | None = None) -> None:
        """
        Count durations, but for missing ones.

        Args:
            found: the row of each; of several columns one after the other those of all.
            durations_ns: shape (n,).
            shown: for exemplars, the requests of a column.
        """
        # Missing is the least number there is.
        known, position, requests = durations_ns >= 0, found.position, None
        if shown is not None:
            requests = np.tile(shown.requests, len(durations_ns) // max(1, len(shown.requests)))
        if not known.all():
            position, durations_ns = position[known], durations_ns[known]
            requests = None if requests is None else requests[known]
        rows, buckets = len(found.numbers), self._buckets.shape[1]
        cells = position * buckets + self._steps.of(durations_ns)
        counts = np.bincount(cells, minlength=rows * buckets)
        self._buckets[found.numbers] += counts.reshape(rows, buckets)
        self._seconds[found.numbers] += np.bincount(position, durations_ns / SECOND_NS, minlength=rows)
        if shown is not None and requests is not None:
            touched = np.flatnonzero(counts)
            last = _last(cells, len(counts))[touched]
            at = found.numbers[touched // buckets], touched % buckets
            self._exemplars.add(shown.batch, requests[last], durations_ns[last], at)

    def family(
        self, rows: Sequence[tuple[int, Labels, str | None]], part_label: str = "", *, with_empty: bool = False
    ) -> Family:
        """A copy of some rows, in the order given; of those without a duration only when asked."""
        counted = self._buckets.max(axis=1).tolist()
        shown = [each for each in rows if with_empty or counted[each[0]]]
        picked = [row for row, _, _ in shown]
        numbers = zip(shown, self._buckets[picked].tolist(), self._seconds[picked].tolist(), strict=True)
        series = (HistogramSeries(labels, part, tuple(b), seconds) for (_, labels, part), b, seconds in numbers)
        return Family(self._bounds_ns, tuple(series), self._exemplars.take(picked), part_label)


def _last(cells: Ints, size: int) -> Ints:
    """The last row of each cell; whatever where it has none."""
    last = np.empty(size, dtype=np.int64)
    last[cells] = np.arange(len(cells))  # of several the last one stays
    return last
