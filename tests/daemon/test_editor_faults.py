"""Definitions and corrections when the database fails them: SQL tells what holds."""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from builders import NOON_NS, ManualClock, Request, export, slo
from committing import ForgetfulDatabase, WatchedInbox, committer_of
from submitting import end_of_beat, submit

from slo_exporter.daemon.editor import Editor
from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.slo.definition import Slo
from slo_exporter.web.board import NotNowError

SECOND = 10**9
DOCUMENT = '{{"indicator":{{"good":"e2e <= 80ms","requests":{{}}}},"name":"{}","objective":"0.99","window":"30d"}}'


class Daemon:
    """Committer, writer and editor on a database whose COMMIT fails when told to."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.files: Callable[[], Sequence[Slo]] = lambda: [slo()]
        self.database = ForgetfulDatabase(f"sqlite:///{path}", "a test")
        self.inbox = WatchedInbox()
        self.committer = committer_of(self.database, [slo()], self.clock)
        self.editor = Editor(self.committer, self.inbox, self.clock, lambda: self.files())  # noqa: PLW0108 - tests set it anew
        self.writer = Writer(self.committer, self.inbox, self.clock, lambda: None)
        self.writer.open()

    async def put(self, name: str) -> bool:
        """Define an SLO of that name over the API."""
        return await self.editor.put(slo(name), DOCUMENT.format(name), "ci")

    async def send(self, span: int) -> None:
        """Send one good request."""
        await submit(self.inbox, export([Request(end_ns=self.clock.ns - SECOND, span=span)]))

    async def failing(self, fault: str, work: Awaitable[object]) -> None:
        """Have COMMIT fail *work*, and wait until exports are accepted again."""
        await self.send(99)
        await end_of_beat(self.inbox)
        self.inbox.accepting.clear()
        self.database.fault = fault
        with suppress(NotNowError):
            await work
        await self.inbox.accepting.wait()

    def names(self) -> list[str]:
        """What is counted."""
        return [report.slo.name for report in self.committer.reports(self.clock.ns)]

    def told(self) -> list[tuple[str, int, int]]:
        """Name, generation and events of every SLO."""
        assert self.committer.loaded is not None
        reports = self.committer.reports(self.clock.ns)
        generations = self.committer.loaded.generations
        return [(r.slo.name, g, r.counts.total) for r, g in zip(reports, generations, strict=True)]

    async def stop(self) -> None:
        """Drain."""
        self.inbox.close()
        await asyncio.to_thread(self.writer.join)


def move_away(path: Path) -> Callable[[], object]:
    """Move the database away; what is given puts it back."""
    away = path.with_name("away.db")
    path.rename(away)
    return lambda: away.rename(path)


def names_after_a_restart(path: Path) -> list[str]:
    """What the next process counts."""
    one = Daemon(path)
    names = one.names()
    one.committer.close()
    return names


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database lies."""
    return tmp_path / "counts.db"


@pytest_asyncio.fixture
async def daemon(path: Path) -> AsyncIterator[Daemon]:
    """A started daemon."""
    one = Daemon(path)
    one.writer.start()
    yield one
    await one.stop()


@pytest.mark.parametrize(("fault", "found"), [("before", ["latency"]), ("after", ["latency", "made"])])
async def test_a_put_of_unknown_outcome_is_what_sql_says(
    fault: str, found: list[str], daemon: Daemon, path: Path
) -> None:
    """Its client hears that it is to come again; after a restart the same SLOs are there."""
    await daemon.failing(fault, daemon.put("made"))
    await daemon.send(1)

    assert daemon.editor.writes == {("put", "unavailable"): 1}
    assert daemon.names() == found
    await daemon.stop()
    assert names_after_a_restart(path) == found


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_put_that_is_repeated_after_a_fault_counts_from_then_on(fault: str, daemon: Daemon) -> None:
    """What its clients send next is counted once, whichever of the two made it."""
    await daemon.failing(fault, daemon.put("made"))
    await daemon.put("made")
    await daemon.send(1)

    assert daemon.told() == [("latency", 1, 2), ("made", 1, 1)]


@pytest.mark.parametrize(("fault", "excluded"), [("before", 0), ("after", 1)])
async def test_a_correction_of_unknown_outcome_is_what_sql_says(fault: str, excluded: int, daemon: Daemon) -> None:
    """Either it is listed and its events are excluded, or neither; made again it excludes them once."""
    ask = (NOON_NS - 5 * SECOND, NOON_NS, "a drill", "ci")
    await daemon.failing(fault, daemon.editor.correct("chat", "latency", *ask))

    assert daemon.committer.loaded is not None
    assert [len(made) for made in daemon.committer.loaded.corrections.values()] == [1] * excluded
    assert daemon.committer.reports(daemon.clock.ns)[0].counts.excluded == excluded
    await daemon.editor.correct("chat", "latency", *ask)
    counts = daemon.committer.reports(daemon.clock.ns)[0].counts
    assert (counts.total, counts.excluded) == (0, 1)


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_reload_of_unknown_outcome_starts_no_third_generation(fault: str, daemon: Daemon) -> None:
    """What the files say holds when the database is there again."""
    daemon.files = lambda: [slo(good="e2e <= 70ms")]
    await daemon.failing(fault, daemon.editor.reload())
    await daemon.send(1)

    assert daemon.editor.reloads == {"unavailable": 1}
    assert daemon.told() == [("latency", 2, 1)]


async def test_a_reload_that_was_read_first_is_not_the_last_word(daemon: Daemon) -> None:
    """Two hangups: the second one reads after the first one is done, not while it still reads."""
    reading, reads = threading.Event(), iter([[slo("old")], [slo("new")]])

    def read() -> Sequence[Slo]:
        slos = next(reads)
        if slos[0].name == "old":
            reading.wait()
        return slos

    daemon.files = read
    reloads = [asyncio.create_task(daemon.editor.reload()) for _ in range(2)]
    await daemon.send(1)
    reading.set()
    await asyncio.gather(*reloads)

    assert daemon.names() == ["new"]


async def test_what_was_loaded_before_a_change_is_let_go(daemon: Daemon) -> None:
    """Counts of a thousand SLOs are 50 MB: nobody keeps the old ones, not even until a collection."""
    await daemon.send(1)
    old = weakref.ref(daemon.committer.loaded.ledger)

    await daemon.put("made")

    assert old() is None


async def test_a_stop_does_what_was_asked_before(path: Path) -> None:
    """A drain makes the definitions that wait, and takes no more."""
    one = Daemon(path)
    asking = [asyncio.create_task(one.put(name)) for name in ("a", "b")]
    await asyncio.sleep(0)
    one.inbox.close()
    one.writer.start()

    assert await asyncio.gather(*asking) == [True, True]
    with pytest.raises(NotNowError, match="draining"):
        await one.put("c")
    await one.stop()
    assert names_after_a_restart(path) == ["latency", "a", "b"]


async def test_a_stop_while_the_database_is_away_refuses_what_waits(path: Path) -> None:
    """Nobody waits for an answer that does not come."""
    one = Daemon(path)
    put_back = move_away(path)
    asking = asyncio.create_task(one.put("a"))
    await asyncio.sleep(0)
    one.inbox.close()
    one.writer.start()

    with pytest.raises(NotNowError, match="database"):
        await asking
    await one.stop()
    put_back()
    assert names_after_a_restart(path) == ["latency"]


async def test_an_errand_that_fails_by_a_fault_of_ours_fails_alone(daemon: Daemon) -> None:
    """Whoever asked hears of it; the next one is done, and exports are taken."""
    with pytest.raises(ZeroDivisionError):
        await daemon.inbox.ask(lambda: 1 // 0)
    await daemon.put("made")
    await daemon.send(1)

    assert daemon.told() == [("latency", 1, 1), ("made", 1, 1)]


async def test_a_refused_reload_before_the_start_is_counted(path: Path) -> None:
    """The files were read at the start anyhow."""
    one = Daemon(path)
    one.inbox.refuse("starting")

    await one.editor.reload()

    assert one.editor.reloads == {"unavailable": 1}
    with pytest.raises(RefusedError, match="starting"):
        await one.send(1)
