"""Start strictly, stop cleanly."""

import signal
import sqlite3
import subprocess
import urllib.error
from pathlib import Path

from server_process import PATIENCE_S, Server


def run(server: Server) -> "subprocess.CompletedProcess[str]":
    """Run it to its end."""
    return subprocess.run(server.command(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_the_start_log_says_what_runs_and_where_to_look(server: Server) -> None:
    """Pipeline, listeners and addresses stand in the first lines."""
    server.start()

    log = "".join(server.log)
    assert "otlp -> sli -> slo -> store -> web" in log
    for port in (server.api, server.grpc, server.http):
        assert f"127.0.0.1:{port}" in log


def test_a_second_server_on_the_database_exits_2_and_says_who(server: Server) -> None:
    """The holder is named, by pid."""
    server.start()
    assert server.process is not None

    second = run(server)

    assert second.returncode == 2
    assert f"pid {server.process.pid} " in second.stderr
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


def test_a_taken_port_exits_2_and_names_it(server: Server) -> None:
    """An address that cannot be bound is one clear line."""
    server.start()
    text = server.config.read_text()
    server.config.write_text(text.replace("counts.db", "other.db"))

    refused = run(server)

    assert refused.returncode == 2
    assert "127.0.0.1:" in refused.stderr


def test_an_idle_server_stops_at_once(server: Server) -> None:
    """SIGTERM without load: exit 0."""
    server.start()

    assert server.terminate() == 0


def test_a_hangup_does_not_end_it(server: Server) -> None:
    """SIGHUP is logged and left for later; the drain is SIGTERM's."""
    server.start()
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)

    server.lives_for(0.3)

    assert server.terminate() == 0
    assert "sighup_ignored" in "".join(server.log)


def test_a_database_locked_at_start_is_waited_for(server: Server) -> None:
    """It starts, says 503, and is ready once the database is there."""
    server.start()
    server.terminate()
    other = sqlite3.connect(server.folder / "counts.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    server.start()
    assert not ready(server)
    assert server.get("/healthz")
    other.close()

    deadline = 100
    while deadline and not ready(server):
        server.lives_for(0.1)
        deadline -= 1
    assert deadline


def ready(server: Server) -> bool:
    """It says that it is ready."""
    try:
        server.get("/readyz")
    except urllib.error.HTTPError as error:
        with error:
            return error.code != 503
    return True


def test_it_listens_on_loopback_only(server: Server) -> None:
    """Every listening socket of the process is on 127.0.0.1."""
    server.start()
    assert server.process is not None
    proc = Path(f"/proc/{server.process.pid}")
    held = [entry.readlink().name for entry in (proc / "fd").iterdir()]
    rows = [row.split() for table in ("tcp", "tcp6") for row in (proc / "net" / table).read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]

    # 127.0.0.1 as the kernel prints it, plain and mapped into IPv6 as gRPC binds it.
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert len(listening) == 3
    assert {address.partition(":")[0] for address in listening} <= loopback
