"""
Bodies of writes: bounded in size and time, strict, and read by the handler.

FastAPI would read a body that it knows of before anybody asked for the token.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from slo_exporter.config.json_text import MOST_BYTES

TIMEOUT_S: Final = 30.0
"""For a whole body: as long as the receiver of exports waits for one. uvicorn would wait for ever."""


async def read(request: Request) -> bytes:
    """
    Read the body of *request*.

    Raises:
        HTTPException: 408 when it is late, 413 when it is too large, 400 when it breaks off.
    """
    return b"".join([chunk async for chunk in _chunks(request)])


async def skip(request: Request) -> None:
    """
    Let the body of *request* pass, and keep nothing of it.

    Raises:
        HTTPException: as `read` does.
    """
    async for _ in _chunks(request):
        pass


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    size = 0
    try:
        async with asyncio.timeout(TIMEOUT_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size > MOST_BYTES:
                    raise HTTPException(413, f"the body has more than {MOST_BYTES} bytes")
                yield chunk
    except TimeoutError:
        late = f"the body was not there within {TIMEOUT_S:g} s"
        raise HTTPException(408, late, {"Connection": "close"}) from None
    except ClientDisconnect:
        raise HTTPException(400, "the body ended before it was whole") from None


def refused(problems: Iterable[str]) -> HTTPException:
    """A body that cannot be used, as a 422."""
    return HTTPException(422, "; ".join(problems))


def described(schema: dict[str, Any]) -> dict[str, Any]:
    """The body of a route, for OpenAPI."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
