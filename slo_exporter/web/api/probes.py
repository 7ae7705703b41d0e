"""/healthz, /readyz and /metrics: for the machines that watch this process."""

import zlib
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from isal import isal_zlib
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from slo_exporter.web.api import problems
from slo_exporter.web.api.dependencies import FromSources, Sources, require_ready
from slo_exporter.web.board import Readings
from slo_exporter.web.metrics import exposition, negotiation
from slo_exporter.web.metrics.exposition import Format
from slo_exporter.web.metrics.series import Scrape

router = APIRouter(tags=["Probes"])

_LEVEL: Final = 2
"""Of ISA-L: smaller than by zlib's quickest level, in a quarter of its time (benchmarks/scrape.py)."""
_GZIP: Final = 16 + zlib.MAX_WBITS
"""The largest window, in gzip's format."""

_FORMATS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "OpenMetrics 1.0, or the Prometheus text format 0.0.4, by the Accept header.",
        "content": {name: {"schema": {"type": "string"}} for name in ("text/plain", "application/openmetrics-text")},
    }
}


@router.get("/healthz", response_class=PlainTextResponse)
async def healthz() -> str:
    """Answer while the process lives."""
    return "ok\n"


@router.get(
    "/readyz",
    response_class=PlainTextResponse,
    responses=problems.described(503),
    dependencies=[Depends(require_ready)],
)
async def readyz() -> str:
    """Answer while exports are accepted and questions answered."""
    return "ready\n"


@router.get("/metrics", response_class=Response, responses={**_FORMATS, **problems.described(500)})
async def metrics(request: Request, sources: FromSources) -> Response:
    """Show every series to Prometheus, in the format that it asks for."""
    choice = negotiation.choose(_header(request, "accept"))
    zipped = negotiation.takes_gzip(_header(request, "accept-encoding"))
    # The readings change on this loop and are taken on it; what takes long needs no loop.
    scrape = partial(_scrape, sources, sources.board.readings(), ready=sources.board.not_ready() is None)
    body = await run_in_threadpool(_body, scrape, choice.form, zipped=zipped)
    headers = {"Content-Type": choice.content_type, "Vary": "Accept, Accept-Encoding"}
    headers["Content-Length"] = str(sum(map(len, body)))
    return StreamingResponse(_sent(body), headers={**headers, **({"Content-Encoding": "gzip"} if zipped else {})})


def _header(request: Request, name: str) -> str:
    """The header, which may be given in parts."""
    return ",".join(request.headers.getlist(name))


def _body(scrape: Callable[[], Scrape], form: Format, *, zipped: bool) -> list[bytes]:
    """In pieces: nobody has to hold the interpreter for the whole, be it to make it or to hand it on."""
    pieces = exposition.pieces(scrape(), form)
    return list(_compressed(pieces) if zipped else pieces)


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    member = isal_zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for piece in pieces:
        if compressed := member.compress(piece):
            yield compressed
    yield member.flush()


async def _sent(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await sleep(0)  # a socket that takes everything at once would leave the loop no turn


def _scrape(sources: Sources, readings: Readings, *, ready: bool) -> Scrape:
    board = sources.board
    return Scrape(
        standing=board.standing(sources.clock.now_ns()),
        requests=sources.requests.snapshot(),
        readings=readings,
        version=board.about().version,
        ready=ready,
    )
