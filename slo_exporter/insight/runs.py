"""Rows in an order in which those that belong together stand side by side: sums are read off without a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slo_exporter.insight.steps import Floats
from slo_exporter.sli.records import Ints, Mask


@dataclass(frozen=True, slots=True)
class Runs:
    """Some rows, at least one, run after run; a number is missing where it is negative."""

    rows: Ints
    """Shape (n,)."""
    position: Ints
    """Shape (n,), ascending: the run of each, from 0."""
    firsts: Ints
    """Shape (k,): where each run begins."""

    @classmethod
    def of(cls, position: Ints, rows: Ints) -> "Runs":
        """Those *rows* by their *position*, from 0 without a gap; of one position in the order given."""
        sizes = np.bincount(position)
        if len(sizes) > 1:
            order = ascending(position)
            rows, position = rows[order], position[order]
        return cls(rows, position, np.cumsum(sizes) - sizes)

    def columns(self, whole: Sequence[Ints], more: int = 0) -> Ints:
        """The rows of each column, and room for some *more*: shape (columns, n)."""
        taken = np.empty((len(whole) + more, len(self.rows)), dtype=np.int64)
        for column, row in zip(whole, taken, strict=False):
            column.take(self.rows, out=row, mode="clip")  # the other modes take into a buffer first
        return taken

    def tell(self, columns: Ints) -> Mask:
        """Whether any row of a run has a number: shape (columns, k)."""
        told: Mask = np.maximum.reduceat(columns, self.firsts, axis=1) >= 0
        return told

    def sums(self, columns: Floats) -> Floats:
        """The sum of each run, where missing numbers are 0: shape (columns, k)."""
        return np.add.reduceat(columns, self.firsts, axis=1)


def ascending(values: Ints) -> Ints:
    """A stable order of *values*; to sort numbers that hold their place is many times faster."""
    first, last, bits = int(values.min()), int(values.max()), len(values).bit_length()
    if last - first < 1 << 16:  # numpy sorts these by their digits
        return np.argsort((values - first).astype(np.uint16), kind="stable")
    if (last - first) >> (63 - bits):
        return np.argsort(values, kind="stable")
    placed = values - first
    placed <<= bits
    placed |= np.arange(len(values))
    placed.sort()
    placed &= (1 << bits) - 1
    return placed
