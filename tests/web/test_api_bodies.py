"""Bodies that do not come: who sends one slowly does not hold a connection for ever."""

import asyncio
import json
import socket
from collections.abc import Iterator, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from boards import LedgerBoard
from serving import serving
from writing import CI, TOKENS, writer_of

from slo_exporter.web.api import bodies

LATE = "the body was not there within 0.05 s"
ROUTES = {
    "a check without a token": ("POST /api/v1/release-check?service=chat", {}),
    "a check with one": ("POST /api/v1/release-check?service=chat", CI),
    "a release": ("POST /api/v1/releases", CI),
    "a definition": ("PUT /api/v1/slos/chat/new", CI),
    "a correction": ("POST /api/v1/slos/chat/latency/corrections", CI),
}
SIZES = {"nothing": b"", "a part": b"x" * 100}


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for half a minute here."""
    monkeypatch.setattr(bodies, "TIMEOUT_S", 0.05)


@pytest.fixture
def address(board: LedgerBoard) -> Iterator[tuple[str, int]]:
    """Where the API listens as it does in the daemon."""
    with serving(writer_of(board, TOKENS).app) as url:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        yield parts.hostname, parts.port


@pytest.mark.parametrize("sent", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("route", "headers"), ROUTES.values(), ids=ROUTES)
def test_a_body_that_stalls_is_answered_and_its_connection_closed(
    address: tuple[str, int], route: str, headers: dict[str, str], sent: bytes
) -> None:
    """408 as a problem, and then the end."""
    head = [f"{route} HTTP/1.1", "Host: x", "Content-Length: 1000", *(f"{key}: {headers[key]}" for key in headers)]
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + sent)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))

    said, _, body = answer.partition(b"\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"content-type: application/problem+json" in said.lower()
    assert json.loads(body)["detail"] == LATE


def test_a_body_that_trickles_is_late_too(board: LedgerBoard) -> None:
    """The deadline is that of the whole body, however often a part of it comes."""
    answered: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": True}

    async def send(message: MutableMapping[str, Any]) -> None:
        answered.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/release-check",
        "query_string": b"service=chat",
        "headers": [],
    }
    asyncio.run(writer_of(board, TOKENS).app(scope, receive, send))
    assert answered[0]["status"] == 408
