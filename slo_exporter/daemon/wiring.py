"""
The one place that knows every stage: builds them, joins them, runs them.

```
otlp, nvml -> sli -> slo -> store -> web
```
"""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Final, Protocol, TypeAlias

import structlog

from slo_exporter import __version__
from slo_exporter.clock import SECOND_NS, Clock, SystemClock
from slo_exporter.config.settings import Settings
from slo_exporter.daemon import logs, supervisor
from slo_exporter.daemon.board import DaemonBoard
from slo_exporter.daemon.committer import Ages, Committer
from slo_exporter.daemon.definitions import Definitions
from slo_exporter.daemon.editor import Editor
from slo_exporter.daemon.gpus import OFF, Gpus, source_of
from slo_exporter.daemon.hearing import Hearing
from slo_exporter.daemon.http_server import HttpServer
from slo_exporter.daemon.inbox import Inbox
from slo_exporter.daemon.writer import Writer
from slo_exporter.ingest.otlp.conventions.declared import declared_of
from slo_exporter.ingest.otlp.conventions.registry import with_own
from slo_exporter.ingest.otlp.decoders import Decoders
from slo_exporter.ingest.otlp.desk import Workers
from slo_exporter.ingest.otlp.grpc_server import GrpcServer
from slo_exporter.ingest.otlp.http_app import OtlpHttpApp
from slo_exporter.ingest.otlp.in_flight import InFlight
from slo_exporter.ingest.otlp.reader import Reader
from slo_exporter.ingest.otlp.receiver import Receiver
from slo_exporter.slo.definition import Slo
from slo_exporter.store.database import database_of, shown
from slo_exporter.store.errors import UnusableError
from slo_exporter.store.store import Store
from slo_exporter.web.api.app import create
from slo_exporter.web.board import About

_BEHIND: Final = "-> sli -> slo -> store -> web"
RECEIPTS_NS: Final = (20 + 2) * 60 * SECOND_NS
"""
Receipts outlive every span of their body: the most that ``lateness`` may be,
also after a restart with another setting, 1 min for the future, 1 min of waiting.
"""
_EXPORTS_IN_FLIGHT: Final = 4
"""So many exports of the largest size may be unanswered at once: 64 MiB by default."""
_DECODERS: Final = 2
"""One for groups of exports, one for large ones."""
_DRAIN_S: Final = 4.0
"""What is in flight may finish for so long: a stop stays within 10 s."""

ReadFiles: TypeAlias = Callable[[], Sequence[Slo]]
"""Reads the SLO files; raises `ConfigError`."""

_WRITER_S: Final = 4.0
"""The last commit may take so long; then the process ends without its writer."""

_log = structlog.get_logger(__name__)


class _StartError(Exception):
    """The server cannot start as configured; exit code 2."""


def run(settings: Settings, slos: Sequence[Slo], read_files: ReadFiles, *, demo: bool) -> int:
    """
    Serve until a signal.

    Args:
        settings: how.
        slos: what the SLO files declare now.
        read_files: reads them again, on SIGHUP.
        demo: beside a simulated service.

    Returns:
        The exit code: 0, 2 if it cannot run so, 3 after a fault of ours.
    """
    logs.configure()
    supervisor.share_one_heap()
    try:
        code = asyncio.run(_serve(settings, slos, read_files, demo=demo))
    except (_StartError, UnusableError) as error:
        print(f"slo-exporter: {error}", file=sys.stderr)  # noqa: T201 - the one line for people
        code = 2
    if threading.active_count() > 1:
        # A decoder is at work for a client that was cut; the interpreter would wait for it.
        sys.stderr.flush()
        os._exit(code)
    return code


async def _serve(settings: Settings, slos: Sequence[Slo], read_files: ReadFiles, *, demo: bool) -> int:
    return await _Daemon(settings, slos, read_files, SystemClock()).serve(demo=demo)


class _Daemon:
    """Every stage, joined; made on the event loop."""

    def __init__(self, settings: Settings, slos: Sequence[Slo], read_files: ReadFiles, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._stop = asyncio.Event()
        self._hearing = Hearing(clock.now_ns(), _silent(settings))
        self._gpus = Gpus(settings.gpu, clock, settings.lateness_ns)
        self._inbox = Inbox()
        turn = threading.Lock()
        self._workers = ThreadPoolExecutor(_DECODERS, thread_name_prefix="decode")
        in_flight = InFlight(_EXPORTS_IN_FLIGHT * settings.otlp.max_message_bytes)
        workers = Workers(self._workers, turn)
        self._decoders = Decoders(wanted=settings.otlp.decoder == "auto")
        self._receiver = Receiver(_reader(settings, self._decoders), self._inbox, clock, in_flight, workers)
        self._committer = Committer(
            _store(settings, clock),
            Definitions(tuple(slos)),
            clock,
            self._hearing,
            turn,
            ages=Ages(settings.lateness_ns, RECEIPTS_NS, settings.retention_ns),
        )
        self._committer.on_selectors = lambda keys: self._receiver.read_with(_reader(settings, self._decoders, keys))
        loop = asyncio.get_running_loop()
        self._writer = Writer(
            self._committer,
            self._inbox,
            clock,
            on_fatal=lambda: loop.call_soon_threadsafe(self._stop.set),
            gpus=self._gpus,
        )
        self._editor = Editor(self._committer, self._inbox, clock, read_files)
        self._reloading: set[asyncio.Task[None]] = set()

    async def serve(self, *, demo: bool) -> int:
        """Start the stages from the last to the first; they stop in the opposite order."""
        self._writer.open()
        async with AsyncExitStack() as running:
            running.enter_context(supervisor.signals(self._stop.set, self._hangup))
            running.push_async_callback(self._end)
            self._writer.start()
            self._gpus.start(is_demo=demo)
            running.callback(self._gpus.stop)
            running.callback(self._workers.shutdown, wait=False, cancel_futures=True)
            listening: list[_Server] = []
            running.push_async_callback(_stop, listening)
            otlp = await _receivers(self._settings, self._receiver, listening)
            await self._show(otlp, listening)
            running.callback(self._decoders.stop)
            self._decoders.start()
            if demo:
                endpoint = _url(self._settings.otlp.grpc.host, otlp["OTLP/gRPC"])
                await running.enter_async_context(supervisor.demo_service(endpoint))
            supervisor.forget_garbage_of_the_start()
            await self._stop.wait()
            _log.info("stopping")
        if isinstance(self._writer.fatal, UnusableError):
            raise self._writer.fatal
        _log.info("stopped", commits=self._committer.counts["commits"])
        return 0 if self._writer.fatal is None else 3

    async def _show(self, otlp: Mapping[str, int], listening: "list[_Server]") -> None:
        """Serve metrics, API and page, and say where."""
        about = _about(self._settings, otlp, self._clock)
        board = DaemonBoard(
            committer=self._committer,
            inbox=self._inbox,
            writer=self._writer,
            receiver=self._receiver,
            decoders=self._decoders,
            editor=self._editor,
            hearing=self._hearing,
            gpus=self._gpus,
            clock=self._clock,
            about=about,
        )
        app = create(board, self._hearing, self._clock, self._editor, self._settings.write_tokens)
        host = self._settings.listen.host
        port = await _started(HttpServer(app, host, self._settings.listen.port), listening)
        slos = len(self._committer.definitions.declarations)
        _log.info("started", pipeline=about.pipeline, slos=slos, database=about.database, otlp=list(about.listeners))
        _log.info("look_at", page=_url(host, port), metrics=_url(host, port, "metrics"))
        if not slos:
            _log.warning("no_slos", hint="requests are counted, budgets are not; name SLO files under slo_files")

    def _hangup(self) -> None:
        task = asyncio.get_running_loop().create_task(self._editor.reload())
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    async def _end(self) -> None:
        self._inbox.close()
        await asyncio.to_thread(self._writer.join, _WRITER_S)


def _store(settings: Settings, clock: Clock) -> Store:
    since = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC).isoformat()
    holder = f"slo-exporter {__version__}, pid {os.getpid()} on {socket.gethostname()}, since {since}"
    return Store(database_of(settings.database, holder))


def _silent(settings: Settings) -> frozenset[str]:
    """Frameworks that write no span for a request that failed, the operator's own ones among them."""
    known = with_own(declared_of(settings).conventions)
    return frozenset(convention.framework for convention in known if convention.is_silent)


def _reader(settings: Settings, decoders: Decoders, selector_keys: frozenset[str] = frozenset()) -> Reader:
    return Reader(declared_of(settings, selector_keys), lateness_ns=settings.lateness_ns, decoders=decoders)


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


def _about(settings: Settings, otlp: Mapping[str, int], clock: Clock) -> About:
    source = source_of(settings.gpu)
    hosts = {"OTLP/gRPC": settings.otlp.grpc.host, "OTLP/HTTP": settings.otlp.http.host}
    return About(
        version=__version__,
        started_ns=clock.now_ns(),
        listeners=tuple(f"{name} {hosts[name]}:{port}" for name, port in otlp.items()),
        database=shown(settings.database),
        retention_ns=settings.retention_ns,
        pipeline=f"otlp {_BEHIND}" if source == OFF else f"otlp, {source} {_BEHIND}",
        gpu_source=source,
        gpu_groups=tuple(settings.gpu.groups),
    )


def _url(host: str, port: int, path: str = "") -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/{path}"
