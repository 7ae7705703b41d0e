"""GET and POST /api/v1/releases: what went out, and what it cost."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import json_text, sentences, values
from slo_exporter.config.errors import ConfigError
from slo_exporter.slo.releases import Release
from slo_exporter.web import wording
from slo_exporter.web.api import answers_release, bodies, instants, problems
from slo_exporter.web.api import models_release as models
from slo_exporter.web.api.definitions import refusals
from slo_exporter.web.api.dependencies import (
    FromSources,
    FromWriter,
    reports_of,
    require_known_parameters,
    require_loaded,
    require_writer,
)
from slo_exporter.web.api.lines import line

MOST_ITEMS: Final = 100
"""Most releases on one page: each is charged to every SLO of its service."""
_SHOWN_NS: Final = 1000
"""Answers show times to the microsecond."""
_AHEAD_NS: Final = 60 * SECOND_NS
"""So much faster than ours may the clock of whoever tells be; spans may be as far ahead (docs/laws.md, law 3)."""
LONGEST_VERSION: Final = 128
"""As long as a label may be."""

router = APIRouter(
    prefix="/api/v1/releases",
    tags=["Release"],
    dependencies=[Depends(require_loaded), Depends(require_known_parameters)],
)
writing = APIRouter(
    prefix="/api/v1/releases",
    tags=["Release"],
    dependencies=[Depends(require_writer), Depends(require_loaded), Depends(require_known_parameters)],
)


def _version(plain: object) -> str:
    version = line(plain)
    if len(version) > LONGEST_VERSION:
        raise ValueError(f"is longer than {LONGEST_VERSION} characters")
    return version


def _note(plain: object) -> str:
    return "" if plain == "" else line(plain)


def _instant(plain: object) -> int:
    return instants.rfc_3339_ns(values.text(plain))


_Version = Annotated[str, Field(min_length=1, max_length=LONGEST_VERSION)]
_Line = Annotated[str, Field(min_length=1, max_length=1000)]
_Note = Annotated[str, Field(max_length=1000)]
"""For OpenAPI: what `values.text` takes."""


class ReleaseQuestion(BaseModel):
    """A version that went out."""

    model_config = ConfigDict(extra="forbid")

    service: Annotated[str, PlainValidator(line, json_schema_input_type=_Line)] = Field(
        description="Whose it is; it has an SLO."
    )
    version: Annotated[str, PlainValidator(_version, json_schema_input_type=_Version)] = Field(
        description="1 to 128 printable characters."
    )
    at_ns: Annotated[int | None, PlainValidator(_instant, json_schema_input_type=datetime)] = Field(
        None,
        alias="at",
        description="When it went out: RFC 3339 with a zone, at most a minute ahead, not before the retention. "
        "Without it, now; then whoever repeats it tells of another release.",
    )
    note: Annotated[str, PlainValidator(_note, json_schema_input_type=_Note)] = Field(
        "", description="For whoever reads it later; at most 1000 characters."
    )


@router.get("", responses=problems.described(422, 500, 503))
async def list_releases(
    sources: FromSources,
    service: Annotated[str | None, Query(description="Only releases of this service.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items of one answer.")] = MOST_ITEMS,
    cursor: Annotated[str | None, Query(description="`next` of the answer before.")] = None,
) -> models.ReleaseList:
    """List releases, the newest first, each with the SLO that it cost most."""
    before, now_ns = None if cursor is None else _order(cursor), sources.clock.now_ns()
    wanted = [one for one in sources.board.releases(service) if before is None or one.order < before]
    page = wanted[:limit]
    return models.ReleaseList(
        items=[answers_release.item(one, sources.board.costs(one, now_ns), now_ns) for one in page],
        next="/".join(map(str, page[-1].order)) if len(wanted) > limit else None,
    )


@router.get("/{id}", responses=problems.described(404, 422, 500, 503))
async def get_release(sources: FromSources, id: int) -> models.ReleaseDetail:  # noqa: A002 - its name in the path
    """Give one release, and what it cost each SLO of its service."""
    now_ns = sources.clock.now_ns()
    try:
        release = sources.board.release(id)
    except KeyError:
        raise HTTPException(404, f"there is no release {id}; /api/v1/releases lists what there is") from None
    return answers_release.detail(release, sources.board.costs(release, now_ns), now_ns)


@writing.post(
    "",
    status_code=201,
    openapi_extra=bodies.described(ReleaseQuestion.model_json_schema()),
    responses={
        200: {"description": "It was there: the same version of the service at the same instant."},
        201: {"description": "It is kept.", "model": models.ReleaseDetail},
        **problems.described(401, 403, 404, 408, 413, 422, 500, 503),
    },
)
async def post_release(
    request: Request, response: Response, sources: FromSources, writer: FromWriter
) -> models.ReleaseDetail:
    """Say that a version of a service goes out, or went out; the day after it is charged to it."""
    asked, now_ns = _question(await bodies.read(request)), sources.clock.now_ns()
    reports_of(sources, asked.service, (), now_ns)
    # As an answer shows it: told again, it is the same release.
    at_ns = (now_ns if asked.at_ns is None else asked.at_ns) // _SHOWN_NS * _SHOWN_NS
    if wrong := list(_wrong(at_ns, now_ns, now_ns - sources.board.about().retention_ns)):
        raise bodies.refused(wrong)
    release = Release(
        id=0,
        service=asked.service,
        version=asked.version,
        at_ns=at_ns,
        made_ns=now_ns,
        who=writer.name,
        note=asked.note,
    )
    with refusals(asked.service, ""):
        kept, is_new = await writer.editor.put_release(release)
    response.status_code = 201 if is_new else 200
    return answers_release.detail(kept, sources.board.costs(kept, now_ns), now_ns)


def _question(body: bytes) -> ReleaseQuestion:
    try:
        return ReleaseQuestion.model_validate(json_text.parse(body))
    except ConfigError as error:
        raise bodies.refused(error.problems) from None
    except ValidationError as error:
        raise bodies.refused(sentences.lines(error, ReleaseQuestion)) from None


def _wrong(at_ns: int, now_ns: int, oldest_ns: int) -> Iterator[str]:
    if at_ns > now_ns + _AHEAD_NS:
        yield f"at: is in the future; it is {_shown(now_ns)} now"
    if at_ns < oldest_ns:
        yield f"at: counts are kept since {_shown(oldest_ns)} only"


def _shown(instant_ns: int) -> str:
    return wording.instant(wording.utc(instant_ns))


def _order(cursor: str) -> tuple[int, int]:
    try:
        at_ns, number = map(int, cursor.split("/"))
    except ValueError:
        raise HTTPException(422, "cursor: is not one that an answer gave") from None
    return at_ns, number
