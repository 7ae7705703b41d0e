"""GET /api/v1/slos/{service}/{slo}/history: counts and budget over time."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.history import TooManyPointsError, usual_step_s
from slo_exporter.web import wording
from slo_exporter.web.api import answers, instants, models, problems
from slo_exporter.web.api.dependencies import (
    FromSources,
    report_of,
    require_known_parameters,
    require_loaded,
)

router = APIRouter(
    prefix="/api/v1/slos", tags=["SLOs"], dependencies=[Depends(require_loaded), Depends(require_known_parameters)]
)

_From = Annotated[
    str | None,
    Query(
        alias="from",
        description="Start, inclusive: RFC 3339, or seconds since the epoch. Without it, that of the SLO's window.",
        examples=["2026-11-30T12:00:00Z", "1796040000"],
    ),
]
_To = Annotated[str | None, Query(description="End, exclusive, likewise. Without it, now.")]
_Step = Annotated[
    str | None,
    Query(description="Such as 5m, or seconds. Without it, as short as 500 points allow.", examples=["5m", "300"]),
]


@router.get(
    "/{service}/{slo}/history",
    response_model=models.HistoryAnswer,
    responses=problems.described(404, 422, 500, 503),
)
async def get_history(
    sources: FromSources, service: str, slo: str, from_: _From = None, to: _To = None, step: _Step = None
) -> Response:
    """Show an SLO over time. Range and step are widened to the slices that are kept; the answer says to what."""
    report, now_ns = report_of(sources, service, slo), sources.clock.now_ns()
    to_s = report.span.end if to is None else -(-_read(instants.instant_ns, "to", to) // SECOND_NS)
    from_s = (
        to_s - report.slo.window.seconds if from_ is None else _read(instants.instant_ns, "from", from_) // SECOND_NS
    )
    oldest_s = (now_ns - sources.board.about().retention_ns) // SECOND_NS
    _check(from_s, to_s, oldest_s, now_ns)
    from_s = max(from_s, oldest_s)
    step_s = usual_step_s(from_s, to_s) if step is None else _read(instants.step_s, "step", step)
    try:
        shown = sources.board.history(service, slo, from_s, to_s, step_s, now_ns)
    except TooManyPointsError as error:
        raise HTTPException(422, f"step: {error}") from None
    # Many points take a while, and need no loop.
    text = await run_in_threadpool(lambda: answers.history(shown).model_dump_json(by_alias=True))
    return Response(text, media_type="application/json")


def _read(reader: Callable[[str], int], name: str, text: str) -> int:
    try:
        return reader(text)
    except ValueError as error:
        raise HTTPException(422, f"{name}: {error}") from None


def _check(from_s: int, to_s: int, oldest_s: int, now_ns: int) -> None:
    """
    Refuse a range that nothing can be said about.

    Raises:
        HTTPException: 422.
    """
    if from_s >= to_s:
        raise HTTPException(422, "from: must be before to")
    if from_s * SECOND_NS > now_ns:
        raise HTTPException(422, "from: is in the future")
    if to_s <= oldest_s:
        oldest = wording.instant(wording.utc(oldest_s * SECOND_NS))
        raise HTTPException(422, f"to: counts are kept since {oldest} only")
