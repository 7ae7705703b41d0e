"""Collectors beside our server and a receiver in Python that does as little as they do: a part of peers.py."""

import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from load import EXPORTERS, WAYS, Exporters
from processes import (
    bare_receiver,
    becomes,
    cpu_seconds,
    free_port,
    peak_mib,
    pid_of,
    program,
    rss_anon_mib,
    running,
    serving,
)
from rows import Row, middle, missing, ratio
from traffic import SPANS

SLOS = 50
"""Of our server."""
RECEIVE_ONLY = "receive only, in Python"


def collector_rows(exports: int, runs: int) -> Iterator[Row]:
    """Our server, what receiving alone costs in Python, and each collector that is here."""
    ways = ("grpc", "http")
    with Exporters() as exporters, bare_receiver() as (pid, *sink), serving(SLOS) as server:
        ours = {}
        for way, port in zip(ways, (server.grpc, server.http), strict=True):
            ours[way], cpu_s = _rates(exporters, way, pid_of(server), port, exports, runs)
            yield _collector_row(_our_name(way), ours[way], cpu_s, pid_of(server))
        for name, starts in (
            (RECEIVE_ONLY, lambda: nullcontext((pid, dict(zip(ways, sink, strict=True))))),
            ("rotel, forwarding over gRPC", lambda: _rotel(sink[0])),
            ("OpenTelemetry Collector, into nothing", _collector),
        ):
            with starts() as started:
                if started is None:
                    yield missing("peers", name)
                    continue
                peer, ports = started
                for way in ways:
                    rates, cpu_s = _rates(exporters, way, peer, ports[way], exports, runs)
                    yield _collector_row(f"{name}: {WAYS[way].name}", rates, cpu_s, peer, (way, ours[way]))


def _our_name(way: str) -> str:
    return f"ours, durable, {SLOS} SLOs: {WAYS[way].name}"


def _rates(exporters: Exporters, way: str, pid: int, port: int, exports: int, runs: int) -> tuple[list[float], float]:
    """Spans per CPU-second of each run, and what they spent; a collector may batch, so it has a second to end."""
    rates, spent = [], 0.0
    exporters.prepare("vllm", 2 * EXPORTERS)
    exporters.send(way, port)
    for _ in range(runs):
        exporters.prepare("vllm", exports)
        before = cpu_seconds(pid)
        exporters.send(way, port)
        time.sleep(1)
        one = cpu_seconds(pid) - before
        rates.append(exports * SPANS / one)
        spent += one
    return rates, spent


def _collector_row(
    name: str, rates: Sequence[float], cpu_s: float, pid: int, beside: tuple[str, Sequence[float]] | None = None
) -> Row:
    times = ratio(rates, beside[1]) if beside else None
    return Row(
        bench="peers",
        name=name,
        value=middle(rates),
        unit="spans/CPU-s",
        runs=rates,
        of=_our_name(beside[0]) if beside else "",
        ratio=times,
        cpu_s=cpu_s,
        anon_mib=rss_anon_mib(pid),
        peak_mib=peak_mib(pid),
        note="better than ours" if times is not None and times > 1 and not name.startswith(RECEIVE_ONLY) else "",
    )


Started = tuple[int, dict[str, int]] | None
"""Pid, and port by way; None where the program is not here."""


@contextmanager
def _rotel(sink: int) -> Iterator[Started]:
    inside = "lib/python*/site-packages/rotel/rotel-agent"
    named = Path(os.environ.get("SLO_EXPORTER_ROTEL", "")) if os.environ.get("SLO_EXPORTER_ROTEL") else None
    found = program("SLO_EXPORTER_ROTEL", "rotel-agent") or (next(named.glob(inside), None) if named else None)
    ports = {"grpc": free_port(), "http": free_port()}
    command = [
        *(str(found), "start", "--otlp-grpc-endpoint", f"127.0.0.1:{ports['grpc']}"),
        *("--otlp-http-endpoint", f"127.0.0.1:{ports['http']}", "--exporter", "otlp"),
        *("--otlp-exporter-protocol", "grpc", "--otlp-exporter-endpoint", f"http://127.0.0.1:{sink}"),
    ]
    with _receiving(found, command, ports) as started:
        yield started


@contextmanager
def _collector() -> Iterator[Started]:
    found, ports = program("SLO_EXPORTER_OTELCOL", "otelcol"), {"grpc": free_port(), "http": free_port()}
    protocols = {way: {"endpoint": f"127.0.0.1:{port}"} for way, port in ports.items()}
    config = {
        "receivers": {"otlp": {"protocols": protocols}},
        "exporters": {"nop": {}},
        "service": {
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["nop"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
    }
    with _receiving(found, [str(found), "--config", f"yaml:{json.dumps(config)}"], ports) as started:
        yield started


@contextmanager
def _receiving(found: Path | None, command: list[str], ports: dict[str, int]) -> Iterator[Started]:
    if found is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder, running(command, log := Path(folder) / "log") as process:
        for port in ports.values():
            becomes(lambda port=port: _listens(port), process, log)
        yield process.pid, ports


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
