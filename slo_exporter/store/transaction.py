"""
The statements of one commit: receipts, slices, totals, engines, uptime.

Rules of this module:

1. Receipts go in first and sorted: a body that has one already is not counted.
2. Slices and totals are written as absolute values, on top of what memory
   holds. A slice that was folded in memory is read back (a clock that was set
   back makes old slices current again).
3. A transaction that turns out to have been committed by an earlier try writes
   nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert

from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import Ints
from slo_exporter.slo.ledger import Ledger
from slo_exporter.store.definitions import Definition
from slo_exporter.store.schema import ENGINES, RECEIPTS, SLICES, TOTALS, UPTIME

_WHOLE_SLO: Final = 0
"""Group id of the SLO itself; fan-out children will have others."""


def _upsert(table: sa.Table, *values: str) -> str:
    """SQL that puts whole rows, in the order of the table's columns; *values* change where the key stands."""
    statement = insert(table)
    on_conflict = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: statement.excluded[name] for name in values},
    )
    return str(on_conflict.compile(dialect=sqlite.dialect()))


# Compiled once and given to the driver: of a small commit's time the rest is a third.
_PUT_SLICES: Final = _upsert(SLICES, "good", "total", "excluded")
_PUT_TOTALS: Final = _upsert(TOTALS, "good", "total", "excluded", "newest_ns")
_PUT_UPTIME: Final = _upsert(UPTIME, "to_ns")
_PUT_ENGINES: Final = _upsert(ENGINES, "learnt_ns")
_PUT_RECEIPTS: Final = insert(RECEIPTS).on_conflict_do_nothing().returning(RECEIPTS.c.digest)

_Rows = list[tuple[int | str, ...]]
"""Whole rows of a table."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is kept of a body that was answered."""

    received_ns: int
    refused: int
    """How many of its spans the answer refused."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Which bodies of a transaction count."""

    counts: frozenset[bytes]
    refused: dict[bytes, int]
    """Of a body that had a receipt: how many spans its first answer refused."""


class Transaction:
    """Writes of one open transaction."""

    def __init__(
        self,
        connection: sa.Connection,
        definitions: Sequence[Definition],
        *,
        writer_id: int,
        seq: int,
        receipts_ns: int,
    ) -> None:
        self._connection = connection
        self._definitions = definitions
        self._writer_id = writer_id
        self._seq = seq
        self._receipts_ns = receipts_ns
        self._was_committed = False

    def claim(self, receipts: Mapping[bytes, Receipt]) -> Claim:
        """
        Put a receipt for each body, by digest; say which bodies count now.

        They are the new ones, and those that this very transaction claimed in
        an earlier try whose COMMIT had an unknown outcome.
        """
        rows = [
            {
                "digest": digest,
                "writer_id": self._writer_id,
                "seq": self._seq,
                "received_ns": receipts[digest].received_ns,
                "refused": receipts[digest].refused,
            }
            for digest in sorted(receipts)
        ]
        new = frozenset(self._connection.execute(_PUT_RECEIPTS, rows).scalars()) if rows else frozenset()
        known = self._known(receipts.keys() - new)
        claimed = frozenset(row.digest for row in known if (row.writer_id, row.seq) == (self._writer_id, self._seq))
        self._was_committed = bool(claimed)
        return Claim(new | claimed, {row.digest: row.refused for row in known})

    def _known(self, digests: AbstractSet[bytes]) -> Sequence[sa.Row[Any]]:
        if not digests:
            return ()
        return self._connection.execute(sa.select(RECEIPTS).where(RECEIPTS.c.digest.in_(digests))).all()

    def count(self, delta: Delta, ledger: Ledger) -> None:
        """Write what *delta* changes, on top of what *ledger* holds."""
        if self._was_committed:
            return
        self._put(_PUT_SLICES, list(self._slices(delta, ledger)))
        self._put(_PUT_TOTALS, list(self._totals(delta, ledger)))

    def learn(self, engines: Iterable[str], now_ns: int) -> None:
        """Remember services that have an inference engine."""
        self._put(_PUT_ENGINES, [(service, now_ns) for service in sorted(engines)])

    def accepting(self, since_ns: int, now_ns: int) -> None:
        """Say that the receivers have been accepting from *since_ns* until *now_ns*."""
        self._put(_PUT_UPTIME, [(self._writer_id, since_ns, now_ns)])

    def delete_receipts(self, now_ns: int) -> None:
        """Delete the receipts of bodies that are too old to count again."""
        old = RECEIPTS.c.received_ns < now_ns - self._receipts_ns
        self._connection.execute(sa.delete(RECEIPTS).where(old))

    def _put(self, statement: str, rows: _Rows) -> None:
        if rows:
            self._connection.exec_driver_sql(statement, rows)

    def _slices(self, delta: Delta, ledger: Ledger) -> Iterable[tuple[int, ...]]:
        for start, counts in zip(delta.slices.tolist(), delta.counts, strict=True):
            held = ledger.timeline.at(start)
            changed = np.flatnonzero(counts.any(axis=1))
            absolute = ((self._stored(start) if held is None else held) + counts)[changed]
            for row, good_total_excluded in zip(changed.tolist(), absolute.tolist(), strict=True):
                generation = self._definitions[row].generation_id
                yield (generation, _WHOLE_SLO, self._writer_id, start, *good_total_excluded)

    def _stored(self, start_s: int) -> Ints:
        """Counts of one slice as they are in SQL; shape (SLOs, 3)."""
        counts = np.zeros((len(self._definitions), 3), dtype=np.int64)
        rows = {definition.generation_id: row for row, definition in enumerate(self._definitions)}
        this = (SLICES.c.start_s == start_s) & (SLICES.c.writer_id == self._writer_id)
        query = sa.select(SLICES).where(this & SLICES.c.generation_id.in_(rows))
        for found in self._connection.execute(query):
            counts[rows[found.generation_id]] = (found.good, found.total, found.excluded)
        return counts

    def _totals(self, delta: Delta, ledger: Ledger) -> Iterable[tuple[int, ...]]:
        sums = delta.counts.sum(axis=0)
        changed = np.flatnonzero(sums.any(axis=1))
        absolute = (ledger.totals + sums)[changed].tolist()
        newest = np.maximum(ledger.newest_ns, delta.newest_ns)[changed].tolist()
        for row, good_total_excluded, newest_ns in zip(changed.tolist(), absolute, newest, strict=True):
            yield (self._definitions[row].slo_id, _WHOLE_SLO, self._writer_id, *good_total_excluded, newest_ns)
