"""GET /api/v1/decisions: what was decided, by whom, and from what."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Query

from slo_exporter.web.api import answers_release, problems
from slo_exporter.web.api import models_release as models
from slo_exporter.web.api.dependencies import FromSources, require_known_parameters, require_loaded

MOST_ITEMS: Final = 500
"""Most decisions on one page: as many as are in memory."""

router = APIRouter(
    prefix="/api/v1/decisions",
    tags=["Release"],
    dependencies=[Depends(require_loaded), Depends(require_known_parameters)],
)


@router.get("", responses=problems.described(422, 500, 503))
async def list_decisions(
    sources: FromSources,
    service: Annotated[str | None, Query(description="Only decisions over this service.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items of one answer.")] = MOST_ITEMS,
    cursor: Annotated[int | None, Query(description="`next` of the answer before.")] = None,
) -> models.DecisionList:
    """List the decisions of release checks with a token, the newest first."""
    wanted = [one for one in sources.board.decisions(service) if cursor is None or one.id < cursor]
    page = wanted[:limit]
    return models.DecisionList(
        items=[answers_release.decision_item(one) for one in page],
        next=str(page[-1].id) if len(wanted) > limit else None,
    )


@router.get("/{id}", responses=problems.described(404, 422, 500, 503))
async def get_decision(sources: FromSources, id: int) -> models.DecisionAnswer:  # noqa: A002 - its name in the path
    """Give one decision with its inputs: what the release check answered then."""
    try:
        return answers_release.decision(sources.board.decision(id))
    except KeyError:
        raise HTTPException(404, f"there is no decision {id}; /api/v1/decisions lists what there is") from None
