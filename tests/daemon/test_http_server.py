import asyncio
import errno
import logging
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from slo_exporter.daemon.http_server import MAX_HEAD_BYTES, HttpServer, Limits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Raw = tuple[asyncio.StreamReader, asyncio.StreamWriter]

SOON_S = 10
"""Far above what anything here takes; a busy machine is no failure."""
LARGE = 32 * 1024 * 1024
"""More than the sockets of both sides hold."""
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def ipv6_works() -> bool:
    """Whether this machine has an IPv6 loopback."""
    with socket.socket(socket.AF_INET6) as probe:
        return probe.connect_ex(("::1", 9)) != errno.EADDRNOTAVAIL


needs_ipv6 = pytest.mark.skipif(not socket.has_ipv6 or not ipv6_works(), reason="no IPv6 here")


class App:
    """Answers ``ok`` without reading a body; waits for `gate` on /wait."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.answered = asyncio.Event()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        del receive
        if scope["path"] == "/bug":
            raise LookupError("bug")
        if scope["path"] == "/wait":
            self.entered.set()
            await self.gate.wait()
        body = b"x" * LARGE if scope["path"] == "/large" else b"ok"
        length = str(len(body)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})  # waits until enough was read
        self.answered.set()


@asynccontextmanager
async def serving(
    app: App, *, header_timeout_s: float = SOON_S, read_timeout_s: float = SOON_S, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """Serve *app*; give the port."""
    server = HttpServer(app, host, 0, Limits(header_timeout_s=header_timeout_s, read_timeout_s=read_timeout_s))
    port = await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Raw]:
    """Open a socket, for what no client would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(SOON_S):
            yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Read one whole answer of `App`."""
    return await reader.readuntil(b"\r\n\r\nok")


async def closed(reader: asyncio.StreamReader) -> bool:
    """Wait until the other side closes, without another byte."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def test_the_application_is_served() -> None:
    """Answers carry a date and nothing that tells who serves."""
    async with serving(App()) as port, httpx2.AsyncClient(trust_env=False) as http:
        response = await http.get(f"http://127.0.0.1:{port}/")
    assert response.text == "ok"
    assert set(response.headers) == {"date", "content-length"}


@pytest.mark.parametrize(
    ("host", "dialled"),
    [
        pytest.param("::1", "::1", marks=needs_ipv6),
        pytest.param("::", "127.0.0.1", marks=needs_ipv6),
        ("localhost", "127.0.0.1"),
    ],
)
async def test_any_kind_of_address_is_served_c01(host: str, dialled: str) -> None:
    """IPv6, all interfaces of both families, and names."""
    async with serving(App(), host=host) as port:
        reader, writer = await asyncio.open_connection(dialled, port)
        writer.write(REQUEST)
        assert b"200 OK" in await answer(reader)
        writer.close()


async def test_a_body_does_not_wait_for_the_acknowledgement_of_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections inherit from the listener that small writes leave at once."""
    listeners: list[socket.socket] = []
    create = socket.create_server

    def noted(*args: Any, **how: Any) -> socket.socket:
        listeners.append(create(*args, **how))
        return listeners[-1]

    monkeypatch.setattr(socket, "create_server", noted)
    async with serving(App()):
        assert listeners.pop().getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_taken_port_is_an_error_that_names_it() -> None:
    """The process goes on; uvicorn alone would exit it."""
    async with serving(App()) as port:
        second = HttpServer(App(), "127.0.0.1", port)
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use$"):
            await second.start()
        await second.stop(0)


@pytest.mark.parametrize(
    ("host", "shown"), [("203.0.113.1", r"203\.0\.113\.1:80"), ("2001:db8::1", r"\[2001:db8::1\]:80")]
)
async def test_an_address_of_another_machine_is_an_error_that_names_it(host: str, shown: str) -> None:
    """IPv6 is shown as it is configured, in brackets."""
    with pytest.raises(OSError, match=f"cannot listen on {shown}: "):
        await HttpServer(App(), host, 80).start()


async def test_signals_stay_with_the_daemon() -> None:
    """Serving installs no signal handler."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with serving(App()):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_requests_and_nonsense_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Input makes no log lines."""
    with caplog.at_level(logging.DEBUG):
        async with serving(App()) as port, connected(port) as (reader, writer):
            writer.write(REQUEST)
            await answer(reader)
            writer.write(b"nonsense\r\n\r\n")
            assert b"400 Bad Request" in await reader.read()
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


async def test_a_bug_of_the_application_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """500 to the client, the traceback to us."""
    async with serving(App()) as port, httpx2.AsyncClient(trust_env=False) as http:
        response = await http.get(f"http://127.0.0.1:{port}/bug")
    assert response.status_code == 500
    assert [record.levelname for record in caplog.records if record.name == "uvicorn.error"] == ["ERROR"]


@pytest.mark.parametrize(
    "begun", [b"", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "], ids=["none", "crlf", "part"]
)
async def test_a_late_head_closes_the_connection_h15(begun: bytes) -> None:
    """From the moment of connecting, whatever part of it came."""
    async with serving(App(), header_timeout_s=0.2) as port, connected(port) as (reader, writer):
        writer.write(begun)
        assert await closed(reader)


@pytest.mark.parametrize("begun", [b"G", b"\r\n", REQUEST[:-2]], ids=["a byte", "crlf", "all but the end"])
async def test_each_further_head_must_come_in_time_h15(begun: bytes) -> None:
    """A good first request earns no patience for the second."""
    async with serving(App(), header_timeout_s=0.2) as port, connected(port) as (reader, writer):
        writer.write(REQUEST)
        await answer(reader)
        writer.write(begun)
        assert await closed(reader)


async def test_a_head_that_drips_is_cut_all_the_same_h15() -> None:
    """Each new byte buys no more time."""

    async def drip(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.01)

    async with serving(App(), header_timeout_s=0.2) as port, connected(port) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nX: ")
        dripping = asyncio.create_task(drip(writer))
        assert await closed(reader)
        dripping.cancel()


async def test_a_pipelined_head_must_come_in_time_h15() -> None:
    """The part that came with the request before counts as begun."""
    async with serving(App(), header_timeout_s=0.2) as port, connected(port) as (reader, writer):
        writer.write(REQUEST + b"GET /")
        await answer(reader)
        assert await closed(reader)


async def test_a_body_that_was_answered_early_must_end_in_time_h15() -> None:
    """A declared length that never comes does not keep the connection."""
    async with serving(App(), header_timeout_s=0.2) as port, connected(port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nabc")
        await answer(reader)
        assert await closed(reader)


async def test_a_body_that_was_answered_early_may_end() -> None:
    """The client gets its answer and may go on."""
    async with serving(App()) as port, connected(port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n")
        await answer(reader)
        writer.write(bytes(1_000_000) + REQUEST)
        assert b"200 OK" in await answer(reader)


async def test_an_idle_connection_is_kept() -> None:
    """Nothing was begun, so no head is late: exporters come back every few seconds."""
    async with serving(App(), header_timeout_s=0.1) as port, connected(port) as (reader, writer):
        writer.write(REQUEST)
        await answer(reader)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.3)
        writer.write(REQUEST)
        assert b"200 OK" in await answer(reader)


async def test_an_idle_connection_ends_with_keep_alive() -> None:
    """It is closed after its time."""
    server = HttpServer(App(), "127.0.0.1", 0, Limits(keep_alive_s=0))
    async with connected(await server.start()) as (reader, writer):
        writer.write(REQUEST)
        await answer(reader)
        assert await closed(reader)
    await server.stop(0)


async def test_a_request_under_way_has_all_the_time() -> None:
    """The head came; how long the answer takes is not the client's fault."""
    app = App()
    async with serving(app, header_timeout_s=0.1) as port, connected(port) as (reader, writer):
        writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.3)
        app.gate.set()
        assert b"200 OK" in await answer(reader)


async def test_an_endless_head_closes_the_connection() -> None:
    """Nobody makes us hold a head of any size."""
    async with serving(App()) as port, connected(port) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nX: " + bytes(MAX_HEAD_BYTES).replace(b"\0", b"x") * 8)
        assert await closed(reader)


async def test_a_head_may_follow_a_large_body_at_once() -> None:
    """The body of the request before is not taken for the head."""
    body = bytes(4 * MAX_HEAD_BYTES)
    async with serving(App()) as port, connected(port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body + REQUEST[:-2])
        await answer(reader)
        writer.write(b"\r\n")
        assert b"200 OK" in await answer(reader)


async def test_stopping_closes_idle_connections_c15() -> None:
    """It does not wait for clients that ask nothing."""
    server = HttpServer(App(), "127.0.0.1", 0)
    port = await server.start()
    async with connected(port) as (reader, writer):
        writer.write(REQUEST)
        await answer(reader)
        async with asyncio.timeout(SOON_S):
            await server.stop(10 * SOON_S)
        assert await closed(reader)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


async def test_stopping_finishes_requests_under_way_c15() -> None:
    """They get their answers, and are told that the connection ends."""
    app = App()
    server = HttpServer(app, "127.0.0.1", 0)
    async with connected(await server.start()) as (reader, writer):
        writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
        await app.entered.wait()
        stopping = asyncio.create_task(server.stop(10 * SOON_S))
        await asyncio.sleep(0)
        app.gate.set()
        assert b"200 OK" in await answer(reader)
        await stopping


async def test_a_request_that_hangs_is_cut_without_an_answer_c15(caplog: pytest.LogCaptureFixture) -> None:
    """A closed connection is tried again; a 500 would not be."""
    app = App()
    server = HttpServer(app, "127.0.0.1", 0)
    async with connected(await server.start()) as (reader, writer):
        writer.write(b"GET /wait HTTP/1.1\r\n\r\n")
        await app.entered.wait()
        await server.stop(0.1)
        assert await closed(reader)
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


async def test_stopping_what_never_started_is_fine() -> None:
    """So that one way out serves every start that failed halfway."""
    await HttpServer(App(), "127.0.0.1", 0).stop(0)


async def test_a_client_that_does_not_read_is_cut() -> None:
    """An answer that stays unread does not stay in memory."""
    app = App()
    async with serving(app, read_timeout_s=0.2) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(REQUEST.replace(b"GET /", b"GET /large"))
        async with asyncio.timeout(SOON_S):
            await app.answered.wait()
        writer.close()


async def test_a_client_that_reads_slowly_is_served() -> None:
    """The clock runs only while nothing is read."""
    async with serving(App(), read_timeout_s=SOON_S) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST.replace(b"GET /", b"GET /large"))
        await reader.readuntil(b"\r\n\r\n")

        assert len(await reader.readexactly(LARGE)) == LARGE
        writer.close()
