"""The life of the process: signals, memory, and the demo's process beside it."""

import asyncio
import contextlib
import ctypes
import gc
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import structlog

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_DEMO_PATIENCE_S = 3.0
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Source: glibc, malloc.h; mallopt(3)."""
_KEPT_BYTES = 16 * 1024 * 1024
"""Of freed memory; less is given back at every lull between exports, and each page costs a fault to get again."""
_MAPPED_BYTES = 4 * 1024 * 1024
"""What is this large has a mapping of its own, given back at once."""

_log = structlog.get_logger(__name__)


def forget_garbage_of_the_start() -> None:
    """Take what the start made out of the collector's sight: it stays, and looking at it costs a tenth."""
    gc.collect()
    gc.freeze()


def share_one_heap() -> None:
    """With glibc, let all threads allocate from one heap, some 13 MiB less, and keep what they free."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


@contextmanager
def signals(stop: Callable[[], object], hangup: Callable[[], object]) -> Iterator[None]:
    """Call *stop* on SIGTERM and SIGINT and *hangup* on SIGHUP, until the drain is over; other handlers stay out."""
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, hangup)
    try:
        yield
    finally:
        for number in (*_STOP_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)


@asynccontextmanager
async def demo_service(otlp_endpoint: str) -> AsyncIterator[None]:
    """Run the simulated chat service beside us; it ends with us."""
    # Its standard input is a pipe of ours: should we be killed, it sees the end of it.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "slo_exporter.demo", "--endpoint", otlp_endpoint),
        stdin=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    _log.info("demo_started", pid=process.pid, sends_to=otlp_endpoint)
    watch = asyncio.create_task(_watch(process))
    try:
        yield
    finally:
        watch.cancel()
        await _end(process)


async def _watch(process: asyncio.subprocess.Process) -> None:
    _log.warning("demo_ended", exit_code=await process.wait(), hint="the server runs on, without traffic")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let it send what it has: the receivers still listen."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_DEMO_PATIENCE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
