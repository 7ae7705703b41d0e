"""
Who may write: the epoch and the number of the last transaction, in SQL and here.

A lock keeps a second server out while all goes well. The fence catches what a
lock cannot: it was lost with a connection and taken by another server
meanwhile, a failover forgot commits, an older file was put back. Every
transaction advances the number under its epoch; where that fails, memory and
SQL are two different stories (docs/adr/0004-fencing.md).
"""

import secrets
from typing import Final

import sqlalchemy as sa

from slo_exporter.store.errors import StaleError
from slo_exporter.store.schema import WRITERS
from slo_exporter.store.upserts import update

_PASS: Final = (
    sa.update(WRITERS)
    .where((WRITERS.c.id == sa.bindparam("writer")) & (WRITERS.c.epoch == sa.bindparam("ours")))
    .where(WRITERS.c.seq.between(sa.bindparam("last"), sa.bindparam("new")))
    .values(seq=sa.bindparam("new"))
)
_SEQ: Final = sa.select(WRITERS.c.seq).where(WRITERS.c.id == sa.bindparam("writer"))


class Fence:
    """
    The right of one open store to write.

    Attributes:
        last: number of the newest transaction that is known to be committed.
    """

    def __init__(self, writer_id: int, epoch: str, last: int) -> None:
        self.last = last
        self._writer_id = writer_id
        self._epoch = epoch
        self._unknown: int | None = None
        self._unknown_counts = False

    @classmethod
    def take(cls, connection: sa.Connection, writer_id: int, now_ns: int) -> "Fence":
        """A new epoch, begun at *now_ns*: whoever had the one before writes no more."""
        epoch = f"{now_ns}-{secrets.token_hex(16)}"
        taken = sa.update(WRITERS).where(WRITERS.c.id == writer_id).values(epoch=epoch).returning(WRITERS.c.seq)
        return cls(writer_id, epoch, int(connection.execute(taken).scalar_one()))

    def enter(self, connection: sa.Connection, seq: int) -> bool:
        """
        Begin transaction *seq*; True if it was committed by an earlier try.

        Raises:
            StaleError: SQL is not as this store left it.
        """
        was_committed = False
        if self._unknown is not None:
            found = connection.execute(_SEQ, {"writer": self._writer_id}).scalar()
            was_committed = found == self._unknown == seq
            if found == self._unknown != seq and self._unknown_counts:
                raise StaleError("a transaction of unknown outcome was committed, and was not repeated")
        bounds = {"writer": self._writer_id, "ours": self._epoch, "last": self.last, "new": seq}
        if update(connection, _PASS, bounds) != 1:
            raise StaleError("another server wrote to the database, or an older state of it came back")
        return was_committed

    def committed(self, seq: int) -> None:
        """COMMIT of transaction *seq* returned."""
        self.last, self._unknown = seq, None

    def unknown(self, seq: int, *, counts: bool) -> None:
        """COMMIT of transaction *seq* failed; *counts* says whether memory would have followed it."""
        self._unknown, self._unknown_counts = seq, counts
