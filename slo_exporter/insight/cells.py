"""
Cells: how many observations there are of each key, and their sums.

Keys are those of `observations`: group, measure and bucket.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.insight.observations import CELL_BITS, GROUPS_PER_SET, MEASURE_BITS, Observations

_KEY: Final = (1 << 32) - 1
_TABLE: Final = 8
"""Observations are counted in a table that has so much room for each; where it would need more they are sorted."""
_SLOT_BYTES: Final = 512
"""What a slot takes beside the data of its arrays."""

Keys = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts and sums of some observations; several one after the other are read as their sum."""

    keys: Keys
    """Group, measure and bucket; ascending in what was not chained."""
    counts: NDArray[np.uint32]
    """Observations of each key."""
    sum_keys: Keys
    """Group and measure; ascending in what was not chained."""
    sums_ns: NDArray[np.float64]
    """Exact up to 2^53 ns, 104 days, of each."""

    @property
    def nbytes(self) -> int:
        """What it takes."""
        return sum(column.nbytes for column in (self.keys, self.counts, self.sum_keys, self.sums_ns)) + _SLOT_BYTES

    def between(self, first_set: int, last_set: int) -> "Cells":
        """The part that is of some label sets, where keys ascend."""
        groups = np.array([first_set, last_set + 1], dtype=np.int64) * GROUPS_PER_SET
        a, b = np.searchsorted(self.keys, groups << CELL_BITS).tolist()
        c, d = np.searchsorted(self.sum_keys, groups << MEASURE_BITS).tolist()
        return Cells(self.keys[a:b], self.counts[a:b], self.sum_keys[c:d], self.sums_ns[c:d])


def by_minute(observations: Observations) -> Iterator[tuple[int, Cells]]:
    """What was observed in each minute."""
    cells, sizes = _sizes(observations.cells, len(observations.groups) << CELL_BITS)
    counts = sizes.astype(np.uint32)
    sum_cells, sums = observations.sum_cells, observations.sums_ns
    minutes, keys = _placed(observations.groups, cells, CELL_BITS)
    sum_minutes, sum_keys = _placed(observations.groups, sum_cells, MEASURE_BITS)
    if minutes[0] == minutes[-1]:
        yield int(minutes[0]), Cells(keys, counts, sum_keys, sums)
        return
    for minute in minutes[_starts(minutes)].tolist():
        one, other = (slice(*each.searchsorted([minute, minute + 1]).tolist()) for each in (minutes, sum_minutes))
        yield minute, Cells(keys[one], counts[one], sum_keys[other], sums[other])


def _sizes(cells: NDArray[np.int64], room: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct cells, ascending, all below *room*, and how often each is there."""
    if room <= _TABLE * len(cells):
        sizes = np.bincount(cells)
        found = np.flatnonzero(sizes)
        return found, sizes[found]
    ascending = np.sort(cells.astype(np.int32) if room < 1 << 31 else cells)
    starts = _starts(ascending)
    return ascending[starts].astype(np.int64), np.diff(np.append(starts, len(cells)))


def _placed(groups: NDArray[np.int64], cells: NDArray[np.int64], bits: int) -> tuple[NDArray[np.int64], Keys]:
    """The minute of each of *cells*, whose lowest *bits* say what is observed, and its key."""
    place = groups[cells >> bits]
    keys = ((place & _KEY) >> (CELL_BITS - bits)) | (cells & ((1 << bits) - 1))
    return place >> 32, keys.astype(np.uint32)


def merged(several: Sequence[Cells]) -> Cells:
    """The cells of several slots as those of one."""
    if len(several) == 1:
        return several[0]
    every = chained(several)
    keys, counts = _counted(every.keys, every.counts)
    # Several ascending runs: a merging sort needs little more than one pass.
    order = np.argsort(every.sum_keys, kind="stable")
    sum_keys = every.sum_keys[order]
    starts = _starts(sum_keys)
    return Cells(keys, counts, sum_keys[starts], np.add.reduceat(every.sums_ns[order], starts))


def _counted(keys: Keys, counts: NDArray[np.uint32]) -> tuple[Keys, NDArray[np.uint32]]:
    """Each key once, ascending, and its counts added up."""
    both = (keys.astype(np.uint64) << np.uint64(32)) | counts
    both.sort(kind="stable")
    ascending = (both >> np.uint64(32)).astype(np.uint32)
    starts = _starts(ascending)
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(both & np.uint64(_KEY))])
    return ascending[starts], np.diff(sums[np.append(starts, len(keys))]).astype(np.uint32)


def chained(several: Iterable[Cells]) -> Cells:
    """The cells of several one after the other."""
    several = list(several)
    nothing = np.zeros(0, dtype=np.uint32)
    return Cells(
        np.concatenate([nothing, *(cells.keys for cells in several)]),
        np.concatenate([nothing, *(cells.counts for cells in several)]),
        np.concatenate([nothing, *(cells.sum_keys for cells in several)]),
        np.concatenate([np.zeros(0), *(cells.sums_ns for cells in several)]),
    )


def _starts(ascending: NDArray[Any]) -> NDArray[np.intp]:
    """Where a run of equal values begins; the array may be empty."""
    if not len(ascending):
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
