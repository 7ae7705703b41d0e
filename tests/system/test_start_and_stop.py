"""Start strictly, stop cleanly."""

import signal
import sqlite3
import subprocess
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_process import MADE, PATIENCE_S, SLOS, Server


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that tests only look at."""
    one = Server(tmp_path_factory.mktemp("running"))
    try:
        yield one.start()
    finally:
        one.kill()


def run(server: Server) -> "subprocess.CompletedProcess[str]":
    """Run it to its end."""
    return subprocess.run(server.command(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_the_start_log_says_what_runs_and_where_to_look(running: Server) -> None:
    """Pipeline, listeners and addresses stand in the first lines."""
    log = "".join(running.log)
    assert "otlp -> sli -> slo -> store -> web" in log
    for port in (running.api, running.grpc, running.http):
        assert f"127.0.0.1:{port}" in log


def test_a_second_server_on_the_database_exits_2_and_says_who(running: Server) -> None:
    """The holder is named, by pid."""
    assert running.process is not None

    second = run(running)

    assert second.returncode == 2
    assert f"pid {running.process.pid} " in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1


def test_a_newer_schema_exits_2(server: Server) -> None:
    """A database of a newer program is left alone."""
    server.start()
    server.terminate()
    connection = sqlite3.connect(server.folder / "counts.db")
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()

    refused = run(server)

    assert refused.returncode == 2
    assert "newer slo-exporter" in refused.stderr


def test_a_taken_port_exits_2_and_names_it(running: Server, tmp_path: Path) -> None:
    """An address that cannot be bound is one clear line."""
    refused = run(Server(tmp_path, api=running.api, grpc=running.grpc, http=running.http))

    assert refused.returncode == 2
    assert "127.0.0.1:" in refused.stderr


def test_an_idle_server_stops_at_once(server: Server) -> None:
    """SIGTERM without load: exit 0."""
    server.start()

    assert server.terminate() == 0


def test_a_hangup_reads_the_slo_files_again(server: Server) -> None:
    """What a file says now is counted from now on."""
    server.start()
    server.slos.write_text(SLOS.replace("name: each-10s", "name: every-10s"))

    server.signal(signal.SIGHUP)
    server.says("reloaded")

    assert [slo["slo"] for slo in server.get("/api/v1/slos")["items"]] == ["every-10s", "latency"]
    assert server.metric("slo_exporter_reloads_total") == 1
    assert server.terminate() == 0


def test_a_hangup_with_a_broken_file_changes_nothing(server: Server) -> None:
    """All or nothing: the old SLOs stay, and the log names file and field."""
    server.start()
    server.slos.write_text(SLOS.replace("95%", "195%").replace("name: latency", "name: other"))

    server.signal(signal.SIGHUP)
    server.says("reload_refused")

    assert [slo["slo"] for slo in server.get("/api/v1/slos")["items"]] == ["each-10s", "latency"]
    assert any("slos.yaml" in line and "objective" in line for line in server.log)


def test_a_file_takes_over_a_name_of_the_api(server: Server) -> None:
    """From then on the API may not change it; taken out of the file again, the API's definition is back."""
    server.start()
    server.write("PUT", "/api/v1/slos/chat/made", MADE)
    in_file = SLOS + "  - {name: made, objective: 90%, window: 7d, indicator: {requests: {}, good: outcome == ok}}\n"
    server.slos.write_text(in_file)
    server.signal(signal.SIGHUP)
    server.says("reloaded")

    assert server.get("/api/v1/slos/chat/made")["objective"] == "0.9"
    with pytest.raises(urllib.error.HTTPError, match="409"):
        server.write("PUT", "/api/v1/slos/chat/made", MADE)

    server.log.clear()
    server.slos.write_text(SLOS)
    server.signal(signal.SIGHUP)
    server.says("reloaded")
    assert server.get("/api/v1/slos/chat/made")["objective"] == "0.99"


def test_a_database_locked_at_start_is_waited_for(server: Server) -> None:
    """It starts, says 503, and is ready once the database is there."""
    server.start()
    server.terminate()
    other = sqlite3.connect(server.folder / "counts.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    server.start()
    assert not server.is_ready()
    assert server.get("/healthz")
    other.close()

    server.becomes_ready()


def test_it_listens_on_loopback_only(running: Server) -> None:
    """Every listening socket of the process is on 127.0.0.1."""
    assert running.process is not None
    proc = Path(f"/proc/{running.process.pid}")
    held = [entry.readlink().name for entry in (proc / "fd").iterdir()]
    rows = [row.split() for table in ("tcp", "tcp6") for row in (proc / "net" / table).read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]

    # 127.0.0.1 as the kernel prints it, plain and mapped into IPv6 as gRPC binds it.
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert len(listening) == 3
    assert {address.partition(":")[0] for address in listening} <= loopback
