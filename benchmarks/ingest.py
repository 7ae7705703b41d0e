"""
Ingest end to end beside the bare protobuf walk, in one run.

    python benchmarks/ingest.py [--exports 400] [--slos 50] [--protocol grpc] [--protocol http] [--protocol http-json]
    python benchmarks/ingest.py --all [--runs 3]

*Walk*: what the protobuf library and one plain pass in Python into the same
columns cost, in this process, beside a neighbour that keeps the other core
busy as the exporters do below (cores share caches and clock). *gRPC*, *HTTP*,
*HTTP/JSON*: a real server with a SQLite database, 16 concurrent exporters of 512
vLLM spans each, after a warm-up, from another process; the CPU time is the
server process's own. *Receive only*: a receiver that takes the same bodies over
the same libraries and answers at once. Walk and server alternate; a ratio is the
median of those of each pair. A span is 0.6 kB in protobuf and, indented, 2.8 kB
in JSON. RssAnon is that of a server that was restarted once: only a first start
migrates.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from load import EXPORTERS, WAYS, Exporters
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from processes import (
    Server,
    bare_receiver,
    cpu_seconds,
    decoded,
    decoder_between,
    peak_mib,
    pid_of,
    rss_anon_mib,
    serving,
    slo_file,
)
from rows import Row, middle, ratio, table
from traffic import SPANS, STREAMS, Template, as_json, vllm_export

from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.reader import Reader

LATENESS_NS = 600 * 10**9
WALK_S = 0.7
"""So long it walks each time."""
UNIT = "spans/CPU-s"


@dataclass(frozen=True, slots=True)
class Case:
    """What a server is sent."""

    way: str
    slos: int = 50
    stream: str = "vllm"

    @property
    def name(self) -> str:
        """As it stands in the table."""
        about = "" if self.stream == "vllm" else f"{STREAMS[self.stream].name}, "
        return f"{about}{WAYS[self.way].name}, {self.slos} SLO{'s' * (self.slos != 1)}"

    @property
    def sent(self) -> str:
        """The stream of its bodies."""
        return WAYS[self.way].stream or self.stream

    @property
    def spans(self) -> int:
        """In an export."""
        return STREAMS[self.sent].spans


EVERY = (
    *(Case(way) for way in WAYS),
    Case("grpc", 1),
    Case("http", 1),
    Case("grpc", 500),
    Case("http", 500),
    Case("grpc", stream="sglang"),
    Case("grpc", stream="asgi"),
)
FLOORS = ("grpc", "grpc-gzip", "http", "http-gzip")


@dataclass(slots=True)
class Taken:
    """What a case took in each round."""

    rates: list[float] = field(default_factory=list)
    walks: list[float] = field(default_factory=list)
    """Of the walk right before."""
    cpu_s: float = 0
    wall_s: float = 0
    sender_s: float = 0
    decoder: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """Exporters, and how much they send each time."""

    exporters: Exporters
    exports: int

    def walk(self, stream: str, taken: Taken) -> float:
        """Decode bodies to columns and do nothing with them, beside a busy neighbour; spans per CPU-second."""
        template, spans = Template(STREAMS[stream].export_of), 0
        keys = Reader(Declared(), lateness_ns=LATENESS_NS).keys.span
        columns_of(template.stamped(0), keys)
        neighbour = self.exporters.busy_for(WALK_S)
        cpu, ends = time.process_time(), time.perf_counter() + WALK_S
        while time.perf_counter() < ends:
            spans += len(columns_of(template.stamped(spans), keys)["start"])
        spent = time.process_time() - cpu
        neighbour.result()
        taken.cpu_s += spent
        taken.rates.append(spans / spent)
        return spans / spent

    def receive(self, case: Case, pid: int, port: int, taken: Taken, *, first: bool) -> None:
        """Send to a process and see what it spends."""
        way = WAYS[case.way]
        if first:
            self.exporters.prepare(case.sent, 2 * EXPORTERS, is_gzip=way.is_gzip)
            self.exporters.send(case.way, port)
        self.exporters.prepare(case.sent, self.exports, is_gzip=way.is_gzip)
        cpu = cpu_seconds(pid)
        sent = self.exporters.send(case.way, port)
        spent = cpu_seconds(pid) - cpu
        taken.rates.append(self.exports * case.spans / spent)
        taken.cpu_s += spent
        taken.wall_s += sent.wall_s
        taken.sender_s += sent.cpu_s


def columns_of(body: bytes, keys: frozenset[str]) -> dict[str, np.ndarray]:
    """The spans of an export as columns, the plain way."""
    request = ExportTraceServiceRequest.FromString(body)
    rows, columns = [], {key: [] for key in keys}
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                rows.append(
                    (
                        span.trace_id,
                        span.span_id,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        span.kind,
                        span.status.code,
                        span.name,
                    )
                )
                found = {}
                for attribute in span.attributes:
                    if attribute.key in keys:
                        value = attribute.value
                        found[attribute.key] = getattr(value, value.WhichOneof("value"))
                for key, column in columns.items():
                    column.append(found.get(key))
    names = ("trace", "span", "start", "end", "kind", "status", "name")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)} | {
        key: np.array(column) for key, column in columns.items()
    }


def measure(exports: int = 240, runs: int = 3, cases: Sequence[Case] = EVERY) -> list[Row]:
    """Every case beside the walk over what it is sent, which alternates with it, and what receiving alone costs."""
    floors = [case for case in cases if case.way in FLOORS and case.stream == "vllm" and case.slos == 50]
    taken, walks = {case: Taken() for case in cases}, {case.stream: Taken() for case in cases}
    bare = {case: Taken() for case in floors}
    with Exporters() as exporters, ExitStack() as stack:
        bench = Bench(exporters, exports)
        servers = _servers(stack, cases)
        pid, *ports = stack.enter_context(bare_receiver())
        for round_ in range(runs):
            for case in cases:
                walked = bench.walk(case.stream, walks[case.stream])
                taken[case].walks.append(walked)
                _through_a_server(bench, case, servers[case.slos, case.stream], taken[case], first=not round_)
            for case in floors:
                bench.receive(case, pid, ports[not WAYS[case.way].is_grpc], bare[case], first=not round_)
        for (slos, stream), server in servers.items():
            _counted(server, slos, stream, taken, bench.exports)
        return [
            *(_walk_row(stream, one) for stream, one in walks.items()),
            *(_row(case, one, servers[case.slos, case.stream]) for case, one in taken.items()),
            *(_floor_row(case, one, taken[case]) for case, one in bare.items()),
        ]


def _servers(stack: ExitStack, cases: Sequence[Case]) -> Mapping[tuple[int, str], Server]:
    """One for each number of SLOs and stream."""
    kinds = dict.fromkeys((case.slos, case.stream) for case in cases)
    return {
        (slos, stream): stack.enter_context(serving(slos, STREAMS[stream].service, warm=True)) for slos, stream in kinds
    }


def _through_a_server(bench: Bench, case: Case, server: Server, taken: Taken, *, first: bool) -> None:
    before = decoded(server)
    port = server.grpc if WAYS[case.way].is_grpc else server.http
    bench.receive(case, pid_of(server), port, taken, first=first)
    taken.decoder = "json" if case.sent == "json" else decoder_between(before, decoded(server))


def _counted(server: Server, slos: int, stream: str, taken: Mapping[Case, Taken], exports: int) -> None:
    """A server that lost or doubled anything measured something else."""
    service, requests = STREAMS[stream].service, STREAMS[stream].requests
    counted = server.get(f"/api/v1/slos/{service}/latency-0/budget")["events"]["total"]
    sent = [
        (len(one.rates) * exports + 2 * EXPORTERS) * requests
        for case, one in taken.items()
        if (case.slos, case.stream) == (slos, stream)
    ]
    assert counted == sum(sent), (slos, stream, counted, sum(sent))


def _walk_row(stream: str, taken: Taken) -> Row:
    return Row(
        bench="ingest",
        name=_walk_name(stream),
        value=middle(taken.rates),
        unit=UNIT,
        runs=taken.rates,
        of=_walk_name(stream),
        ratio=1.0,
        cpu_s=taken.cpu_s,
    )


def _walk_name(stream: str) -> str:
    return "protobuf walk" if stream == "vllm" else f"protobuf walk, {STREAMS[stream].name}"


def _row(case: Case, taken: Taken, server: Server) -> Row:
    pid = pid_of(server)
    return Row(
        bench="ingest",
        name=case.name,
        value=middle(taken.rates),
        unit=UNIT,
        runs=taken.rates,
        of=_walk_name(case.stream),
        ratio=ratio(taken.rates, taken.walks),
        cpu_s=taken.cpu_s,
        anon_mib=rss_anon_mib(pid),
        peak_mib=peak_mib(pid),
        parameters={**_busy(taken, case), "decoder": taken.decoder},
    )


def _floor_row(case: Case, taken: Taken, whole: Taken) -> Row:
    return Row(
        bench="ingest",
        name=f"{WAYS[case.way].name}, receive only",
        value=middle(taken.rates),
        unit=UNIT,
        runs=taken.rates,
        of=case.name,
        ratio=ratio(taken.rates, whole.rates),
        cpu_s=taken.cpu_s,
        parameters=_busy(taken, case),
    )


def _busy(taken: Taken, case: Case) -> dict[str, str | float | None]:
    """How busy either side was; a receiver that is idle half of the time was waited for by nobody."""
    middle_rate = middle(taken.rates) or 1.0
    return {
        "ms an export": 1000 * case.spans / middle_rate,
        "cores": taken.cpu_s / taken.wall_s,
        "exporters' cores": taken.sender_s / taken.wall_s,
    }


def _asked() -> Iterator[Row]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exports", type=int, default=400)
    parser.add_argument("--slos", type=int, default=50)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--protocol", choices=list(WAYS), action="append", help="all of them if none is given")
    parser.add_argument("--all", action="store_true", help="every stream and number of SLOs, as bench.py")
    given = parser.parse_args()
    cases = EVERY if given.all else [Case(way, given.slos) for way in given.protocol or WAYS]
    yield from measure(given.exports, given.runs, cases)


__all__ = ["SPANS", "as_json", "columns_of", "measure", "slo_file", "vllm_export"]

if __name__ == "__main__":
    print(table(_asked()))
