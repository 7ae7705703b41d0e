"""Buckets between fixed bounds, for many numbers at once."""

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.records import Ints

Floats: TypeAlias = NDArray[np.float64]

_MANTISSA: Final = 52
"""Bits of a float's mantissa, the lowest ones."""
_TOP: Final = (1 << _MANTISSA) - 1
"""52 days in nanoseconds: beyond all bounds, as what is more."""


class Steps:
    """
    Which bucket a number is in, without a search.

    The bits of a float, from its exponent down, say in which of many narrow
    cells a number lies. At most one bound lies in each: a table holds what to
    add to a number so that it carries into the bits above where it is beyond
    that bound, and the bits above are the bucket.

    Args:
        bounds: upper bounds of the buckets, inclusive, ascending from 1 to less than 2^52; at most 2,046.
    """

    def __init__(self, bounds: Ints) -> None:
        mantissa = next(bits for bits in range(_MANTISSA) if (np.diff(_cells(bounds, _MANTISSA - bits)) > 0).all())
        self._shift = _MANTISSA - mantissa
        cells = _cells(bounds, self._shift)
        self._first = int(cells[0])
        starts = np.arange(cells[0], cells[-1] + 2, dtype=np.int64) << self._shift
        below = bounds.searchsorted(np.ceil(starts.view(np.float64)).astype(np.int64), side="left")
        self._carries = (below << _MANTISSA) + (_TOP - np.append(bounds, _TOP)[below])

    def of(self, values: Ints, floats: Floats | None = None) -> Ints:
        """
        The bucket of each of *values*, whatever where one is negative; beyond all bounds it is the one more.

        Args:
            values: of any shape.
            floats: the same, where somebody has them.
        """
        cells = _cells(values, self._shift, floats)
        cells -= self._first
        buckets: Ints = self._carries.take(cells, mode="clip")
        buckets += np.minimum(values, _TOP)
        buckets >>= _MANTISSA
        return buckets


def _cells(values: Ints, shift: int, floats: Floats | None = None) -> Ints:
    """The float of each value, without its lowest bits; a rounded one is no less than one of a smaller value."""
    floats = values.astype(np.float64) if floats is None else floats
    cells: Ints = floats.view(np.int64) >> shift
    return cells
