"""
From SQL to memory: at start, and whenever memory may be wrong, to the same numbers as before.

A thousand SLOs have some four hundred thousand rows and a million packed cells,
so the database puts the rows of an SLO into one text a column, and the rest is
numpy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa

from slo_exporter.sli.admission import Role, Roles
from slo_exporter.sli.counting import TOTAL
from slo_exporter.sli.records import MISSING, Ints, Mask
from slo_exporter.slo.alerting import ActiveAlerts
from slo_exporter.slo.corrections import Correction, CorrectionMade
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.judging import SliceOpening
from slo_exporter.slo.ledger import Ledger, Opening
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import cells_of
from slo_exporter.store import alert_rows, correcting
from slo_exporter.store.declarations import CURRENT, Definition
from slo_exporter.store.packing import unpack
from slo_exporter.store.schema import OPEN_SLICES, PACKED, ROLES, SLICES, TOTALS, UPTIME, WRITERS
from slo_exporter.store.transaction import WHOLE_SLO, Writers

_PARTITION = 4000
"""Packed rows that are unpacked at once: 11 MiB."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the database says."""

    ledger: Ledger
    roles: Roles
    slices: SliceOpening
    corrections: Mapping[int, Sequence[CorrectionMade]]
    """By row."""
    packed_until_s: int
    """No packed cell ends later."""
    alerts: ActiveAlerts


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of some cells, each of one SLO and one writer."""

    rows: Ints
    """Shape (n,): of SLOs."""
    starts: Ints
    counts: Ints
    """Shape (n, 3)."""
    is_raw: Mask
    """What happened, not what was taken out of it."""
    until_s: int = 0
    """No packed cell of them ends later."""


def load(
    connection: sa.Connection, slos: Sequence[Slo], definitions: Sequence[Definition], writers: Writers, now_ns: int
) -> Loaded:
    """
    Read everything that counts now; *slos* and *definitions* have one order.

    Raises:
        UnusableError: the database is damaged.
    """
    rows = {definition.generation_id: row for row, definition in enumerate(definitions)}
    parts = [*_packed(connection, rows, writers), _slices(connection, rows, writers)]
    totals, newest = _totals(connection, definitions)
    corrections = correcting.read(connection, rows)
    # The newest event of an earlier generation says nothing of this one's data.
    newest[_raw_totals(parts, len(slos)) == 0] = MISSING
    ledger = Ledger(
        Opening(
            slos=slos,
            started_ns=[definition.started_ns for definition in definitions],
            totals=totals,
            newest_ns=newest,
            uptime=Uptime((row.from_ns, row.to_ns) for row in connection.execute(sa.select(UPTIME))),
            corrections=[Correction(row, one.span) for row, made in corrections.items() for one in made],
        )
    )
    ledger.timeline.fold(now_ns)
    ledger.timeline.load(*_cells(parts, len(slos), now_ns))
    until_s = max(part.until_s for part in parts)
    opening = _opening(connection, rows, definitions, writers)
    alerts = alert_rows.read(connection, definitions)
    return Loaded(ledger, _roles(connection), opening, corrections, until_s, alerts)


def _roles(connection: sa.Connection) -> Roles:
    """What services have shown to be; what only a later version knows is left out."""
    known = {role.value: role for role in Role}
    rows = connection.execute(sa.select(ROLES.c.service, ROLES.c.role))
    return frozenset((row.service, known[row.role]) for row in rows if row.role in known)


def _totals(connection: sa.Connection, definitions: Sequence[Definition]) -> tuple[Ints, Ints]:
    totals = np.zeros((len(definitions), 3), dtype=np.int64)
    newest = np.full(len(definitions), MISSING, dtype=np.int64)
    rows = {definition.slo_id: row for row, definition in enumerate(definitions)}
    for found in connection.execute(sa.select(TOTALS).where(TOTALS.c.group_id == WHOLE_SLO)):
        row = rows.get(found.slo_id)
        if row is not None:
            totals[row] += (found.good, found.total, found.excluded)
            newest[row] = max(newest[row], found.newest_ns)
    return totals, newest


def _slices(connection: sa.Connection, rows: dict[int, int], writers: Writers) -> _Counts:
    """Counts of 5 s slices."""
    columns = (SLICES.c.start_s, SLICES.c.good, SLICES.c.total, SLICES.c.excluded)
    texts = (sa.func.aggregate_strings(sa.cast(column, sa.Text), ",") for column in columns)
    query = (
        sa.select(SLICES.c.generation_id, SLICES.c.writer_id, *texts)
        .where((SLICES.c.group_id == WHOLE_SLO) & SLICES.c.generation_id.in_(CURRENT))
        .group_by(SLICES.c.generation_id, SLICES.c.writer_id)
    )
    read: list[Ints] = [np.zeros((5, 0), dtype=np.int64)]
    for generation, writer, *texts_of in connection.execute(query):
        numbers = np.array([np.fromstring(text, dtype=np.int64, sep=",") for text in texts_of])
        whose = np.full(numbers.shape[1], rows[generation] * 2 + (writer != writers.corrections), dtype=np.int64)
        read.append(np.vstack([whose, numbers]))
    whose, starts, *counts = np.concatenate(read, axis=1)
    return _Counts(whose // 2, starts, np.stack(counts, axis=1), whose % 2 == 1)


def _packed(connection: sa.Connection, rows: dict[int, int], writers: Writers) -> Iterator[_Counts]:
    """Counts of packed cells."""
    columns = (PACKED.c.generation_id, PACKED.c.writer_id, PACKED.c.grid_s, PACKED.c.chunk_s, PACKED.c.counts)
    query = sa.select(*columns).where((PACKED.c.group_id == WHOLE_SLO) & PACKED.c.generation_id.in_(CURRENT))
    for found in connection.execute(query).partitions(_PARTITION):
        generations, whose, grids, chunks, blobs = zip(*found, strict=True)
        counts = unpack(blobs)
        chunk, cell = np.nonzero(counts.any(axis=2))
        grid = np.array(grids, dtype=np.int64)[chunk]
        starts = np.array(chunks, dtype=np.int64)[chunk] + cell * grid
        yield _Counts(
            rows=np.array([rows[generation] for generation in generations], dtype=np.int64)[chunk],
            starts=starts,
            counts=counts[chunk, cell],
            is_raw=np.array(whose)[chunk] != writers.corrections,
            until_s=int((starts + grid).max(initial=0)),
        )


def _raw_totals(parts: Sequence[_Counts], width: int) -> Ints:
    """Good and bad events of each SLO, corrected ones too; shape (width,)."""
    totals = np.zeros(width, dtype=np.int64)
    for part in parts:
        np.add.at(totals, part.rows[part.is_raw], part.counts[part.is_raw, TOTAL])
    return totals


def _cells(parts: Sequence[_Counts], width: int, now_ns: int) -> tuple[Ints, Ints]:
    """The cells of *now_ns*, oldest first, and their counts of shape (cells, width, 3)."""
    # A million counts have some thousand starts: only those are sorted and folded.
    starts = np.unique(np.concatenate([np.unique(part.starts) for part in parts]))
    cells, position = np.unique(cells_of(starts, now_ns), return_inverse=True)
    # The counts of an SLO come together, so they are added where its own lie together.
    counts = np.zeros((3, width * len(cells)), dtype=np.int64)
    for part in parts:
        place = part.rows * len(cells) + position[np.searchsorted(starts, part.starts)]
        for column, sums in enumerate(counts):
            np.add.at(sums, place, part.counts[:, column])
    return cells, np.ascontiguousarray(counts.reshape(3, width, len(cells)).T)


def _opening(
    connection: sa.Connection, rows: dict[int, int], definitions: Sequence[Definition], writers: Writers
) -> SliceOpening:
    ours = sa.select(WRITERS.c.judged_s, WRITERS.c.final_s).where(WRITERS.c.id == writers.main)
    judged_s, final_s = connection.execute(ours).one()
    query = sa.select(OPEN_SLICES).where(OPEN_SLICES.c.generation_id.in_(CURRENT))
    sums = {
        (rows[found.generation_id], found.start_s): np.frombuffer(found.sums, dtype="<i8").astype(np.int64)
        for found in connection.execute(query)
    }
    return SliceOpening(sums, [definition.declared_ns for definition in definitions], judged_s, final_s)
