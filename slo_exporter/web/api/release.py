"""GET and POST /api/v1/release-check: may we release now?"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Response

from slo_exporter.slo import release
from slo_exporter.slo.release import Decision
from slo_exporter.web.api import answers, models, problems
from slo_exporter.web.api.dependencies import FromSources, reports_of, require_known_parameters, require_loaded

STATUS: Final = {Decision.ALLOW: 200, Decision.DENY: 412, Decision.UNDECIDED: 503}
"""HTTP status of each decision: a client that knows only statuses decides right."""

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Allowed; with `always200` any decision."},
    412: {"description": "Denied.", "model": models.ReleaseAnswer},
    **problems.described(404, 422, 500),
    503: {"description": "Undecided, or not ready.", "model": models.ReleaseAnswer, "content": problems.CONTENT},
}

router = APIRouter(
    prefix="/api/v1", tags=["Release"], dependencies=[Depends(require_loaded), Depends(require_known_parameters)]
)


@router.get("/release-check", responses=_RESPONSES)
@router.post("/release-check", name="post_release_check", responses=_RESPONSES)
async def release_check(
    response: Response,
    sources: FromSources,
    service: Annotated[str, Query(description="Whose release it is.")],
    slo: Annotated[list[str] | None, Query(description="Only these SLOs; repeatable. Without it, all.")] = None,
    min_remaining: Annotated[
        float, Query(allow_inf_nan=False, description="Least remaining_ratio that allows a release.")
    ] = 0.0,
    *,
    always200: Annotated[bool, Query(description="Answer 200 whatever the decision, for Argo Rollouts.")] = False,
) -> models.ReleaseAnswer:
    """Decide whether the error budgets of a service allow a release."""
    check = release.check(reports_of(sources, service, slo or ()), min_remaining)
    response.status_code = 200 if always200 else STATUS[check.decision]
    return answers.release(check)
