"""
Every error as application/problem+json.

Source: RFC 9457, Problem Details for HTTP APIs.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path

from slo_exporter.web.api.middleware import SAFE

MEDIA_TYPE: Final = "application/problem+json"


class Problem(BaseModel):
    """Why a request was not answered."""

    type: Annotated[str, Field(description="Always about:blank: the status code says what kind it is.")] = "about:blank"
    title: str = Field(description="The name of the status code.")
    status: int
    detail: str = Field(description="What failed, on what, and what would be right.")


CONTENT: Final = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
"""How a response description in OpenAPI refers to `Problem`."""


_MEANINGS: Final = {
    401: "The write token is missing or unknown.",
    403: "No write token is configured, so nobody may write.",
    409: "A file defines the SLO; only the file changes it.",
    408: "The body was not there within 30 s; the connection is closed.",
    413: "The body is too large.",
    404: "There is none of that name.",
    422: "A parameter or the body is missing or wrong.",
    500: "The server failed; its log says why.",
    503: "Not ready; Retry-After says when to ask again.",
}
"""For OpenAPI; Python's phrases change from one version to the next."""


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problem responses of a route, for OpenAPI."""
    return {status: {"description": _MEANINGS[status], "content": CONTENT} for status in statuses}


def response(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as a response."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail).model_dump_json()
    return Response(body, status, media_type=MEDIA_TYPE, headers={**SAFE, **(headers or {})})


def install(app: FastAPI) -> None:
    """Make *app* answer every error with a problem."""
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failed)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for nothing else
    # Nobody wrote a detail for these: the router raises them.
    of_router = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} is not possible here"}
    is_default = error.detail == HTTPStatus(error.status_code).phrase
    detail = of_router.get(error.status_code, error.detail) if is_default else error.detail
    methods = _methods(request) if error.status_code == 405 else ()
    return response(error.status_code, detail, {"Allow": ", ".join(methods)} if methods else error.headers)


def _methods(request: Request) -> list[str]:
    """What is possible at a path, by the API's own description: the router names the first route's methods only."""
    described = request.app.openapi()["paths"].items()
    possible = (methods for path, methods in described if compile_path(path)[0].match(request.url.path))
    return sorted(method.upper() for methods in possible for method in methods)


async def _invalid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - it is registered for nothing else
    return response(422, "; ".join(f"{_place(wrong['loc'])}: {wrong['msg']}" for wrong in error.errors()))


def _place(location: tuple[int | str, ...]) -> str:
    """``("query", "limit")`` as ``limit``."""
    return ".".join(str(part) for part in location[1:])


async def _failed(_request: Request, _error: Exception) -> Response:
    # The server logs the traceback; a client learns nothing from it.
    return response(500, "the server failed on this request; its log says why")
