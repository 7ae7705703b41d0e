"""
Housekeeping, a little at a time: fold, prune, give space back.

One call takes some 10 ms, whatever the number of SLOs: each call folds some of
them, in turn, so that every one is folded at least every 12 minutes when a call
comes every 5 seconds. SQL folds later than memory, never earlier: what memory
holds as a 5 s slice is a row.
"""

import sqlite3
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.windows import GRIDS_S
from slo_exporter.store.folding import fold
from slo_exporter.store.packing import CHUNK_CELLS
from slo_exporter.store.schema import (
    AUDIT,
    CORRECTIONS,
    DECISIONS,
    GENERATIONS,
    OPEN_SLICES,
    PACKED,
    RELEASES,
    SLICES,
    SLOS,
    UPTIME,
)

_CALLS_A_TURN: Final = 144
"""After so many calls every SLO was folded: 12 minutes."""
_PRUNE_NS: Final = 600 * SECOND_NS
_DEEDS_KEPT_NS: Final = 100 * 86400 * SECOND_NS
"""Corrections, releases, decisions and the audit are kept at least so long."""
_MOST_PAGES: Final = 64
"""Pages that a SQLite file shrinks by in a call."""
_SPARE: Final = 8
"""One page of so many stays free: it is needed again soon."""


@dataclass(frozen=True, slots=True)
class Tidied:
    """What a call did."""

    folded_rows: int
    deleted_rows: int


class Tidier:
    """Remembers whose turn it is."""

    def __init__(self) -> None:
        self._after = 0
        self._next_prune_ns = 0

    def tidy(self, connection: sa.Connection, now_ns: int, retention_ns: int) -> Tidied:
        """Fold some SLOs; every ten minutes prune; shrink a file a little."""
        generations = self._turn(connection)
        rows = fold(connection, generations, now_ns) if generations else 0
        deleted = _prune_counts(connection, generations, now_ns - retention_ns)
        if not 0 <= self._next_prune_ns - now_ns <= _PRUNE_NS:
            self._next_prune_ns = now_ns + _PRUNE_NS
            deleted += _prune(connection, now_ns, retention_ns)
        _shrink(connection)
        return Tidied(rows, deleted)

    def _turn(self, connection: sa.Connection) -> list[int]:
        """Ids of the generations that are next; after the last comes the first."""
        most = -(-_count(connection) // _CALLS_A_TURN)
        found = _following(connection, self._after, most) or _following(connection, 0, most)
        self._after = found[-1] if found else 0
        return found


def _following(connection: sa.Connection, after: int, most: int) -> list[int]:
    query = sa.select(GENERATIONS.c.id).where(GENERATIONS.c.id > after).order_by(GENERATIONS.c.id).limit(most)
    return list(connection.execute(query).scalars())


def _count(connection: sa.Connection) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(GENERATIONS)).scalar_one())


def _prune_counts(connection: sa.Connection, generations: list[int], before_ns: int) -> int:
    """Delete chunks of the widest grid that lie before *before_ns* as a whole."""
    if not generations:
        return 0
    last = before_ns // SECOND_NS - CHUNK_CELLS * GRIDS_S[-1]
    old = (PACKED.c.grid_s == GRIDS_S[-1]) & (PACKED.c.chunk_s <= last)
    return connection.execute(sa.delete(PACKED).where(PACKED.c.generation_id.in_(generations) & old)).rowcount


def _prune(connection: sa.Connection, now_ns: int, retention_ns: int) -> int:
    before_ns = now_ns - retention_ns
    deeds_before_ns = now_ns - max(retention_ns, _DEEDS_KEPT_NS)
    statements = (
        sa.delete(UPTIME).where(UPTIME.c.to_ns < before_ns),
        sa.delete(AUDIT).where(AUDIT.c.at_ns < deeds_before_ns),
        sa.delete(RELEASES).where(RELEASES.c.at_ns < deeds_before_ns),
        sa.delete(DECISIONS).where(DECISIONS.c.at_ns < deeds_before_ns),
        sa.delete(CORRECTIONS).where(
            (CORRECTIONS.c.made_ns < deeds_before_ns) & (CORRECTIONS.c.to_s < before_ns // SECOND_NS)
        ),
        sa.delete(GENERATIONS).where(GENERATIONS.c.slo_id.in_(_retired(before_ns)), *_WITHOUT_COUNTS),
    )
    return sum(connection.execute(statement).rowcount for statement in statements)


def _retired(before_ns: int) -> sa.Select[tuple[int]]:
    """Ids of SLOs that were retired before *before_ns*; their lifetime totals stay."""
    return sa.select(SLOS.c.id).where(SLOS.c.retired_ns < before_ns)


_WITHOUT_COUNTS: Final = tuple(
    ~sa.exists().where(table.c.generation_id == GENERATIONS.c.id)
    for table in (SLICES, PACKED, OPEN_SLICES, CORRECTIONS)
)
"""Generations that nothing refers to."""


def _shrink(connection: sa.Connection) -> None:
    """Give free pages of a SQLite file back; PostgreSQL does so by itself."""
    if connection.dialect.name != "sqlite":
        return
    pages, free = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in ("page_count", "freelist_count")
    )
    spare = min(_MOST_PAGES, free - pages // _SPARE)
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        for _ in range(spare):
            # The driver steps a statement without rows once, and each step gives one page back.
            driver.execute("PRAGMA incremental_vacuum(1)").close()
