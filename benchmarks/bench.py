"""
Every benchmark in turn, as one table and, if asked, a file.

    make bench
    python benchmarks/bench.py [--only ingest,latency] [--quick] [--runs 3] [--json FILE]

Some ten minutes on two cores, two with --quick, whose figures are rough. The figures of
docs/performance.md are written from such a file by report.py. Each part is a module that runs
by itself too, with more to choose; nvml.py, gpu_loads.py and detection.py are run by themselves only.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import breakdown
import conventions
import decisions
import evaluation
import ingest
import latency
import memory
import peers
import restart
import scrape
import stages
from rows import Row, keep, missing, table

Measure = Callable[[int], Sequence[Row]]
"""Takes the number of runs."""

FULL: dict[str, Measure] = {
    "ingest": lambda runs: ingest.measure(160, runs),
    "stages": lambda runs: stages.measure(rounds=5 * runs),
    "latency": lambda _: latency.measure(),
    "conventions": lambda runs: conventions.measure(7 * runs),
    "evaluation": lambda runs: evaluation.measure(rounds=3 * runs),
    "breakdown": lambda _: breakdown.measure(),
    "scrape": lambda runs: scrape.measure(rounds=7 * runs),
    "decisions": lambda _: decisions.measure(rounds=100),
    "restart": lambda runs: restart.measure(runs=runs),
    "memory": lambda _: memory.measure(),
    "peers": lambda runs: peers.measure(runs=runs),
}
QUICK: dict[str, Measure] = {
    "ingest": lambda _: ingest.measure(48, 1, [ingest.Case("grpc"), ingest.Case("http"), ingest.Case("http-json")]),
    "stages": lambda _: stages.measure(rounds=3),
    "latency": lambda _: latency.measure((5_000, 25_000), (512,), 3),
    "conventions": lambda _: conventions.measure(5),
    "evaluation": lambda _: evaluation.measure((1, 50, 500), (1000,), 3, 200),
    "breakdown": lambda _: breakdown.measure(10, 60),
    "scrape": lambda _: scrape.measure((100,), 5),
    "decisions": lambda _: decisions.measure(100, 20),
    "restart": lambda _: restart.measure(((100, 30, 400),), 1),
    "memory": lambda _: memory.measure((100,), (100,), 16),
    "peers": lambda _: peers.measure(10, 2, 48, 1),
}


def main() -> None:
    """Run what is asked for; a table as each part ends, so that nothing is lost with the last one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(FULL), metavar=",".join(FULL))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="a file to keep the rows in")
    asked = parser.parse_args()
    if unknown := set(asked.only) - FULL.keys():
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}: there are {', '.join(FULL)}")
    rows: list[Row] = []
    took_s: dict[str, float] = {}
    failed: list[str] = []
    for name in asked.only:
        begun = time.perf_counter()
        try:
            rows += (QUICK if asked.quick else FULL)[name](asked.runs)
        except Exception:  # noqa: BLE001 - the other parts are worth their minutes
            traceback.print_exc()
            failed.append(name)
            rows.append(missing(name, name, "failed"))
        took_s[name] = time.perf_counter() - begun
        print(f"{name}: {took_s[name]:.0f} s", file=sys.stderr)
        if asked.json:
            keep(asked.json, rows, took_s)
    print(table(rows))
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
