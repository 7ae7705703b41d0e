"""The writer takes seconds of GPUs at its heartbeats, and keeps none that are not counted."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from builders import NOON_NS, ManualClock, Request, export, slo
from committing import ForgetfulDatabase, WatchedInbox, committer_of
from gpu_seconds import SHARE, S, gpu_indicator, seconds_of
from submitting import submit

from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.sli.gpus import GpuBatch
from slo_exporter.slo.definition import Slo
from slo_exporter.store.errors import StaleError, UnavailableError

BUSY = replace(slo("busy"), indicator=gpu_indicator("mean(utilization) >= 40%"))


class Source:
    """Seconds that wait."""

    def __init__(self) -> None:
        self.waiting: list[GpuBatch] = []
        self.taken = 0
        self.returned = 0

    def see(self, *values: int) -> None:
        """A GPU did something in a few seconds."""
        self.waiting.append(seconds_of([{"end_ns": NOON_NS + S, "utilization": value} for value in values]))

    def take(self) -> GpuBatch | None:
        """The oldest."""
        self.taken += 1
        return self.waiting.pop(0) if self.waiting else None

    def give_back(self, batch: GpuBatch) -> None:
        """In front of what came since."""
        self.returned += 1
        self.waiting.insert(0, batch)


class Running:
    """A writer on a real database, whose turns a test makes itself."""

    def __init__(self, path: Path, slos: list[Slo]) -> None:
        self.clock = ManualClock()
        self.source = Source()
        self.inbox = WatchedInbox()
        self.database = ForgetfulDatabase(f"sqlite:///{path}", "a test")
        self.committer = committer_of(self.database, slos, self.clock)
        self.writer = Writer(self.committer, self.inbox, self.clock, lambda: None, self.source)
        self.writer.open()

    def turn(self, seconds: float = 5) -> None:
        """Let time pass, and the writer look."""
        self.clock.forward(seconds)
        self.writer._turn(self.inbox.take(0))

    def sums(self) -> list[list[int]]:
        """Of the SLO on GPUs, in memory."""
        assert self.committer.loaded is not None
        slices = self.committer.loaded.slices._sums
        return [sums.tolist() for key, sums in slices.items() if len(sums) > 1 and key[0] >= 0]

    async def send(self, span: int) -> asyncio.Task[int]:
        """Send one request; its answer is still to come."""
        body = export([Request(end_ns=NOON_NS - S, span=span)], received_ns=self.clock.ns)
        task = asyncio.create_task(submit(self.inbox, body))
        await asyncio.sleep(0)
        return task


@pytest.fixture
def make(tmp_path: Path) -> Callable[[list[Slo]], Running]:
    """A writer that counts some SLOs."""
    return lambda slos: Running(tmp_path / "counts.db", slos)


Make = Callable[[list[Slo]], Running]


async def test_seconds_are_counted_at_a_heartbeat(make: Make) -> None:
    """Alone in a transaction of their own, once; between heartbeats nobody asks for them."""
    running = make([slo(), BUSY])
    running.source.see(SHARE, 0)
    running.turn()
    running.source.see(7)
    running.turn(1)

    assert running.sums() == [[2, 2, SHARE]]
    assert (running.source.taken, running.committer.counts["commits"]) == (1, 2)
    running.turn()
    assert running.sums() == [[3, 3, SHARE + 7]]
    running.committer.close()


async def test_seconds_share_the_transaction_of_exports(make: Make) -> None:
    """One commit for both, before the heartbeat's."""
    running = make([slo(), BUSY])
    sent = await running.send(1)
    running.source.see(SHARE)
    running.turn()

    assert await sent == 0
    assert running.sums() == [[1, 1, SHARE]]
    assert running.committer.counts["commits"] == 2
    running.committer.close()


async def test_without_an_slo_on_gpus_seconds_cost_no_transaction(make: Make) -> None:
    """They are taken, so that they do not pile up, and dropped."""
    running = make([slo()])
    running.source.see(SHARE)
    running.turn()

    assert (running.source.waiting, running.committer.counts["commits"]) == ([], 1)
    running.committer.close()


async def test_seconds_wait_while_the_database_is_away(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken is given back, no more is taken, and all of it counts afterwards."""
    running = make([slo(), BUSY])
    running.source.see(SHARE)
    with monkeypatch.context() as away:
        # No real fault can be ordered to strike one transaction and spare the opening of the database.
        away.setattr(running.committer._store, "transaction", _fail)
        for _ in range(3):
            running.turn()
    assert (running.source.taken, running.source.returned, len(running.source.waiting)) == (1, 1, 1)
    assert running.inbox.refusing == "database"

    running.source.see(1)
    for _ in range(3):
        running.turn()
    assert running.sums() == [[2, 2, SHARE + 1]]
    assert running.inbox.refusing is None
    running.committer.close()


def _fail(*_: object) -> NoReturn:
    raise UnavailableError("the disk is full")


@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("with_export", [False, True])
async def test_a_commit_of_unknown_outcome_is_repeated_with_its_seconds(
    make: Make,
    fault: str,
    with_export: bool,  # noqa: FBT001 - a table
) -> None:
    """Under the same number: whether it had come through or not, they count once."""
    running = make([slo(), BUSY])
    sent = await running.send(1) if with_export else None
    running.source.see(SHARE)
    running.database.fault = fault
    running.turn()
    assert running.sums() == []
    running.turn()

    assert running.sums() == [[1, 1, SHARE]]
    assert (running.source.returned, running.source.waiting) == (0, [])
    assert running.committer.counts["gpu_records_dropped"] == 0
    if sent is not None:
        with pytest.raises(RefusedError, match="database"):
            await sent
        running.committer.close()
        running.committer.open()
        assert running.sums() == [[1, 1, SHARE]]
    running.committer.close()


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_seconds_of_an_unknown_commit_that_are_not_repeated_are_counted_as_dropped(
    make: Make, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is loaded anew before the transaction could be repeated: what came through stays, nothing is twice."""
    running = make([slo(), BUSY])
    running.source.see(SHARE, 0)
    running.database.fault = fault
    running.turn()
    with monkeypatch.context() as stale:
        # No real fault can be ordered to strike between an unknown commit and its repetition.
        stale.setattr(running.committer, "commit", _stale)
        running.turn()
    assert running.committer.counts["gpu_records_dropped"] == 0
    running.turn()

    assert running.sums() == ([[2, 2, SHARE]] if fault == "after" else [])
    assert running.committer.counts["gpu_records_dropped"] == 2
    running.turn()
    assert running.committer.counts["gpu_records_dropped"] == 2
    running.committer.close()


def _stale(*_: object) -> NoReturn:
    raise StaleError("another server wrote meanwhile")


async def test_seconds_that_bring_out_a_fault_fail_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The export beside them is kept; they are dropped, so that they do not bring it out for ever."""
    running = make([slo(), BUSY])
    effect = running.committer._effect

    def stumble(exports: list[object], gpus: GpuBatch | None, now_ns: int) -> object:
        if gpus is not None:
            raise ZeroDivisionError
        return effect(exports, gpus, now_ns)

    monkeypatch.setattr(running.committer, "_effect", stumble)
    sent = await running.send(1)
    running.source.see(SHARE)
    running.turn()

    assert await sent == 0
    assert running.writer.failures["bug"] == 1
    assert (running.source.waiting, running.source.returned) == ([], 0)
    assert running.committer.counts["gpu_records_dropped"] == 1
    running.committer.close()


async def test_the_last_seconds_are_counted_at_a_stop(make: Make) -> None:
    """A restart loses none that were there to be taken."""
    running = make([slo(), BUSY])
    running.turn()
    running.source.see(SHARE)
    running.writer.start()
    running.inbox.close()
    await asyncio.to_thread(running.writer.join)

    assert running.sums() == [[1, 1, SHARE]]
