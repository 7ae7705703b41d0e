"""
What one commit does: SQL first, then memory.

The writer's thread changes the ledger; readers on the event loop take `Committer.lock`.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli.admission import Admission, Admitted
from slo_exporter.sli.counting import Delta, Plan
from slo_exporter.sli.records import RequestBatch
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Ledger
from slo_exporter.slo.report import BudgetReport
from slo_exporter.store.store import Store
from slo_exporter.store.transaction import Receipt, Transaction


class Listener(Protocol):
    """Hears of requests once they are committed."""

    def add(self, requests: RequestBatch) -> None:
        """Take note of the requests of one commit."""
        ...


@dataclass(frozen=True, slots=True)
class _Effect:
    """What new exports change, in SQL and then in memory."""

    admitted: Admitted
    delta: Delta


@dataclass(slots=True)
class Loaded:
    """What exists once the database was opened."""

    ledger: Ledger
    admission: Admission
    accepting_since_ns: int | None
    """None while exports are refused."""
    steady_offset_ns: int
    """Wall clock − monotonic clock at the start; it catches up slowly with a clock that was set."""


class Committer:
    """
    Keeps database, ledger and admission in step.

    Args:
        turn: held while computing, not while waiting for the disk.

    Attributes:
        lock: held while the ledger changes.
        loaded: None until the database was opened.
        counts: plain counters by name.
        last_commit_ns: wall clock of the newest commit; None before the first.
    """

    def __init__(
        self, store: Store, slos: Sequence[Slo], clock: Clock, listener: Listener, turn: threading.Lock
    ) -> None:
        self.lock = threading.Lock()
        self.loaded: Loaded | None = None
        self.counts: Counter[str] = Counter()
        self.commit_seconds = 0.0
        self.last_commit_ns: int | None = None
        self._store = store
        self._slos = tuple(slos)
        self._plan = Plan([slo.indicator for slo in slos])
        self._clock = clock
        self._listener = listener
        self._turn = turn

    def open(self) -> None:
        """
        Open the database and load what was counted; accepting starts now.

        Raises:
            UnavailableError: not now, try again.
            UnusableError: not this database.
        """
        now_ns = self._clock.now_ns()
        opened = self._store.open(self._slos, now_ns)
        steady_offset_ns = now_ns - self._clock.monotonic_ns()
        self.loaded = Loaded(opened.ledger, Admission(opened.engines), now_ns, steady_offset_ns)

    def next_seq(self) -> int:
        """A number for a new transaction."""
        return self._store.next_seq()

    def commit(self, exports: Sequence[Export], seq: int) -> Mapping[bytes, int]:
        """
        Count *exports*, durably, each body once.

        Returns:
            By digest how many spans are refused, by the first reading of a body.

        Raises:
            UnavailableError: nothing was committed, nothing changed in memory.
            UnknownError: as before, but only the same *seq* again can tell.
        """
        loaded, now_ns, started_ns = self._loaded(), self._clock.now_ns(), self._clock.monotonic_ns()
        bodies = {export.digest: export for export in reversed(exports)}  # the first reading stands
        try:
            with self._store.transaction(seq) as transaction, self._turn:
                claim = transaction.claim({d: Receipt(e.received_ns, e.refused) for d, e in bodies.items()})
                effect = self._effect([bodies[digest] for digest in bodies if digest in claim.counts], now_ns)
                self._write(transaction, effect, now_ns)
        except BaseException:
            loaded.admission.undo()
            raise
        with self._turn:
            self._apply(effect, now_ns)
        self.counts["duplicate_exports"] += len(exports) - len(claim.counts)
        self.commit_seconds += (self._clock.monotonic_ns() - started_ns) / SECOND_NS
        return {digest: export.refused for digest, export in bodies.items()} | claim.refused

    def heartbeat(self) -> None:
        """
        Say in SQL that we are accepting; drop old receipts, fold old slices.

        Raises:
            UnavailableError: the database does not take commits.
        """
        now_ns = self._clock.now_ns()
        aged_ns = self._aged_ns(now_ns)
        with self._store.transaction(self.next_seq()) as transaction:
            self._write(transaction, None, now_ns)
            transaction.delete_receipts(aged_ns)
        self._apply(None, now_ns)
        with self.lock:
            self._loaded().ledger.timeline.fold(aged_ns)

    def suspend(self) -> None:
        """Exports are refused: accepting ended with the last commit."""
        if self.loaded is not None:
            self.loaded.accepting_since_ns = None

    def resume(self) -> None:
        """Accepting starts anew, now."""
        self._loaded().accepting_since_ns = self._clock.now_ns()

    def reports(self, now_ns: int, key: tuple[str, str] | None = None) -> list[BudgetReport]:
        """
        Report on the SLO of *key*, (service, name), or on all; none before they were loaded.

        Raises:
            KeyError: if there is none of that name.
        """
        if self.loaded is None:
            return []
        with self.lock:
            ledger = self.loaded.ledger
            rows = None if key is None else [ledger.row(*key)]
            return ledger.reports(now_ns, rows, accepting_since_ns=self.loaded.accepting_since_ns)

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()

    def _loaded(self) -> Loaded:
        if self.loaded is None:
            raise RuntimeError("the database was not opened")
        return self.loaded

    def _aged_ns(self, now_ns: int) -> int:
        """
        Now, but hardly ahead of the time that really passed: a clock set wrong ages nothing.

        It catches up by a second a heartbeat, for a machine that was suspended.
        """
        loaded = self._loaded()
        steady_ns = loaded.steady_offset_ns + self._clock.monotonic_ns()
        loaded.steady_offset_ns += min(max(now_ns - steady_ns, 0), SECOND_NS)
        return min(now_ns, steady_ns)

    def _effect(self, exports: Sequence[Export], now_ns: int) -> _Effect | None:
        if not exports:
            return None
        pairs = [(export.requests, export.engines) for export in exports]
        admitted = self._loaded().admission.admit(pairs, now_ns)
        return _Effect(admitted, self._plan.count(admitted.requests))

    def _write(self, transaction: Transaction, effect: _Effect | None, now_ns: int) -> None:
        loaded = self._loaded()
        if effect is not None:
            transaction.count(effect.delta, loaded.ledger)
            transaction.learn(effect.admitted.engines, now_ns)
        if loaded.accepting_since_ns is not None:
            transaction.accepting(loaded.accepting_since_ns, now_ns)

    def _apply(self, effect: _Effect | None, now_ns: int) -> None:
        """Make memory say what SQL says; nothing here can fail."""
        loaded = self._loaded()
        with self.lock:
            if loaded.accepting_since_ns is not None:
                loaded.ledger.uptime.add(loaded.accepting_since_ns, now_ns)
            if effect is not None:
                loaded.ledger.add(effect.delta)
        self.last_commit_ns = now_ns
        self.counts["commits"] += 1
        if effect is not None:
            loaded.admission.keep()
            self._listener.add(effect.admitted.requests)
            self.counts["duplicate_spans"] += effect.admitted.repeated_spans
            self.counts["duplicate_requests"] += effect.admitted.repeated_requests
            self.counts["unlearnt_engines"] += effect.admitted.unlearnt_engines
