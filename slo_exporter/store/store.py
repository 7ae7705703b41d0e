"""
What the daemon asks of the database: open, transact, close.

Used by one thread at a time.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Ledger
from slo_exporter.store import definitions, opening
from slo_exporter.store.database import Database
from slo_exporter.store.definitions import Definition
from slo_exporter.store.schema import RECEIPTS, WRITERS
from slo_exporter.store.transaction import Transaction

WRITER = "main"
"""The one writer of a database, until there are replicas."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What a start finds in the database."""

    ledger: Ledger
    engines: frozenset[str]


class Store:
    """
    Counts, receipts and definitions of one server.

    Args:
        receipts_ns: how long a receipt is kept; afterwards every span of its
            body must be too old to count.
    """

    def __init__(self, database: Database, *, receipts_ns: int) -> None:
        self._database = database
        self._receipts_ns = receipts_ns
        self._definitions: tuple[Definition, ...] = ()
        self._writer_id = 0
        self._seq = 0

    def open(self, slos: Sequence[Slo], now_ns: int) -> Opened:
        """
        Open the database, declare *slos* and read what was counted.

        Raises:
            UnavailableError: not now, try again.
            UnusableError: not this database.
        """
        self._database.open()
        with self._database.transaction() as connection:
            self._writer_id = _writer_id(connection)
            self._definitions = definitions.declare(connection, slos, now_ns)
            # Receipts of an earlier run must not look like those of this one.
            self._seq = connection.execute(sa.select(sa.func.max(RECEIPTS.c.seq))).scalar() or 0
            return Opened(opening.ledger(connection, slos, self._definitions, now_ns), opening.engines(connection))

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
        """
        with self._database.transaction() as connection:
            yield Transaction(
                connection, self._definitions, writer_id=self._writer_id, seq=seq, receipts_ns=self._receipts_ns
            )

    def close(self) -> None:
        """Let go of the database; safe to repeat."""
        self._database.close()


def _writer_id(connection: sa.Connection) -> int:
    found = connection.execute(sa.select(WRITERS.c.id).where(WRITERS.c.name == WRITER)).scalar()
    if found is not None:
        return int(found)
    return int(connection.execute(sa.insert(WRITERS).values(name=WRITER).returning(WRITERS.c.id)).scalar_one())
