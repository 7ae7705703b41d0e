"""/healthz, /readyz and /metrics: for the machines that watch this process."""

import gzip
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from slo_exporter.web.api import problems
from slo_exporter.web.api.dependencies import FromSources, Sources, require_ready
from slo_exporter.web.board import Readings
from slo_exporter.web.metrics import exposition, negotiation
from slo_exporter.web.metrics.exposition import Format
from slo_exporter.web.metrics.series import Scrape

router = APIRouter(tags=["Probes"])

_LEVEL: Final = 1
"""The fastest gzip: a tenth of the bytes for a tenth of the time of a scrape."""

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
    return Response(body, headers={**headers, **({"Content-Encoding": "gzip"} if zipped else {})})


def _header(request: Request, name: str) -> str:
    """The header, which may be given in parts."""
    return ",".join(request.headers.getlist(name))


def _body(scrape: Callable[[], Scrape], form: Format, *, zipped: bool) -> bytes:
    text = exposition.write(scrape(), form)
    return gzip.compress(text, _LEVEL, mtime=0) if zipped else text


def _scrape(sources: Sources, readings: Readings, *, ready: bool) -> Scrape:
    board = sources.board
    return Scrape(
        reports=board.reports(sources.clock.now_ns()),
        totals=board.totals(),
        requests=sources.requests.snapshot(),
        readings=readings,
        version=board.about().version,
        ready=ready,
    )
