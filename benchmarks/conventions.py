"""
What it costs to understand every framework, in one process and one run.

    python benchmarks/conventions.py [--rounds 30]

Each line is CPU time of reading one export (decoding and recognising), the
median of alternating rounds. *One convention*: a vLLM stream read by a program
that knows nothing but vLLM and HTTP. *All*: the same stream, read by this one.
*With HTTP*: each vLLM request with the SERVER span of FastAPI and its ASGI spans
beside it, for which every convention is asked. *SGLang level 3*: requests with
200 spans of decoding steps each, as its default trace level writes them, in
spans a second beside the vLLM stream.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from rows import Row, table
from traffic import SGLANG_SPANS, SPANS, mixed_export, sglang_export, vllm_export

from slo_exporter.ingest.otlp.conventions import registry
from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.http_server import HTTP_SERVER
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.ingest.otlp.conventions.vllm import VLLM
from slo_exporter.ingest.otlp.decode import decode
from slo_exporter.ingest.otlp.reader import Reader

LATENESS_NS = 600 * 10**9


@dataclass(frozen=True)
class Stream:
    """Exports that a program reads."""

    name: str
    conventions: tuple[Convention, ...]
    export_of: Callable[[int], bytes]
    spans: int
    beside: int
    """Number of the stream that it is compared with."""


def reader_of(conventions: tuple[Convention, ...]) -> Reader:
    """A reader that knows some conventions alone."""
    every, registry.CONVENTIONS = registry.CONVENTIONS, conventions
    try:
        return Reader(Declared(), lateness_ns=LATENESS_NS)
    finally:
        registry.CONVENTIONS = every


def recognising(reader: Reader, body: bytes) -> float:
    """The share of reading that is not decoding."""
    now_ns, reading, decoding = time.time_ns(), [], []
    for _ in range(40):
        started = time.process_time()
        decode(body, reader.keys, now_ns=now_ns, lateness_ns=LATENESS_NS)
        decoded = time.process_time()
        reader.read(body, now_ns)
        decoding.append(decoded - started)
        reading.append(time.process_time() - decoded)
    return 1 - median(decoding) / median(reading)


BESIDE = (
    Stream("vLLM, one convention", (VLLM, HTTP_SERVER), vllm_export, SPANS, 0),
    Stream("vLLM, all conventions", CONVENTIONS, vllm_export, SPANS, 0),
    Stream("vLLM with HTTP and ASGI spans, one", (VLLM, HTTP_SERVER), mixed_export, 5 * SPANS, 2),
    Stream("vLLM with HTTP and ASGI spans, all", CONVENTIONS, mixed_export, 5 * SPANS, 2),
    Stream("SGLang, trace level 3, all", CONVENTIONS, sglang_export, SGLANG_SPANS, 0),
)


def measure(rounds: int = 30) -> list[Row]:
    """Read alternating exports, and say what share of reading is recognising."""
    readers = [reader_of(stream.conventions) for stream in BESIDE]
    spent: list[list[float]] = [[] for _ in BESIDE]
    for number in range(rounds + 3):
        for stream, reader, times in zip(BESIDE, readers, spent, strict=True):
            body = stream.export_of(number)
            before = time.process_time()
            reader.read(body, time.time_ns())
            times.append(time.process_time() - before)
    rates = [stream.spans / median(times[3:]) for stream, times in zip(BESIDE, spent, strict=True)]
    rows = [
        Row(
            bench="conventions",
            name=stream.name,
            value=rate,
            unit="spans/CPU-s",
            of=BESIDE[stream.beside].name,
            ratio=rate / rates[stream.beside],
            cpu_s=sum(times),
        )
        for stream, rate, times in zip(BESIDE, rates, spent, strict=True)
    ]
    part = 100 * recognising(readers[1], vllm_export(0))
    return [*rows, Row(bench="conventions", name="recognising, of reading a vLLM export", value=part, unit="%")]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=30)
    print(table(measure(arguments.parse_args().rounds)))
