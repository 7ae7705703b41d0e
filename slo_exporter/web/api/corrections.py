"""GET and POST /api/v1/slos/{service}/{slo}/corrections: ranges whose events do not count."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from slo_exporter.config import json_text, sentences, values
from slo_exporter.config.errors import ConfigError
from slo_exporter.web import wording
from slo_exporter.web.api import answers, bodies, instants, models, problems
from slo_exporter.web.api.definitions import refusals
from slo_exporter.web.api.dependencies import (
    FromSources,
    FromWriter,
    known,
    report_of,
    require_known_parameters,
    require_loaded,
    require_writer,
)

MOST_ITEMS: Final = 1000
"""Most corrections on one page."""

router = APIRouter(
    prefix="/api/v1/slos",
    tags=["Corrections"],
    dependencies=[Depends(require_loaded), Depends(require_known_parameters)],
)
writing = APIRouter(
    prefix="/api/v1/slos",
    tags=["Corrections"],
    dependencies=[Depends(require_writer), Depends(require_loaded), Depends(require_known_parameters)],
)


_Why = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"\S")]
"""For OpenAPI: what `values.text` takes."""


def _instant(plain: object) -> int:
    return instants.rfc_3339_ns(values.text(plain))


class CorrectionQuestion(BaseModel):
    """A range of time whose events shall not count."""

    model_config = ConfigDict(extra="forbid")

    from_ns: Annotated[int, PlainValidator(_instant, json_schema_input_type=datetime)] = Field(
        alias="from", description="Start, inclusive: RFC 3339 with a zone; not before the retention."
    )
    to_ns: Annotated[int, PlainValidator(_instant, json_schema_input_type=datetime)] = Field(
        alias="to", description="End, exclusive; not in the future."
    )
    why: Annotated[str, PlainValidator(values.text, json_schema_input_type=_Why)] = Field(
        description="For whoever reads it later; 1 to 1000 characters."
    )


@router.get("/{service}/{slo}/corrections", responses=problems.described(404, 422, 500, 503))
async def list_corrections(
    sources: FromSources,
    service: str,
    slo: str,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items of one answer.")] = MOST_ITEMS,
    cursor: Annotated[str | None, Query(description="`next` of the answer before.")] = None,
) -> models.CorrectionList:
    """List the corrections of an SLO in the order in which they were made."""
    after = (-1, -1) if cursor is None else _key(cursor)
    with known(service, slo):
        made = sources.board.corrections(service, slo)
    # The place tells those of one instant apart; the instant goes on where old ones were forgotten meanwhile.
    placed = sorted(((one.made_ns, place), one) for place, one in enumerate(made))
    wanted = [(key, one) for key, one in placed if key > after]
    page = wanted[:limit]
    return models.CorrectionList(
        items=[answers.correction_item(one) for _, one in page],
        next="/".join(map(str, page[-1][0])) if len(wanted) > limit else None,
    )


@writing.post(
    "/{service}/{slo}/corrections",
    status_code=201,
    openapi_extra=bodies.described(CorrectionQuestion.model_json_schema()),
    responses={
        201: {"description": "Made: the events of the range are excluded, those that come later included."},
        **problems.described(401, 403, 404, 408, 413, 422, 500, 503),
    },
)
async def post_correction(
    request: Request, sources: FromSources, writer: FromWriter, service: str, slo: str
) -> models.CorrectionAnswer:
    """Exclude the events of a range from an SLO. The range is widened to whole slices; the answer says to what."""
    report_of(sources, service, slo)
    asked = _question(await bodies.read(request))
    now_ns = sources.clock.now_ns()
    if wrong := list(_wrong(asked, now_ns, now_ns - sources.board.about().retention_ns)):
        raise bodies.refused(wrong)
    with refusals(service, slo):
        made = await writer.editor.correct(service, slo, asked.from_ns, asked.to_ns, asked.why, writer.name)
    return answers.correction(made)


def _question(body: bytes) -> CorrectionQuestion:
    try:
        return CorrectionQuestion.model_validate(json_text.parse(body))
    except ConfigError as error:
        raise bodies.refused(error.problems) from None
    except ValidationError as error:
        raise bodies.refused(sentences.lines(error, CorrectionQuestion)) from None


def _wrong(asked: CorrectionQuestion, now_ns: int, oldest_ns: int) -> Iterator[str]:
    if asked.from_ns >= asked.to_ns:
        yield "from: must be before to"
    if asked.to_ns > now_ns:
        yield f"to: is in the future; it is {_shown(now_ns)} now"
    if asked.from_ns < oldest_ns:
        yield f"from: counts are kept since {_shown(oldest_ns)} only"


def _shown(instant_ns: int) -> str:
    return wording.instant(wording.utc(instant_ns))


def _key(cursor: str) -> tuple[int, int]:
    try:
        made_ns, place = map(int, cursor.split("/"))
    except ValueError:
        raise HTTPException(422, "cursor: is not one that an answer gave") from None
    return made_ns, place
