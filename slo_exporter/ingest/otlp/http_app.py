"""
OTLP over HTTP: a bare ASGI application for ``POST /v1/traces``.

A request in protobuf is answered in protobuf, one in JSON in JSON (H01, H02).
Errors are google.rpc.Status messages, in JSON to everyone else too (H07). A body
is bounded while it is read (H11) and while it is decompressed (H12).
"""

import asyncio
import io
import math
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from slo_exporter.ingest.otlp import answers
from slo_exporter.ingest.otlp.errors import (
    ExportError,
    LateBodyError,
    MethodError,
    NoSuchPathError,
    RefusedError,
    TooLargeError,
    UnsupportedEncodingError,
    UnsupportedTypeError,
)
from slo_exporter.ingest.otlp.export import Encoding
from slo_exporter.ingest.otlp.in_flight import Lease
from slo_exporter.ingest.otlp.receiver import Receiver

PATH: Final = "/v1/traces"
PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"

_ENCODINGS: Final[Mapping[str, Encoding]] = {PROTOBUF: "protobuf", JSON: "json"}
"""The encoding of each content type that is read."""

_IS_GZIP: Final[Mapping[str, bool]] = {"": False, "identity": False, "gzip": True, "x-gzip": True}
"""Content encodings; x-gzip is gzip (RFC 9110, section 8.4.1.3)."""
_HINTS: Final[Mapping[str, str]] = {
    "/": f"the endpoint lacks its path: POST traces to {PATH} (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is)",
    "/v1/metrics": f"only traces are taken here, by POST to {PATH}; set OTEL_METRICS_EXPORTER=none",
    "/v1/logs": f"only traces are taken here, by POST to {PATH}; set OTEL_LOGS_EXPORTER=none",
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class OtlpHttpApp:
    """
    The ASGI application.

    Args:
        receiver: takes the exports.
        max_message_bytes: limit of a body, as sent and decompressed.
        body_timeout_s: a body that is not complete by then is given up.
    """

    def __init__(self, receiver: Receiver, max_message_bytes: int, *, body_timeout_s: float = 30) -> None:
        self._receiver = receiver
        self._max_bytes = max_message_bytes
        self._body_timeout_s = body_timeout_s
        self._hinted = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; a client that left while sending gets none."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        media_type = _plain_word(headers.get("content-type", ""))
        try:
            answer = await self._export(scope, media_type, headers, receive)
        except ExportError as error:
            await _send(send, _failure(error, media_type))
        else:
            if answer is not None:
                await _send(send, _Reply(200, {"content-type": media_type}, answer))

    def _route(self, method: str, path: str) -> None:
        if path == "/":
            self._hint_once()
        if path != PATH:
            raise NoSuchPathError(_HINTS.get(path, f"nothing is served at this path: POST traces to {PATH}"))
        if method != "POST":
            raise MethodError(f"{PATH} takes POST only")

    def _hint_once(self) -> None:
        """Clients hide this answer behind a bare 404, so we say it too."""
        if not self._hinted:
            self._hinted = True
            _log.warning("otlp_http_path_missing", hint=_HINTS["/"])

    async def _export(
        self, scope: Message, media_type: str, headers: Mapping[str, str], receive: Receive
    ) -> bytes | None:
        with self._receiver.counting_failures("http"):
            self._route(scope["method"], scope["path"])
            encoding = _encoding(media_type)
            is_gzip = _is_gzip(headers.get("content-encoding", ""))
            self._check_size(int(headers.get("content-length", 0)))
            with self._receiver.in_flight.lease() as lease:
                body = await self._body_in_time(receive, lease)
        if body is None:
            return None
        return await self._receiver.receive(body, "http", encoding, gzip_limit=self._max_bytes if is_gzip else None)

    async def _body_in_time(self, receive: Receive, lease: Lease) -> bytes | None:
        try:
            async with asyncio.timeout(self._body_timeout_s):
                return await self._body(receive, lease)
        except TimeoutError:
            raise LateBodyError(f"the body was not complete within {self._body_timeout_s:g} s") from None

    async def _body(self, receive: Receive, lease: Lease) -> bytes | None:
        """Read the body; None when the client left."""
        whole = io.BytesIO()  # its getvalue() copies nothing, unlike a join
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            self._check_size(whole.tell() + len(piece))
            lease.grow(len(piece))
            whole.write(piece)
            if not message.get("more_body", False):
                return whole.getvalue()

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise TooLargeError(f"the body is over {self._max_bytes} bytes")


def _plain_word(header: str) -> str:
    """The value of a header without parameters, in lower case."""
    return header.partition(";")[0].strip().lower()


def _encoding(media_type: str) -> Encoding:
    encoding = _ENCODINGS.get(media_type)
    if encoding is None:
        told = media_type[:100] or "(none)"
        raise UnsupportedTypeError(f"content type {told} is not OTLP: send {PROTOBUF} or {JSON}")
    return encoding


def _is_gzip(encoding: str) -> bool:
    is_gzip = _IS_GZIP.get(encoding.strip().lower())
    if is_gzip is None:
        raise UnsupportedEncodingError(f"content encoding {encoding[:100]} is not read here: send gzip or identity")
    return is_gzip


def _failure(error: ExportError, media_type: str) -> _Reply:
    status, headers = answers.status(error), dict(error.headers)
    if isinstance(error, RefusedError):
        headers["retry-after"] = str(max(1, math.ceil(error.retry_seconds)))
    encoding = _ENCODINGS.get(media_type, "json")
    headers["content-type"] = media_type if media_type in _ENCODINGS else JSON
    return _Reply(error.http, headers, answers.WRITERS[encoding](status))


async def _send(send: Send, reply: _Reply) -> None:
    headers = {**reply.headers, "content-length": str(len(reply.body))}
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": encoded})
    await send({"type": "http.response.body", "body": reply.body})
