"""
Ready after a restart: a database with a history, until everything is in memory.

    python benchmarks/restart.py [--slos 1000] [--days 30] [--rows 400] [--database URL] [--runs 3]

The database is made first: packed cells of *days* as `tidy` would leave them,
and on top, for every SLO, a row for each of *rows* 5 s slices (300 are 25
minutes, the least that are kept as rows). *Store*: a new process that imports
the store, opens it, declares the SLOs and loads; wall time from its start.
*Ready*: the whole server until /readyz answers 200, its SLO file included.
*Tidy*: 20 calls of a heartbeat on that database, as wall time each.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from rows import Row, table

sys.path.append(str(Path(__file__).parent.parent / "tests" / "system"))

from slo_exporter.sli import condition
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import Window
from slo_exporter.store.database import database_of
from slo_exporter.store.packing import CHUNK_CELLS, chunks_of, folded, pack
from slo_exporter.store.schema import GENERATIONS, PACKED, SLICES, TOTALS, WRITERS
from slo_exporter.store.store import Declaration, Opened, Store
from slo_exporter.store.upserts import put

SECOND_NS = 10**9
DAY_S = 86400


def declarations(slos: int) -> list[Declaration]:
    """So many latency SLOs, each with a threshold of its own; the same that `slo_file` says."""
    window = Window("30d", 30 * DAY_S)
    return [
        Declaration(
            Slo(
                service="chat",
                name=f"latency-{i}",
                objective=Decimal("0.99"),
                window=window,
                indicator=Indicator(Selector("chat"), condition.parse(f"e2e <= {1000 + i}ms")),
            ),
            None,
        )
        for i in range(slos)
    ]


def slo_file(slos: int) -> str:
    """The same as a document."""
    entries = "".join(
        f"  - {{name: latency-{i}, objective: 99%, window: 30d,"
        f" indicator: {{requests: {{}}, good: e2e <= {1000 + i}ms}}}}\n"
        for i in range(slos)
    )
    return f"apiVersion: slo-exporter/v1\nservice: chat\nslos:\n{entries}"


def make(url: str, slos: int, days: int, rows: int) -> None:
    """Write a history that ends now."""
    now_s = time.time_ns() // SECOND_NS // 5 * 5
    store = Store(database_of(url, "the benchmark"))
    store.open((now_s - days * DAY_S) * SECOND_NS)
    store.load(declarations(slos), (now_s - days * DAY_S) * SECOND_NS)
    store.close()
    chance = np.random.default_rng(1)
    packed_s = np.arange(now_s - days * DAY_S, now_s - rows * 5, 5, dtype=np.int64)
    grids, starts = folded(np.full(len(packed_s), 5, dtype=np.int64), packed_s, now_s * SECOND_NS)
    kept = grids > 5  # what is between the last fold and the rows
    cells = np.unique(np.column_stack([grids, starts])[kept], axis=0)
    database = database_of(url, "the benchmark")
    database.open()
    with database.transaction(patience_s=600) as connection:
        writer = connection.execute(sa.select(WRITERS.c.id).where(WRITERS.c.name == "main")).scalar_one()
        for generation, slo in connection.execute(sa.select(GENERATIONS.c.id, GENERATIONS.c.slo_id)).all():
            key = (generation, 0, writer)
            put(connection, PACKED, [(*key, *chunk) for chunk in _chunks(cells, chance)])
            total = chance.integers(0, 1000, rows)
            good = total - chance.integers(0, 10, rows).clip(max=total)
            table = enumerate(zip(good.tolist(), total.tolist(), strict=True))
            put(connection, SLICES, [(*key, now_s - 5 * (n + 1), *counts, 0) for n, counts in table])
            put(connection, TOTALS, [(slo, 0, writer, 1, 2, 3, now_s * SECOND_NS)])
    database.close()


def _chunks(cells: np.ndarray, chance: np.random.Generator) -> Iterator[tuple[int, int, bytes]]:
    grids, starts = cells[:, 0], cells[:, 1]
    chunks = chunks_of(grids, starts)
    for grid, chunk in np.unique(np.column_stack([grids, chunks]), axis=0).tolist():
        inside = (grids == grid) & (chunks == chunk)
        counts = np.zeros((CHUNK_CELLS, 3), dtype=np.int64)
        total = chance.integers(0, 200 * grid // 5, int(inside.sum()))
        counts[(starts[inside] - chunk) // grid] = np.column_stack([total - total // 100, total, total // 50])
        yield int(grid), int(chunk), pack(counts)


def load(url: str, slos: int) -> tuple[Store, Opened]:
    """Open and load."""
    store = Store(database_of(url, "the benchmark"))
    now_ns = time.time_ns()
    store.open(now_ns)
    return store, store.load(declarations(slos), now_ns)


def store_seconds(url: str, slos: int) -> float:
    """Wall time of a new process until it has loaded."""
    started = time.perf_counter()
    script = [sys.executable, __file__, "--database", url, "--slos", str(slos), "--load"]
    subprocess.run(script, check=True)  # noqa: S603 - ourselves
    return time.perf_counter() - started


def ready_seconds(url: str, slos: int, folder: Path) -> float:
    """Wall time of a server until it is ready."""
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    (folder / "slos.yaml").write_text(slo_file(slos))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    listeners = {"listen": f"127.0.0.1:{port}", "otlp": {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0"}}
    (folder / "server.yaml").write_text(json.dumps({**listeners, "database": url, "slo_files": ["slos.yaml"]}))
    started = time.perf_counter()
    command = [sys.executable, "-m", "slo_exporter", "serve", "--config", str(folder / "server.yaml")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:  # noqa: S603 - ourselves
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.01)
            else:
                break
        seconds = time.perf_counter() - started
        assert server.poll() is None, "the server ended"
        server.terminate()
    return seconds


def tidy_ms(url: str, slos: int) -> list[float]:
    """Wall time of calls of `Store.tidy`."""
    store, _ = load(url, slos)
    taken = []
    for _ in range(20):
        started = time.perf_counter()
        store.tidy(time.time_ns(), 100 * DAY_S * SECOND_NS)
        taken.append((time.perf_counter() - started) * 1e3)
    store.close()
    return taken


def size_mib(url: str) -> float:
    """What the database takes on the disk."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return Path(str(parsed.database)).stat().st_size / 2**20
    database = database_of(url, "the benchmark")
    database.open()
    with database.transaction() as connection:
        found = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
    database.close()
    return int(found) / 2**20


def of_history(url: str, folder: Path, history: tuple[int, int, int], runs: int) -> list[Row]:
    """Make a database of so many SLOs, days and rows, and start on it."""
    slos, days, rows = history
    make(url, slos, days, rows)
    name, on_disk = f"{slos} SLOs, {days} days", size_mib(url)
    found = [
        ("loaded", "s", [store_seconds(url, slos) for _ in range(runs)]),
        ("ready", "s", [ready_seconds(url, slos, folder) for _ in range(runs)]),
        ("a housekeeping call", "ms", tidy_ms(url, slos)),
    ]
    return [
        Row(
            bench="restart",
            name=f"{name}: {what}",
            value=statistics.median(taken),
            unit=unit,
            runs=taken,
            parameters={"MiB on disk": on_disk, "most": max(taken)},
        )
        for what, unit, taken in found
    ]


HISTORIES = ((100, 30, 400), (1000, 30, 400), (1000, 100, 400))


def measure(histories: Sequence[tuple[int, int, int]] = HISTORIES, runs: int = 3) -> list[Row]:
    """Each history in a SQLite file of its own."""
    found = []
    for history in histories:
        with tempfile.TemporaryDirectory() as folder:
            found += of_history(f"sqlite:///{folder}/counts.db", Path(folder), history, runs)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slos", type=int, default=1000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows", type=int, default=400, help="5 s rows for each SLO: 300 to 480 as a rule")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--database", help="an empty database; a SQLite file by default")
    parser.add_argument("--load", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        load(args.database, args.slos)
        os._exit(0)  # what follows is no part of the start
    with tempfile.TemporaryDirectory() as folder:
        url = args.database or f"sqlite:///{folder}/counts.db"
        print(table(of_history(url, Path(folder), (args.slos, args.days, args.rows), args.runs)))


if __name__ == "__main__":
    main()
