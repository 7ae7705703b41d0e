"""
The writer: one thread that turns waiting exports into durable commits.

Rules of this module:

1. Exports that wait share the next transaction; none waits for company.
2. A client is answered after COMMIT returned, never before.
3. While the database takes no commits, exports are refused at once and the
   writer keeps trying by itself.
4. A transaction whose COMMIT failed is repeated, under its own number, before
   anything else: only that tells whether it was committed.
5. Where SQL may say something else than memory, everything is loaded anew; what
   of an unknown commit is there by then has its receipts. Seconds of GPUs have
   none, so those of such a commit are not counted again: they are told as dropped.
6. A heartbeat has parts, and between two of them exports are committed that wait.
7. Seconds of GPUs are taken once a heartbeat, before it judges, and share the
   transaction of the exports that wait. What cannot be counted now is given back.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.daemon.committer import Committer
from slo_exporter.daemon.gpu_records import GpuRecords, NoGpuRecords
from slo_exporter.daemon.inbox import Errand, Inbox, keep, refuse, settle
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.ingest.otlp.export import Export, Waiting
from slo_exporter.sli.gpus import GpuBatch
from slo_exporter.store.errors import StaleError, UnavailableError, UnknownError, UnusableError

BEAT_S: Final = 5.0
"""Seconds between heartbeats: each slice has one."""
_RETRY_S: Final = (0.1, 0.2, 0.5, 1.0)
"""Pauses between tries while the database is away; the last one repeats."""
_OLDEST_NS: Final = 30 * SECOND_NS
"""
An export that waited longer is refused: its spans were judged when it came, and
its receipt outlives them by a minute only.
"""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A transaction whose COMMIT has an unknown outcome."""

    exports: tuple[Export, ...]
    gpus: GpuBatch | None
    seq: int


class Writer:
    """
    The thread that owns the committer.

    Attributes:
        failures: failed tries by kind: ``unavailable``, ``unknown``, ``bug``.
        fatal: why the thread ended by itself, if it did.

    Args:
        on_fatal: called from the thread when it ends by itself.
        gpus: gives seconds of GPUs.
    """

    def __init__(
        self,
        committer: Committer,
        inbox: Inbox,
        clock: Clock,
        on_fatal: Callable[[], object],
        gpus: GpuRecords | None = None,
    ) -> None:
        self.failures: Counter[str] = Counter()
        self.fatal: Exception | None = None
        self._committer = committer
        self._inbox = inbox
        self._clock = clock
        self._on_fatal = on_fatal
        self._gpus = NoGpuRecords() if gpus is None else gpus
        self._is_current = False
        self._unfinished: _Unfinished | None = None
        self._tries = 0
        self._next_heartbeat_ns = 0
        self._chores: deque[Callable[[], None]] = deque()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def open(self) -> None:
        """
        Try once to open the database; later tries are the thread's.

        Raises:
            UnusableError: the server cannot run on this database.
        """
        try:
            self._committer.open()
        except UnavailableError as error:
            self._suspend(error)
        else:
            self._is_current = True
            self._inbox.accept()

    def start(self) -> None:
        """Start the thread; closing the inbox ends it."""
        self._thread.start()

    def join(self, patience_s: float | None = None) -> None:
        """
        Wait until everything was committed or refused, and the database closed.

        A database server that hangs may hang the thread: it is left behind after *patience_s*.
        """
        self._thread.join(patience_s)
        if self._thread.is_alive():
            _log.error("writer_left_behind", hint="the database does not answer; what it was asked to keep it may keep")

    def _run(self) -> None:
        try:
            while not self._inbox.is_done:
                self._turn(self._inbox.take(self._patience_s()))
            self._finish()
        except Exception as error:  # noqa: BLE001 - the server ends, it does not go on without its writer
            self._give_up(error)
        finally:
            self._committer.close()

    def _give_up(self, error: Exception) -> None:
        if not isinstance(error, UnusableError):
            _log.error("writer_failed", exc_info=error)
        self.fatal = error
        self._inbox.close()
        while not self._inbox.is_done:
            refuse(self._inbox.take(0), RefusedError("draining"))
            _excuse(self._inbox.errands(), RefusedError("draining"))
        self._on_fatal()

    def _patience_s(self) -> float:
        if self._tries:
            return _RETRY_S[min(self._tries, len(_RETRY_S)) - 1]
        return 0 if self._chores else BEAT_S

    def _turn(self, waiting: Sequence[Waiting]) -> None:
        if self._tries:
            refuse(waiting, RefusedError("database"))
            _excuse(self._inbox.errands(), RefusedError("database"))
            self._recover()
        else:
            recent, gpus = self._recent(waiting), self._taken() if self._is_due else None
            if recent or gpus is not None:
                self._commit(recent, gpus)
        # One a turn: exports wait for one change of a definition, not for all that were asked for.
        if (errand := self._inbox.errand()) is not None:
            self._run_errand(errand)
        if not self._tries:
            self._beat()

    @property
    def _is_due(self) -> bool:
        return self._clock.monotonic_ns() >= self._next_heartbeat_ns

    def _taken(self) -> GpuBatch | None:
        """Seconds of GPUs to be counted; without an SLO on them they are let go."""
        batch = self._gpus.take()
        return None if batch is None else self._committer.countable(batch)

    def _recent(self, waiting: Sequence[Waiting]) -> tuple[Waiting, ...]:
        oldest_ns = self._clock.now_ns() - _OLDEST_NS
        refuse((one for one in waiting if one.export.received_ns < oldest_ns), RefusedError("overloaded"))
        return tuple(one for one in waiting if one.export.received_ns >= oldest_ns)

    def _commit(self, waiting: Sequence[Waiting], gpus: GpuBatch | None = None) -> None:
        exports = tuple(one.export for one in waiting)
        seq = self._committer.next_seq()
        try:
            refused = self._committer.commit(exports, seq, gpus)
        except UnavailableError as error:
            if isinstance(error, UnknownError):
                self._unfinished = _Unfinished(exports, gpus, seq)
            elif gpus is not None:
                self._gpus.give_back(gpus)
            self._suspend(error)
            # Their clients come again; a receipt will tell what is counted.
            refuse(waiting, RefusedError("database"))
        except UnusableError:
            refuse(waiting, RefusedError("database"))
            raise
        except Exception as error:  # noqa: BLE001 - no input may end the thread
            self._isolate(waiting, gpus, error)
        else:
            keep(waiting, refused)
            self._settle()

    def _settle(self) -> None:
        """Let the listener work; a fault of ours in it costs nobody an export."""
        try:
            self._committer.settle()
        except Exception as error:  # noqa: BLE001 - no input may end the thread
            self.failures["bug"] += 1
            _log.error("listener_failed", exc_info=error)

    def _isolate(self, waiting: Sequence[Waiting], gpus: GpuBatch | None, error: Exception) -> None:
        """A fault of ours that one export, or seconds of GPUs, bring out fails that alone."""
        if len(waiting) + (gpus is not None) > 1:
            try:
                for one in waiting:
                    self._commit_unless_suspended((one,), None)
                if gpus is not None:
                    self._commit_unless_suspended((), gpus)
            except UnusableError:
                refuse(waiting, RefusedError("database"))  # who was answered before hears nothing more
                raise
            return
        self.failures["bug"] += 1
        _log.error("export_failed" if waiting else "gpu_records_failed", exc_info=error)
        self._dropped(gpus)
        refuse(waiting, error)

    def _dropped(self, gpus: GpuBatch | None) -> None:
        """Count seconds of GPUs that nobody counts any more, or that an unknown commit may have counted."""
        self._committer.counts["gpu_records_dropped"] += 0 if gpus is None else len(gpus)

    def _commit_unless_suspended(self, waiting: Sequence[Waiting], gpus: GpuBatch | None) -> None:
        if not self._tries:
            self._commit(waiting, gpus)
            return
        refuse(waiting, RefusedError("database"))
        if gpus is not None:
            self._gpus.give_back(gpus)

    def _run_errand(self, errand: Errand) -> None:
        if self._tries:
            settle(errand.answer, RefusedError("database"))
            return
        try:
            done = errand.work()
        except UnavailableError as error:
            # Whether it was done is unknown: SQL is to say.
            self._is_current = False
            self._suspend(error)
            settle(errand.answer, RefusedError("database"))
        except UnusableError:
            settle(errand.answer, RefusedError("database"))
            raise
        except Exception as error:  # noqa: BLE001 - whoever asked is told, and the thread goes on
            settle(errand.answer, error)
        else:
            settle(errand.answer, done)

    def _beat(self) -> None:
        """Do one part of a heartbeat, if it is time: exports wait for that, not for all of them."""
        try:
            if self._is_due and not self._chores:
                self._next_heartbeat_ns = self._clock.monotonic_ns() + int(BEAT_S * SECOND_NS)
                self._chores.extend(self._committer.chores())
            if self._chores:
                self._chores.popleft()()
        except UnavailableError as error:
            self._suspend(error)

    def _suspend(self, error: UnavailableError) -> None:
        """Stop accepting until the database takes commits again."""
        self.failures["unknown" if isinstance(error, UnknownError) else "unavailable"] += 1
        if not self._tries:
            _log.warning("database_unavailable", error=str(error))
        self._tries += 1
        self._chores.clear()
        if isinstance(error, StaleError):
            self._is_current = False
        self._inbox.refuse("database")
        self._committer.suspend()

    def _recover(self) -> None:
        try:
            self._retry()
        except UnavailableError as error:
            self._suspend(error)
        else:
            self._tries = 0
            self._inbox.accept()
            _log.info("database_available")

    def _retry(self) -> None:
        """Do what did not work: load anew, or repeat the unknown commit; then a heartbeat."""
        if not self._is_current:
            self._committer.open()
            if self._unfinished is not None:
                self._dropped(self._unfinished.gpus)
            self._is_current, self._unfinished = True, None
        self._committer.resume()
        if self._unfinished is not None:
            self._committer.commit(self._unfinished.exports, self._unfinished.seq, self._unfinished.gpus)
            self._unfinished = None
        self._committer.heartbeat()

    def _finish(self) -> None:
        """Count what GPUs did last, and say until when we were accepting, if the database lets us."""
        try:
            if not self._tries and (gpus := self._taken()) is not None:
                self._commit((), gpus)
            if self._tries:
                self._retry()
            else:
                self._committer.heartbeat()
        except (UnavailableError, UnusableError) as error:
            _log.warning("database_unavailable_at_stop", error=str(error))


def _excuse(errands: Sequence[Errand], error: Exception) -> None:
    """Tell whoever asked that nothing was done."""
    for errand in errands:
        settle(errand.answer, error)
