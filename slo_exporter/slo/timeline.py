"""
Running sums over time slices: any window of every SLO for the price of two reads.

Per cell edge the sum of all counts before it is kept, so a window is one
subtraction, folding cells together is dropping edges, and a late slice moves
only the sums behind it.
"""

from collections.abc import Sequence

import numpy as np

from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import Ints
from slo_exporter.slo.corrections import excluded
from slo_exporter.slo.windows import Range, cell_of, cells_of, folded_before

_SPARE_EDGES = 64


class Timeline:
    """
    Counts of *width* SLOs by time slice.

    Attributes:
        total: shape (width, 3), int64: good, total, excluded of every slice held.
        folded_ns: slices are as wide as they are at this instant.
        kept_from_s: slices before it were forgotten.
    """

    def __init__(self, width: int) -> None:
        self.total: Ints = np.zeros((width, 3), dtype=np.int64)
        self._edges: Ints = np.zeros(_SPARE_EDGES, dtype=np.int64)
        self._sums: Ints = np.zeros((_SPARE_EDGES, width, 3), dtype=np.int64)
        self.folded_ns = 0
        self.kept_from_s = 0
        self._held = 0

    def __len__(self) -> int:
        """Slices held: the same for every SLO."""
        return self._held

    def add(self, delta: Delta) -> None:
        """Add counts; a slice that was folded meanwhile counts in its cell."""
        cells = cells_of(delta.slices, self.folded_ns)
        for cell, counts in zip(cells.tolist(), delta.counts, strict=True):
            behind = self._open(cell) + 1  # may move the sums to a larger array
            self._sums[behind : self._held] += counts
            self.total += counts

    def load(self, slices: Ints, counts: Ints) -> None:
        """Take all counts at once: distinct cells, oldest first, (k,), and their counts, (k, width, 3)."""
        held = self._held = len(slices)
        self._edges = np.concatenate([slices, np.zeros(_SPARE_EDGES, dtype=np.int64)])
        self._sums = np.zeros((held + _SPARE_EDGES, *self.total.shape), dtype=np.int64)
        np.cumsum(counts[:-1], axis=0, out=self._sums[1:held])
        self.total = counts.sum(axis=0)

    def at(self, slice_s: int) -> Ints | None:
        """Counts of the one slice that starts at *slice_s*, (width, 3); None if it was folded."""
        if slice_s < folded_before(self.folded_ns):
            return None
        return self.between(Range(slice_s, slice_s + 1))

    def between(self, span: Range) -> Ints:
        """Counts in ``[start, end)``; shape (width, 3)."""
        return self._before(span.end) - self._before(span.start)

    def windows(self, rows: Ints, shared: Sequence[int], own: Ints, end: int) -> Ints:
        """
        Counts of some SLOs in many windows at once.

        Args:
            rows: which SLOs, (s,).
            shared: where the windows begin that all have.
            own: where the one more of each begins, (s,).
            end: where all of them end.

        Returns:
            Shape (windows, s, 3), the own ones last; all edges are those of slices.
        """
        until, counts = self._before(end)[rows], np.empty((len(shared) + 1, len(rows), 3), dtype=np.int64)
        for at, start in enumerate(shared):
            np.subtract(until, self._before(start)[rows], out=counts[at])
        positions = np.searchsorted(self._edges[: self._held], own)
        sums = self._sums[np.minimum(positions, self._held - 1), rows]
        is_newest = (positions == self._held)[:, np.newaxis]
        np.subtract(until, np.where(is_newest, self.total[rows], sums), out=counts[-1])
        return counts

    def before(self, row: int, instants: Ints) -> Ints:
        """Counts of one SLO before each of *instants*, (n,); shape (n, 3)."""
        positions = np.searchsorted(self._edges[: self._held], instants)
        sums: Ints = np.concatenate([self._sums[: self._held, row], self.total[row : row + 1]])[positions]
        return sums

    def exclude(self, row: int, span: Range) -> None:
        """Make every good and bad event of one SLO in *span* an excluded one."""
        first, last = np.searchsorted(self._edges[: self._held], [span.start, span.end]).tolist()
        sums = np.concatenate([self._sums[first : self._held, row], self.total[row : row + 1]])
        width = last - first + 1
        moved = excluded(sums[:width] - sums[0]) + sums[0] - sums[:width]
        sums[:width] += moved
        sums[width:] += moved[-1]
        self._sums[first : self._held, row], self.total[row] = sums[:-1], sums[-1]

    def forget(self, before_s: int) -> None:
        """Drop the slices before the one that holds *before_s*; windows that begin later answer as before."""
        self.kept_from_s = max(self.kept_from_s, cell_of(before_s, self.folded_ns).start)
        gone = int(np.searchsorted(self._edges[: self._held], self.kept_from_s))
        if not gone:
            return
        base = self._before(self.kept_from_s).copy()
        kept = slice(gone, self._held)
        self._held -= gone
        self._edges[: self._held] = self._edges[kept].copy()
        self._sums[: self._held] = self._sums[kept] - base
        self.total -= base

    def fold(self, now_ns: int) -> None:
        """Put old slices together; no window's answer changes (law 4)."""
        self.folded_ns = max(self.folded_ns, now_ns)
        edges = self._edges[: self._held]
        cells, first = np.unique(cells_of(edges, self.folded_ns), return_index=True)
        self._held = len(cells)
        self._edges[: self._held] = cells
        # Sums before the first cell that took another in stay where they are: they are nearly all.
        moved = slice(int(np.count_nonzero(first == np.arange(len(first)))), self._held)
        self._sums[moved] = self._sums[first[moved]]

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
