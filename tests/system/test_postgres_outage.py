"""PostgreSQL goes away under load: exports are refused, nothing is lost, and it comes back by itself."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from otlp_load import SLOW, SPANS, Load
from postgres_server import PostgresServer
from server_process import PATIENCE_S, Server


@pytest.fixture
def server(tmp_path: Path, postgres: PostgresServer) -> Iterator[Server]:
    """A server on a PostgreSQL database of its own."""
    one = Server(tmp_path, database=postgres.new_database())
    yield one
    one.kill()


def exactly(load: Load) -> dict[str, int]:
    """What must have been counted once every export was acknowledged."""
    good, bad = load.sent * (SPANS - SLOW), load.sent * SLOW
    return {"good": good, "bad": bad, "total": good + bad, "excluded": 0}


def test_a_database_server_that_restarts_loses_and_doubles_nothing(server: Server, postgres: PostgresServer) -> None:
    """Reads go on meanwhile, readiness says no, and every acknowledged export counts once."""
    server.start()
    with Load(server.grpc) as load:
        load.has_acknowledged(20)
        postgres.stop("immediate")
        while server.is_ready():
            server.lives_for(0.05)
        during = server.events()
        postgres.start()
        server.becomes_ready()
        load.has_acknowledged(load.acknowledged + 20)

    assert during["total"] >= 20 * SPANS
    assert server.events() == exactly(load)
    assert any("database_available" in line for line in server.log)


def test_a_session_that_is_terminated_is_begun_anew(server: Server, postgres: PostgresServer) -> None:
    """Whatever the session was doing: in a transaction, in COMMIT or idle."""
    server.start()
    with Load(server.grpc) as load:
        for _ in range(5):
            load.has_acknowledged(load.acknowledged + 3)
            postgres.terminate(server.database)
        load.has_acknowledged(load.acknowledged + 3)

    assert server.events() == exactly(load)


def test_a_second_server_on_the_database_exits_2_and_says_who(server: Server) -> None:
    """The lock is the database's own: another machine's server is seen too."""
    server.start()
    assert server.process is not None
    other = Server(server.folder, database=server.database)

    refused = subprocess.run(other.command(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert refused.returncode == 2
    assert f"pid {server.process.pid}" in refused.stderr


def test_an_older_state_of_the_database_is_what_counts_go_on_from(server: Server, postgres: PostgresServer) -> None:
    """After a failover that lost commits the server tells SQL's story, not its own, and goes on."""
    server.start()
    with Load(server.grpc) as load:
        load.has_acknowledged(5)
    kept = load.sent
    copy = postgres.copy(server.database)
    with Load(server.grpc, first=1000) as lost:
        lost.has_acknowledged(5)

    postgres.restore(server.database, copy)
    with Load(server.grpc, first=2000) as after:
        after.has_acknowledged(5)

    assert server.events()["total"] == (kept + after.sent) * SPANS
