"""
How soon an export is acknowledged, under rising load.

    python benchmarks/latency.py [--rates 5000 10000 25000 50000 100000] [--spans 100 512] [--seconds 10]

A real server on SQLite with 50 SLOs; another process sends exports of so many vLLM spans over
gRPC at scheduled instants and never waits (open loop). Latency counts from the instant at
which an export was due, so a stall is paid by every export that it kept waiting. *Late* is
how far behind its schedule the sender itself was: what is not much less than the latency is
the sender's. Meanwhile /metrics is scraped every 5 s. What is refused has no latency.
"""

import argparse
import http.client
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait

from load import Answered, Exporters, share
from processes import Server, cpu_seconds, pid_of, rss_anon_mib, serving
from rows import Row, table

SLOS = 50
SCRAPE_EVERY_S = 5.0
RATES = (5_000, 10_000, 25_000, 50_000, 100_000)


def measure(
    rates: Sequence[int] = RATES, spans: Sequence[int] = (512, 100), seconds: float = 8, slos: int = SLOS
) -> list[Row]:
    """Every rate in exports of every size, the lowest first."""
    with Exporters() as exporters, serving(slos) as server:
        exporters.at_rate(server.grpc, 20, 100, 1).result()
        return [row for size in spans for rate in rates for row in _rows(exporters, server, (rate, size), seconds)]


def _rows(exporters: Exporters, server: Server, load: tuple[int, int], seconds: float) -> Iterator[Row]:
    (rate, size), cpu = load, cpu_seconds(pid_of(server))
    sending = exporters.at_rate(server.grpc, rate / size, size, seconds)
    scrapes = _scrapes_until(sending, server.api)
    answered, spent = sending.result(), cpu_seconds(pid_of(server)) - cpu
    name = f"{rate:,} spans/s in exports of {size}"
    yield Row(
        bench="latency",
        name=f"{name}: p99",
        value=share(answered.latency_ms, 0.99) if answered.latency_ms else None,
        unit="ms",
        cpu_s=spent,
        anon_mib=rss_anon_mib(pid_of(server)),
        parameters=_parameters(answered),
        note="" if answered.latency_ms else "all refused",
    )
    yield Row(
        bench="latency",
        name=f"{name}: slowest scrape",
        value=max(scrapes),
        unit="ms",
        runs=scrapes,
        parameters={"scrapes": len(scrapes)},
    )


def _parameters(answered: Answered) -> dict[str, str | float | None]:
    latency, sent = answered.latency_ms, len(answered.late_ms)
    return {
        **{f"p{part:.0f}": share(latency, part / 100) if latency else None for part in (50, 95)},
        "max": max(latency, default=None),
        "refused %": 100 * answered.refused / sent,
        "failed %": 100 * answered.failed / sent,
        "late p99": share(answered.late_ms, 0.99),
        "exports": sent,
    }


def _scrapes_until(ended: "Future[Answered]", port: int) -> list[float]:
    """Milliseconds of each scrape, at least one."""
    connection, took = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
    pause_s = SCRAPE_EVERY_S / 2
    while not took or not ended.done():
        wait([ended], pause_s)
        pause_s, begun = SCRAPE_EVERY_S, time.perf_counter()
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        took.append(1000 * (time.perf_counter() - begun))
    connection.close()
    return took


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=RATES, help="spans a second")
    parser.add_argument("--spans", type=int, nargs="+", default=[512, 100], help="in an export")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--slos", type=int, default=SLOS)
    asked = parser.parse_args()
    print(table(measure(asked.rates, asked.spans, asked.seconds, asked.slos)))
