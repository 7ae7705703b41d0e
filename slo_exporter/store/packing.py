"""
Cells older than 5 s slices, 120 of one grid in a row.

A packed row holds three columns (good, total, excluded) of `CHUNK_CELLS`
little-endian int64 each, in zlib's format. A cell without counts is zeros:
every chunk has the same shape, and adding chunks is adding arrays.
"""

import zlib
from collections.abc import Iterable
from typing import Final

import numpy as np
from isal import isal_zlib

from slo_exporter.sli.records import Ints
from slo_exporter.slo.windows import GRIDS_S, folded_before
from slo_exporter.store.errors import UnusableError

CHUNK_CELLS: Final = 120
"""Of the finest packed grid an hour, of the widest ten days."""
_LEVEL: Final = 1
"""Counts are small numbers in wide integers: the quickest level takes the zeros out."""


def pack(counts: Ints) -> bytes:
    """Counts of one chunk, shape (120, 3)."""
    return zlib.compress(counts.T.astype("<i8").tobytes(), _LEVEL)


def unpack(blobs: Iterable[bytes]) -> Ints:
    """
    Counts of chunks, shape (chunks, 120, 3).

    Raises:
        UnusableError: what is stored is no chunk.
    """
    try:
        content = np.frombuffer(b"".join(map(isal_zlib.decompress, blobs)), dtype="<i8")
        return content.reshape(-1, 3, CHUNK_CELLS).transpose(0, 2, 1).astype(np.int64)
    except (isal_zlib.error, ValueError) as error:  # type: ignore[misc]  # its stub has it as an instance
        raise UnusableError(f"the database is damaged: a packed row cannot be read: {error}") from error


def chunks_of(grids_s: Ints, starts_s: Ints) -> Ints:
    """The start of the chunk that holds each cell."""
    widths = grids_s * CHUNK_CELLS
    return starts_s // widths * widths


def folded(grids_s: Ints, starts_s: Ints, now_ns: int) -> tuple[Ints, Ints]:
    """
    The cells in which cells are kept at *now_ns*: their grids and starts.

    As `slo.windows.cells_of`, of which this is the part that SQL keeps: a cell
    never gets narrower again, though a clock may be set back.
    """
    grids, starts = grids_s.copy(), starts_s.copy()
    for grid in GRIDS_S[1:]:
        wider = (starts < folded_before(now_ns, grid)) & (grids < grid)
        grids[wider] = grid
        starts[wider] = starts[wider] // grid * grid
    return grids, starts
