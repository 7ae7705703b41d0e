"""The application of the web listener."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from slo_exporter.clock import Clock
from slo_exporter.web.api import (
    alerts,
    breakdown,
    corrections,
    decisions,
    definitions,
    gpus,
    history,
    probes,
    problems,
    release,
    releases,
    slos,
)
from slo_exporter.web.api.dependencies import Sources
from slo_exporter.web.api.middleware import HeadAsGet, SafeHeaders
from slo_exporter.web.api.tokens import Tokens
from slo_exporter.web.board import Board, Editor, RequestCounts
from slo_exporter.web.page import route as page

_DESCRIPTION = (
    "SLIs, error budgets and release decisions. Times are RFC 3339 in UTC; undefined numbers are null. "
    "Reading is open; writing needs a bearer token."
)


def create(
    board: Board,
    requests: RequestCounts,
    clock: Clock,
    editor: Editor | None = None,
    tokens: Mapping[str, str] = MappingProxyType({}),
) -> FastAPI:
    """
    Make the application of the web listener.

    Args:
        board: what it shows.
        requests: metrics that it shows.
        clock: at which time.
        editor: who carries out writes; without one there are none.
        tokens: who may ask for them: SHA-256 of a token by name. Without one nobody may.
    """
    app = _routes()
    app.state.sources = Sources(board, requests, clock, editor, Tokens(tokens))
    return app


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI document of the API, made once and kept: that takes as long as a sixth of a start."""
    document = FastAPI.openapi(_routes())
    # Routes refer to it by name only.
    document["components"]["schemas"]["Problem"] = problems.Problem.model_json_schema()
    return document


class _Described(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Give the document, which is made when somebody first asks for it."""
        return openapi()


def _routes() -> FastAPI:
    app = _Described(
        title="slo-exporter",
        summary="Error budgets of AI inference and training.",
        description=_DESCRIPTION,
        version="v1",
        # The pages that FastAPI brings load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    routers = (slos, alerts, history, corrections, release, releases, decisions, breakdown, gpus, probes, page)
    for router in (*(module.router for module in routers), definitions.router, corrections.writing, releases.writing):
        app.include_router(router)
    problems.install(app)
    app.add_middleware(HeadAsGet)
    app.add_middleware(SafeHeaders)
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
