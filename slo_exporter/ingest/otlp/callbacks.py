"""The way back from other threads to the event loops where clients wait."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable

Call = Callable[[], object]
"""It should raise nothing; if it does, the loop's handler of exceptions hears of it."""


def call_back(calls: Iterable[tuple[asyncio.AbstractEventLoop, Call]]) -> None:
    """Have each call made on its event loop, in order; a loop is woken once for all of its own: waking is a syscall."""
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[Call]] = defaultdict(list)
    for loop, call in calls:
        by_loop[loop].append(call)
    for loop, own in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is gone, and the clients with it
            loop.call_soon_threadsafe(_make, loop, own)


def _make(loop: asyncio.AbstractEventLoop, calls: Iterable[Call]) -> None:
    for call in calls:
        try:
            call()
        except Exception as bug:  # noqa: BLE001 - it shall cost no other client its answer
            loop.call_exception_handler({"message": f"{call} raised an exception", "exception": bug})
