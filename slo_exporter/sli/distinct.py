"""The distinct values of a column, quickly where they are near each other, as codes and minutes are."""

from typing import Final

import numpy as np

from slo_exporter.sli.records import Ints

_DENSE: Final = 4096
"""Values so near to each other are looked up in a table, as are those not much further apart than they are many."""
_ROOM: Final = 4


def distinct(values: Ints) -> tuple[Ints, Ints]:
    """
    The distinct *values*, ascending, and where among them each one stands.

    Args:
        values: shape (n,), of any whole numbers.

    Returns:
        Shapes (k,) and (n,).
    """
    if not len(values):
        return values, np.zeros(0, dtype=np.int64)
    first, last = int(values.min()), int(values.max())
    if first == last:
        return values[:1], np.zeros(len(values), dtype=np.int64)
    if last - first >= max(_DENSE, _ROOM * len(values)):
        found, position = np.unique(values, return_inverse=True)
        return found, position
    shifted = values - first
    is_there = np.zeros(last - first + 1, dtype=np.bool_)
    is_there[shifted] = True
    return np.flatnonzero(is_there) + first, (np.cumsum(is_there) - 1)[shifted]
