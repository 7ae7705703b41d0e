"""An export as the receiver gives it to the inbox, and its answer."""

import asyncio
from functools import partial

from slo_exporter.daemon.inbox import Inbox
from slo_exporter.ingest.otlp.export import Export, Outcome, Waiting


async def submit(inbox: Inbox, export: Export) -> int:
    """Wait until *export* is kept; how many of its spans are refused. Why it is not is raised."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[int] = loop.create_future()
    inbox.put([Waiting(export, loop, partial(_set, answer))])
    return await answer


async def end_of_beat(inbox: Inbox) -> None:
    """Wait until the heartbeat that is going on has ended: a turn of the writer, with an errand or not, does a part."""
    for _ in range(4):
        await inbox.ask(lambda: None)


def _set(answer: "asyncio.Future[int]", outcome: Outcome) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
