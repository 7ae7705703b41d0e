"""
What it costs to count, and to know every window of every SLO.

    python benchmarks/evaluation.py [--slos 1 50 500 5000] [--rounds 9]

*Count*: `Plan.count` of the requests of one export, and of sixteen that share a commit.
*Windows*: the seven windows of the burn rate and the SLO's own, of all SLOs at once, and one
window of each length; the ledger holds *slices* time slices over 100 days. *Judge*: the
alerts of all of them. CPU time in this process, the median. *Loop*: a real server; /healthz
is asked 2 ms after its last answer, by a process of its own, while somebody else scrapes over and
over; what an answer waits is how long the event loop was busy with something else.
"""

import argparse
import http.client
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from load import share
from processes import serving
from rows import Row, table
from traffic import SPANS, Template, vllm_export

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from builders import slo

from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.reader import Body, Reader
from slo_exporter.sli.counting import Delta, Plan
from slo_exporter.sli.records import RequestBatch, concat
from slo_exporter.slo.alert_book import AlertBook
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import range_of

SECOND_NS = 10**9
DAY_S = 86_400
LATENESS_NS = 600 * SECOND_NS
SLICES = 200
LENGTHS = {"5m": 300, "1h": 3600, "1d": DAY_S, "30d": 30 * DAY_S, "90d": 90 * DAY_S}
OWN_S = LENGTHS["30d"]
PROBE_EVERY_S = 0.002


def cpu_ms(rounds: int, work: Callable[[], object]) -> list[float]:
    """CPU time of each round, after one that is not counted."""
    work()
    took = []
    for _ in range(rounds):
        before = time.process_time()
        work()
        took.append(1000 * (time.process_time() - before))
    return took


def definitions(slos: int) -> list[Slo]:
    """So many latency SLOs, each with a threshold of its own."""
    return [slo(f"latency-{number}", f"e2e <= {1000 + number}ms") for number in range(slos)]


def requests_of(exports: int) -> RequestBatch:
    """The requests of so many vLLM exports, as a commit has them."""
    template, now_ns = Template(vllm_export), time.time_ns()
    reader = Reader(Declared(), lateness_ns=LATENESS_NS)
    read = reader.read_all([Body(template.stamped(number), now_ns) for number in range(1, exports + 1)])
    return concat([one.export.requests for one in read])


def counting(slos: Sequence[int], rounds: int) -> Iterator[Row]:
    """Count a group."""
    for exports in (1, 16):
        batch = requests_of(exports)
        for number in slos:
            plan = Plan([one.indicator for one in definitions(number)])
            took = cpu_ms(rounds, lambda plan=plan, batch=batch: plan.count(batch))
            yield Row(
                bench="evaluation",
                name=f"count {exports} export{'s' * (exports > 1)}, {number} SLOs",
                value=statistics.median(took),
                unit="ms of CPU",
                runs=took,
                parameters={
                    "ns a request": 1e6 * statistics.median(took) / exports / SPANS,
                    "µs an SLO": 1e3 * statistics.median(took) / number,
                },
            )


def ledger_of(slos: Sequence[Slo], now_ns: int, slices: int = SLICES) -> Ledger:
    """One that holds so many slices, over 100 days; every SLO had some events in each."""
    width, now_s = len(slos), now_ns // SECOND_NS
    ledger = Ledger(
        Opening(
            slos=slos,
            started_ns=[now_ns - 100 * DAY_S * SECOND_NS] * width,
            totals=np.zeros((width, 3), dtype=np.int64),
            newest_ns=np.full(width, now_ns, dtype=np.int64),
            uptime=Uptime([(now_ns - 100 * DAY_S * SECOND_NS, now_ns)]),
        )
    )
    ages = np.unique(np.geomspace(5, 100 * DAY_S, slices).astype(np.int64))[::-1]
    starts = np.unique((now_s - ages) // 5 * 5)
    counts = np.broadcast_to(np.array([99_900, 100_000, 7], dtype=np.int64), (len(starts), width, 3)).copy()
    ledger.add(Entry.of(Delta(starts, counts, np.full(width, now_ns, dtype=np.int64))))
    return ledger


def all_windows(ledger: Ledger, now_ns: int) -> object:
    """Eight windows of every SLO."""
    return ledger.lookback(now_ns), ledger.timeline.between(range_of(OWN_S, now_ns))


def windows(slos: Sequence[int], rounds: int) -> Iterator[Row]:
    """Read windows of all SLOs, and judge their alerts."""
    now_ns = time.time_ns()
    for number in slos:
        declared = definitions(number)
        ledger, book = ledger_of(declared, now_ns), AlertBook(declared, {})
        lookback = ledger.lookback(now_ns)
        works: dict[str, Callable[[], object]] = {
            "8 windows": lambda ledger=ledger: all_windows(ledger, now_ns),
            **{
                f"the window of {text}": lambda seconds=seconds, ledger=ledger: ledger.timeline.between(
                    range_of(seconds, now_ns)
                )
                for text, seconds in LENGTHS.items()
            },
            "judge all alerts": lambda book=book, lookback=lookback: book.evaluate(lookback, now_ns),
        }
        for what, work in works.items():
            took = cpu_ms(rounds, work)
            yield Row(
                bench="evaluation",
                name=f"{number:,} SLOs: {what}",
                value=statistics.median(took),
                unit="ms of CPU",
                runs=took,
                parameters={"slices": len(ledger.timeline)},
            )


def loop_lag(slos: int, seconds: float = 1.5) -> Iterator[Row]:
    """How long others wait while somebody scrapes so many SLOs."""
    with serving(slos) as server:
        server.get("/metrics")
        took: list[float] = []
        idle = _probed(server.api, seconds, lambda: time.sleep(0.1))
        lags = _probed(server.api, seconds, lambda: took.append(_scraped(server.api)))
    for who, found in (("nobody", idle), ("somebody", lags)):
        yield Row(
            bench="evaluation",
            name=f"{slos:,} SLOs: most that a question waits while {who} scrapes",
            value=max(found),
            unit="ms",
            parameters={"p50": share(found, 0.5), "p99": share(found, 0.99), "probes": len(found)},
        )
    yield Row(
        bench="evaluation",
        name=f"{slos:,} SLOs: a scrape over loopback",
        value=statistics.median(took),
        unit="ms",
        runs=took,
    )


def _scraped(port: int) -> float:
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})  # as Prometheus does
    connection.getresponse().read()
    connection.close()
    return 1000 * (time.perf_counter() - begun)


def _probed(port: int, seconds: float, work: Callable[[], object]) -> list[float]:
    """Milliseconds of each probe while the work is done again and again; the probe is a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(time.process_time).result()
        probing = pool.submit(_probe, port, seconds)
        while not probing.done():
            work()
        return sorted(probing.result())


def _probe(port: int, seconds: float) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    found, ends = [], time.perf_counter() + seconds
    while (begun := time.perf_counter()) < ends:
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        found.append(1000 * (time.perf_counter() - begun))
        time.sleep(PROBE_EVERY_S)
    connection.close()
    return found


def measure(
    slos: Sequence[int] = (1, 50, 500, 5000), wide: Sequence[int] = (1000, 10_000), rounds: int = 9, scraped: int = 2000
) -> list[Row]:
    """All of it."""
    return [*counting(slos, rounds), *windows(wide, rounds), *loop_lag(scraped)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slos", type=int, nargs="+", default=[1, 50, 500, 5000])
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    print(table(measure(asked.slos, rounds=asked.rounds)))
