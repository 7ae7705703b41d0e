"""
Where keys stand in a column.

Sorting and searching cost most where keys are hashes: in no order that a
processor's cache could follow. A table as wide as the keys costs a fifth.
"""

from typing import Final

import numpy as np

from slo_exporter.sli.records import Ints, Words

_SPARE_BITS: Final = 1
"""The table has at least twice as many slots as there are keys."""


def first_places(keys: Words, wanted: Words) -> Ints:
    """
    Per *wanted* the first row of *keys* with that value, -1 where there is none.

    Args:
        keys: well mixed, as `mix` leaves them.
        wanted: of any number.
    """
    if not len(keys):
        return np.full(len(wanted), -1)
    shift = np.uint64(64 - len(keys).bit_length() - _SPARE_BITS)
    slots = (keys >> shift).astype(np.int64)
    table = np.full(1 << (64 - int(shift)), -1)
    table[slots[::-1]] = np.arange(len(keys))[::-1]  # of several writes to one place the last stays
    beaten = np.flatnonzero(keys[table[slots]] != keys)
    found = table[(wanted >> shift).astype(np.int64)]
    missed = np.flatnonzero((found < 0) | (keys[found] != wanted))
    found[missed] = _searched(keys, beaten, wanted[missed])
    return found


def _searched(keys: Words, rows: Ints, wanted: Words) -> Ints:
    """The same of the few *rows* whose slot another key has."""
    if not rows.size or not wanted.size:
        return np.full(len(wanted), -1)
    order = rows[np.argsort(keys[rows], kind="stable")]
    at = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
    return np.where(keys[order[at]] == wanted, order[at], -1)
