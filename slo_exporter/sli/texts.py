"""
Columns of text: distinct values once, and a code per row.

Rules of this module:

1. A missing text is code -1.
2. Python runs once a distinct value, never once a row.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Texts:
    """A text column: distinct values and, per row, the index of its value."""

    values: tuple[str, ...]
    codes: NDArray[np.int32]
    """Shape (rows,); -1 = missing. Values may repeat."""

    def among(self, wanted: Collection[str]) -> NDArray[np.bool_]:
        """Rows whose text is one of *wanted*."""
        hits = [value in wanted for value in self.values]
        # The extra last entry answers for code -1.
        return np.array([*hits, False], dtype=np.bool_)[self.codes]

    def at(self, row: int) -> str | None:
        """The text of one row; None when missing."""
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "Texts":
        """The same column for some rows."""
        return Texts(self.values, self.codes[rows])


def missing_texts(rows: int) -> Texts:
    """A text column without a value."""
    return Texts((), np.full(rows, -1, dtype=np.int32))


def texts_of(values: Sequence[str | None]) -> Texts:
    """A text column from one text, or None, per row."""
    distinct = dict.fromkeys(values)
    distinct.pop(None, None)
    index: dict[str | None, int] = {None: -1, **{text: code for code, text in enumerate(distinct) if text is not None}}
    codes = np.fromiter(map(index.__getitem__, values), dtype=np.int32, count=len(values))
    return Texts(tuple(text for text in distinct if text is not None), codes)


_FEW: Final = 8
"""Values of a column that are compared with those of others: names of services, not ids of requests."""


def concat_texts(columns: Sequence[Texts]) -> Texts:
    """One text column after the other; those that share their values, as slices of one column do, go on sharing."""
    places: dict[object, int] = {}
    distinct, values, shifts = list[tuple[str, ...]](), 0, list[int]()
    for column in columns:
        same = column.values if len(column.values) <= _FEW else id(column.values)
        if same not in places:
            places[same] = values
            distinct.append(column.values)
            values += len(column.values)
        shifts.append(places[same])
    codes = np.concatenate([column.codes for column in columns])
    if any(shifts):
        shift = np.repeat(np.array(shifts, dtype=np.int32), [len(column.codes) for column in columns])
        codes = np.where(codes < 0, codes, codes + shift)
    shared = distinct[0] if len(distinct) == 1 else tuple(chain.from_iterable(distinct))
    return Texts(shared, codes.astype(np.int32, copy=False))
