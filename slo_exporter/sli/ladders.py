"""Many bounds on one field of the same requests: counted by one look at their values, not by a mask for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.condition import Clause
from slo_exporter.sli.distinct import distinct
from slo_exporter.sli.records import Ints, Mask

WORTH_IT: Final = 6
"""From so many bounds on it is cheaper than a mask for each."""

_SECOND_NS: Final = 10**9
_WEIGHTS: Final[Mapping[str, tuple[int, int, int]]] = {
    "<=": (0, 1, 0),
    "<": (0, 0, 1),
    ">=": (1, 0, -1),
    ">": (1, -1, 0),
    "==": (0, 1, -1),
    "!=": (1, -1, 1),
}
"""What a comparison with a bound counts, of all values, of those up to the bound, and of those below it."""


@dataclass(frozen=True, slots=True)
class Places:
    """The slice of each row of a batch, in no order."""

    starts: Ints
    """Shape (k,): where the slices start, in seconds, ascending."""
    of: Ints | None
    """Shape (n,): position in *starts*; None where there is but one slice."""

    @classmethod
    def cut(cls, end_ns: Ints, width_s: int) -> "Places":
        """Slices of so many seconds."""
        numbers, of = distinct(end_ns // (width_s * _SECOND_NS))
        return cls(numbers * width_s, None if len(numbers) == 1 else of)

    def tally(self, mask: Mask) -> Ints:
        """How many of *mask* are in each slice."""
        if self.of is None:
            return np.array([np.count_nonzero(mask)], dtype=np.int64)
        return np.bincount(self.of[mask], minlength=len(self.starts)).astype(np.int64, copy=False)

    def up_to(self, values: Ints, mask: Mask, edges: Ints) -> Ints:
        """How many of *mask* in each slice have a value of at most each of *edges*, which ascend; shape (k, edges)."""
        values = values[mask]
        if self.of is None:
            return np.sort(values).searchsorted(edges, side="right")[np.newaxis]
        steps = len(edges) + 1
        cells = self.of[mask] * steps + edges.searchsorted(values, side="left")
        sizes = np.bincount(cells, minlength=len(self.starts) * steps).reshape(-1, steps)
        ups: Ints = np.cumsum(sizes[:, :-1], axis=1)
        return ups


class Ladder:
    """
    Bounds on one field.

    Args:
        clauses: one a column of what is counted, all on the same field.
    """

    def __init__(self, clauses: Sequence[Clause]) -> None:
        bounds = np.array([clause.bound for clause in clauses], dtype=np.int64)
        every, up_to, below = np.array([_WEIGHTS[clause.op] for clause in clauses], dtype=np.int64).T
        self.field: Final = clauses[0].field
        self._edges = np.unique(np.concatenate([bounds[up_to != 0], bounds[below != 0] - 1]))
        most = len(self._edges) - 1
        self._up_to = np.minimum(self._edges.searchsorted(bounds), most)
        self._below = np.minimum(self._edges.searchsorted(bounds - 1), most)
        self._weights = every, up_to, below

    def satisfying(self, values: Ints, mask: Mask, places: Places) -> Ints:
        """How many of *mask*, all of which have a value, satisfy each clause; shape (k, clauses)."""
        ups = places.up_to(values, mask, self._edges)
        every, up_to, below = self._weights
        counts: Ints = every * places.tally(mask)[:, np.newaxis]
        counts += up_to * ups[:, self._up_to]
        counts += below * ups[:, self._below]
        return counts
