"""From SQL to a `Ledger` in memory: at start, to the same numbers as before."""

from collections.abc import Iterator, Sequence

import numpy as np
import sqlalchemy as sa

from slo_exporter.sli.counting import TOTAL, Delta
from slo_exporter.sli.records import MISSING, Ints
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Ledger, Opening
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import cells_of
from slo_exporter.store.definitions import Definition
from slo_exporter.store.schema import ENGINES, SLICES, TOTALS, UPTIME

_CHUNK = 100_000


def ledger(connection: sa.Connection, slos: Sequence[Slo], definitions: Sequence[Definition], now_ns: int) -> Ledger:
    """Rebuild the ledger of *slos*, folded as it is by now."""
    totals, newest = _totals(connection, definitions)
    book = Ledger(
        Opening(
            slos=slos,
            started_ns=[definition.started_ns for definition in definitions],
            totals=totals,
            newest_ns=newest,
            uptime=Uptime((row.from_ns, row.to_ns) for row in connection.execute(sa.select(UPTIME))),
        )
    )
    book.timeline.fold(now_ns)
    for chunk in _slices(connection, definitions):
        book.timeline.add(_delta(chunk, definitions, now_ns))
    # The newest event of an earlier generation says nothing of this one's data.
    book.newest_ns[book.timeline.total[:, TOTAL] == 0] = MISSING
    return book


def engines(connection: sa.Connection) -> frozenset[str]:
    """Services that have ever sent spans of an inference engine."""
    return frozenset(connection.execute(sa.select(ENGINES.c.service)).scalars())


def _totals(connection: sa.Connection, definitions: Sequence[Definition]) -> tuple[Ints, Ints]:
    totals = np.zeros((len(definitions), 3), dtype=np.int64)
    newest = np.full(len(definitions), MISSING, dtype=np.int64)
    rows = {definition.slo_id: row for row, definition in enumerate(definitions)}
    for found in connection.execute(sa.select(TOTALS).where(TOTALS.c.slo_id.in_(rows))):
        row = rows[found.slo_id]
        totals[row] += (found.good, found.total, found.excluded)
        newest[row] = max(newest[row], found.newest_ns)
    return totals, newest


def _slices(connection: sa.Connection, definitions: Sequence[Definition]) -> Iterator[Ints]:
    """Stored slices in chunks of shape (rows, 5): generation, start, good, total, excluded."""
    wanted = [definition.generation_id for definition in definitions]
    columns = (SLICES.c.generation_id, SLICES.c.start_s, SLICES.c.good, SLICES.c.total, SLICES.c.excluded)
    found = connection.execute(sa.select(*columns).where(SLICES.c.generation_id.in_(wanted)))
    for chunk in found.partitions(_CHUNK):
        # numpy takes plain tuples thirty times faster than rows.
        yield np.array([tuple(row) for row in chunk], dtype=np.int64)


def _delta(chunk: Ints, definitions: Sequence[Definition], now_ns: int) -> Delta:
    rows = {definition.generation_id: row for row, definition in enumerate(definitions)}
    cells, position = np.unique(cells_of(chunk[:, 1], now_ns), return_inverse=True)
    counts = np.zeros((len(cells), len(definitions), 3), dtype=np.int64)
    column = np.array([rows[generation] for generation in chunk[:, 0].tolist()], dtype=np.int64)
    np.add.at(counts, (position, column), chunk[:, 2:])
    return Delta(cells, counts, np.full(len(definitions), MISSING, dtype=np.int64))
