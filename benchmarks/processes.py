"""What processes spend, and servers to measure."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests" / "system"))
from server_process import Server, free_port

COMPILING_S = 180.0
"""Patience until the compiled decoder is there; without it the protobuf library's reads, and the row says so."""
_POLL_S = 0.2
_PATIENCE_S = 60.0


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all its threads, to the nanosecond: clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def rss_anon_mib(pid: int) -> float:
    """RssAnon of a process."""
    return _status_mib(pid, "RssAnon")


def peak_mib(pid: int) -> float:
    """The most that a process had resident."""
    return _status_mib(pid, "VmHWM")


def _status_mib(pid: int, name: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


def pid_of(server: Server) -> int:
    """Of a server that runs."""
    assert server.process is not None
    return server.process.pid


def slo_file(slos: int, service: str = "chat") -> str:
    """So many latency SLOs, each with a threshold of its own."""
    entries = "".join(
        f"  - {{name: latency-{i}, objective: 99%, window: 30d,"
        f" indicator: {{requests: {{}}, good: e2e <= {1000 + 40 * i}ms}}}}\n"
        for i in range(slos)
    )
    return f"apiVersion: slo-exporter/v1\nservice: {service}\nslos:\n{entries}"


@contextmanager
def serving(slos: int, service: str = "chat", *, warm: bool = False) -> Iterator[Server]:
    """
    Run a server on SQLite in a folder of its own, whose decoder is ready.

    Args:
        slos: how many SLOs it has.
        service: what they are about.
        warm: start it twice: a first start alone loads the migrations' library.
    """
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        server.slos.write_text(slo_file(slos, service))
        server.start()
        try:
            if warm:
                server.terminate()
                server.start()
            server.becomes_ready()
            _decodes_at_its_best(server)
            yield server
        finally:
            server.terminate()


def _decodes_at_its_best(server: Server) -> None:
    """Wait while the compiled decoder is being made."""
    deadline = time.monotonic() + COMPILING_S
    while time.monotonic() < deadline:
        text = server.get("/metrics")
        states = dict.fromkeys(re.findall(r'^slo_exporter_decoder_info{[^}]*state="(\w+)"[^}]*} 1', text, re.MULTILINE))
        if not states or not any("compil" in state or state == "loading" for state in states):
            return
        server.lives_for(_POLL_S)


def decoded(server: Server) -> dict[str, float]:
    """Exports by the decoder that read them; nothing where the server does not tell."""
    text = server.get("/metrics")
    found = re.findall(r'^slo_exporter_decoded_exports_total{decoder="(\w+)"} (\S+)$', text, re.MULTILINE)
    return {decoder: float(exports) for decoder, exports in found}


def decoder_between(before: dict[str, float], after: dict[str, float]) -> str:
    """Who read most of what came between; protobuf where the server does not tell."""
    grown = {name: exports - before.get(name, 0) for name, exports in after.items()}
    return max(grown, key=grown.__getitem__) if any(grown.values()) else "protobuf"


@contextmanager
def running(command: list[str], log: Path, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program while the block does; its output goes to a file."""
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the operator named it, or we are it
            command, stdout=output, stderr=output, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def bare_receiver() -> Iterator[tuple[int, int, int]]:
    """Run a receiver that answers at once and does nothing: its pid, gRPC port, HTTP port."""
    script = str(Path(__file__).with_name("bare_receiver.py"))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        assert process.stdout is not None
        grpc, http = map(int, process.stdout.readline().split())
        try:
            yield process.pid, grpc, http
        finally:
            process.terminate()


def program(variable: str, *places: str) -> Path | None:
    """The one that the environment names, itself or within a folder; else the first on PATH."""
    named = os.environ.get(variable, "")
    inside = [Path(named), *(Path(named) / place for place in places)] if named else []
    found = next((path for path in inside if path.is_file()), None)
    return found or next((Path(at) for place in places if (at := shutil.which(Path(place).name))), None)


def becomes(condition: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait for a condition while a program runs that writes a log."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.1)


__all__ = ["Server", "free_port"]
