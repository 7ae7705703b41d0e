"""
OTLP over gRPC.

Messages arrive as raw bytes: a generated servicer would answer UNKNOWN for
malformed ones (G06). grpc core itself enforces the size limit, after
decompression too (G04, G05), and knows gzip. ``maximum_concurrent_rpcs`` is
never set: it answers RESOURCE_EXHAUSTED, on which clients drop.
"""

from dataclasses import dataclass
from typing import Final

import grpc

from slo_exporter.ingest.otlp import answers
from slo_exporter.ingest.otlp.errors import ExportError, RefusedError
from slo_exporter.ingest.otlp.receiver import Receiver

SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
"""The one service, with the one method Export; all else is UNIMPLEMENTED."""
_STATUS: Final = {code.value[0]: code for code in grpc.StatusCode}

Context = grpc.aio.ServicerContext[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a connection may take."""

    handshake_s: float = 10
    """A connection that is not HTTP/2 by then is closed."""
    age_s: float = 600
    """
    Then a connection is told to go, and its client makes another. grpc has no
    limit for a message that never becomes whole: this is the only one there is.
    """
    grace_s: float = 30
    """A told connection is closed then, whatever still comes in on it."""


class GrpcServer:
    """
    Listens for OTLP over gRPC.

    Args:
        receiver: takes the exports.
        address: ``host:port``; port 0 lets the system choose.
        max_message_bytes: limit of a message, after decompression.
        patience: how long connections may take.
    """

    def __init__(
        self, receiver: Receiver, address: str, max_message_bytes: int, patience: Patience = Patience()
    ) -> None:
        self._receiver = receiver
        self._address = address
        self._options = _options(max_message_bytes, patience)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> int:
        """
        Listen.

        Returns:
            The bound port.

        Raises:
            OSError: the address cannot be bound.
        """
        methods = {"Export": grpc.unary_unary_rpc_method_handler(self._export)}
        handlers = [grpc.method_handlers_generic_handler(SERVICE, methods)]
        self._server = grpc.aio.server(handlers=handlers, options=self._options)
        try:
            port = self._server.add_insecure_port(self._address)
        except RuntimeError as error:
            await self.stop(0)
            raise OSError(f"cannot listen on {self._address}: in use, or no address of this machine") from error
        await self._server.start()
        return port

    async def stop(self, grace_s: float) -> None:
        """Refuse new exports, give those under way *grace_s* seconds, close."""
        if self._server is not None:
            await self._server.stop(grace_s)

    async def _export(self, body: bytes, context: Context) -> bytes:
        try:
            return await self._receiver.receive(body, "grpc")
        except ExportError as error:
            await context.abort(_STATUS[error.code], str(error), _trailer(error))


def _trailer(error: ExportError) -> tuple[tuple[str, bytes], ...]:
    """Where clients look for details: the Status, and RetryInfo by itself."""
    details = ("grpc-status-details-bin", answers.status(error).SerializeToString())
    if not isinstance(error, RefusedError):
        return (details,)
    return details, ("google.rpc.retryinfo-bin", answers.retry_info(error).SerializeToString())


def _options(max_message_bytes: int, patience: Patience) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        # Without it a second server on the port would silently share it.
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", round(patience.handshake_s * 1000)),
        ("grpc.max_connection_age_ms", round(patience.age_s * 1000)),
        ("grpc.max_connection_age_grace_ms", round(patience.grace_s * 1000)),
        # Every pod keeps a channel and may ping it as often as it likes (G11).
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_ping_strikes", 0),
        # Find pods that went without a word.
        ("grpc.keepalive_time_ms", 120_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    ]
