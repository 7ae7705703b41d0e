"""
What one commit does: SQL first, then memory.

The writer's thread changes what is loaded; readers on the event loop take `Committer.lock`.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.daemon.accepting import Accepting
from slo_exporter.daemon.alerts import Alerts
from slo_exporter.daemon.definitions import Definitions, Key
from slo_exporter.daemon.gpu_records import not_ahead
from slo_exporter.daemon.housekeeping import Housekeeping
from slo_exporter.daemon.loaded import Effect, Loaded
from slo_exporter.ingest.otlp.doubt_counts import Doubt, Doubts
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli.admission import Admission, Admitted
from slo_exporter.sli.counting import attribute_keys
from slo_exporter.sli.gpus import GpuBatch
from slo_exporter.sli.records import NO_STAGE_TIMES, RequestBatch, StageTimes, concat_stages, stages_of
from slo_exporter.slo import reporting
from slo_exporter.slo.corrections import Correction, CorrectionMade
from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.snapshot import Snapshot
from slo_exporter.slo.windows import BURN_WINDOWS, range_of
from slo_exporter.store.correcting import Asked
from slo_exporter.store.errors import UnavailableError, UnknownError
from slo_exporter.store.store import Audit, Store
from slo_exporter.store.transaction import Receipt, Transaction


class Listener(Protocol):
    """Hears of requests once they are committed."""

    def add(self, requests: RequestBatch, parts: StageTimes) -> None:
        """Take note of the requests of one commit, and of stages whose request came in another export."""
        ...

    @property
    def is_full(self) -> bool:
        """It noted much that is to be worked on."""
        ...

    def settle(self) -> None:
        """Work on what was noted."""
        ...


@dataclass(frozen=True, slots=True)
class Ages:
    """How long things matter, in nanoseconds."""

    lateness_ns: int
    """A record that ended longer ago was refused: its time slice is final."""
    receipts_ns: int
    """Afterwards every span of a body is too old to count."""
    retention_ns: int
    """Counts are kept so long."""


class Committer:
    """
    Keeps database, ledger and admission in step.

    Args:
        turn: held while computing, not while waiting for the disk.

    Attributes:
        on_selectors: hears of the attribute keys that selectors name, before they count.
        lock: held while what is loaded changes.
        loaded: None until the database was opened.
        counts: plain counters by name.
        doubts: what came twice, by service.
        alerts: says which alerts changed, and how often.
        releases: releases and decisions.
        last_commit_ns: wall clock of the newest commit; None before the first.
    """

    def __init__(
        self,
        store: Store,
        definitions: Definitions,
        clock: Clock,
        listener: Listener,
        turn: threading.Lock,
        *,
        ages: Ages,
    ) -> None:
        self.on_selectors: Callable[[frozenset[str]], object] = lambda _: None
        self.lock = threading.Lock()
        self.loaded: Loaded | None = None
        self.admission: Admission | None = None
        self.definitions = definitions
        self.accepting = Accepting(clock)
        self.counts: Counter[str] = Counter()
        self.doubts = Doubts()
        self.alerts = Alerts(store, self.lock)
        self.releases = store.releases
        self.commit_seconds = 0.0
        self.last_commit_ns: int | None = None
        self._selector_keys: frozenset[str] = frozenset()
        self._housekeeping = Housekeeping(store, self.lock, ages.retention_ns, self.counts)
        self._store = store
        self._clock = clock
        self._listener = listener
        self._turn = turn
        self._ages = ages

    def open(self) -> None:
        """
        Open the database, or open it again, and load what was counted; accepting starts now.

        Raises:
            UnavailableError: not now, try again.
            UnusableError: not this database.
        """
        self._store.open(self._clock.now_ns())
        self._load(self.definitions.with_made(self._store.documents()))
        self.accepting.said()
        self.accepting.begin()

    def redefine(self, change: Callable[[Definitions], Definitions], audits: Sequence[Audit] = ()) -> None:
        """
        Count other SLOs from now on.

        Raises:
            UnavailableError: it may have been written; only `open` tells.
        """
        changed = change(self.definitions)
        try:
            self._load(changed, audits)
        except UnavailableError:
            # What was made over the API, SQL tells; what files say holds, or a change that was written would be undone.
            self.definitions = self.definitions.with_files(changed.files)
            raise

    def next_seq(self) -> int:
        """A number for a new transaction."""
        return self._store.next_seq()

    def countable(self, gpus: GpuBatch) -> GpuBatch | None:
        """What of *gpus* is worth a commit; None without an SLO on GPUs."""
        loaded, _ = self._ready()
        if not loaded.counts_gpus:
            return None
        fit = not_ahead(gpus, self._clock.now_ns())
        self.counts["gpu_records_ahead"] += len(gpus) - len(fit)
        return fit if len(fit) else None

    def commit(self, exports: Sequence[Export], seq: int, gpus: GpuBatch | None = None) -> Mapping[bytes, int]:
        """
        Count *exports*, durably, each body once, and *gpus* with them.

        Seconds of GPUs have no receipt: it is *seq* alone that tells, after an
        unknown outcome, whether they are counted.

        Returns:
            By digest how many spans are refused, by the first reading of a body.

        Raises:
            UnavailableError: nothing was committed, nothing changed in memory.
            UnknownError: as before, but only the same *seq* again can tell.
        """
        _, admission = self._ready()
        now_ns, started_ns = self.accepting.now_ns(), self._clock.monotonic_ns()
        bodies: dict[bytes, Export] = {}
        for export in exports:
            bodies.setdefault(export.digest, export)  # the first reading stands, and who came first is counted first
        try:
            with self._transaction(seq, now_ns) as transaction, self._turn:
                claim = transaction.claim({d: Receipt(e.received_ns, e.refused) for d, e in bodies.items()})
                new = [bodies[digest] for digest in bodies if digest in claim.counts]
                effect = self._effect(new, gpus, now_ns) if new or gpus is not None else None
                self._write(transaction, effect, now_ns)
        except BaseException:
            admission.undo()
            raise
        with self._turn:
            self._apply(effect, now_ns, concat_stages([export.stages for export in new]))
        self.counts["duplicate_exports"] += len(exports) - len(claim.counts)
        self.commit_seconds += (self._clock.monotonic_ns() - started_ns) / SECOND_NS
        return {digest: export.refused for digest, export in bodies.items()} | claim.refused

    def chores(self) -> Sequence[Callable[[], None]]:
        """Give the parts of a heartbeat that begins now, in order; each may raise an UnavailableError."""
        now_ns = self.accepting.now_ns()
        aged_ns = self.accepting.aged_ns(now_ns)
        return (
            partial(self._judge_slices, now_ns, aged_ns),
            partial(self._judge_alerts, now_ns, aged_ns),
            partial(self._tidy, aged_ns),
        )

    def heartbeat(self) -> None:
        """
        Say in SQL that we are accepting, judge time slices and alerts, let old things go.

        Raises:
            UnavailableError: the database does not take commits.
        """
        for chore in self.chores():
            chore()

    def _judge_slices(self, now_ns: int, aged_ns: int) -> None:
        effect = self._judged(now_ns, aged_ns)
        with self._transaction(self.next_seq(), now_ns) as transaction:
            self._write(transaction, effect, now_ns)
            # Of an earlier run none is known to be old: the clock may have been wrong at the start.
            if self.accepting.lived_ns() > self._ages.receipts_ns:
                transaction.delete_receipts(aged_ns - self._ages.receipts_ns)
        self._apply(effect, now_ns)

    def _judge_alerts(self, now_ns: int, aged_ns: int) -> None:
        self.alerts.evaluate(self._ready()[0], now_ns, aged_ns)

    def settle(self) -> None:
        """Let the listener work on what it heard, if it is much, once clients were answered."""
        if self._listener.is_full:
            with self._turn:
                self._listener.settle()

    def correct(self, row: int, made: CorrectionMade, audit: Audit) -> None:
        """
        Take the events of a range out of an SLO's budget, and judge its alerts by what is left.

        Raises:
            UnavailableError: it may have been written; only `open` tells.
        """
        loaded, _ = self._ready()
        now_ns = self.accepting.now_ns()
        correction, asked = Correction(row, made.span), Asked(made.asked_from_ns, made.asked_to_ns)
        with self._store.transaction(self.next_seq()) as transaction:
            transaction.correct(correction, loaded.ledger, audit, asked)
        with self.lock:
            loaded.ledger.correct(correction)
            loaded.corrections.setdefault(row, []).append(made)
        oldest_s = range_of(max(BURN_WINDOWS.values()), now_ns).start
        if not made.removed.bad or made.span.end <= oldest_s:
            return  # no alert is about what it took out
        # The correction stands; alerts that cannot be written now are judged by it at the next heartbeat.
        with suppress(UnavailableError):
            self.alerts.evaluate(loaded, now_ns, self.accepting.aged_ns(now_ns), corrected=row)

    def suspend(self) -> None:
        """Exports are refused: accepting ended with the last commit."""
        self.accepting.end()

    def resume(self) -> None:
        """Accepting starts anew, now."""
        self.accepting.begin()

    def reports(self, now_ns: int, key: Key | None = None, service: str | None = None) -> list[BudgetReport]:
        """
        Report on the SLO of *key*, (service, name), on those of *service*, or on all; none before they were loaded.

        Raises:
            KeyError: if there is none of that name.
        """
        snapshot = self.snapshot(now_ns, key, service)
        return [] if snapshot is None else reporting.reports(snapshot)

    def snapshot(self, now_ns: int, key: Key | None = None, service: str | None = None) -> Snapshot | None:
        """
        Copy what is counted of the SLO of *key*, of those of *service*, or of all; None before they were loaded.

        Raises:
            KeyError: if there is none of that name.
        """
        if self.loaded is None:
            return None
        with self.lock:
            return self.loaded.snapshot(now_ns, self.accepting.since_ns, key, service)

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()

    def _ready(self) -> tuple[Loaded, Admission]:
        if self.loaded is None or self.admission is None:
            raise RuntimeError("the database was not opened")
        return self.loaded, self.admission

    def _load(self, definitions: Definitions, audits: Sequence[Audit] = ()) -> None:
        declarations = definitions.declarations
        keys = attribute_keys([declaration.slo.indicator for declaration in declarations])
        # Until it worked, and where it did not, those count that counted before.
        self.on_selectors(self._selector_keys | keys)
        opened = self._store.load(declarations, self.accepting.now_ns(), audits)
        admission = self.admission or Admission(opened.roles)
        admission.know(opened.roles)
        before, loaded = self.loaded, Loaded(declarations, opened)
        with self.lock:
            self.definitions, self.loaded, self.admission = definitions, loaded, admission
        self.alerts.switched(before, loaded)
        if self._selector_keys - keys:
            self.on_selectors(keys)
        self._selector_keys = keys

    @contextmanager
    def _transaction(self, seq: int, now_ns: int) -> Iterator[Transaction]:
        """One that says until when we were accepting."""
        try:
            with self._store.transaction(seq) as transaction:
                yield transaction
        except UnknownError:
            self.accepting.doubt(now_ns)
            raise

    def _effect(self, exports: Sequence[Export], gpus: GpuBatch | None, now_ns: int) -> Effect:
        loaded, admission = self._ready()
        requests = [(export.requests, export.roles) for export in exports]
        return loaded.counted(admission.admit(requests, now_ns) if requests else None, gpus)

    def _judged(self, now_ns: int, aged_ns: int) -> Effect:
        loaded, _ = self._ready()
        uptime = loaded.ledger.uptime
        for since_ns, until_ns in self.accepting.intervals(now_ns):
            uptime = uptime.extended(since_ns, until_ns)
        return loaded.judged(aged_ns, uptime, self._ages.lateness_ns)

    def _tidy(self, aged_ns: int) -> None:
        self._housekeeping.tidy(self._ready()[0].ledger, aged_ns)

    def _write(self, transaction: Transaction, effect: Effect | None, now_ns: int) -> None:
        loaded, _ = self._ready()
        if effect is not None:
            transaction.count(effect.entry, loaded.ledger)
            transaction.slices(effect.slices)
            if effect.admitted is not None:
                transaction.learn(effect.admitted.roles, now_ns)
        for since_ns, until_ns in self.accepting.intervals(now_ns):
            transaction.accepting(since_ns, until_ns)

    def _apply(self, effect: Effect | None, now_ns: int, parts: StageTimes = NO_STAGE_TIMES) -> None:
        """Make memory say what SQL says; nothing here can fail."""
        loaded, admission = self._ready()
        with self.lock:
            for since_ns, until_ns in self.accepting.intervals(now_ns):
                loaded.ledger.uptime.add(since_ns, until_ns)
            if effect is not None:
                loaded.apply(effect)
        self.accepting.said()
        self.last_commit_ns = now_ns
        self.counts["commits"] += 1
        if effect is not None:
            self.counts["late_slice_records"] += effect.slices.refused
            if effect.admitted is not None:
                admission.keep()
                self._tell(effect.admitted, parts)

    def _tell(self, admitted: Admitted, parts: StageTimes) -> None:
        behind = admitted.behind
        self._listener.add(admitted.requests, concat_stages([parts, stages_of(behind)]) if len(behind) else parts)
        self.doubts.add({(service, Doubt.DUPLICATE): count for service, count in admitted.repeated.items()})
        self.counts["duplicate_spans"] += admitted.repeated_spans
        self.counts["duplicate_requests"] += admitted.repeated_requests
        self.counts["unlearnt_engines"] += admitted.unlearnt_roles
