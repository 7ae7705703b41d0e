"""
Receives exports as the server does, over grpc.aio and our HTTP listener, and answers at once.

What it spends is the floor under any receiver in Python that uses these libraries. It says
its gRPC port and its HTTP port, and runs until it is terminated.
"""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import grpc

from slo_exporter.daemon.http_server import HttpServer
from slo_exporter.ingest.otlp.grpc_server import SERVICE

Message = MutableMapping[str, Any]
MOST_BYTES = 64 << 20


async def export(body: bytes, context: object) -> bytes:
    """Accept everything."""
    del body, context
    return b""


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Read the body and accept it."""
    del scope
    whole, more = io.BytesIO(), True
    while more:
        message = await receive()
        whole.write(message.get("body", b""))
        more = message.get("more_body", False)
    headers = [(b"content-type", b"application/x-protobuf"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def main() -> None:
    """Serve."""
    methods = {"Export": grpc.unary_unary_rpc_method_handler(export)}
    server = grpc.aio.server(
        handlers=[grpc.method_handlers_generic_handler(SERVICE, methods)],
        options=[("grpc.max_receive_message_length", MOST_BYTES), ("grpc.so_reuseport", 0)],
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    http = await HttpServer(app, "127.0.0.1", 0).start()
    sys.stdout.write(f"{port} {http}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
