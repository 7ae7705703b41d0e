"""
From rows to packed cells: old slices of some SLOs, in one small transaction.

What was read is written back in another shape: counts neither come nor go, a
transaction that breaks off changes nothing, and doing it again finds nothing to
do. Cells of all writers of an SLO are folded together, so that what a
correction took out stays beside what it was taken from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import sqlalchemy as sa

from slo_exporter.sli.counting import SLICE_S
from slo_exporter.sli.records import Ints
from slo_exporter.slo.windows import GRIDS_S, folded_before
from slo_exporter.store.packing import CHUNK_CELLS, chunks_of, folded, pack, unpack
from slo_exporter.store.schema import PACKED, SLICES
from slo_exporter.store.upserts import put

_WIDEST: Final = GRIDS_S[-1]
_EMPTY: Final = np.zeros((CHUNK_CELLS, 3), dtype=np.int64)
_Key: TypeAlias = tuple[int, int, int, int, int]
"""Generation, group, writer, grid, start of the chunk."""
_Chunks: TypeAlias = dict[_Key, Ints]
"""Counts by key, (120, 3) each."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells that move into wider ones."""

    whose: Ints
    """Shape (n, 3): generation, group, writer."""
    grids: Ints
    starts: Ints
    counts: Ints
    """Shape (n, 3)."""


def fold(connection: sa.Connection, generations: Sequence[int], now_ns: int) -> int:
    """
    Keep the slices of *generations* as wide as they are at *now_ns*; how many rows were packed.

    Raises:
        UnusableError: the database is damaged.
    """
    rows = _take_rows(connection, generations, now_ns)
    held = _read(connection, PACKED.c.generation_id.in_(generations) & (PACKED.c.grid_s < _WIDEST))
    changed: _Chunks = {}
    moving = [rows]
    for key, counts in held.items():
        taken = _take_old(key, counts, now_ns)
        if len(taken.starts):
            changed[key] = counts
            moving.append(taken)
    _add(connection, _joined(moving), held, changed, now_ns)
    _write(connection, changed)
    return len(rows.starts)


def _joined(parts: Sequence[_Cells]) -> _Cells:
    return _Cells(
        whose=np.concatenate([part.whose for part in parts]),
        grids=np.concatenate([part.grids for part in parts]),
        starts=np.concatenate([part.starts for part in parts]),
        counts=np.concatenate([part.counts for part in parts]),
    )


def _take_rows(connection: sa.Connection, generations: Sequence[int], now_ns: int) -> _Cells:
    """Old rows; they are deleted."""
    old = SLICES.c.generation_id.in_(generations) & (SLICES.c.start_s < folded_before(now_ns))
    found = connection.execute(sa.select(SLICES).where(old)).all()
    if found:
        connection.execute(sa.delete(SLICES).where(old))
    table = np.array([tuple(row) for row in found], dtype=np.int64).reshape(-1, 7)
    return _Cells(table[:, :3], np.full(len(table), SLICE_S, dtype=np.int64), table[:, 3], table[:, 4:])


def _read(connection: sa.Connection, which: sa.ColumnElement[bool]) -> _Chunks:
    found = connection.execute(sa.select(PACKED).where(which)).all()
    keys: list[_Key] = [(row[0], row[1], row[2], row[3], row[4]) for row in found]
    return dict(zip(keys, unpack(row.counts for row in found), strict=True)) if found else {}


def _take_old(key: _Key, counts: Ints, now_ns: int) -> _Cells:
    """Cells of one chunk that are old enough for the next grid; they are zeros in it afterwards."""
    *whose, grid, chunk = key
    starts = chunk + np.arange(CHUNK_CELLS, dtype=np.int64) * grid
    old = (starts < folded_before(now_ns, GRIDS_S[GRIDS_S.index(grid) + 1])) & counts.any(axis=1)
    taken = counts[old]
    counts[old] = 0
    of = np.tile(np.array(whose, dtype=np.int64), (len(taken), 1))
    return _Cells(of, np.full(len(taken), grid, dtype=np.int64), starts[old], taken)


def _add(connection: sa.Connection, moved: _Cells, held: Mapping[_Key, Ints], changed: _Chunks, now_ns: int) -> None:
    """Put cells into the chunks where they are kept at *now_ns*; those become part of *changed*."""
    grids, starts = folded(moved.grids, moved.starts, now_ns)
    chunks = chunks_of(grids, starts)
    places, which = np.unique(np.column_stack([moved.whose, grids, chunks]), axis=0, return_inverse=True)
    keys = [_key(place) for place in places.tolist()]
    there = {**held, **_read_widest(connection, keys)}
    totals = np.array([there.get(key, _EMPTY) for key in keys]).reshape(-1, CHUNK_CELLS, 3)
    np.add.at(totals, (which.ravel(), (starts - chunks) // grids), moved.counts)
    changed.update(zip(keys, totals, strict=True))


def _read_widest(connection: sa.Connection, keys: Sequence[_Key]) -> _Chunks:
    """What the chunks of the widest grid hold already, *keys* among them."""
    widest = [key for key in keys if key[3] == _WIDEST]
    if not widest:
        return {}
    generations, chunks = {key[0] for key in widest}, {key[4] for key in widest}
    which = PACKED.c.generation_id.in_(generations) & (PACKED.c.grid_s == _WIDEST) & PACKED.c.chunk_s.in_(chunks)
    return _read(connection, which)


def _key(place: Sequence[int]) -> _Key:
    generation, group, writer, grid, chunk = place
    return (generation, group, writer, grid, chunk)


def _write(connection: sa.Connection, changed: _Chunks) -> None:
    full = {key: counts for key, counts in changed.items() if counts.any()}
    put(connection, PACKED, [(*key, pack(counts)) for key, counts in sorted(full.items(), key=lambda item: item[0])])
    empty = [dict(zip(_KEY, key, strict=True)) for key in sorted(changed.keys() - full.keys())]
    if empty:
        connection.execute(_DELETE, empty)


_KEY: Final = ("generation", "group", "writer", "grid", "chunk")
_DELETE: Final = sa.delete(PACKED).where(
    *(column == sa.bindparam(name) for column, name in zip(PACKED.primary_key.columns, _KEY, strict=True))
)
