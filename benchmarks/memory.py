"""
What a server holds, against the number of SLOs and of what services send.

    python benchmarks/memory.py [--slos 1 100 1000] [--pairs 1 100 1000] [--exports 100]

RssAnon of a real server on SQLite that was restarted once (a first start alone loads the
migrations' library), its compiled decoder ready: at the start, and after so many exports of
512 vLLM spans. *Pairs* are services times models, told apart in every metric.
"""

import argparse
import math
from collections.abc import Iterator, Sequence

import grpc
from load import EXPORT
from processes import Server, cpu_seconds, peak_mib, pid_of, rss_anon_mib, serving
from rows import Row, table
from traffic import SPANS, Template, many_export

SLOS_WITH_PAIRS = 100


def measure(slos: Sequence[int] = (1, 100, 1000), pairs: Sequence[int] = (100, 1000), exports: int = 100) -> list[Row]:
    """Each number of SLOs with one service and model, each other number of those with 100 SLOs."""
    plain = [row for number in slos for row in of_server(number, 1, exports)]
    return [*plain, *(row for number in pairs for row in of_server(SLOS_WITH_PAIRS, number, exports))]


def of_server(slos: int, pairs: int, exports: int) -> Iterator[Row]:
    """Two rows of one server."""
    services = next(number for number in range(math.isqrt(pairs), 0, -1) if pairs % number == 0)
    models = pairs // services
    name = f"{slos} SLO{'s' * (slos != 1)}, {services} × {models} services and models"
    with serving(slos, "chat-0", warm=True) as server:
        yield _row(f"{name}: at the start", server, 0)
        _send(server.grpc, services, models, exports)
        yield _row(f"{name}: after {exports * SPANS:,} spans", server, exports)


def _send(port: int, services: int, models: int, exports: int) -> None:
    turns = range(-(-services * models // SPANS))
    templates = [Template(lambda number, turn=turn: many_export(number, services, models, turn)) for turn in turns]
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        export = channel.unary_unary(EXPORT)
        for number in range(1, exports + 1):
            export(templates[number % len(templates)].stamped(number), timeout=60)


def _row(name: str, server: Server, exports: int) -> Row:
    pid = pid_of(server)
    anon = rss_anon_mib(pid)
    return Row(
        bench="memory",
        name=name,
        value=anon,
        unit="MiB",
        cpu_s=cpu_seconds(pid),
        anon_mib=anon,
        peak_mib=peak_mib(pid),
        parameters={"exports": exports},
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slos", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--pairs", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--exports", type=int, default=100)
    asked = parser.parse_args()
    print(table(measure(asked.slos, asked.pairs, asked.exports)))
