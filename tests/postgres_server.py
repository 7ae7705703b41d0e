"""A throw-away PostgreSQL server for tests: as nobody when we are root, on a loopback port of its own."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path

_HOST = "127.0.0.1"


def find() -> Path | None:
    """The newest installed ``pg_ctl``; None where there is none."""
    found = shutil.which("pg_ctl")
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    return packaged[-1] if packaged else Path(found) if found else None


class PostgresServer:
    """
    A server that starts, stops and breaks when told to.

    Args:
        pg_ctl: as `find` gives it; ``initdb`` lies beside it.
    """

    def __init__(self, pg_ctl: Path) -> None:
        self.port = _free_port()
        self._pg_ctl = pg_ctl
        self._home = Path(tempfile.mkdtemp(prefix="slo-exporter-postgres-"))
        self._numbers = count(1)
        if os.geteuid() == 0:
            shutil.chown(self._home, "nobody")
        initdb = pg_ctl.with_name("initdb")
        self._run(initdb, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        self.start()

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = f"-p {self.port} -c listen_addresses={_HOST} -c unix_socket_directories={self._home} -c fsync=off"
        self._run(self._pg_ctl, "-w", "-l", str(self._home / "log"), "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``fast``, or ``immediate`` as in a crash."""
        self._run(self._pg_ctl, "-w", "-m", mode, "stop")

    def remove(self) -> None:
        """Stop it, and delete what it had."""
        self.stop("immediate")
        shutil.rmtree(self._home, ignore_errors=True)

    def new_database(self) -> str:
        """The URL of a fresh, empty database."""
        name = f"counts_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str = "postgres", port: int | None = None) -> str:
        """The URL of a database, through another *port* if given."""
        return f"postgresql+psycopg://postgres@{_HOST}:{port or self.port}/{name}"

    def terminate(self, url: str) -> None:
        """End every session of the database at *url*."""
        self.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_name(url)}'")  # noqa: S608 - ours

    def copy(self, url: str) -> str:
        """Copy the database at *url*, whoever uses it; the name of the copy."""
        name, copy = _name(url), f"counts_{next(self._numbers)}"
        self._close(name)
        self.execute(f"CREATE DATABASE {copy} TEMPLATE {name}")
        self.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        return copy

    def restore(self, url: str, copy: str) -> None:
        """Put *copy* in the place of the database at *url*, as a failover to a replica that lagged does."""
        name = _name(url)
        self._close(name)
        self.execute(f"DROP DATABASE {name}")
        self.execute(f"ALTER DATABASE {copy} RENAME TO {name}")

    def _close(self, name: str) -> None:
        self.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        self.terminate(self.url(name))
        while self.execute(f"SELECT 1 FROM pg_stat_activity WHERE datname = '{name}'"):  # noqa: S608 - ours
            pass

    def execute(self, statement: str, name: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement in a session of its own; its rows, if it has any."""
        import psycopg  # noqa: PLC0415 - most test runs need no server

        url = self.url(name).replace("+psycopg", "")
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: Path, *args: str) -> None:
        as_nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run(
            [program, "-D", self._home / "data", *args],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=50,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": str(self._home), "LC_ALL": "C"},
            **as_nobody,
        )


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as taken:
        return int(taken.getsockname()[1])
