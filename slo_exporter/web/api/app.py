"""The application of the web listener."""

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from slo_exporter.clock import Clock
from slo_exporter.web.api import probes, problems, release, slos
from slo_exporter.web.api.dependencies import Sources
from slo_exporter.web.api.middleware import HeadAsGet, SafeHeaders
from slo_exporter.web.board import Board
from slo_exporter.web.metrics.requests import RequestMetrics
from slo_exporter.web.page import route as page

_DESCRIPTION = "SLIs, error budgets and release decisions. Times are RFC 3339 in UTC; undefined numbers are null."


def create(board: Board, requests: RequestMetrics, clock: Clock) -> FastAPI:
    """Make the application that shows *board* and *requests* at the time of *clock*."""
    app = _routes()
    app.state.sources = Sources(board, requests, clock)
    return app


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the API."""
    return _routes().openapi()


def _routes() -> FastAPI:
    app = FastAPI(
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
    for router in (slos.router, release.router, probes.router, page.router):
        app.include_router(router)
    problems.install(app)
    app.add_middleware(HeadAsGet)
    app.add_middleware(SafeHeaders)
    # Routes refer to it by name only; the document is made once and kept.
    app.openapi()["components"]["schemas"]["Problem"] = problems.Problem.model_json_schema()
    return app


def _operation_id(route: APIRoute) -> str:
    return route.name
