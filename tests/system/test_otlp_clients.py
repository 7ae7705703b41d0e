"""Real clients: what their SDK sent is counted, exactly, over every protocol."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from installing import cache_of, installed
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind
from server_process import Server, free_port

JAVASCRIPT = Path(__file__).parent / "otlp_js"
ROTEL = "rotel==0.0.1a15"
"""A small collector in Rust; there is no other version."""
INSTALL_S = 300
SOON_S = 30
GOOD, BAD = 30, 7

SECOND_NS = 10**9

Require = Callable[[str], Path]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that all of them send to, one after the other."""
    one = Server(tmp_path_factory.mktemp("server"))
    try:
        yield one.start()
    finally:
        one.kill()


@contextmanager
def counts(server: Server, good: int, bad: int) -> Iterator[None]:
    """Within the block the SLO counts exactly so many events more."""
    before = server.events()
    yield
    more = {"good": good, "bad": bad, "total": good + bad, "excluded": 0}
    assert server.events() == {name: before[name] + more[name] for name in more}


@pytest.fixture(scope="session")
def javascript(require: Require) -> Iterator[Callable[..., str]]:
    """Run send.mjs beside the installed SDK; what it printed."""
    node, npm = require("node"), require("npm")
    wanted = (JAVASCRIPT / "package.json").read_bytes()

    def install(folder: Path) -> None:
        (folder / "package.json").write_bytes(wanted)
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run([npm, "install", *quiet], cwd=folder, check=True, timeout=INSTALL_S)

    with installed(cache_of("otlp-js", wanted), install) as folder:

        def send(*arguments: str) -> str:
            script = folder / "send.mjs"
            script.write_bytes((JAVASCRIPT / "send.mjs").read_bytes())
            sent = subprocess.run(
                [node, script, *arguments], capture_output=True, text=True, timeout=SOON_S, check=False
            )
            return sent.stdout + sent.stderr

        yield send


@pytest.mark.timeout(INSTALL_S + 60)
@pytest.mark.parametrize("protocol", ["http", "proto", "grpc"])
def test_the_javascript_sdk_is_counted(server: Server, javascript: Callable[..., str], protocol: str) -> None:
    """JSON, protobuf and gRPC; a whole-number double comes as an integer on each."""
    address = f"127.0.0.1:{server.grpc}" if protocol == "grpc" else f"127.0.0.1:{server.http}/v1/traces"
    with counts(server, GOOD, BAD):
        assert javascript(protocol, f"http://{address}", str(GOOD), str(BAD)) == "0\n"
    assert server.metric("slo_exporter_spans_refused_total") == 0
    assert server.metric("slo_exporter_spans_flagged_total") == 0


def requests(good: int, bad: int) -> list[ReadableSpan]:
    """Request spans as vLLM makes them, by the SDK for Python."""
    provider = TracerProvider(resource=Resource({"service.name": "chat"}), shutdown_on_exit=False)
    tracer, end = provider.get_tracer("vllm.tracing.otel"), time.time_ns() - SECOND_NS
    spans = []
    for number in range(good + bad):
        e2e = 0.0625 if number < good else 1.0
        attributes = {"gen_ai.latency.e2e": e2e, "gen_ai.request.id": f"{end}-{number}", "list": [1, 2]}
        span = tracer.start_span("llm_request", kind=SpanKind.SERVER, attributes=attributes, start_time=end - SECOND_NS)
        span.end(end)
        assert isinstance(span, ReadableSpan)
        spans.append(span)
    return spans


def exporter_to(protocol: str, grpc_port: int, http_port: int) -> SpanExporter:
    """An exporter of the SDK for Python."""
    if protocol == "grpc":
        return GrpcExporter(endpoint=f"127.0.0.1:{grpc_port}", insecure=True, timeout=SOON_S)
    return HttpExporter(endpoint=f"http://127.0.0.1:{http_port}/v1/traces", timeout=SOON_S)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_python_sdk_is_counted(server: Server, protocol: str) -> None:
    """Protobuf, by both of its exporters."""
    exporter = exporter_to(protocol, server.grpc, server.http)
    with counts(server, GOOD, BAD):
        assert exporter.export(requests(GOOD, BAD)) == SpanExportResult.SUCCESS
        exporter.shutdown()


@pytest.fixture(scope="session")
def rotel() -> Iterator[Path]:
    """The program of the collector, in an environment of its own; too heavy for every run."""
    if os.environ.get("SLO_EXPORTER_REQUIRE") != "all" and not os.environ.get("SLO_EXPORTER_ROTEL"):
        pytest.skip("SLO_EXPORTER_ROTEL=1 runs the tests with a collector in between")

    def install(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=INSTALL_S)
        pip = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", ROTEL]
        subprocess.run(pip, check=True, timeout=INSTALL_S)

    with installed(cache_of("rotel", ROTEL.encode() + sys.version.encode()), install) as folder:
        [program] = folder.glob("lib/python*/site-packages/rotel/rotel-agent")
        yield program


@contextmanager
def collector(program: Path, *, to_protocol: str, to_port: int) -> Iterator[tuple[int, int]]:
    """Run the collector before a port of ours; its own ports for gRPC and HTTP. At the end it has sent everything."""
    grpc_port, http_port = free_port(), free_port()
    command = [program, "start", "--exporter", "otlp"]
    command += ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}", "--otlp-http-endpoint", f"127.0.0.1:{http_port}"]
    command += ["--otlp-exporter-protocol", to_protocol, "--otlp-exporter-endpoint", f"http://127.0.0.1:{to_port}"]
    process = subprocess.Popen(command)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
            grpc.channel_ready_future(channel).result(SOON_S)
        yield grpc_port, http_port
        process.terminate()
        assert process.wait(SOON_S) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(INSTALL_S + 60)
@pytest.mark.parametrize("received", ["grpc", "http"])
@pytest.mark.parametrize("sent", ["grpc", "http"])
def test_a_collector_in_between_is_counted(server: Server, rotel: Path, received: str, sent: str) -> None:
    """It batches anew and compresses; nothing is lost or counted twice."""
    to_port = server.grpc if sent == "grpc" else server.http
    to_us = collector(rotel, to_protocol=sent, to_port=to_port)
    with counts(server, 2 * GOOD, 2 * BAD), to_us as (grpc_port, http_port):
        for _ in range(2):
            exporter = exporter_to(received, grpc_port, http_port)
            assert exporter.export(requests(GOOD, BAD)) == SpanExportResult.SUCCESS
            exporter.shutdown()
