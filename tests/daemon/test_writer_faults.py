"""Faults that strike one part of the writer's work alone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from builders import NOON_NS, ManualClock, Request, export, slo
from committing import committer_of
from submitting import submit

from slo_exporter.daemon.inbox import Inbox
from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.store.errors import UnavailableError, UnusableError

SECOND = 10**9


async def test_housekeeping_that_fails_refuses_no_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old counts stay for longer; what comes is counted, and memory folds as ever."""
    clock = ManualClock()
    committer = committer_of(f"sqlite:///{tmp_path / 'counts.db'}", [slo()], clock)
    committer.open()
    for span in range(4):
        committer.commit([export([Request(end_ns=clock.ns - SECOND, span=span + 1)])], committer.next_seq())
        clock.forward(5)
    assert committer.loaded is not None
    slices = len(committer.loaded.ledger.timeline)
    # No real fault can be ordered to strike this one transaction.
    monkeypatch.setattr(committer._store, "tidy", _fail)

    clock.forward(86_400)
    committer.heartbeat()

    assert len(committer.loaded.ledger.timeline) < slices
    assert committer.reports(clock.ns)[0].counts.total == 4
    monkeypatch.undo()
    committer.heartbeat()
    assert committer.counts["folded_rows"] == 4
    committer.close()


async def test_a_listener_that_fails_costs_no_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours in metrics of requests is counted, and the writer goes on."""
    clock, inbox = ManualClock(), Inbox()
    committer = committer_of(f"sqlite:///{tmp_path / 'counts.db'}", [slo()], clock)
    writer = Writer(committer, inbox, clock, lambda: None)
    monkeypatch.setattr(committer, "settle", lambda: 1 / 0)
    writer.open()
    writer.start()

    for span in (1, 2):
        await submit(inbox, export([Request(end_ns=NOON_NS - SECOND, span=span)]))

    inbox.close()
    await asyncio.to_thread(writer.join)
    assert (writer.failures["bug"], writer.fatal) == (2, None)


def _fail(*_: object) -> NoReturn:
    raise UnavailableError("the statement took too long")


async def test_exports_behind_a_fatal_one_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a commit that is split after a fault of ours, everyone is answered, though the database turns out damaged."""
    clock, inbox = ManualClock(), Inbox()
    committer = committer_of(f"sqlite:///{tmp_path / 'counts.db'}", [slo()], clock)
    writer = Writer(committer, inbox, clock, lambda: None)
    writer.open()
    effect = committer._effect

    def stumble(exports: Sequence[Export], gpus: object, now_ns: int) -> object:
        if len(exports) > 1:
            raise ZeroDivisionError
        if exports[0].refused:
            raise UnusableError("the database is damaged")
        return effect(exports, gpus, now_ns)

    monkeypatch.setattr(committer, "_effect", stumble)
    bodies = [export([Request(end_ns=NOON_NS - SECOND, span=span)], refused=int(span == 2)) for span in (1, 2, 3)]
    sending = [asyncio.create_task(submit(inbox, body)) for body in bodies]
    await asyncio.sleep(0)
    writer.start()

    answers = await asyncio.gather(*sending, return_exceptions=True)
    await asyncio.to_thread(writer.join)

    assert [type(answer) for answer in answers] == [int, RefusedError, RefusedError]
    assert isinstance(writer.fatal, UnusableError)
