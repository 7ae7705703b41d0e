"""
The newest request of each duration bucket, by its trace: what exemplars show.

Rules of this module:

1. Columns, not objects: a batch is taken in by a few numpy calls.
2. Bounded: one request per label set and bucket.
3. Exemplars of a bucket only go forward in time, by `APART_NS` or more.
"""

from collections.abc import Iterator
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


class Exemplars:
    """
    The newest request per row, a label set or one of its parts, and bucket.

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

    def take(self, rows: Ints, buckets: slice = slice(None)) -> "Exemplars":
        """A copy of some rows, in the order given, and of some buckets."""
        return Exemplars(
            self._end_ns[rows, buckets],
            self._duration_ns[rows, buckets],
            self._trace_id[rows, buckets],
            self._span_id[rows, buckets],
        )

    def reshaped(self, buckets: int) -> "Exemplars":
        """The same with so many buckets a row, and more rows."""
        return Exemplars(
            self._end_ns.reshape(-1, buckets),
            self._duration_ns.reshape(-1, buckets),
            self._trace_id.reshape(-1, buckets, 2),
            self._span_id.reshape(-1, buckets),
        )

    def rows(self) -> Iterator[list[Exemplar | None]]:
        """Row by row the exemplar of each bucket."""
        columns = (self._end_ns, self._duration_ns, self._trace_id, self._span_id)
        for row in zip(*(column.tolist() for column in columns), strict=True):
            yield [
                None if end == MISSING else Exemplar(f"{high:016x}{low:016x}", f"{span:016x}", duration, end)
                for end, duration, (high, low), span in zip(*row, strict=True)
            ]
