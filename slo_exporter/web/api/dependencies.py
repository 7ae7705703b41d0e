"""
What a handler is given: where its numbers come from, or why there is no answer.

Reads need counts in memory, be they of a while ago; readiness needs a store
that takes more.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final, get_args, get_origin

from fastapi import Depends, HTTPException, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from slo_exporter.clock import Clock
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.records import View
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.report import BudgetReport
from slo_exporter.web.api.tokens import Tokens
from slo_exporter.web.board import UNREAL_SOURCES, About, Board, Editor, RequestCounts
from slo_exporter.web.wording import UNREAL, groupless

RETRY_SECONDS: Final = 5
"""A load or a reconnect takes seconds; a probe's usual period is no longer."""

_NO_WRITES: Final = (
    "this server takes no writes: it has no write token; "
    "put the SHA-256 of one under write_tokens in its configuration, by the name of whose it is"
)
_BEARER: Final = HTTPBearer(
    scheme_name="writeToken",
    description="A token whose SHA-256 stands under `write_tokens` in the server's configuration.",
    auto_error=False,
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the numbers come from, the time, and who may change what."""

    board: Board
    requests: RequestCounts
    clock: Clock
    editor: Editor | None
    """None where nobody may write."""
    tokens: Tokens


async def _sources(request: Request) -> Sources:
    sources: Sources = request.app.state.sources
    return sources


@dataclass(frozen=True, slots=True)
class Writer:
    """Somebody who may write."""

    name: str
    """Of the write token: the audited "who"."""
    editor: Editor


FromSources = Annotated[Sources, Depends(_sources)]
"""Type of a handler's argument that is the application's `Sources`."""


async def require_writer(
    sources: FromSources, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
) -> Writer:
    """
    Let a write pass only with a known token.

    Raises:
        HTTPException: 403 where nobody may write, 401 without a token that is known.
    """
    if sources.editor is None or not sources.tokens:
        raise HTTPException(403, _NO_WRITES)
    if credentials is None or not credentials.credentials:
        raise _unauthorized("a write needs a token: send the header Authorization: Bearer TOKEN", "Bearer")
    name = sources.tokens.name_of(credentials.credentials)
    if name is None:
        raise _unauthorized("this server does not know the token", 'Bearer error="invalid_token"')
    return Writer(name, sources.editor)


def _unauthorized(detail: str, challenge: str) -> HTTPException:
    return HTTPException(401, detail, {"WWW-Authenticate": challenge})


async def _writer_if_named(
    request: Request,
    sources: FromSources,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
) -> Writer | None:
    """
    Whose token it is; None where the request has no Authorization at all.

    Raises:
        HTTPException: as `require_writer` does, for a token that is not known, and for a header without a token:
            whoever sends one means to be known.
    """
    return await require_writer(sources, credentials) if "authorization" in request.headers else None


FromWriterIfNamed = Annotated[Writer | None, Depends(_writer_if_named)]
"""Type of a handler's argument that is the `Writer` of the request, None where nobody says who asks."""
FromWriter = Annotated[Writer, Depends(require_writer)]
"""Type of a handler's argument that is the `Writer` of the request."""


async def require_loaded(sources: FromSources) -> None:
    """
    Let a question pass only when the counts are in memory.

    Raises:
        HTTPException: 503 with Retry-After; the detail says why.
    """
    if not sources.board.is_loaded():
        raise unavailable(f"the counts are not loaded: {sources.board.not_ready() or 'starting'}")


async def require_ready(sources: FromSources) -> None:
    """
    Let a probe pass only while exports are accepted.

    Raises:
        HTTPException: 503 with Retry-After; the detail says why.
    """
    reason = sources.board.not_ready()
    if reason is not None:
        raise unavailable(f"not ready: {reason}")


async def require_known_parameters(request: Request) -> None:
    """
    Let a request pass only when every query parameter means something: a typo decides nothing.

    One that stands twice does not, but where it takes several values.

    Raises:
        HTTPException: 422 that names the parameter and what there is.
    """
    fields = request.scope["route"].dependant.query_params
    known = {field.alias for field in fields}
    unknown = sorted(set(request.query_params) - known)
    if unknown:
        taken = ", ".join(sorted(known)) or "none"
        raise HTTPException(422, f"unknown parameter {unknown[0]!r}; parameters are: {taken}")
    for name in sorted(field.alias for field in fields if not _takes_several(field.field_info.annotation)):
        if len(request.query_params.getlist(name)) > 1:
            raise HTTPException(422, f"parameter {name!r} stands more than once; it takes one value")


def _takes_several(annotation: object) -> bool:
    """A list, or one that may be left out."""
    return any(get_origin(each) is list for each in (annotation, *get_args(annotation)))


def report_of(sources: Sources, service: str, slo: str) -> BudgetReport:
    """
    Report on one SLO.

    Raises:
        HTTPException: 404 if there is none of that name.
    """
    return _report(sources, service, slo, sources.clock.now_ns())


def reports_of(sources: Sources, service: str, slos: Sequence[str], now_ns: int) -> list[BudgetReport]:
    """
    Report on the SLOs of a service, or on those named in *slos*, all at one instant.

    Raises:
        HTTPException: 404 if the service or one of the SLOs is unknown.
    """
    if slos:
        return [_report(sources, service, slo, now_ns) for slo in dict.fromkeys(slos)]
    reports = list(sources.board.reports(now_ns, service))
    if not reports:
        raise unknown_service(service)
    return reports


def _report(sources: Sources, service: str, slo: str, now_ns: int) -> BudgetReport:
    with known(service, slo):
        return sources.board.report(service, slo, now_ns)


@contextmanager
def known(service: str, slo: str) -> Iterator[None]:
    """
    Turn the `KeyError` of a board or an editor into an answer.

    Raises:
        HTTPException: 404.
    """
    try:
        yield
    except KeyError:
        raise _unknown(f"service {service!r} has no SLO {slo!r}") from None


def unknown_service(service: str) -> HTTPException:
    """A 404: the service has no SLO."""
    return _unknown(f"service {service!r} has no SLO")


def _unknown(what: str) -> HTTPException:
    return HTTPException(404, f"{what}; /api/v1/slos lists what there is")


def unavailable(detail: str) -> HTTPException:
    """A 503 that says when to ask again."""
    return HTTPException(503, detail, {"Retry-After": str(RETRY_SECONDS)})


def warnings_of(board: Board, slo: Slo) -> Sequence[str]:
    """What to know about the numbers of an SLO; failures are seen where HTTP spans are what it counts."""
    selector = slo.indicator.selector
    if isinstance(selector, GpuSelector):
        return tuple(_of_gpus(board.about(), selector))
    return () if selector.view is not View.SERVER or selector.names_http else board.warnings(selector.service)


def _of_gpus(about: About, selector: GpuSelector) -> Iterator[str]:
    if about.gpu_source in UNREAL_SOURCES:
        yield UNREAL
    if about.gpu_groups is not None:
        # Its group was there when it was made over the API; the settings changed since.
        named = (text for key, texts in selector.matches if key == "group" for text in texts)
        yield from (groupless(group) for group in named if group not in about.gpu_groups)
