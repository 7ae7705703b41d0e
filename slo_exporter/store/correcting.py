"""
Corrections in SQL: raw counts stay, their negatives stand under another writer.

What is taken out is written as absolute values, cell by cell: taking it out
twice changes nothing, and so do corrections that overlap.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import sqlalchemy as sa

from slo_exporter.sli.records import Ints
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.corrections import CorrectionMade, excluded
from slo_exporter.slo.windows import Range
from slo_exporter.store.declarations import CURRENT, Definition, stored
from slo_exporter.store.packing import CHUNK_CELLS, pack, unpack
from slo_exporter.store.schema import CORRECTIONS, PACKED, SLICES
from slo_exporter.store.upserts import put


@dataclass(frozen=True, slots=True)
class Asked:
    """A range in nanoseconds as somebody asked for it, half-open."""

    from_ns: int
    to_ns: int


class Both(Protocol):
    """Writer ids of what happened and of what was taken out of it."""

    @property
    def main(self) -> int:
        """Of raw counts."""
        ...

    @property
    def corrections(self) -> int:
        """Of what was taken out."""
        ...


def remember(connection: sa.Connection, definition: Definition, made: CorrectionMade) -> None:
    """Keep the correction itself: what comes into its range later is corrected too."""
    connection.execute(
        sa.insert(CORRECTIONS).values(
            slo_id=definition.slo_id,
            generation_id=definition.generation_id,
            from_s=made.span.start,
            to_s=made.span.end,
            asked_from_ns=made.asked_from_ns,
            asked_to_ns=made.asked_to_ns,
            made_ns=made.made_ns,
            who=stored(made.who),
            why=stored(made.why),
            good=made.removed.good,
            total=made.removed.total,
        )
    )


def read(connection: sa.Connection, rows: Mapping[int, int]) -> dict[int, list[CorrectionMade]]:
    """Corrections of the generations in *rows*, by the row that each has, in the order in which they were made."""
    found: dict[int, list[CorrectionMade]] = {}
    query = sa.select(CORRECTIONS).where(CORRECTIONS.c.generation_id.in_(CURRENT)).order_by(CORRECTIONS.c.id)
    for one in connection.execute(query):
        made = CorrectionMade(
            span=Range(one.from_s, one.to_s),
            asked_from_ns=one.asked_from_ns,
            asked_to_ns=one.asked_to_ns,
            why=one.why,
            who=one.who,
            made_ns=one.made_ns,
            removed=Counts(one.good, one.total),
        )
        found.setdefault(rows[one.generation_id], []).append(made)
    return found


def take_out(connection: sa.Connection, generation_id: int, writers: Both, span: Range) -> None:
    """Write the negatives of all rows and packed cells that start in *span*."""
    _take_out_rows(connection, generation_id, writers, span)
    _take_out_packed(connection, generation_id, writers, span)


def _take_out_rows(connection: sa.Connection, generation_id: int, writers: Both, span: Range) -> None:
    inside = (SLICES.c.start_s >= span.start) & (SLICES.c.start_s < span.end)
    ours = (SLICES.c.generation_id == generation_id) & (SLICES.c.writer_id == writers.main)
    rows = [
        (row.generation_id, row.group_id, writers.corrections, row.start_s, -row.good, -row.total, row.total)
        for row in connection.execute(sa.select(SLICES).where(ours & inside))
    ]
    put(connection, SLICES, rows)


def _take_out_packed(connection: sa.Connection, generation_id: int, writers: Both, span: Range) -> None:
    touches = (PACKED.c.chunk_s < span.end) & (PACKED.c.chunk_s + PACKED.c.grid_s * CHUNK_CELLS > span.start)
    query = sa.select(PACKED).where((PACKED.c.generation_id == generation_id) & touches)
    blobs = {
        (row.group_id, row.writer_id, row.grid_s, row.chunk_s): bytes(row.counts) for row in connection.execute(query)
    }
    rows = []
    for (group, writer, grid, chunk), blob in blobs.items():
        if writer == writers.main:
            raw = unpack([blob])[0]
            taken_out = _taken_out(blobs, (group, writers.corrections, grid, chunk))
            starts = chunk + np.arange(CHUNK_CELLS) * grid
            inside = (starts >= span.start) & (starts < span.end)
            taken_out[inside] = (excluded(raw) - raw)[inside]
            rows.append((generation_id, group, writers.corrections, grid, chunk, pack(taken_out)))
    put(connection, PACKED, rows)


def _taken_out(blobs: Mapping[tuple[int, int, int, int], bytes], key: tuple[int, int, int, int]) -> Ints:
    if key not in blobs:
        return np.zeros((CHUNK_CELLS, 3), dtype=np.int64)
    counts: Ints = unpack([blobs[key]])[0]
    return counts
