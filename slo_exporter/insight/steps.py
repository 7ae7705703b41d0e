"""Buckets between fixed bounds, for many numbers at once."""

from typing import Final

import numpy as np

from slo_exporter.sli.records import Ints

_MANTISSA: Final = 52
"""Bits of a float's mantissa, the lowest ones."""


class Steps:
    """
    Which bucket a number is in, without a search.

    The bits of a float, from its exponent down, say in which of many narrow
    cells a number lies. At most one bound lies in each, so that one comparison
    of whole numbers decides.

    Args:
        bounds: upper bounds of the buckets, inclusive, ascending from 1 to less than 2^53.
    """

    def __init__(self, bounds: Ints) -> None:
        mantissa = next(bits for bits in range(_MANTISSA) if (np.diff(_cells(bounds, _MANTISSA - bits)) > 0).all())
        self._shift = _MANTISSA - mantissa
        cells = _cells(bounds, self._shift)
        self._first = int(cells[0])
        starts = np.arange(cells[0], cells[-1] + 2, dtype=np.int64) << self._shift
        self._below = bounds.searchsorted(np.ceil(starts.view(np.float64)).astype(np.int64), side="left")
        self._ends = np.append(bounds, np.iinfo(np.int64).max)

    def of(self, values: Ints) -> Ints:
        """The bucket of each of *values*, none of them negative; beyond all bounds it is the one more."""
        below = self._below.take(_cells(values, self._shift) - self._first, mode="clip")
        buckets: Ints = below + (values > self._ends.take(below))
        return buckets


def _cells(values: Ints, shift: int) -> Ints:
    """The float of each value, without its lowest bits; a rounded one is no less than one of a smaller value."""
    cells: Ints = values.astype(np.float64).view(np.int64) >> shift
    return cells
