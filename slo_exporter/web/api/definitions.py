"""PUT and DELETE /api/v1/slos/{service}/{slo}: SLOs that no file defines."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fastapi import APIRouter, Depends, HTTPException, Request, Response

from slo_exporter.config import slo_file
from slo_exporter.config.errors import ConfigError
from slo_exporter.web.api import answers, bodies, models, problems
from slo_exporter.web.api.dependencies import (
    FromSources,
    FromWriter,
    known,
    report_of,
    require_known_parameters,
    require_loaded,
    require_writer,
    unavailable,
    warnings_of,
)
from slo_exporter.web.board import FileDefinedError, NotNowError

router = APIRouter(
    prefix="/api/v1/slos",
    tags=["SLOs"],
    dependencies=[Depends(require_writer), Depends(require_loaded), Depends(require_known_parameters)],
)

_ENTRY: Final[dict[str, Any]] = {
    "type": "object",
    "description": (
        "One entry of `slos:` in an SLO file, with the same keys, rules and messages. "
        "A number is read as it is written, so 0.999 is exact."
    ),
    "required": ["objective", "window", "indicator"],
    "properties": {
        "name": {"type": "string", "description": "As in the path; may be left out."},
        "objective": {"type": ["string", "number"], "examples": ["99%", 0.99]},
        "window": {"type": ["string", "object"], "examples": ["30d"]},
        "indicator": {
            "type": "object",
            "required": ["good"],
            "examples": [{"requests": {"model": "llama-3-8b"}, "good": "e2e <= 80ms"}],
        },
        "max_data_age": {"type": "string", "examples": ["15m"]},
    },
}


@router.put(
    "/{service}/{slo}",
    openapi_extra=bodies.described(_ENTRY),
    responses={
        200: {"description": "It was there, and is defined so now."},
        201: {"description": "It is new.", "model": models.SloAnswer},
        **problems.described(401, 403, 404, 408, 409, 413, 422, 500, 503),
    },
)
async def put_slo(
    request: Request, response: Response, sources: FromSources, writer: FromWriter, service: str, slo: str
) -> models.SloAnswer:
    """Define an SLO, or define it anew. The same definition twice changes nothing."""
    body, about = await bodies.read(request), sources.board.about()
    try:
        declared, document = slo_file.from_json(
            body, service=service, name=slo, retention_ns=about.retention_ns, groups=about.gpu_groups
        )
    except ConfigError as error:
        raise bodies.refused(error.problems) from None
    with refusals(service, slo):
        created = await writer.editor.put(declared, document, writer.name)
        response.status_code = 201 if created else 200
        # 404 where somebody retired it since.
        report = report_of(sources, service, slo)
        return answers.slo(report, sources.board.definition(service, slo), warnings_of(sources.board, report.slo))


@router.delete("/{service}/{slo}", status_code=204, responses=problems.described(401, 403, 404, 409, 422, 500, 503))
async def delete_slo(writer: FromWriter, service: str, slo: str) -> None:
    """Retire an SLO that was defined over the API. Its counts are kept; the same indicator revives them."""
    with refusals(service, slo):
        await writer.editor.delete(service, slo, writer.name)


@contextmanager
def refusals(service: str, slo: str) -> Iterator[None]:
    """
    Turn the errors of an `Editor` into answers.

    Raises:
        HTTPException: 404, 409 or 503.
    """
    try:
        with known(service, slo):
            yield
    except FileDefinedError:
        raise HTTPException(
            409, f"a file defines SLO {slo!r} of service {service!r}; change it there, or take it out of the file first"
        ) from None
    except NotNowError as error:
        raise unavailable(f"nothing can be written now: {error.reason}") from None
