"""
The watchdog: starts the child that reads GPUs, judges it, ends it, replaces it.

Rules of this module:

1. Nothing here waits for a child: it is asked whether it is dead, and asked again.
2. One child reads at a time. One that does not die of SIGKILL is put aside;
   while two are, no third is started.
3. All of it is one pass, `Watchdog.turn`, in monotonic time; the thread only
   calls it when something may have happened.
"""

import atexit
import os
import select
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import structlog

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.book.book import GpuBook
from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, Reason
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.watch.backoff import Backoff
from slo_exporter.ingest.nvml.watch.judge import Judge
from slo_exporter.ingest.nvml.watch.messages import GarbageError, decode
from slo_exporter.ingest.nvml.watch.news import News
from slo_exporter.ingest.nvml.watch.process import COMMAND, Process, Reader
from slo_exporter.ingest.nvml.watch.quarantine import Quarantine
from slo_exporter.ingest.nvml.watch.running import Patience, Running
from slo_exporter.ingest.nvml.watch.stuck import Stuck

_TICK_S: Final = 1.0
_ASLEEP_NS: Final = 2 * SECOND_NS
"""Between two passes, twice the tick: so late, we were stopped ourselves, and a child is not to blame."""
_WHILE_ENDING_S: Final = 0.02
"""Between two looks at a child that is about to die."""
_READS: Final = 32
"""Of 64 KiB in one pass: a child that floods us does not keep us from the deadlines."""
QUARANTINE_OVER: Final = "quarantine_over"
"""Label of a restart that is nobody's fault: what was left out is tried again."""

_log = structlog.get_logger(__name__)

Spawn: TypeAlias = Callable[[Order], Reader]


@dataclass(slots=True)
class _Ending:
    """A child on its way out."""

    reader: Reader
    until_ns: int
    """Of our patience: then it is killed, or put aside if it was."""
    is_judged: bool
    """Its end was counted; else the exit code tells how."""
    is_killed: bool = False


class Watchdog:
    """
    Keeps a child reading.

    Args:
        order: what to read; the descriptors in it are replaced.
        book: is told everything.
        is_optional: no library and no driver are normal (``gpu.source: auto``).
        spawn: starts a child.
    """

    def __init__(
        self,
        order: Order,
        book: GpuBook,
        clock: Clock,
        *,
        is_optional: bool = False,
        patience: Patience | None = None,
        spawn: Spawn | None = None,
    ) -> None:
        self._order = order
        self._book = book
        self._clock = clock
        self._patience = patience or Patience()
        self._spawn: Spawn = spawn or partial(Process, COMMAND)
        self._backoff = Backoff(self._patience.pauses)
        self._quarantine = Quarantine(self._patience.quarantine_s)
        self._running: Running | None = None
        self._ending: _Ending | None = None
        self._news = News(order.source, is_optional=is_optional)
        self._judge = Judge(book, self._news, self._backoff, self._quarantine)
        self._stuck = Stuck(book, self._news)
        self._tick_at_ns = 0
        self._turned_at_ns = clock.monotonic_ns()
        self._is_stopping = False
        self._wake: int | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, and with it the first child."""
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        atexit.register(self._kill_at_exit)
        self._thread = threading.Thread(target=self._run, name="gpu-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the child to end, and return at once; the thread sees to it, and so does the interpreter's end."""
        self._is_stopping = True
        running = self._running
        if running is not None:
            running.reader.ask_to_end()
        if self._wake is not None:
            os.eventfd_write(self._wake, 1)

    def turn(self) -> float:
        """Do what is to be done now; give the seconds until there may be more."""
        now_ns = self._clock.monotonic_ns()
        asleep_ns, self._turned_at_ns = now_ns - self._turned_at_ns, now_ns
        self._stuck.reap()
        if self._running is not None:
            if asleep_ns > _ASLEEP_NS:
                self._running.excuse(asleep_ns, now_ns)
            self._listen(self._running, now_ns)
        if self._running is not None:
            self._look_at(self._running, now_ns)
        if self._ending is not None:
            self._see_to(self._ending, now_ns)
        if self._running is None and self._ending is None and not self._is_stopping:
            self._start_if_due(now_ns)
        if now_ns >= self._tick_at_ns:
            self._tick_at_ns = now_ns + int(_TICK_S * SECOND_NS)
            self._book.tick()
        return self._wait_s(now_ns)

    # The thread.

    def _run(self) -> None:
        try:
            while not self._is_stopping or self._running is not None or self._ending is not None:
                self._poll(self.turn())
        except Exception as error:  # noqa: BLE001 - the server runs on, without values of GPUs
            _log.error("gpu_watch_failed", exc_info=error)
            self._book.fault(Reason.NVML_ERROR, f"the watchdog failed: {error!r}")
        finally:
            for child in (self._running, self._ending):
                if child is not None:
                    child.reader.kill()
                    child.reader.leave()
            self._stuck.leave()
            atexit.unregister(self._kill_at_exit)

    def _poll(self, seconds: float) -> None:
        poll = select.poll()
        if self._wake is not None:
            poll.register(self._wake, select.POLLIN)
        if self._running is not None:
            poll.register(self._running.reader.frames_fd, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(1, int(seconds * 1000)))}
        if self._wake in ready:
            os.eventfd_read(self._wake)

    def _wait_s(self, now_ns: int) -> float:
        if self._ending is not None:
            return _WHILE_ENDING_S
        events = [self._tick_at_ns]
        if self._running is not None:
            events.append(self._running.deadline_ns)
        elif not self._stuck.is_full:
            events.append(self._backoff.start_at_ns)
        return max(0.0, (min(events) - now_ns) / SECOND_NS)

    def _kill_at_exit(self) -> None:
        """The interpreter ends, and this thread with it: no child outlives us that can die."""
        self._is_stopping = True
        for child in (self._running, self._ending):
            if child is not None:
                child.reader.kill()

    # A child that reads.

    def _start_if_due(self, now_ns: int) -> None:
        if self._stuck.is_full:
            if self._news.stuck():
                # Nobody reads any more: those that the readers hang in are to blame for it.
                blamed = {**self._stuck.blamed(), **self._quarantine.whole()}
                self._book.left_out(blamed, self._quarantine.without())
                self._book.fault(Reason.STUCK)
            return
        if now_ns < self._backoff.start_at_ns:
            return
        if not self._stuck:
            # While one still hangs in the driver, what it hangs in is not tried again.
            self._quarantine.expire(now_ns)
        without = self._quarantine.without()
        self._book.left_out(self._quarantine.whole(), without)
        try:
            reader = self._spawn(replace(self._order, without=without))
        except OSError as error:
            self._judge.no_start(error, now_ns)
            return
        self._running = Running(reader, self._patience, now_ns)

    def _listen(self, running: Running, now_ns: int) -> None:
        try:
            for _ in range(_READS):
                chunk = running.reader.read()
                if chunk is None:
                    return
                if not chunk:
                    self._end(running, now_ns, is_judged=self._is_stopping)
                    return
                for line in running.lines.feed(chunk):
                    self._hear(running, decode(line), now_ns)
                    if self._running is None:
                        return
        except GarbageError as error:
            self._reject(running, str(error), now_ns)
        except Exception as error:  # noqa: BLE001 - whatever a child says, we go on
            _log.error("gpu_frame_failed", exc_info=error)
            self._reject(running, f"what it said could not be taken: {error!r}", now_ns)

    def _hear(self, running: Running, said: Hello | Frame | Fault, now_ns: int) -> None:
        if isinstance(said, Fault):
            self._judge.fault(running.reader, said, now_ns)
            running.reader.ask_to_end()
            self._end(running, now_ns, is_judged=True)
        elif isinstance(said, Hello) is running.has_said_hello:
            raise GarbageError("the first line, and only that, says who reads")
        elif isinstance(said, Hello):
            running.has_said_hello = True
            self._book.hello(said)
        else:
            running.framed(now_ns)
            self._take(running, said, now_ns)

    def _take(self, running: Running, frame: Frame, now_ns: int) -> None:
        self._backoff.good(now_ns)
        changes = self._book.frame(frame)
        self._news.good(frame, running.reader.pid, changes, left_out=len(self._quarantine.whole()))
        if not self._stuck and self._quarantine.see({gpu.gpu: gpu.uuid for gpu in frame.gpus}):
            self._start_anew(running, now_ns)

    def _look_at(self, running: Running, now_ns: int) -> None:
        """Is it time to end a child that did not end by itself?"""
        running.look(now_ns)
        if self._is_stopping:
            running.reader.ask_to_end()
            self._end(running, now_ns, is_judged=True)
        elif now_ns >= running.deadline_ns:
            self._judge.hang(running.reader, now_ns)
            self._kill(self._end(running, now_ns, is_judged=True), now_ns)
        elif not self._stuck and self._quarantine.expire(now_ns):
            self._start_anew(running, now_ns)

    def _start_anew(self, running: Running, now_ns: int) -> None:
        """Something else is to be left out."""
        self._book.restarted(QUARANTINE_OVER)
        self._book.fault(Reason.STARTING)
        running.reader.ask_to_end()
        self._end(running, now_ns, is_judged=True)

    def _reject(self, running: Running, message: str, now_ns: int) -> None:
        self._judge.garbage(running.reader, message, now_ns)
        self._kill(self._end(running, now_ns, is_judged=True), now_ns)

    # A child that ends.

    def _end(self, running: Running, now_ns: int, *, is_judged: bool) -> _Ending:
        self._running = None
        until_ns = now_ns + int(self._patience.ending_s * SECOND_NS)
        self._ending = _Ending(running.reader, until_ns, is_judged)
        return self._ending

    def _kill(self, ending: _Ending, now_ns: int) -> None:
        ending.reader.kill()
        ending.is_killed = True
        ending.until_ns = now_ns + int(self._patience.stuck_s * SECOND_NS)

    def _see_to(self, ending: _Ending, now_ns: int) -> None:
        code = ending.reader.exit_code()
        if code is None and now_ns < ending.until_ns:
            return
        if not ending.is_judged:
            ending.is_judged = True
            self._judge.end(ending.reader, code, now_ns)
        if code is not None:
            ending.reader.leave()
            self._ending = None
        elif ending.is_killed:
            self._put_aside(ending.reader)
        else:
            self._kill(ending, now_ns)

    def _put_aside(self, reader: Reader) -> None:
        self._ending = None
        if self._is_stopping:
            reader.leave()
        else:
            self._stuck.put_aside(reader)
