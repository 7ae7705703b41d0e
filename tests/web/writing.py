"""A client that may write, and what it writes."""

from hashlib import sha256

from boards import NOW_NS, LedgerBoard
from builders import ManualClock
from starlette.testclient import TestClient

from slo_exporter.web.api.app import create
from slo_exporter.web.metrics.requests import RequestMetrics

TOKENS = {name: sha256(f"{name}-secret".encode()).hexdigest() for name in ("ci", "sre")}
CI = {"Authorization": "Bearer ci-secret"}
ENTRY = {"objective": 0.999, "window": "7d", "indicator": {"requests": {"model": "llama"}, "good": "ttft <= 2s"}}


def writer_of(board: LedgerBoard, tokens: dict[str, str] | None = None) -> TestClient:
    """A client of a server that takes writes with the tokens of ci and sre."""
    app = create(board, RequestMetrics(), ManualClock(NOW_NS), board, TOKENS if tokens is None else tokens)
    return TestClient(app, raise_server_exceptions=False)
