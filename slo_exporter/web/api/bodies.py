"""
Bodies of writes: bounded, strict, and read by the handler.

FastAPI would read a body that it knows of before anybody asked for the token.
"""

from collections.abc import Iterable
from typing import Any

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from slo_exporter.config.json_text import MOST_BYTES


async def read(request: Request) -> bytes:
    """
    Read the body of *request*.

    Raises:
        HTTPException: 413 when it is too large.
    """
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                raise HTTPException(413, f"the body has more than {MOST_BYTES} bytes")
    except ClientDisconnect:
        raise HTTPException(400, "the body ended before it was whole") from None
    return bytes(body)


def refused(problems: Iterable[str]) -> HTTPException:
    """A body that cannot be used, as a 422."""
    return HTTPException(422, "; ".join(problems))


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """The body of a route, for OpenAPI."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
