"""
Where the CPU time of an export goes, stage by stage, in one process.

    python benchmarks/stages.py [--together 6] [--rounds 15]

Exports of 512 vLLM spans that are read together and share a commit, 50 SLOs on their service.
What is missing here and in the server is receiving and answering (see *receive only* of
ingest.py), the transaction, and threads that hand the interpreter to one another. CPU time of
this thread, the least of all rounds, in ms an export; beside all stages together.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from evaluation import LATENESS_NS, definitions
from rows import Row, table
from traffic import Template, vllm_export

from slo_exporter.daemon.hearing import Hearing
from slo_exporter.daemon.supervisor import forget_garbage_of_the_start, share_one_heap
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.decode import decode
from slo_exporter.ingest.otlp.decoders import Decoders
from slo_exporter.ingest.otlp.digest import digest_of
from slo_exporter.ingest.otlp.reader import Reader
from slo_exporter.ingest.otlp.recognition import Recognition
from slo_exporter.sli.admission import Admission
from slo_exporter.sli.counting import Plan
from slo_exporter.sli.records import NO_STAGE_TIMES

EXPORTS = 48
ALL = "all stages"
AUTHORITY = "decode, protobuf library"
HASHLIB = "digest, hashlib"
_PATIENCE_S = 180.0
_T = TypeVar("_T")


class Stopwatch:
    """The least CPU time of each stage."""

    def __init__(self) -> None:
        self.least: dict[str, float] = {}

    def time(self, stage: str, work: Callable[[], _T]) -> _T:
        """Do *work* and note what it took."""
        before = time.thread_time()
        done = work()
        took = 1000 * (time.thread_time() - before) / EXPORTS
        self.least[stage] = min(took, self.least.get(stage, took))
        return done


def measure(together: int = 6, rounds: int = 15) -> list[Row]:
    """One row a stage."""
    share_one_heap()
    decoders, watch = _ready(), Stopwatch()
    template, now_ns = Template(vllm_export), time.time_ns()
    bodies = [template.stamped(number) for number in range(1, EXPORTS + 1)]
    forget_garbage_of_the_start()
    for _ in range(rounds):
        _round(watch, decoders, bodies, together, now_ns)
    return list(_rows(watch.least, decoders.first, together))


def _ready() -> Decoders:
    decoders, ends = Decoders(wanted=True), time.monotonic() + _PATIENCE_S
    decoders.start()
    while decoders.state == "compiling" and time.monotonic() < ends:
        time.sleep(0.05)
    return decoders


def _round(watch: Stopwatch, decoders: Decoders, bodies: Sequence[bytes], together: int, now_ns: int) -> None:
    declared = Declared()
    keys, recognition = Reader(declared, lateness_ns=LATENESS_NS).keys, Recognition(declared)
    when = {"now_ns": now_ns, "lateness_ns": LATENESS_NS}
    side_by_side = [bodies[at : at + together] for at in range(0, EXPORTS, together)]
    watch.time(HASHLIB, lambda: [digest_of(body) for body in bodies])
    watch.time("digest", lambda: [decoders.digests(group) for group in side_by_side])
    watch.time(AUTHORITY, lambda: [decode(body, keys, **when) for body in bodies])
    decoded = watch.time("decode", lambda: [decoders.decode(body, keys, **when) for body in bodies])
    groups = [decoded[at : at + together] for at in range(0, EXPORTS, together)]
    recognised = watch.time(
        "recognise", lambda: [recognition.recognise_all([(one.spans, now_ns) for one in group]) for group in groups]
    )
    admission, plan = Admission([]), Plan([slo.indicator for slo in definitions(50)])

    def admit() -> list[object]:
        admitted = []
        for group in recognised:
            admitted.append(admission.admit([(one.requests, one.roles) for one in group], now_ns).requests)
            admission.keep()
        return admitted

    requests = watch.time("admit", admit)
    watch.time("count", lambda: [plan.count(batch) for batch in requests])
    hearing = Hearing(now_ns)

    def hear() -> None:
        for batch in requests:
            hearing.add(batch, NO_STAGE_TIMES)
            if hearing.is_full:
                hearing.settle()
        hearing.snapshot()

    watch.time("metrics and breakdown", hear)


def _rows(least: dict[str, float], decoder: str, together: int) -> Iterator[Row]:
    whole = sum(took for stage, took in least.items() if stage not in (AUTHORITY, HASHLIB))
    for stage, took in {**least, ALL: whole}.items():
        yield Row(
            bench="stages",
            name=f"decode, {decoder}" if stage == "decode" else stage,
            value=took,
            unit="ms an export",
            of=ALL,
            ratio=took / whole,
            parameters={"together": together},
        )


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--together", type=int, default=6)
    arguments.add_argument("--rounds", type=int, default=15)
    given = arguments.parse_args()
    print(table(measure(given.together, given.rounds)))
