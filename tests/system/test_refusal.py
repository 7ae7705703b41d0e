"""A database that is away means refusing politely, not forgetting."""

import sqlite3
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message

import pytest
from otlp_load import SPANS, numbered_export
from server_process import PATIENCE_S, Server


def post(server: Server, number: int) -> tuple[int, Message]:
    """Send a numbered export over HTTP; status and headers of the answer."""
    url = f"http://127.0.0.1:{server.http}/v1/traces"
    headers = {"Content-Type": "application/x-protobuf"}
    request = urllib.request.Request(url, data=numbered_export(number), headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - loopback
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers


def lock(server: Server) -> Callable[[], None]:
    """Another process writes and does not come to an end."""
    other = sqlite3.connect(server.folder / "counts.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def move_away(server: Server) -> Callable[[], None]:
    """Somebody moves the file."""
    here, away = server.folder / "counts.db", server.folder / "away.db"
    here.rename(away)

    def end() -> None:
        away.rename(here)

    return end


@pytest.mark.parametrize("fault", [lock, move_away])
def test_exports_are_refused_and_reads_go_on(server: Server, fault: Callable[[Server], Callable[[], None]]) -> None:
    """503 with a time to try again; budgets with their age; afterwards the exact count."""
    server.start()
    assert post(server, 1)[0] == 200
    end = fault(server)

    status, headers = post(server, 2)
    budget = server.get("/api/v1/slos/chat/latency/budget")

    assert (status, int(headers["Retry-After"]) >= 1) == (503, True)
    assert budget["events"]["total"] == SPANS
    assert server.metric("slo_exporter_ready") == 0
    assert server.metric("slo_exporter_exports_refused_total") >= 1
    end()
    while post(server, 2)[0] == 503:
        server.lives_for(0.05)
    assert post(server, 2)[0] == 200
    assert server.events()["total"] == 2 * SPANS
