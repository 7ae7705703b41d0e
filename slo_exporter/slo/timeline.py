"""
Running sums over time slices: any window of every SLO for the price of two reads.

Per cell edge the sum of all counts before it is kept, so a window is one
subtraction, folding cells together is dropping edges, and a late slice moves
only the sums behind it.
"""

import numpy as np

from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import Ints
from slo_exporter.slo.windows import Range, cells_of, folded_before

_SPARE_EDGES = 64


class Timeline:
    """
    Counts of *width* SLOs by time slice.

    Attributes:
        total: shape (width, 3), int64: good, total, excluded of every slice held.
    """

    def __init__(self, width: int) -> None:
        self.total: Ints = np.zeros((width, 3), dtype=np.int64)
        self._edges: Ints = np.zeros(_SPARE_EDGES, dtype=np.int64)
        self._sums: Ints = np.zeros((_SPARE_EDGES, width, 3), dtype=np.int64)
        self._held = 0
        self._folded_ns = 0

    def __len__(self) -> int:
        """Slices held: the same for every SLO."""
        return self._held

    def add(self, delta: Delta) -> None:
        """Add counts; a slice that was folded meanwhile counts in its cell."""
        cells = cells_of(delta.slices, self._folded_ns)
        for cell, counts in zip(cells.tolist(), delta.counts, strict=True):
            behind = self._open(cell) + 1  # may move the sums to a larger array
            self._sums[behind : self._held] += counts
            self.total += counts

    def at(self, slice_s: int) -> Ints | None:
        """Counts of the one slice that starts at *slice_s*, (width, 3); None if it was folded."""
        if slice_s < folded_before(self._folded_ns):
            return None
        return self.between(Range(slice_s, slice_s + 1))

    def between(self, span: Range) -> Ints:
        """Counts in ``[start, end)``; shape (width, 3)."""
        return self._before(span.end) - self._before(span.start)

    def fold(self, now_ns: int) -> None:
        """Put old slices together; no window's answer changes (law 4)."""
        self._folded_ns = max(self._folded_ns, now_ns)
        edges = self._edges[: self._held]
        cells, first = np.unique(cells_of(edges, self._folded_ns), return_index=True)
        self._held = len(cells)
        self._edges[: self._held] = cells
        self._sums[: self._held] = self._sums[first]

    def _before(self, instant_s: int) -> Ints:
        position = int(np.searchsorted(self._edges[: self._held], instant_s))
        return self.total if position == self._held else self._sums[position]

    def _open(self, cell: int) -> int:
        """Position of *cell*, made if it is new."""
        position = int(np.searchsorted(self._edges[: self._held], cell))
        if position < self._held and self._edges[position] == cell:
            return position
        self._make_room()
        behind = slice(position, self._held)
        ahead = slice(position + 1, self._held + 1)
        self._sums[ahead] = self._sums[behind].copy()
        self._edges[ahead] = self._edges[behind].copy()
        self._sums[position] = self._before(cell)
        self._edges[position] = cell
        self._held += 1
        return position

    def _make_room(self) -> None:
        if self._held == len(self._edges):
            self._edges = np.concatenate([self._edges, np.zeros(_SPARE_EDGES, dtype=np.int64)])
            spare = np.zeros((_SPARE_EDGES, *self.total.shape), dtype=np.int64)
            self._sums = np.concatenate([self._sums, spare])
