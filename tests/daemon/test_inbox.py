"""The inbox: what is put into it from any thread comes out in order, or is refused with the reason."""

import asyncio
from functools import partial

from builders import NOON_NS, Request, export

from slo_exporter.daemon.inbox import Inbox, keep
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.ingest.otlp.export import Outcome, Waiting


def waiting(exports: int, answers: list[Outcome]) -> list[Waiting]:
    """Exports whose answers go into *answers*."""
    loop = asyncio.get_running_loop()
    return [
        Waiting(export([Request(end_ns=NOON_NS, span=span + 1)]), loop, partial(list.append, answers))
        for span in range(exports)
    ]


async def test_a_group_is_refused_as_one() -> None:
    """Each of its clients hears why, on its own loop."""
    inbox, answers = Inbox(), list[Outcome]()
    await asyncio.to_thread(inbox.put, waiting(3, answers))
    await asyncio.sleep(0)
    assert [str(answer) for answer in answers] == [str(RefusedError("starting"))] * 3
    assert inbox.take(0) == ()


async def test_exports_are_taken_in_order_and_answered_when_kept() -> None:
    """A group stays together, up to the bound of a commit."""
    inbox, answers = Inbox(), list[Outcome]()
    inbox.accept()
    put = waiting(300, answers)
    inbox.put(put)
    first, rest = inbox.take(0), inbox.take(0)
    assert [*first, *rest] == put
    assert (len(first), len(rest)) == (256, 44)
    keep(rest, {one.export.digest: index for index, one in enumerate(rest)})
    assert answers == []
    await asyncio.sleep(0)
    assert answers == list(range(44))


async def test_a_closed_inbox_gives_out_what_it_has() -> None:
    """And takes nothing more."""
    inbox, answers = Inbox(), list[Outcome]()
    inbox.accept()
    inbox.put(waiting(1, answers))
    inbox.close()
    inbox.put(waiting(1, answers))
    assert not inbox.is_done
    assert len(inbox.take(0)) == 1
    assert inbox.is_done
    await asyncio.sleep(0)
    assert [str(answer) for answer in answers] == [str(RefusedError("draining"))]
