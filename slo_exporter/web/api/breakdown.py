"""GET /api/v1/services/{service}/breakdown: where the time of requests goes."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Query
from starlette.concurrency import run_in_threadpool

from slo_exporter.clock import SECOND_NS
from slo_exporter.insight.figures import Dimension, Question
from slo_exporter.insight.stages import LONGEST_S, SHORTEST_S
from slo_exporter.sli.records import View
from slo_exporter.slo.windows import duration_ns
from slo_exporter.web.api import answers, models, problems
from slo_exporter.web.api.dependencies import FromSources, require_known_parameters, require_loaded

router = APIRouter(
    prefix="/api/v1/services",
    tags=["Services"],
    dependencies=[Depends(require_loaded), Depends(require_known_parameters)],
)

_VIEWS: Final = {view.name.lower(): view for view in View}

_Window = Annotated[str, Query(description="How far back, from 5m to 1d.", examples=["1h"])]
_View = Annotated[
    str | None,
    Query(
        description="Who saw the requests: server, gateway or client. Without it server, or the first of the others "
        "that has requests where the server has none; groups by view then show every view.",
        examples=["server"],
    ),
]
_By = Annotated[
    str,
    Query(
        description="Groups too: any of model, view, prompt_tokens and completion_tokens, with commas between.",
        examples=["model,prompt_tokens"],
    ),
]
_Model = Annotated[str | None, Query(description="Only requests of this model; `unknown` where spans name none.")]


# The name of a service is whatever its spans say: it may hold a slash.
@router.get(
    "/{service:path}/breakdown", responses=problems.described(404, 422, 500, 503), response_model_exclude_unset=True
)
async def get_breakdown(
    sources: FromSources,
    service: str,
    window: _Window = "1h",
    view: _View = None,
    by: _By = "",
    model: _Model = None,
) -> models.BreakdownAnswer:
    """Say where the time of a service's requests goes: by stage, the largest share first."""
    question = Question(service=service, window_s=_window_s(window), view=_view(view), model=model, by=_by(by))
    now_ns = sources.clock.now_ns()
    try:
        found = await run_in_threadpool(sources.board.breakdown, question, now_ns)
    except KeyError:
        detail = f"service {service!r} has no SLO, and no request of it came since the start"
        raise HTTPException(404, detail) from None
    return answers.breakdown(found, question, window, sources.board.warnings(service))


def _window_s(text: str) -> int:
    try:
        width_ns = duration_ns(text)
    except ValueError as error:
        raise HTTPException(422, f"window: {error}") from None
    if not SHORTEST_S * SECOND_NS <= width_ns <= LONGEST_S * SECOND_NS:
        raise HTTPException(422, f"window: must be from 5m to 1d, not {text}")
    return width_ns // SECOND_NS


def _view(text: str | None) -> View | None:
    if text is not None and text not in _VIEWS:
        raise HTTPException(422, f"view: {text[:60]!r} is none of {', '.join(_VIEWS)}")
    return None if text is None else _VIEWS[text]


def _by(text: str) -> tuple[Dimension, ...]:
    names = list(dict.fromkeys(text.split(","))) if text else []
    for name in names:
        if name not in set(Dimension):
            raise HTTPException(422, f"by: {name[:60]!r} is none of {', '.join(Dimension)}")
    return tuple(map(Dimension, names))
