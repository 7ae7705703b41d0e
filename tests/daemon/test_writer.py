"""The writer: group commit, refusal while the database is away, exact recovery."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
import sqlalchemy as sa
from builders import NOON_NS, ManualClock, Request, export, slo
from committing import ForgetfulDatabase, WatchedInbox, committer_of
from submitting import end_of_beat, submit

from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.slo.budget import Counts
from slo_exporter.store.errors import UnusableError
from slo_exporter.store.sqlite import SqliteDatabase

SECOND = 10**9


class Running:
    """A writer on a real database, and what tests ask of it."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.database = ForgetfulDatabase(f"sqlite:///{path}", "a test")
        self.inbox = WatchedInbox()
        self.committer = committer_of(self.database, [slo()], self.clock)
        self.ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.writer = Writer(self.committer, self.inbox, self.clock, lambda: loop.call_soon_threadsafe(self.ended.set))
        self.writer.open()

    async def send(self, span: int) -> None:
        """Send one request and wait for its answer."""
        await submit(self.inbox, export([Request(end_ns=NOON_NS - SECOND, span=span)]))

    async def rests(self) -> None:
        """Wait until the heartbeat of the start is over."""
        await end_of_beat(self.inbox)

    async def refused(self, span: int) -> None:
        """Send one request that must be refused for the database's sake."""
        self.inbox.accepting.clear()
        with pytest.raises(RefusedError, match="database"):
            await self.send(span)

    async def send_until_refused(self, span: int) -> int:
        """Send requests until one does not fit in any more; how many did."""
        for kept in range(100_000):
            try:
                await self.send(span + kept)
            except RefusedError:
                return kept
        raise AssertionError("the database never filled up")

    async def send_once_accepting(self, span: int) -> None:
        """Send one request as soon as the writer accepts again."""
        await self.inbox.accepting.wait()
        await self.send(span)

    async def stop(self) -> None:
        """Drain."""
        self.inbox.close()
        await asyncio.to_thread(self.writer.join)

    def counts(self) -> Counts:
        """Counts of the SLO's window."""
        assert self.committer.loaded is not None
        return self.committer.loaded.ledger.reports(self.clock.ns)[0].counts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database lies."""
    return tmp_path / "counts.db"


@pytest_asyncio.fixture
async def running(path: Path) -> AsyncIterator[Running]:
    """A started writer."""
    writer = Running(path)
    writer.writer.start()
    yield writer
    await writer.stop()


async def test_an_export_is_durable_when_it_is_answered(running: Running, path: Path) -> None:
    """The answer comes after the commit: another connection sees the counts."""
    await running.send(1)

    connection = sqlite3.connect(path)
    assert connection.execute("SELECT good, total FROM slices").fetchall() == [(1, 1)]
    connection.close()


async def test_exports_that_wait_share_a_transaction(path: Path) -> None:
    """A hundred waiting exports are one commit."""
    running = Running(path)
    sending = [asyncio.create_task(running.send(span)) for span in range(1, 101)]
    await asyncio.sleep(0)
    running.writer.start()

    await asyncio.gather(*sending)
    await running.stop()

    assert running.counts().total == 100
    # One for the exports, and a heartbeat after them and one at the end.
    assert running.committer.counts["commits"] <= 3


async def test_what_waits_at_a_stop_is_committed(path: Path) -> None:
    """A drain answers everything that was taken, and takes nothing more."""
    running = Running(path)
    sending = [asyncio.create_task(running.send(span)) for span in range(1, 11)]
    await asyncio.sleep(0)
    running.inbox.close()
    running.writer.start()

    await asyncio.gather(*sending)
    with pytest.raises(RefusedError, match="draining"):
        await running.send(99)
    await running.stop()

    assert running.counts().total == 10


Fault = Callable[[Running, Path], Callable[[], None]]


def lock(_running: Running, path: Path) -> Callable[[], None]:
    """Another process holds a write lock."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def move_away(_running: Running, path: Path) -> Callable[[], None]:
    """Somebody moves the file."""
    away = path.with_name("away.db")
    path.rename(away)

    def end() -> None:
        away.rename(path)

    return end


def fill(running: Running, path: Path) -> Callable[[], None]:
    """The database may not grow any more."""
    other = sqlite3.connect(path)
    pages = other.execute("PRAGMA page_count").fetchone()[0]
    other.close()

    def no_growth(connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def growth(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")

    # Hooks run in the writer's own thread, where its connection belongs.
    sa.event.listen(running.database._engine, "begin", no_growth)

    def end() -> None:
        sa.event.remove(running.database._engine, "begin", no_growth)
        sa.event.listen(running.database._engine, "begin", growth)

    return end


@pytest.mark.parametrize("fault", [lock, move_away])
async def test_a_database_that_is_away_refuses_and_loses_nothing(fault: Fault, running: Running, path: Path) -> None:
    """While it is away exports are refused; afterwards the counts are exact."""
    await running.send(1)
    end = fault(running, path)
    await running.refused(2)
    assert running.counts() == Counts(good=1, total=1), "reads go on"
    end()

    await running.send_once_accepting(2)
    await running.send(3)

    assert running.counts() == Counts(good=3, total=3)


async def test_a_full_database_refuses_and_loses_nothing(running: Running, path: Path) -> None:
    """While nothing fits in exports are refused; afterwards the counts are exact."""
    await running.send(1)
    end = fill(running, path)
    running.inbox.accepting.clear()
    kept = 1 + await running.send_until_refused(2)
    end()

    await running.send_once_accepting(kept + 1)

    assert running.counts().total == kept + 1


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_commit_of_unknown_outcome_counts_once(fault: str, running: Running) -> None:
    """Whether or not COMMIT happened, the client's retry is counted exactly once."""
    await running.send(1)
    await running.rests()
    running.database.fault = fault
    await running.refused(2)

    await running.send_once_accepting(2)
    await running.send(3)

    assert running.counts() == Counts(good=3, total=3)
    assert running.writer.failures["unknown"] == 1


async def test_an_export_that_brings_out_a_fault_fails_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours in one export does not touch those that share its commit."""
    running, unlucky = Running(path), export([], body=b"unlucky")
    effect = running.committer._effect

    def stumble(exports: list[Export], gpus: object, now_ns: int) -> object:
        if any(one.digest == unlucky.digest for one in exports):
            raise ZeroDivisionError
        return effect(exports, gpus, now_ns)

    monkeypatch.setattr(running.committer, "_effect", stumble)
    good = [asyncio.create_task(running.send(span)) for span in (1, 2)]
    bad = asyncio.create_task(submit(running.inbox, unlucky))
    await asyncio.sleep(0)
    running.writer.start()

    with pytest.raises(ZeroDivisionError):
        await bad
    await asyncio.gather(*good)
    await running.stop()

    assert running.counts().total == 2


async def test_an_export_that_waited_too_long_is_refused(running: Running) -> None:
    """It was judged when it came; its receipt would not outlive its spans."""
    running.clock.forward(31)

    with pytest.raises(RefusedError, match="overloaded"):
        await running.send(1)

    assert running.counts().total == 0


async def test_a_database_that_is_away_at_start_is_opened_later(path: Path) -> None:
    """The writer starts without its database and accepts once it is there."""
    first = Running(path)
    first.writer.start()
    await first.stop()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    running = Running(path)
    running.writer.start()
    await running.refused(1)
    other.close()

    await running.send_once_accepting(1)
    await running.stop()

    assert running.counts().total == 1


def steal(thief: SqliteDatabase, path: Path) -> None:
    """Remove the lock file and take the lock, before a heartbeat makes it anew."""
    while True:
        path.with_name("counts.db.lock").unlink(missing_ok=True)
        with contextlib.suppress(UnusableError):
            thief.open()
            return


async def test_a_writer_whose_database_was_taken_refuses_and_ends(path: Path) -> None:
    """A second server that got in after the lock file was removed is not written over."""
    running = Running(path)
    running.writer.start()
    await running.send(1)
    thief = SqliteDatabase(f"sqlite:///{path}", "a thief")
    steal(thief, path)

    with pytest.raises(RefusedError):
        await running.send(2)
    await running.ended.wait()
    thief.close()

    assert isinstance(running.writer.fatal, UnusableError)
    assert "in use by a thief" in str(running.writer.fatal)


async def test_an_errand_behind_a_fatal_one_is_refused(path: Path) -> None:
    """Whoever waits is answered, though the writer ends before it comes to that."""

    def fail() -> None:
        raise UnusableError("the database is damaged")

    running = Running(path)
    asking = [asyncio.create_task(running.inbox.ask(work)) for work in (fail, lambda: None)]
    await asyncio.sleep(0)
    running.writer.start()

    for asked, reason in zip(asking, ("database", "draining"), strict=True):
        with pytest.raises(RefusedError, match=reason):
            await asked


async def test_exports_wait_for_one_errand_at_a_time(path: Path) -> None:
    """An export that came meanwhile is kept before the next errand is begun."""
    running, kept = Running(path), asyncio.Event()
    loop = asyncio.get_running_loop()
    totals: list[int] = []

    def slow() -> None:
        totals.append(running.counts().total)
        if len(totals) == 1:
            asyncio.run_coroutine_threadsafe(send(), loop)
            while not running.inbox._waiting:
                pass

    async def send() -> None:
        await running.send(1)
        kept.set()

    asking = [asyncio.create_task(running.inbox.ask(slow)) for _ in range(2)]
    await asyncio.sleep(0)
    running.writer.start()
    await asyncio.gather(*asking, kept.wait())
    await running.stop()

    assert totals == [0, 1]


async def test_clients_are_answered_before_the_listener_works(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics of requests can wait, an exporter cannot."""
    was_answered = threading.Event()
    waited: list[bool] = []
    monkeypatch.setattr(running.committer._listener, "settle", lambda: waited.append(was_answered.wait(10)))

    await running.send(1)
    was_answered.set()
    await running.rests()

    assert waited == [True]


async def test_exports_are_committed_between_the_parts_of_a_heartbeat(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes while one part is done waits for that one alone."""
    await running.rests()
    loop, sending, totals = asyncio.get_running_loop(), [], []
    arrived = threading.Event()

    def send() -> None:
        sending.append(asyncio.create_task(running.send(2)))
        loop.call_soon(arrived.set)

    def first() -> None:
        loop.call_soon_threadsafe(send)
        arrived.wait(10)

    monkeypatch.setattr(running.committer, "chores", lambda: (first, lambda: totals.append(running.counts().total)))
    running.clock.forward(6)
    await running.send(1)
    await running.rests()

    await asyncio.gather(*sending)
    assert totals == [2]
