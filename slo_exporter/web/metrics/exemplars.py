"""
The newest request of each duration bucket, by its trace: what exemplars show.

Rules of this module:

1. Columns, not objects: a batch is taken in by a few numpy calls.
2. Bounded: one request per label set and bucket.
3. Exemplars of a bucket only go forward in time, by `APART_NS` or more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.records import MISSING, Ints, RequestBatch, Words

APART_NS: Final = 2_000_000
"""
Two exemplars of a bucket are at least so far apart.

Prometheus cuts float seconds to milliseconds and refuses an exemplar that does
not come after the one before; rounding moves each by less than one.
"""


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One request of a bucket."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    duration_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Shown:
    """Requests that may be exemplars."""

    batch: RequestBatch
    requests: Ints
    """Positions in *batch*, by their end; of those that end together in the order of the batch."""

    @classmethod
    def of(cls, batch: RequestBatch) -> "Shown":
        """Those that are not shadowed."""
        counted = np.flatnonzero(~batch.shadowed)
        return cls(batch, counted[_ascending(batch.end_ns[counted])])


def _ascending(values: Ints) -> Ints:
    """A stable order of *values*; to sort numbers that hold their place is many times faster."""
    if not len(values):
        return values
    first, bits = int(values.min()), len(values).bit_length()
    if (int(values.max()) - first) >> (63 - bits):
        return np.argsort(values, kind="stable")
    placed = ((values - first) << bits) | np.arange(len(values))
    placed.sort()
    return placed & ((1 << bits) - 1)


class Exemplars:
    """
    The newest request per row, a label set, and bucket.

    Args:
        end_ns: shape (rows, buckets), `MISSING` where there was none yet.
        duration_ns: the same shape.
        trace_id: shape (rows, buckets, 2).
        span_id: shape (rows, buckets).
    """

    def __init__(self, end_ns: Ints, duration_ns: Ints, trace_id: Words, span_id: Words) -> None:
        self._end_ns = end_ns
        self._duration_ns = duration_ns
        self._trace_id = trace_id
        self._span_id = span_id

    @classmethod
    def empty(cls, rows: int, buckets: int) -> "Exemplars":
        """Room for so many, none known."""
        shape = (rows, buckets)
        return cls(
            np.full(shape, MISSING, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros((*shape, 2), dtype=np.uint64),
            np.zeros(shape, dtype=np.uint64),
        )

    def add(self, batch: RequestBatch, requests: Ints, durations_ns: Ints, cells: tuple[Ints, Ints]) -> None:
        """Take in the newest request of some distinct *cells*, rows and buckets, by its position in a batch."""
        end_ns = batch.end_ns[requests]
        later = end_ns >= self._end_ns[cells] + APART_NS
        if not later.all():
            requests, durations_ns, end_ns = requests[later], durations_ns[later], end_ns[later]
            cells = cells[0][later], cells[1][later]
        self._end_ns[cells] = end_ns
        self._duration_ns[cells] = durations_ns
        self._trace_id[cells] = batch.trace_id[requests]
        self._span_id[cells] = batch.span_id[requests]

    def take(self, rows: Sequence[int]) -> "Exemplars":
        """A copy of some rows, in the order given."""
        picked = np.array(rows, dtype=np.int64)
        return Exemplars(self._end_ns[picked], self._duration_ns[picked], self._trace_id[picked], self._span_id[picked])

    def rows(self) -> Iterator[list[Exemplar | None]]:
        """Row by row the exemplar of each bucket."""
        columns = (self._end_ns, self._duration_ns, self._trace_id, self._span_id)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            yield [
                None if end == MISSING else Exemplar(f"{high:016x}{low:016x}", f"{span:016x}", duration, end)
                for end, duration, (high, low), span in zip(*row, strict=True)
            ]
