"""
An HTTP listener: uvicorn, tamed to live inside our daemon.

What uvicorn does on its own and is stopped here: it takes the signals, exits
the process when it cannot bind, waits for ever for a request's head and for a
client that does not read, buffers a head of any size, and answers 500 to requests it cuts at shutdown (a client
drops its data on 500; a closed connection it tries again).
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

App = Callable[..., Awaitable[None]]
"""An ASGI 3 application."""

MAX_HEAD_BYTES: Final = 64 * 1024
"""Precedents: nginx 32 KiB, node.js and h11 16 KiB, Tomcat 8 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a client may ask of our patience and memory."""

    header_timeout_s: float = 10
    """
    A connection whose next request's head is not complete by then is closed. It
    starts at connect, and at the first byte of each further request.
    """
    read_timeout_s: float = 30
    """A client that does not read its answer for so long is cut."""
    keep_alive_s: int = 75
    """An idle connection is closed then; longer than the pause between exports (SDKs: 5 s)."""


class HttpServer:
    """
    Serves one ASGI application on one address.

    Args:
        app: the application; it gets requests only, no lifespan.
        host: name or address to bind; IPv6 without brackets.
        port: port to bind; 0 lets the system choose.
        limits: what clients may do.
    """

    def __init__(self, app: App, host: str, port: int, limits: Limits = Limits()) -> None:
        self._app = app
        self._host, self._port = host, port
        self._server = _Server(
            uvicorn.Config(
                self._outermost,
                http=_protocol(limits),
                interface="asgi3",
                lifespan="off",
                ws="none",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=limits.keep_alive_s,
            )
        )
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """
        Listen; return when connections are accepted.

        Returns:
            The bound port.

        Raises:
            OSError: the address cannot be bound.
        """
        listener = _bind(self._host, self._port)
        port: int = listener.getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve([listener]))
        await self._server.accepting.wait()
        return port

    async def stop(self, grace_s: float) -> None:
        """Accept no more, give requests under way *grace_s* seconds, close."""
        if self._serving is None:
            return
        self._server.leave()
        await asyncio.wait({self._serving}, timeout=grace_s)
        self._server.cut()
        await self._serving

    async def _outermost(self, scope: object, receive: object, send: object) -> None:
        # Only `_Server.cut` cancels a request; nobody is left to be told.
        with contextlib.suppress(asyncio.CancelledError):
            await self._app(scope, receive, send)


class _Server(uvicorn.Server):
    """uvicorn's server without its hands on the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self._leaving = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the daemon: uvicorn would raise them again."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting, and say so."""
        await super().startup(sockets)
        self.accepting.set()

    async def main_loop(self) -> None:
        """Renew the Date header once a second; uvicorn wakes ten times as often."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leaving.wait(), timeout=1)

    def leave(self) -> None:
        """Stop accepting and finish."""
        self.should_exit = True
        self._leaving.set()

    def cut(self) -> None:
        """Drop the connections that are left, then what still worked for them."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()


class _TimedProtocol(HttpToolsProtocol):
    """
    Closes a connection whose request head is late or endless, or whose answer stays unread.

    The timer runs while no request is being answered and the client has begun
    something: it just connected, sent a part of a head, or still sends a body
    that was already answered. It stops when a head is complete.
    """

    limits: Limits

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _in_head = True
    _mid_message = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._unread is not None:
            self._unread.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.limits.read_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._answers_nothing():
            self._start_timer()
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        self._in_head = self._mid_message = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._mid_message = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._mid_message and self._answers_nothing():
            self._start_timer()

    def _answers_nothing(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.limits.header_timeout_s, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _protocol(given: Limits) -> type[HttpToolsProtocol]:
    class Timed(_TimedProtocol):
        limits = given

    return Timed


def _bind(host: str, port: int) -> socket.socket:
    """Bind here: uvicorn would exit the process when it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=host == "::")
    except OSError as error:
        shown = f"[{host}]" if ":" in host else host
        reason = str(error.strerror).partition(" (while ")[0]  # create_server repeats the address
        raise OSError(error.errno, f"cannot listen on {shown}:{port}: {reason}") from error
    # asyncio does it for sockets that name their protocol; without it the body of an answer waits for the
    # acknowledgement of its head, some 40 ms on a connection that is kept.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
