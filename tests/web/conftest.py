"""The busy board, and a client of it."""

import pytest
from boards import LedgerBoard
from busy import busy_board, client_of, make_requests, staged
from starlette.testclient import TestClient

from slo_exporter.sli.records import MISSING
from slo_exporter.web.metrics.requests import RequestMetrics


@pytest.fixture
def board() -> LedgerBoard:
    """The busy board."""
    return busy_board()


@pytest.fixture
def client(board: LedgerBoard) -> TestClient:
    """A client of the busy board, with two requests counted, and one that knows its stages."""
    requests = RequestMetrics()
    requests.add(make_requests(["chat", "chat"], ["m", None], [80_000_000, MISSING]))
    requests.add(staged(service="staged"))
    return client_of(board, requests)
