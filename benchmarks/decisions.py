"""
How soon a question is answered: release-check, `check`, and what judging alerts costs.

    python benchmarks/decisions.py [--slos 1000] [--rounds 200]

A server of its own, on SQLite and loopback, with so many SLOs, ten a service. One of the
services has traffic. *GET*, *POST*: release-check of that service, without and with a
token, the latter keeping each decision in SQL. *check*: the command, from its start to
its end, on the file of all SLOs. Wall time of all of them. *Judge*: one heartbeat's look
at the alerts of every SLO, calm and with every alert about to fire; CPU time.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "tests"))
sys.path.append(str(Path(__file__).parent.parent / "tests" / "system"))
from builders import slo
from otlp_load import Load
from rows import Row, table
from server_process import Server

from slo_exporter.slo.alert_book import AlertBook
from slo_exporter.slo.windows import BURN_WINDOWS

OF_A_SERVICE = 10
CHECKS = 5


def slo_file(slos: int) -> str:
    """A document a service, ten SLOs each; the first service is the one that the load is of."""
    return "---\n".join(
        "apiVersion: slo-exporter/v1\n"
        f"service: {'chat' if start == 0 else f'other-{start}'}\n"
        "slos:\n"
        + "".join(
            f"  - name: latency-{number}\n    objective: 99%\n    window: 30d\n"
            f"    indicator: {{requests: {{}}, good: e2e <= {80 + number}ms}}\n"
            for number in range(start, min(start + OF_A_SERVICE, slos))
        )
        for start in range(0, slos, OF_A_SERVICE)
    )


def milliseconds(
    rounds: int, work: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """How long each round took, the shortest first."""
    took = []
    for _ in range(rounds):
        start = clock()
        work()
        took.append(1000 * (clock() - start))
    return sorted(took)


def row(what: str, took: list[float], unit: str = "ms") -> Row:
    """The median and what 95 % do not exceed."""
    p95 = took[min(len(took) - 1, round(0.95 * len(took)))]
    value = statistics.median(took)
    return Row(bench="decisions", name=what, value=value, unit=unit, runs=took[:20], parameters={"p95 ms": p95})


def answers(folder: Path, slos: int, rounds: int) -> Iterator[Row]:
    """Ask a running server."""
    server = Server(folder)
    server.slos.write_text(slo_file(slos))
    server.start()
    try:
        server.becomes_ready()
        with Load(server.grpc) as load:
            load.has_acknowledged(50)
        path = "/api/v1/release-check?service=chat&always200=1"
        assert len(server.get(path)["slos"]) == OF_A_SERVICE
        got = milliseconds(rounds, lambda: server.get(path))
        yield row(f"release-check, GET, {OF_A_SERVICE} of {slos} SLOs", got)
        posted = milliseconds(rounds, lambda: server.write("POST", path))
        yield row(f"release-check, POST, {OF_A_SERVICE} of {slos} SLOs", posted)
    finally:
        server.terminate()
    command = [sys.executable, "-m", "slo_exporter", "check", str(server.slos)]
    checked = milliseconds(CHECKS, lambda: subprocess.run(command, check=True, capture_output=True))  # noqa: S603 - our own
    yield row(f"check of {slos} SLOs", checked)


def judging(slos: int, rounds: int) -> Iterator[Row]:
    """Judge alerts."""
    book = AlertBook([slo(f"latency-{number}") for number in range(slos)], {})
    for what, good, fires in (("calm", 100_000, 0), ("all about to fire", 0, 5 * slos)):
        lookback = {window: np.full((slos, 3), (good, 100_000, 0), dtype=np.int64) for window in BURN_WINDOWS}
        assert len(book.evaluate(lookback, 10**18).fired) == fires
        took = milliseconds(rounds, lambda counts=lookback: book.evaluate(counts, 10**18), time.process_time)
        yield row(f"judge {slos} SLOs, {what}", took, "ms of CPU")


def measure(slos: int = 1000, rounds: int = 100) -> list[Row]:
    """All of it."""
    with tempfile.TemporaryDirectory() as scratch:
        return [*answers(Path(scratch), slos, rounds), *judging(slos, rounds)]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--slos", type=int, default=1000)
    arguments.add_argument("--rounds", type=int, default=200)
    given = arguments.parse_args()
    print(table(measure(given.slos, given.rounds)))
