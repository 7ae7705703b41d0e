"""GET and POST /api/v1/release-check: may we release now?"""

from decimal import Decimal as Number
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response

from slo_exporter.slo import release, releases
from slo_exporter.slo.policy import OnNoData
from slo_exporter.slo.release import Asked, Decision, DecisionMade, Override, ReleaseCheck
from slo_exporter.slo.releases import Expected
from slo_exporter.web.api import answers_release, bodies, lines, problems
from slo_exporter.web.api.definitions import refusals
from slo_exporter.web.api.dependencies import (
    FromSources,
    FromWriterIfNamed,
    Sources,
    Writer,
    reports_of,
    require_known_parameters,
    require_loaded,
    require_writer,
)
from slo_exporter.web.api.models_release import ReleaseAnswer

STATUS: Final = {Decision.ALLOW: 200, Decision.DENY: 412, Decision.UNDECIDED: 503}
"""HTTP status of each decision: a client that knows only statuses decides right."""

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Allowed; with `always200` any decision."},
    412: {"description": "Denied.", "model": ReleaseAnswer},
    **problems.described(404, 422, 500),
    503: {"description": "Undecided, or not ready.", "model": ReleaseAnswer, "content": problems.CONTENT},
}

router = APIRouter(
    prefix="/api/v1", tags=["Release"], dependencies=[Depends(require_loaded), Depends(require_known_parameters)]
)

_Service = Annotated[str, Query(description="Whose release it is.")]
_Slos = Annotated[list[str] | None, Query(description="Only these SLOs; repeatable. Without it, all.")]
_MinRemaining = Annotated[
    float | None,
    Query(
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="Least remaining_ratio that allows a release. Without it, that of the service's policy.",
    ),
]
_MaxBurn = Annotated[
    float | None,
    Query(
        ge=0,
        allow_inf_nan=False,
        description="Largest burn rate of the last hour that allows a release. Without it, that of the policy, if any.",
    ),
]
_OnNoData = Annotated[
    OnNoData | None,
    Query(description="What becomes of no_data, stale and insufficient_data. Without it, by the policy."),
]
_Always200 = Annotated[bool, Query(description="Answer 200 whatever the decision, for Argo Rollouts.")]
_Why = Annotated[
    str | None,
    Query(description="Allow it whatever the budgets say, and why; needs a write token, and is kept under its name."),
]


@router.get("/release-check", response_model=ReleaseAnswer, responses=_RESPONSES)
async def release_check(  # noqa: PLR0913 - one for each parameter
    sources: FromSources,
    service: _Service,
    *,
    slo: _Slos = None,
    min_remaining: _MinRemaining = None,
    max_burn_1h: _MaxBurn = None,
    on_no_data: _OnNoData = None,
    always200: _Always200 = False,
) -> Response:
    """Decide whether the error budgets of a service allow a release."""
    now_ns = sources.clock.now_ns()
    check = release.check(
        reports_of(sources, service, slo or (), now_ns), _asked(min_remaining, max_burn_1h, on_no_data)
    )
    sources.board.checked(check)
    return _response(answers_release.check(check, _expected(sources, check, now_ns)), always200=always200)


@router.post(
    "/release-check",
    response_model=ReleaseAnswer,
    responses={**_RESPONSES, **problems.described(401, 403, 408, 413)},
    # It may be left out.
    openapi_extra={"security": [{}]},
)
async def post_release_check(  # noqa: PLR0913 - one for each parameter
    request: Request,
    sources: FromSources,
    writer: FromWriterIfNamed,
    service: _Service,
    *,
    slo: _Slos = None,
    min_remaining: _MinRemaining = None,
    max_burn_1h: _MaxBurn = None,
    on_no_data: _OnNoData = None,
    override: _Why = None,
    always200: _Always200 = False,
) -> Response:
    """Decide as GET does. With a write token the decision is kept under its name. The body is of no account."""
    wanted = None if override is None else await _override(sources, writer, override)
    await bodies.skip(request)
    now_ns = sources.clock.now_ns()
    reports = reports_of(sources, service, slo or (), now_ns)
    check = release.check(reports, _asked(min_remaining, max_burn_1h, on_no_data), wanted)
    answer = answers_release.check(check, _expected(sources, check, now_ns))
    if writer is not None:
        answer = await _kept(writer, check, answer, now_ns)
    sources.board.checked(check)
    return _response(answer, always200=always200)


def _asked(min_remaining: float | None, max_burn_1h: float | None, on_no_data: OnNoData | None) -> Asked:
    return Asked(_exact(min_remaining), _exact(max_burn_1h), on_no_data)


def _exact(number: float | None) -> Number | None:
    # The shortest text of the float, as it was written: 0.1 is a tenth.
    return None if number is None else Number(repr(number))


async def _override(sources: Sources, writer: Writer | None, why: str) -> Override:
    """
    Who overrides, and why.

    Raises:
        HTTPException: 401 or 403 where nobody is named, 422 without a reason.
    """
    named = writer or await require_writer(sources, None)
    try:
        return Override(named.name, lines.line(why.strip()))
    except ValueError as error:
        raise HTTPException(422, f"override: {error}; write why") from None


def _expected(sources: Sources, check: ReleaseCheck, now_ns: int) -> list[Expected]:
    """What the release may cost the SLOs that were judged."""
    judged = {report.slo.name for report in check.reports}
    past = releases.learnt_from(sources.board.releases(check.reports[0].slo.service), now_ns)
    found = releases.expected([sources.board.costs(one, now_ns) for one in past])
    return [one for one in found if one.slo in judged]


async def _kept(writer: Writer, check: ReleaseCheck, answer: ReleaseAnswer, now_ns: int) -> ReleaseAnswer:
    """The same answer with the number under which it is kept."""
    made = DecisionMade(
        id=0,
        at_ns=now_ns,
        who=writer.name,
        service=answer.service,
        decision=check.decision,
        override=check.override.why if check.override and check.is_overridden else None,
        answer=answer.model_dump_json(by_alias=True),
    )
    with refusals(answer.service, ""):
        kept = await writer.editor.put_decision(made)
    return answer.model_copy(update={"id": kept.id})


def _response(answer: ReleaseAnswer, *, always200: bool) -> Response:
    # Written here: FastAPI would validate every number of it once more.
    text = answer.model_dump_json(by_alias=True)
    return Response(text, 200 if always200 else STATUS[answer.decision], media_type="application/json")
