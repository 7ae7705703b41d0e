"""GET /api/v1/slos and below."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from slo_exporter.slo.report import BudgetReport
from slo_exporter.web.api import answers, models, problems
from slo_exporter.web.api.dependencies import (
    FromSources,
    known,
    report_of,
    require_known_parameters,
    require_loaded,
    warnings_of,
)
from slo_exporter.web.board import Board

MOST_ITEMS: Final = 1000
"""Most SLOs on one page of the list, and as many as there are without a limit."""

router = APIRouter(
    prefix="/api/v1/slos", tags=["SLOs"], dependencies=[Depends(require_loaded), Depends(require_known_parameters)]
)


@router.get("", responses=problems.described(422, 500, 503))
async def list_slos(
    sources: FromSources,
    service: Annotated[str | None, Query(description="Only SLOs of this service.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items of one answer.")] = MOST_ITEMS,
    cursor: Annotated[str | None, Query(description="`next` of the answer before.")] = None,
) -> models.SloList:
    """List the SLOs by service and name."""
    reports = sorted(sources.board.reports(sources.clock.now_ns()), key=lambda report: report.slo.key)
    wanted = [r for r in reports if service in (None, r.slo.service) and _is_after(r, cursor)]
    page = wanted[:limit]
    return models.SloList(
        items=list(_items(sources.board, page)),
        next=_cursor(page[-1]) if len(wanted) > limit else None,
    )


@router.get("/{service}/{slo}", responses=problems.described(404, 422, 500, 503))
async def get_slo(sources: FromSources, service: str, slo: str) -> models.SloAnswer:
    """Give one SLO as it was declared, and its state."""
    report = report_of(sources, service, slo)
    with known(service, slo):
        return answers.slo(report, sources.board.definition(service, slo), warnings_of(sources.board, report.slo))


@router.get("/{service}/{slo}/budget", responses=problems.described(404, 422, 500, 503))
async def get_budget(sources: FromSources, service: str, slo: str) -> models.BudgetAnswer:
    """Give every number of an SLO's error budget."""
    return answers.budget(report_of(sources, service, slo))


def _items(board: Board, reports: Iterable[BudgetReport]) -> Iterator[models.SloItem]:
    """Lines of the list, without an SLO that was retired since its report."""
    for report in reports:
        with suppress(KeyError):
            source = board.definition(*report.slo.key).source
            yield answers.item(report, source, warnings_of(board, report.slo))


def _cursor(report: BudgetReport) -> str:
    # No name contains a slash, and an SLO that goes meanwhile loses no other.
    return "/".join(report.slo.key)


def _is_after(report: BudgetReport, cursor: str | None) -> bool:
    if cursor is None:
        return True
    service, _, slo = cursor.partition("/")
    return report.slo.key > (service, slo)
