"""/healthz, /readyz and /metrics: for the machines that watch this process."""

from typing import Any, Final

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse, Response

from slo_exporter.web.api import problems
from slo_exporter.web.api.dependencies import FromSources, Sources, require_ready
from slo_exporter.web.metrics import exposition
from slo_exporter.web.metrics.series import Scrape

router = APIRouter(tags=["Probes"])

_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Prometheus text format 0.0.4.", "content": {"text/plain": {"schema": {"type": "string"}}}}
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


@router.get("/metrics", response_class=Response, responses={**_TEXT, **problems.described(500)})
async def metrics(sources: FromSources) -> Response:
    """Show every series to Prometheus."""
    # Values are taken here, where they change; writing them out may take long and needs no loop.
    text = await run_in_threadpool(exposition.text, _scrape(sources))
    return Response(text, headers={"Content-Type": exposition.CONTENT_TYPE})


def _scrape(sources: Sources) -> Scrape:
    board = sources.board
    return Scrape(
        reports=board.reports(sources.clock.now_ns()),
        totals=board.totals(),
        requests=sources.requests.snapshot(),
        readings=board.readings(),
        version=board.about().version,
        ready=board.not_ready() is None,
    )
