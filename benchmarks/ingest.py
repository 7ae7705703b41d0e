"""
Ingest end to end beside the bare protobuf walk, in one run.

    python benchmarks/ingest.py [--exports 400] [--slos 50] [--protocol grpc] [--protocol http] [--protocol http-json]

*Walk*: what the protobuf library and one plain pass in Python into the same
columns cost, in this process, beside a neighbour that keeps the other core
busy as the exporters do below (cores share caches and clock). *gRPC*, *HTTP*,
*HTTP/JSON*: a real server with a SQLite database, 16 concurrent exporters of 512
vLLM spans each, after a warm-up; the CPU time is the server process's own. A span
is 0.6 kB in protobuf and, indented, 2.8 kB in JSON. RssAnon is that of a server
that was restarted once: only a first start migrates.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import Event, Process
from multiprocessing.synchronize import Event as Events
from pathlib import Path

import grpc
import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

sys.path.append(str(Path(__file__).parent.parent / "tests" / "system"))
from server_process import Server

from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.reader import Reader

SPANS = 512
EXPORTERS = 16
LATENESS_NS = 600 * 10**9
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
NUMBERS = {
    "gen_ai.latency.time_to_first_token": 0.1874,
    "gen_ai.latency.e2e": 2.4512,
    "gen_ai.latency.time_in_queue": 0.0213,
    "gen_ai.latency.time_in_model_prefill": 0.1498,
    "gen_ai.latency.time_in_model_decode": 2.2611,
    "gen_ai.latency.time_in_model_inference": 2.4109,
    "gen_ai.request.top_p": 0.95,
    "gen_ai.request.temperature": 0.7,
}
COUNTS = {
    "gen_ai.usage.prompt_tokens": 1520,
    "gen_ai.usage.completion_tokens": 128,
    "gen_ai.request.max_tokens": 512,
    "gen_ai.request.n": 1,
}


def vllm_export(number: int) -> bytes:
    """An export of `SPANS` vLLM request spans with 13 attributes each, as its SDK sends them."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "chat"
    scope = resource.scope_spans.add()
    scope.scope.name = "vllm.tracing.otel"
    end = time.time_ns() - 10**9
    for index in range(SPANS):
        identity = number * SPANS + index + 1
        span = scope.spans.add(
            trace_id=identity.to_bytes(16),
            span_id=identity.to_bytes(8),
            name="llm_request",
            kind=Span.SPAN_KIND_SERVER,
            start_time_unix_nano=end - 2_451_200_000,
            end_time_unix_nano=end,
        )
        for key, value in NUMBERS.items():
            span.attributes.add(key=key).value.double_value = value
        for key, count in COUNTS.items():
            span.attributes.add(key=key).value.int_value = count
        span.attributes.add(key="gen_ai.request.id").value.string_value = f"chatcmpl-{identity:016x}"
    return request.SerializeToString()


def as_json(body: bytes) -> bytes:
    """The same export as OTLP/JSON."""
    [resource] = ExportTraceServiceRequest.FromString(body).resource_spans
    [scope] = resource.scope_spans
    written = {
        "resource": {"attributes": [_pair(pair) for pair in resource.resource.attributes]},
        "scopeSpans": [{"scope": {"name": scope.scope.name}, "spans": [_span(span) for span in scope.spans]}],
    }
    return json.dumps({"resourceSpans": [written]}, indent=2).encode()


def _span(span: Span) -> dict[str, object]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": [_pair(pair) for pair in span.attributes],
        "status": {},
        "flags": 256,
    }


def _pair(pair: KeyValue) -> dict[str, object]:
    which = pair.value.WhichOneof("value")
    value = getattr(pair.value, which)
    name = {"string_value": "stringValue", "int_value": "intValue", "double_value": "doubleValue"}[which]
    return {"key": pair.key, "value": {name: str(value) if which == "int_value" else value}}


def slo_file(slos: int) -> str:
    """So many latency SLOs, each with a threshold of its own."""
    entries = "".join(
        f"  - {{name: latency-{i}, objective: 99%, window: 30d,"
        f" indicator: {{requests: {{}}, good: e2e <= {1000 + 40 * i}ms}}}}\n"
        for i in range(slos)
    )
    return f"apiVersion: slo-exporter/v1\nservice: chat\nslos:\n{entries}"


@dataclass(frozen=True, slots=True)
class Rate:
    """Spans and the CPU seconds they took."""

    spans: int
    cpu_s: float
    wall_s: float

    @property
    def per_cpu_second(self) -> float:
        """Spans per CPU-second."""
        return self.spans / self.cpu_s


def _keep_busy(ended: Events) -> None:
    while not ended.is_set():
        vllm_export(0)


def walk(bodies: list[bytes]) -> Rate:
    """Decode the bodies to columns and do nothing with them, beside a busy neighbour."""
    ended = Event()
    neighbour = Process(target=_keep_busy, args=(ended,))
    neighbour.start()
    _walk(bodies[:20])
    rate = _walk(bodies)
    ended.set()
    neighbour.join()
    return rate


def _walk(bodies: list[bytes]) -> Rate:
    """Read the bodies into columns and do nothing with them."""
    keys = Reader(Declared(), lateness_ns=LATENESS_NS).keys.span
    wall, cpu = time.perf_counter(), time.process_time()
    spans = sum(len(columns_of(body, keys)["start"]) for body in bodies)
    return Rate(spans, time.process_time() - cpu, time.perf_counter() - wall)


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


def send_grpc(port: int, bodies: list[bytes]) -> None:
    """Send the bodies one after the other over a channel of its own."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        export = channel.unary_unary(EXPORT)
        for body in bodies:
            export(body, timeout=60)


def send_http(port: int, bodies: list[bytes]) -> None:
    """Send the bodies one after the other."""
    _post(port, bodies, "application/x-protobuf")


def send_json(port: int, bodies: list[bytes]) -> None:
    """Send the bodies, written in JSON, one after the other."""
    _post(port, bodies, "application/json")


def _post(port: int, bodies: list[bytes], content_type: str) -> None:
    url, headers = f"http://127.0.0.1:{port}/v1/traces", {"Content-Type": content_type}
    for body in bodies:
        request = urllib.request.Request(url, data=body, headers=headers)
        urllib.request.urlopen(request, timeout=60).read()  # noqa: S310 - loopback


def _client(send: Callable[[int, list[bytes]], None], port: int, bodies: list[bytes]) -> None:
    shares = [bodies[i::EXPORTERS] for i in range(EXPORTERS)]
    threads = [threading.Thread(target=send, args=(port, share)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_anon_mib(pid: int) -> float:
    """RssAnon of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


def end_to_end(server: Server, send: Callable[[int, list[bytes]], None], port: int, bodies: list[bytes]) -> Rate:
    """Send all bodies from another process; what the server spent on all but the first few."""
    assert server.process is not None
    warm_up, bodies = bodies[:EXPORTERS], bodies[EXPORTERS:]
    with ProcessPoolExecutor(1) as elsewhere:
        elsewhere.submit(_client, send, port, warm_up).result()
        wall, cpu = time.perf_counter(), cpu_seconds(server.process.pid)
        elsewhere.submit(_client, send, port, bodies).result()
        spent = cpu_seconds(server.process.pid) - cpu
    return Rate(len(bodies) * SPANS, spent, time.perf_counter() - wall)


WAYS = {
    "grpc": ("gRPC", send_grpc, bytes),
    "http": ("HTTP", send_http, bytes),
    "http-json": ("HTTP/JSON", send_json, as_json),
}
"""By protocol: its name, how to send, and what to make of an export before."""


def measure(exports: int, slos: int, protocols: list[str]) -> None:
    """Measure and print the table."""
    first = [vllm_export(number) for number in range(exports)]
    base = walk(first)
    print(f"| {slos} SLOs, {exports} exports of {SPANS} spans | spans per CPU-second | of the walk | wall s |")
    print("|---|---|---|---|")
    print(f"| protobuf walk | {base.per_cpu_second:,.0f} | 1.00 | {base.wall_s:.1f} |")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        (server.folder / "slos.yaml").write_text(slo_file(slos))
        server.start()
        server.terminate()
        server.start()
        assert server.process is not None
        at_start = rss_anon_mib(server.process.pid)
        ports = {"grpc": server.grpc, "http": server.http, "http-json": server.http}
        for round_, protocol in enumerate(protocols, start=1):
            name, send, write = WAYS[protocol]
            bodies = [write(vllm_export(round_ * exports + number)) for number in range(exports)]
            rate = end_to_end(server, send, ports[protocol], bodies)
            ratio = rate.per_cpu_second / base.per_cpu_second
            print(f"| {name}, durable | {rate.per_cpu_second:,.0f} | {ratio:.2f} | {rate.wall_s:.1f} |")
        counted = server.get("/api/v1/slos/chat/latency-0/budget")["events"]["total"]
        assert counted == len(protocols) * exports * SPANS, counted
        print(f"\nRssAnon: {at_start:.0f} MiB at the start, {rss_anon_mib(server.process.pid):.0f} MiB after it")
        server.terminate()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--exports", type=int, default=400)
    arguments.add_argument("--slos", type=int, default=50)
    arguments.add_argument("--protocol", choices=list(WAYS), action="append", help="all of them if none is given")
    given = arguments.parse_args()
    measure(given.exports, given.slos, given.protocol or list(WAYS))
