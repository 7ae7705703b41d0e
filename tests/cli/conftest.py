"""The server that the commands ask."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from chat import Serve, Server, app, board
from serving import serving
from starlette.types import ASGIApp


@pytest.fixture(autouse=True)
def no_width_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A width that the test run has in its environment is none of the tests'."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def no_ci_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are the files and the token of the CI system that it runs in."""
    for name in ("GITHUB_ACTIONS", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "SLO_EXPORTER_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start a server on loopback, with SLO_EXPORTER_URL pointing at it."""
    with ExitStack() as running:

        def start(answering: ASGIApp) -> Server:
            server = Server(answering)
            server.url = running.enter_context(serving(server))
            monkeypatch.setenv("SLO_EXPORTER_URL", server.url)
            return server

        yield start


@pytest.fixture
def chat(serve: Serve) -> Server:
    """A server with a healthy, an exhausted and a silent SLO."""
    return serve(app(board("latency", "availability", "silent")))
