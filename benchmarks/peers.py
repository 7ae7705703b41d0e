"""
What people would use instead, beside ours in the same run.

    python benchmarks/peers.py [--slos 50] [--exports 240] [--runs 3]

*Prometheus* evaluates Sloth's 30-day rules (sloth.py) on a backfilled history: CPU time of its
process in several rounds, less what it spends without rules. Ours: eight windows of as many
SLOs, their reports and their alerts. *rotel* forwards to a receiver that answers at once, the
*OpenTelemetry Collector* receives into nothing; neither counts or keeps anything. *gunzip*: one
vLLM export. What is not on this machine is told as "not here":

    SLO_EXPORTER_PROMETHEUS   prometheus, with promtool beside it; else the one on PATH
    SLO_EXPORTER_ROTEL        rotel-agent, or a virtual environment with the package rotel
    SLO_EXPORTER_OTELCOL      an OpenTelemetry Collector with the receiver otlp and the exporter nop
"""

import argparse
import gzip
import zlib
from collections.abc import Iterator

from collector_peers import collector_rows
from evaluation import cpu_ms
from isal import isal_zlib
from prometheus_peer import rules_rows
from rows import Row, middle, ratio, table
from traffic import vllm_export


def gunzip_rows(rounds: int) -> Iterator[Row]:
    """Decompress one export, by turns."""
    plain = vllm_export(1)
    body = gzip.compress(plain, 6, mtime=0)
    took: dict[str, list[float]] = {"zlib": [], "ISA-L": []}
    for _ in range(rounds):
        took["zlib"] += cpu_ms(5, lambda: zlib.decompress(body, 31))
        took["ISA-L"] += cpu_ms(5, lambda: isal_zlib.decompress(body, 31))
    rates = {name: [len(plain) / 2**20 / (ms / 1000) for ms in each] for name, each in took.items()}
    for name, each in rates.items():
        yield Row(
            bench="peers",
            name=f"gunzip, {name}",
            value=middle(each),
            unit="MiB/CPU-s",
            of="gunzip, zlib",
            ratio=ratio(each, rates["zlib"]),
            parameters={"kB": len(plain) // 1000, "compressed kB": len(body) // 1000},
        )


def measure(slos: int = 50, rounds: int = 4, exports: int = 240, runs: int = 3) -> list[Row]:
    """All of them."""
    return [*rules_rows(slos, rounds), *collector_rows(exports, runs), *gunzip_rows(4 * runs)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slos", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4, help="of Prometheus' rules")
    parser.add_argument("--exports", type=int, default=240)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    print(table(measure(asked.slos, asked.rounds, asked.exports, asked.runs)))
