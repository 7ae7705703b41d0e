"""Committers as tests make them."""

import asyncio
import threading
from collections.abc import Sequence

import sqlalchemy as sa
from builders import LATENESS_NS, RECEIPTS_NS, RETENTION_NS, Ear, ManualClock

from slo_exporter.daemon.committer import Ages, Committer
from slo_exporter.daemon.definitions import Definitions
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.slo.definition import Slo
from slo_exporter.store.database import Database, database_of
from slo_exporter.store.errors import UnknownError
from slo_exporter.store.sqlite import SqliteDatabase
from slo_exporter.store.store import Store


class ForgetfulDatabase(SqliteDatabase):
    """
    A database whose COMMIT may fail, before or after it happened.

    No real fault can be ordered to strike between a commit and its answer.
    """

    fault: str | None = None

    def _commit(self, begun: sa.RootTransaction) -> None:
        fault, self.fault = self.fault, None
        if fault == "before":
            begun.rollback()
        else:
            super()._commit(begun)
        if fault is not None:
            raise UnknownError("the answer of COMMIT was lost")


class WatchedInbox(Inbox):
    """An inbox that tells the loop when it accepts again."""

    def __init__(self) -> None:
        super().__init__()
        self.accepting = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def accept(self) -> None:
        """Accept, and say so."""
        super().accept()
        self._loop.call_soon_threadsafe(self.accepting.set)


def committer_of(database: Database | str, slos: Sequence[Slo], clock: ManualClock) -> Committer:
    """A committer that counts *slos*, as files declare them, in *database*, or in the one of that URL."""
    store = Store(database_of(database, "a test") if isinstance(database, str) else database)
    ages = Ages(LATENESS_NS, RECEIPTS_NS, RETENTION_NS)
    return Committer(store, Definitions(tuple(slos)), clock, Ear(), threading.Lock(), ages=ages)
