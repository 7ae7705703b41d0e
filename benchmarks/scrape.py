"""
A whole scrape beside the bare cost of writing the same families, in one run.

    python benchmarks/scrape.py [--slos 100 1000 2000] [--rounds 50]

*Whole*: reports on every SLO, their samples, and the text, as /metrics does it.
*Bare*: prometheus_client's ``generate_latest`` over the same families, already
built: it asks for no number and builds nothing. *Text* is the writing alone, of
a scrape that was taken; *gzip* what compressing it adds. CPU time, the least of
all rounds, each round measuring all of them one after the other.
"""

import argparse
import gzip
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

sys.path.append(str(Path(__file__).parent.parent / "tests"))
sys.path.append(str(Path(__file__).parent.parent / "tests" / "web"))
from boards import NOW_NS, LedgerBoard
from builders import slo
from busy import busy_readings, make_requests
from rows import Row, table

from slo_exporter.web.metrics.exposition import Format, write
from slo_exporter.web.metrics.requests import RequestMetrics
from slo_exporter.web.metrics.series import Scrape

OFFICIAL = {
    Format.TEXT: (parse_text, generate_latest),
    Format.OPENMETRICS: (parse_openmetrics, openmetrics.generate_latest),
}


class Built:
    """Families that are already there."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Sequence[Metric]:
        """All of them."""
        return self._families


def scrape_taker(slos: int) -> Callable[[], Scrape]:
    """What takes the numbers of a scrape: so many SLOs of ten services, and their requests."""
    chance = random.Random(slos)  # noqa: S311 - the same load in each run
    declared = [slo(f"latency-{number}", service=f"chat-{number % 10}") for number in range(slos)]
    counts = [(chance.randrange(10**5, 10**7), chance.randrange(2000), chance.randrange(100)) for _ in declared]
    board = LedgerBoard(declared, counts, values=busy_readings())
    requests = RequestMetrics()
    durations = [int(chance.lognormvariate(20, 1.5)) for _ in range(10_000)]
    services = [f"chat-{number % 10}" for number in range(len(durations))]
    ends = [NOW_NS + number for number in range(len(durations))]
    requests.add(make_requests(services, ["llama-3-8b"] * len(durations), durations, ends_ns=ends))
    return lambda: Scrape(
        standing=board.standing(NOW_NS),
        requests=requests.snapshot(),
        readings=board.readings(),
        version="0",
        ready=True,
    )


def least_seconds(rounds: int, works: Sequence[Callable[[], object]]) -> list[float]:
    """The least CPU time of each, of so many rounds."""
    least = [float("inf")] * len(works)
    for _ in range(rounds):
        for place, work in enumerate(works):
            start = time.process_time()
            work()
            least[place] = min(least[place], time.process_time() - start)
    return least


def of_format(slos: int, form: Format, rounds: int) -> list[Row]:
    """Four rows of one format; each SLO has some fifty samples."""
    take = scrape_taker(slos)
    taken = take()
    text = write(taken, form)
    parse, generate = OFFICIAL[form]
    bare = CollectorRegistry(auto_describe=False)
    bare.register(Built(parse(text.decode())))
    assert generate(bare) == text
    works = {
        "generate_latest": lambda: generate(bare),
        "whole": lambda: write(take(), form),
        "text alone": lambda: write(taken, form),
        "gzip of it": lambda: gzip.compress(text, 1, mtime=0),
    }
    name = f"{slos} SLOs, {'OpenMetrics' if form is Format.OPENMETRICS else 'text'}"
    samples = sum(not line.startswith(b"#") for line in text.splitlines())
    official, *others = zip(works, least_seconds(rounds, list(works.values())), strict=True)
    return [
        Row(
            bench="scrape",
            name=f"{name}: {what}",
            value=1000 * seconds,
            unit="ms of CPU",
            of=f"{name}: {official[0]}",
            ratio=seconds / official[1],
            parameters={"samples": samples, "SLOs": slos},
        )
        for what, seconds in (official, *others)
    ]


def measure(slos: Sequence[int] = (100, 1000, 2000), rounds: int = 10) -> list[Row]:
    """Every format with every number of SLOs: the more SLOs, the fewer rounds."""
    return [
        row
        for number in slos
        for form in Format
        for row in of_format(number, form, max(3, rounds * min(slos) // number))
    ]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--slos", type=int, nargs="+", default=[100, 1000])
    arguments.add_argument("--rounds", type=int, default=50)
    given = arguments.parse_args()
    print(table(measure(given.slos, given.rounds)))
