"""
The demo's process: real time, signals, and an end when its parent is gone.

Rules of this module:

1. A call is written when it ends, never ahead.
2. SIGTERM, SIGINT, the end of a piped stdin or another parent end the
   process within a second. No orphan stays behind.
"""

import asyncio
import os
import signal
import stat
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Final

from slo_exporter.clock import SECOND_NS, Clock, SystemClock
from slo_exporter.demo import traffic
from slo_exporter.demo.spans import Emitter, Sender
from slo_exporter.demo.traffic import Call

PARENT_CHECK_S: Final = 0.5
STDIN: Final = 0


def run(endpoint: str, rate: float, seed: int | None) -> None:
    """Send simulated traffic to *endpoint* until told to end."""
    sender = Sender(endpoint)
    try:
        rng = Random(seed)  # noqa: S311 - traffic is no secret
        asyncio.run(_run(Emitter(sender.processor), traffic.calls(rng, rate)))
    finally:
        sender.close()


async def _run(emitter: Emitter, calls: Iterable[Call]) -> None:
    stop = asyncio.Event()
    _stop_on_signals(stop)
    _stop_on_closed_stdin(stop)
    watch = asyncio.create_task(_stop_without_parent(stop))

    async def stopped_within(seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await stop.wait()
        except TimeoutError:
            return False

    await replay(calls, emitter.emit, SystemClock(), stopped_within)
    watch.cancel()


async def replay(
    calls: Iterable[Call],
    emit: Callable[[Call, int], None],
    clock: Clock,
    stopped_within: Callable[[float], Awaitable[bool]],
) -> None:
    """
    Emit every call when it ends, in real time.

    Args:
        calls: in the order of their ends.
        emit: takes a call and the instant from which its seconds count.
        clock: says how long to wait.
        stopped_within: waits so many seconds; True, at once, when it is time to end.
    """
    epoch_ns = clock.now_ns()
    for call in calls:
        wait_s = call.ended_s - (clock.now_ns() - epoch_ns) / SECOND_NS
        if await stopped_within(max(wait_s, 0.0)):
            return
        emit(call, epoch_ns)


def _stop_on_signals(stop: asyncio.Event) -> None:
    for which in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(which, stop.set)


def _stop_on_closed_stdin(stop: asyncio.Event) -> None:
    """Only a pipe: it closes when the process that holds its other end is gone."""
    if not _is_pipe(STDIN):
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(STDIN, 4096):
            loop.remove_reader(STDIN)
            stop.set()

    loop.add_reader(STDIN, read)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:  # it was never open
        return False


async def _stop_without_parent(stop: asyncio.Event) -> None:
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells that a parent died
        await asyncio.sleep(PARENT_CHECK_S)
    stop.set()
