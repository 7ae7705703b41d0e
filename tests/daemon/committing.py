"""Committers as tests make them."""

import threading
from collections.abc import Sequence

from builders import LATENESS_NS, RECEIPTS_NS, RETENTION_NS, Ear, ManualClock

from slo_exporter.daemon.committer import Ages, Committer
from slo_exporter.daemon.definitions import Definitions
from slo_exporter.slo.definition import Slo
from slo_exporter.store.database import Database, database_of
from slo_exporter.store.store import Store


def committer_of(database: Database | str, slos: Sequence[Slo], clock: ManualClock) -> Committer:
    """A committer that counts *slos*, as files declare them, in *database*, or in the one of that URL."""
    store = Store(database_of(database, "a test") if isinstance(database, str) else database)
    ages = Ages(LATENESS_NS, RECEIPTS_NS, RETENTION_NS)
    return Committer(store, Definitions(tuple(slos)), clock, Ear(), threading.Lock(), ages=ages)
