"""Letting go of what is old, in memory and in SQL; that it stays there is no reason to refuse exports."""

import threading
from collections import Counter

import structlog

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.ledger import Ledger
from slo_exporter.store.errors import UnavailableError
from slo_exporter.store.store import Store

_log = structlog.get_logger(__name__)


class Housekeeping:
    """
    The last part of a heartbeat.

    Args:
        store: where old counts are folded and pruned.
        lock: held while what is loaded changes.
        retention_ns: counts are kept so long.
        counts: plain counters by name; ``folded_rows`` and ``pruned_rows`` are its own.
    """

    def __init__(self, store: Store, lock: threading.Lock, retention_ns: int, counts: Counter[str]) -> None:
        self._store = store
        self._lock = lock
        self._retention_ns = retention_ns
        self._counts = counts
        self._is_tidy = True

    def tidy(self, ledger: Ledger, aged_ns: int) -> None:
        """Fold and forget what is old at *aged_ns*, here and there; log once where the database does not do it."""
        oldest_ns = aged_ns - self._retention_ns
        with self._lock:
            ledger.timeline.fold(aged_ns)
            ledger.forget(oldest_ns // SECOND_NS)
            ledger.uptime.forget(oldest_ns)
        try:
            tidied = self._store.tidy(aged_ns, self._retention_ns)
        except UnavailableError as error:
            if self._is_tidy:
                _log.warning("not_tidied", error=str(error), hint="it is tried again every few seconds")
            self._is_tidy = False
        else:
            self._is_tidy = True
            self._counts["folded_rows"] += tidied.folded_rows
            self._counts["pruned_rows"] += tidied.deleted_rows
