"""
The one place that knows every stage: builds them, joins them, runs them.

```
otlp -> sli -> slo -> store -> web
```
"""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Final, Protocol

import structlog

from slo_exporter import __version__
from slo_exporter.clock import SECOND_NS, Clock, SystemClock
from slo_exporter.config.settings import Settings
from slo_exporter.daemon import logs, supervisor
from slo_exporter.daemon.board import DaemonBoard
from slo_exporter.daemon.committer import Committer
from slo_exporter.daemon.http_server import HttpServer
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.otlp.grpc_server import GrpcServer
from slo_exporter.ingest.otlp.http_app import OtlpHttpApp
from slo_exporter.ingest.otlp.in_flight import InFlight
from slo_exporter.ingest.otlp.reader import Reader
from slo_exporter.ingest.otlp.receiver import Receiver, Workers
from slo_exporter.sli.counting import attribute_keys
from slo_exporter.slo.definition import Slo
from slo_exporter.store.database import Database
from slo_exporter.store.errors import UnusableError
from slo_exporter.store.store import Store
from slo_exporter.web.api.app import create
from slo_exporter.web.board import About
from slo_exporter.web.metrics.requests import RequestMetrics

PIPELINE: Final = "otlp -> sli -> slo -> store -> web"
_RECEIPTS_NS: Final = (20 + 2) * 60 * SECOND_NS
"""
Receipts outlive every span of their body: the most that ``lateness`` may be,
also after a restart with another setting, 1 min for the future, 1 min of waiting.
"""
_EXPORTS_IN_FLIGHT: Final = 4
"""So many exports of the largest size may be unanswered at once: 64 MiB by default."""
_DECODERS: Final = 2
_DRAIN_S: Final = 4.0
"""What is in flight may finish for so long: a stop stays within 10 s."""

_log = structlog.get_logger(__name__)


class _StartError(Exception):
    """The server cannot start as configured; exit code 2."""


def run(settings: Settings, slos: Sequence[Slo], *, demo: bool) -> int:
    """Serve until a signal; the exit code: 0, 2 if it cannot run so, 3 after a fault of ours."""
    logs.configure()
    supervisor.share_one_heap()
    try:
        code = asyncio.run(_serve(settings, slos, SystemClock(), demo=demo))
    except (_StartError, UnusableError) as error:
        print(f"slo-exporter: {error}", file=sys.stderr)  # noqa: T201 - the one line for people
        code = 2
    if threading.active_count() > 1:
        # A decoder is at work for a client that was cut; the interpreter would wait for it.
        sys.stderr.flush()
        os._exit(code)
    return code


async def _serve(settings: Settings, slos: Sequence[Slo], clock: Clock, *, demo: bool) -> int:
    """Build the stages from the last to the first; they stop in the opposite order."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    requests, inbox, turn = RequestMetrics(), Inbox(), threading.Lock()
    committer = Committer(_store(settings, clock), slos, clock, requests, turn)
    writer = Writer(committer, inbox, clock, on_fatal=lambda: loop.call_soon_threadsafe(stop.set))
    writer.open()
    async with AsyncExitStack() as running:
        running.enter_context(supervisor.stop_signals(stop))
        running.push_async_callback(_end, inbox, writer)
        writer.start()
        workers = ThreadPoolExecutor(_DECODERS, thread_name_prefix="decode")
        running.callback(workers.shutdown, wait=False, cancel_futures=True)
        receiver = _receiver(settings, slos, inbox, clock, Workers(workers, turn))
        listening: list[_Server] = []
        running.push_async_callback(_stop, listening)
        otlp = await _receivers(settings, receiver, listening)
        about = _about(settings, otlp, clock)
        board = DaemonBoard(
            committer=committer, inbox=inbox, writer=writer, receiver=receiver, clock=clock, about=about
        )
        app, host = create(board, requests, clock), settings.listen.host
        port = await _started(HttpServer(app, host, settings.listen.port), listening)
        _log.info("started", pipeline=PIPELINE, slos=len(slos), database=about.database, otlp=list(about.listeners))
        _log.info("look_at", page=_url(host, port), metrics=_url(host, port, "metrics"))
        if not slos:
            _log.warning("no_slos", hint="requests are counted, budgets are not; name SLO files under slo_files")
        if demo:
            await running.enter_async_context(supervisor.demo_service(_url(settings.otlp.grpc.host, otlp["OTLP/gRPC"])))
        supervisor.forget_garbage_of_the_start()
        await stop.wait()
        _log.info("stopping")
    if isinstance(writer.fatal, UnusableError):
        raise writer.fatal
    _log.info("stopped", commits=committer.counts["commits"])
    return 0 if writer.fatal is None else 3


def _store(settings: Settings, clock: Clock) -> Store:
    since = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC).isoformat()
    holder = f"slo-exporter {__version__}, pid {os.getpid()} on {socket.gethostname()}, since {since}"
    database = Database(settings.database, holder)
    return Store(database, receipts_ns=_RECEIPTS_NS)


def _receiver(settings: Settings, slos: Sequence[Slo], inbox: Inbox, clock: Clock, workers: Workers) -> Receiver:
    reader = Reader(
        selector_keys=attribute_keys([slo.indicator for slo in slos]),
        models=settings.models,
        lateness_ns=settings.lateness_ns,
        ignore_routes=settings.ignore_routes,
    )
    in_flight = InFlight(_EXPORTS_IN_FLIGHT * settings.otlp.max_message_bytes)
    return Receiver(reader, inbox, clock, in_flight, workers)


async def _receivers(settings: Settings, receiver: Receiver, listening: "list[_Server]") -> Mapping[str, int]:
    """Start both OTLP listeners; their names and bound ports."""
    most = settings.otlp.max_message_bytes
    http = HttpServer(OtlpHttpApp(receiver, most), settings.otlp.http.host, settings.otlp.http.port)
    servers: dict[str, _Server] = {"OTLP/gRPC": GrpcServer(receiver, str(settings.otlp.grpc), most), "OTLP/HTTP": http}
    return {name: await _started(server, listening) for name, server in servers.items()}


class _Server(Protocol):
    """A listener."""

    async def start(self) -> int:
        """Listen; the bound port."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Stop accepting, finish what is in flight."""
        ...


async def _started(server: _Server, listening: list[_Server]) -> int:
    """Start *server*; its bound port."""
    try:
        port = await server.start()
    except OSError as error:
        raise _StartError(error.strerror or str(error)) from error
    listening.append(server)
    return port


async def _stop(listening: Sequence[_Server]) -> None:
    await asyncio.gather(*(server.stop(_DRAIN_S) for server in listening))


async def _end(inbox: Inbox, writer: Writer) -> None:
    inbox.close()
    await asyncio.to_thread(writer.join)


def _about(settings: Settings, otlp: Mapping[str, int], clock: Clock) -> About:
    hosts = {"OTLP/gRPC": settings.otlp.grpc.host, "OTLP/HTTP": settings.otlp.http.host}
    return About(
        version=__version__,
        started_ns=clock.now_ns(),
        listeners=tuple(f"{name} {hosts[name]}:{port}" for name, port in otlp.items()),
        database=settings.database,
        pipeline=PIPELINE,
    )


def _url(host: str, port: int, path: str = "") -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/{path}"
