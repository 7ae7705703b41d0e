"""
A histogram family in columns: one row a label set, with an exemplar per bucket.

A duration is compared with a bucket's bound in whole nanoseconds, ``<=``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.insight.labels import Found, Labels
from slo_exporter.insight.steps import Floats, Steps
from slo_exporter.sli.records import Ints
from slo_exporter.web.metrics.exemplars import Exemplars
from slo_exporter.web.metrics.ordered import Ordered

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


class Histograms:
    """
    Counts durations by label set, part and bucket: histograms side by side.

    Durations are counted between the bounds of all parts, in *cells*; those of
    a bucket are added up afterwards, once a batch.

    Args:
        rows: how many label sets there may be.
        bounds_ns: of each part the upper bounds of its buckets, inclusive.
    """

    def __init__(self, rows: int, bounds_ns: Sequence[tuple[int, ...]]) -> None:
        every = np.array(sorted(set().union(*bounds_ns)), dtype=np.int64)
        self._bounds_ns = bounds_ns
        self._steps, self._wide = Steps(every), len(every) + 1
        self._firsts = np.concatenate(
            [part * self._wide + np.append(0, every.searchsorted(one) + 1) for part, one in enumerate(bounds_ns)]
        )
        """The first cell of each bucket."""
        self._offsets = np.cumsum([0, *(len(one) + 1 for one in bounds_ns)])
        """The first bucket of each part."""
        self._buckets = np.zeros((rows, len(self._firsts)), dtype=np.int64)
        # Float, because nanoseconds of many concurrent requests pass 2**63 within days.
        self._seconds = np.zeros((rows, len(bounds_ns)), dtype=np.float64)
        self._exemplars = Exemplars.empty(rows, len(self._firsts))

    def add(self, found: Found, part: Ints, durations_ns: Ints) -> None:
        """Count durations, none of them missing: each with its label set, part and itself, shape (n,)."""
        cells = self._steps.of(durations_ns)
        cells += (found.position * len(self._bounds_ns) + part) * self._wide
        self._count(found.numbers, cells)
        self._sum(found.numbers, found.position, part, durations_ns)

    def add_columns(self, ordered: Ordered, parts: Sequence[int], columns_ns: Ints, last: Ints) -> None:
        """
        Count durations of the same requests, but for missing ones, and show the newest of each bucket.

        Args:
            ordered: the requests.
            parts: the part of each column but the last.
            columns_ns: shape (columns, n).
            last: the parts that the durations of the last column are of, shape (n,).
        """
        numbers, runs, floats = ordered.numbers, ordered.runs, columns_ns.astype(np.float64)
        wide = len(self._bounds_ns) * self._wide
        cells = self._steps.of(columns_ns, floats)
        if len(numbers) > 1:
            cells += runs.position * wide
        cells[:-1] += np.array(parts, dtype=np.int64)[:, np.newaxis] * self._wide
        cells[-1] += last * self._wide
        # Missing is the least number there is.
        if columns_ns.min() < 0:
            cells[columns_ns < 0] = len(numbers) * wide
            np.maximum(floats, 0, out=floats)
        self._count(numbers, cells.ravel())
        self._show(ordered, cells.ravel(), columns_ns.ravel())
        self._seconds[numbers[:, np.newaxis], parts] += runs.sums(floats[:-1]).T / SECOND_NS
        self._sum(numbers, runs.position, last, floats[-1])

    def _count(self, numbers: Ints, cells: Ints) -> None:
        """Count *cells* of some label sets; those beyond are left out."""
        room = len(numbers) * len(self._bounds_ns) * self._wide
        counts = np.bincount(cells, minlength=room)[:room].reshape(len(numbers), -1)
        self._buckets[numbers] += np.add.reduceat(counts, self._firsts, axis=1)

    def _sum(self, numbers: Ints, position: Ints, part: Ints, durations_ns: Ints | Floats) -> None:
        parts = len(self._bounds_ns)
        sums = np.bincount(position * parts + part, durations_ns, minlength=len(numbers) * parts)
        self._seconds[numbers] += sums.reshape(-1, parts) / SECOND_NS

    def _show(self, ordered: Ordered, cells: Ints, durations_ns: Ints) -> None:
        """Take in the last duration of each bucket."""
        numbers, rows = ordered.numbers, ordered.runs.rows
        last = np.full(len(numbers) * len(self._bounds_ns) * self._wide + 1, -1, dtype=np.int64)
        last[cells] = np.arange(len(cells))  # of several the last one stays
        newest = np.maximum.reduceat(last[:-1].reshape(len(numbers), -1), self._firsts, axis=1)
        row, bucket = np.nonzero(newest >= 0)
        at = newest[row, bucket]
        self._exemplars.add(ordered.batch, rows[at % len(rows)], durations_ns[at], (numbers[row], bucket))

    def family(
        self,
        sets: Sequence[tuple[int, Labels]],
        parts: Mapping[str, int] | Mapping[None, int],
        part_label: str = "",
        *,
        with_empty: bool = False,
    ) -> Family:
        """
        A copy of some histograms, set after set in the order given.

        Args:
            sets: label sets, each with its row.
            parts: by name, side by side and with the same bounds.
            part_label: what tells the parts apart.
            with_empty: also those without a duration.
        """
        first, last = min(parts.values()), max(parts.values())
        columns, wide = slice(self._offsets[first], self._offsets[last + 1]), len(self._bounds_ns[first]) + 1
        rows = np.array([row for row, _ in sets], dtype=np.int64)
        buckets = self._buckets[rows, columns].reshape(-1, wide)
        seconds = self._seconds[rows, first : last + 1].ravel()
        picked = np.flatnonzero(with_empty | buckets.any(axis=1))
        named = [(labels, name) for _, labels in sets for name in parts]
        numbers = zip(picked.tolist(), buckets[picked].tolist(), seconds[picked].tolist(), strict=True)
        series = (HistogramSeries(*named[at], tuple(counts), took) for at, counts, took in numbers)
        exemplars = self._exemplars.take(rows, columns).reshaped(wide).take(picked)
        return Family(self._bounds_ns[first], tuple(series), exemplars, part_label)
