"""
What the daemon asks of the database: open, load, transact, tidy, close.

Used by one thread at a time.

| error | what the daemon does |
|---|---|
| `UnavailableError` | refuse exports and try again: nothing was committed |
| `UnknownError` | repeat the same transaction under its number, before anything else |
| `StaleError` | forget unfinished transactions, then `open` and `load` |
| `UnusableError` | end: exit code 2 |
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from slo_exporter.sli.admission import Roles
from slo_exporter.slo.alerting import ActiveAlerts
from slo_exporter.slo.corrections import CorrectionMade
from slo_exporter.slo.judging import SliceOpening
from slo_exporter.slo.ledger import Ledger
from slo_exporter.store import declarations as declared
from slo_exporter.store import loading, release_log
from slo_exporter.store.correcting import Asked
from slo_exporter.store.database import Database
from slo_exporter.store.declarations import Audit, Declaration, Definition, StoredDocument
from slo_exporter.store.errors import StaleError, UnknownError
from slo_exporter.store.fence import Fence
from slo_exporter.store.release_log import ReleaseLog
from slo_exporter.store.schema import OPEN_SLICES, WRITERS
from slo_exporter.store.tidying import Tidied, Tidier
from slo_exporter.store.transaction import Scope, Transaction, Writers

__all__ = ["Asked", "Audit", "Declaration", "Opened", "Store", "StoredDocument", "Tidied"]

WRITER: Final = "main"
"""The one writer of a database, until there are replicas."""
CORRECTIONS: Final = "corrections"
"""The writer of what corrections take out."""
_LOADING_S: Final = 60.0
"""A large database on a slow server may take so long to read."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What the database says, and what the daemon goes on from."""

    ledger: Ledger
    roles: Roles
    slices: SliceOpening
    generations: Sequence[int]
    """By row: number of the current generation, from 1."""
    corrections: Mapping[int, Sequence[CorrectionMade]]
    """Of the current generations: by row, in the order in which they were made."""
    alerts: ActiveAlerts


class Store:
    """
    Counts, receipts and definitions of one server.

    Attributes:
        releases: releases and decisions.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._definitions: tuple[Definition, ...] = ()
        self._writers = Writers(0, 0)
        self._fence: Fence | None = None
        self._seq = 0
        self._ledger: Ledger | None = None
        self._packed_until_s = 0
        self._tidier = Tidier()
        self._is_log_due = True
        self.releases: Final = ReleaseLog(self._writing)

    def open(self, now_ns: int) -> None:
        """
        Open the database, or open it again, and begin a new epoch: `load` comes next.

        Raises:
            UnavailableError: not now, try again.
            UnusableError: not this database.
        """
        self._fence = self._ledger = None
        self._database.open()
        with self._database.transaction() as connection:
            self._writers = Writers(_writer_id(connection, WRITER), _writer_id(connection, CORRECTIONS))
            fence = Fence.take(connection, self._writers.main, now_ns)
        # Numbers go on: receipts of an earlier run must not look like those of this one.
        self._fence, self._seq = fence, max(self._seq, fence.last)
        self._is_log_due = True

    def documents(self) -> Sequence[StoredDocument]:
        """
        Definitions made over the API that are not retired, also those whose name a file took over.

        Raises:
            UnavailableError: not now, try again.
        """
        with self._transact(self.next_seq()) as (connection, _):
            return declared.documents(connection)

    def load(self, declarations: Sequence[Declaration], now_ns: int, audits: Sequence[Audit] = ()) -> Opened:
        """
        Make *declarations* what is counted, put down who did that, and read everything: one transaction.

        Raises:
            UnavailableError: nothing changed, here or there.
            UnknownError: it may have changed there: `open` and `load` again.
            UnusableError: the database is damaged.
        """
        with self._transact(self.next_seq(), patience_s=_LOADING_S) as (connection, transaction):
            transaction.has_counted = True  # memory follows, by what is returned
            definitions = declared.declare(connection, declarations, now_ns)
            declared.write(connection, audits)
            connection.execute(sa.delete(OPEN_SLICES).where(OPEN_SLICES.c.generation_id.not_in(declared.CURRENT)))
            slos = [declaration.slo for declaration in declarations]
            found = loading.load(connection, slos, definitions, self._writers, now_ns)
            # A change of definitions changes nothing of it.
            log = release_log.read(connection) if self._is_log_due else None
        if log is not None:
            self.releases.take(log)
            self._is_log_due = False
        self._definitions, self._ledger, self._packed_until_s = definitions, found.ledger, found.packed_until_s
        numbers = [definition.number for definition in definitions]
        return Opened(found.ledger, found.roles, found.slices, numbers, found.corrections, found.alerts)

    def next_seq(self) -> int:
        """A new number for a transaction; repeating one repeats its number."""
        self._seq += 1
        return self._seq

    @contextmanager
    def transaction(self, seq: int) -> Iterator[Transaction]:
        """
        One transaction: everything in the block, or nothing.

        Raises:
            UnavailableError: nothing was committed.
            UnknownError: repeat the same transaction with the same *seq*.
            StaleError: nothing was committed; `open` and `load` again.
        """
        with self._transact(seq) as (_, transaction):
            yield transaction

    def tidy(self, now_ns: int, retention_ns: int) -> Tidied:
        """
        Fold some SLOs, prune what is old, give space back: a few milliseconds.

        No slice is folded that the ledger still holds as such, so call
        `Timeline.fold` with the same *now_ns*.

        Args:
            now_ns: decides what is old.
            retention_ns: counts are kept so long.

        Raises:
            UnavailableError: nothing changed, or it did and no answer depends on it.
        """
        if self._ledger is None:
            return Tidied(0, 0)
        now_ns = min(now_ns, self._ledger.timeline.folded_ns)
        with self._transact(self.next_seq()) as (connection, _):
            return self._tidier.tidy(connection, now_ns, retention_ns)

    def close(self) -> None:
        """Let go of the database; safe to repeat."""
        self._database.close()

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with self._transact(self.next_seq()) as (connection, _):
            yield connection

    @contextmanager
    def _transact(self, seq: int, *, patience_s: float | None = None) -> Iterator[tuple[sa.Connection, Transaction]]:
        """A transaction within the fence."""
        fence, transaction = self._fence, None
        if fence is None:
            raise StaleError("the database was not opened")
        scope = Scope(self._definitions, self._writers, self._packed_until_s)
        try:
            with self._database.transaction(patience_s=patience_s) as connection:
                was_committed = fence.enter(connection, seq)
                transaction = Transaction(connection, scope, seq=seq, was_committed=was_committed)
                yield connection, transaction
        except UnknownError:
            fence.unknown(seq, counts=transaction is not None and transaction.has_counted)
            raise
        fence.committed(seq)


def _writer_id(connection: sa.Connection, name: str) -> int:
    found = connection.execute(sa.select(WRITERS.c.id).where(WRITERS.c.name == name)).scalar()
    if found is not None:
        return int(found)
    values = {"name": name, "epoch": "", "seq": 0, "judged_s": 0, "final_s": 0}
    return int(connection.execute(sa.insert(WRITERS).values(values).returning(WRITERS.c.id)).scalar_one())
