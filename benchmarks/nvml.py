"""
What reading GPUs costs us: the child's memory, its CPU time per GPU and second, and whether it grows.

    python benchmarks/nvml.py [--parts child growth server] [--seconds 30] [--cycles 100000] [--scrapes 500]

The library is the stub of the tests, which costs next to nothing: what is
measured is our own share. On a real GPU NVIDIA's library adds 18 MiB and what
docs/gpu.md says.

*server* is the whole of it, and there the stub burns as much CPU as NVML did on
an H200: how long scrapes take while all is well, while NVML hangs in whatever
is called (its reader hangs, is killed, and the next one hangs), and without a
GPU; then what the server itself spends on GPUs, beside one that reads none.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[1]
sys.path[:0] = [*(str(_ROOT / "tests" / part) for part in ("", "ingest/nvml", "system")), str(_ROOT)]

import stub_library  # noqa: E402
from server_process import Server  # noqa: E402
from stub_library import Stub  # noqa: E402

from slo_exporter.ingest.nvml import note  # noqa: E402
from slo_exporter.ingest.nvml.driver.library import Nvml  # noqa: E402
from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, line  # noqa: E402
from slo_exporter.ingest.nvml.note import Note  # noqa: E402
from slo_exporter.ingest.nvml.order import Order  # noqa: E402
from slo_exporter.ingest.nvml.reading.poller import Poller  # noqa: E402
from slo_exporter.ingest.nvml.reading.rhythm import PERIOD_NS  # noqa: E402

_PARTS = ("child", "growth", "server")


def main() -> None:
    """Print a table of the child, one of its growth, and one of the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--scrapes", type=int, default=500)
    parser.add_argument("--cycles", type=int, default=100_000)
    parser.add_argument("--grow", nargs=2, metavar=("LIBRARY", "CONTROL"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.grow:
        _grow(Path(asked.grow[0]), Path(asked.grow[1]), asked.cycles)
        return
    with tempfile.TemporaryDirectory() as folder:
        library = stub_library.build(Path(folder))
        if "child" in asked.parts:
            print("GPUs   RSS KiB   anonymous   CPU µs per GPU and second:  all   in calls   our own   bytes a frame")
            for gpus in (1, 8, 16):
                _measure_child(Stub(library, Path(folder), gpus), gpus, asked.seconds)
        if "growth" in asked.parts:
            print("\n cycles   RSS KiB   anonymous   µs a cycle and GPU")
            _start_growing(Stub(library, Path(folder)), asked.cycles)
        if "server" in asked.parts:
            _measure_servers(library, Path(folder), asked.scrapes, asked.seconds)


def _measure_child(stub: Stub, gpus: int, seconds: float) -> None:
    """From the third second on: the first have what is read once."""
    stub.load("*", "matmul")
    reads, writes = os.pipe()
    note_fd = note.create()
    asked = Order(frames_fd=writes, note_fd=note_fd).text()
    child = subprocess.Popen(  # noqa: S603
        [sys.executable, "-S", "-m", "slo_exporter.ingest.nvml.child", asked],
        stdin=subprocess.PIPE,
        pass_fds=(writes, note_fd),
        env={**os.environ, **stub.environment, "PYTHONPATH": str(_ROOT)},
    )
    os.close(writes)
    with os.fdopen(reads, "rb") as lines:
        for _ in range(3):
            lines.readline()
        started, cpu_ns = time.monotonic(), _cpu_ns(child.pid)
        calls_s = size = frames = 0.0
        while time.monotonic() - started < seconds:
            text = lines.readline()
            size, frames = size + len(text), frames + 1
            calls_s += sum(call["seconds"] for call in json.loads(text)["frame"]["calls"].values())
        share = gpus * (time.monotonic() - started)
        total_us, calls_us = (_cpu_ns(child.pid) - cpu_ns) / 1000 / share, calls_s * 1e6 / share
        rss, anonymous = _memory_kib(child.pid)
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(10) == 0
    os.close(note_fd)
    row = f"{total_us:32.0f} {calls_us:10.0f} {total_us - calls_us:9.0f} {size / frames:15.0f}"
    print(f"{gpus:4d} {rss:9d} {anonymous:11d} {row}")


def _start_growing(stub: Stub, cycles: int) -> None:
    """In a process of its own, whose memory nothing else touches."""
    stub.stand_at(_START_US)
    subprocess.run(  # noqa: S603
        [sys.executable, __file__, "--cycles", str(cycles), "--grow", stub.library, stub.environment["NVML_STUB"]],
        env={**os.environ, **stub.environment},
        check=True,
    )


_START_US = 1_800_000_000_000_000


class _Time:
    """Moves by a period at each cycle; how long calls take is measured as 0."""

    def __init__(self) -> None:
        self.ns = _START_US * 1000

    def now_ns(self) -> int:
        """Wall clock."""
        return self.ns

    def monotonic_ns(self) -> int:
        """The same."""
        return self.ns


def _grow(library: Path, control: Path, cycles: int) -> None:
    """As many cycles as fit, in a time that goes as fast as they do."""
    clock, stub, sink = _Time(), Stub(library, control.parent), os.open(os.devnull, os.O_WRONLY)
    nvml = Nvml(clock, str(library))
    nvml.open()

    def write(said: Hello | Frame | Fault) -> None:
        assert not isinstance(said, Fault)
        os.write(sink, line(said))

    asked = Order(frames_fd=-1, note_fd=-1, processes=True)
    poller = Poller(nvml, clock, asked, Note(note.create()), write)
    marks = _marks(cycles)
    spent_ns = 0
    for cycle in range(cycles + 1):
        stub.stand_at(clock.ns // 1000)
        before = time.thread_time_ns()
        poller.cycle(cycle)
        spent_ns += time.thread_time_ns() - before
        clock.ns += PERIOD_NS
        if cycle in marks:
            print(f"{cycle:7d} {_row(spent_ns, cycle)}", flush=True)


def _row(spent_ns: int, cycle: int) -> str:
    rss, anonymous = _memory_kib(os.getpid())
    return f"{rss:9d} {anonymous:11d} {spent_ns / 1000 / (cycle + 1) / 2:15.0f}"


def _marks(cycles: int) -> Sequence[int]:
    return [cycles // 100, cycles // 10, *range(cycles // 4, cycles + 1, cycles // 4)]


# The server.

_EVERY_S = 0.05
"""Between two scrapes: 500 of them see a reader hang for 5 s, and the next, which hangs from its start, for 15 s."""


@dataclass(frozen=True)
class _Scraped:
    """How long scrapes took, in ms, and how much they said."""

    ms: Sequence[float]
    size: int

    def at(self, share: float) -> float:
        """So many of them took no longer."""
        return self.ms[min(len(self.ms) - 1, int(share * len(self.ms)))]


def _measure_servers(library: Path, folder: Path, scrapes: int, seconds: float) -> None:
    print("\nGPUs   NVML        p50 ms   p99 ms   max ms   p50, p99 of those without a GPU    bytes   restarts")
    with _serving(folder / "none", "auto") as server:
        base = _scrape(server, scrapes)
        _print_scraped("0", "is not there", base, base, server)
    for gpus in (2, 16):
        stub = Stub(library, folder, gpus).load("*", "matmul").burn()
        with _serving(folder / str(gpus), "nvml", stub) as server:
            _print_scraped(str(gpus), "is well", _scrape(server, scrapes), base, server)
            stub.on("*", "*", "hang").on("-", "*", "hang")
            _print_scraped(str(gpus), "hangs", _scrape(server, scrapes), base, server)
            stub.heal()
    print("\nGPUs   CPU ms per second of the server, without its reader")
    spent = {}
    for gpus, source in ((0, "off"), (16, "nvml")):
        stub = Stub(library, folder, 16).load("*", "matmul").burn()
        with _serving(folder / f"cpu-{gpus}", source, stub) as server:
            spent[gpus] = _server_cpu_ms(server, seconds)
        print(f"{gpus:4d} {spent[gpus]:8.2f}")
    print(f"of GPUs: {spent[16] - spent[0]:.2f} ms per second, {(spent[16] - spent[0]) / 16:.3f} per GPU")


@contextmanager
def _serving(folder: Path, source: str, stub: Stub | None = None) -> Iterator[Server]:
    """Run a server that has been up for a while: what is read every 10 s was read."""
    folder.mkdir()
    server = Server(folder, environment={} if stub is None else stub.environment)
    with server.config.open("a") as config:
        config.write(f"gpu: {{source: {source}}}\n")
    server.start()
    try:
        server.lives_for(12)
        yield server
    finally:
        server.terminate()


def _scrape(server: Server, scrapes: int) -> _Scraped:
    """One connection, as Prometheus has it; the same rhythm for all."""
    connection = http.client.HTTPConnection("127.0.0.1", server.api)
    took_ms, size = [], 0
    due = time.monotonic()
    for _ in range(scrapes):
        due += _EVERY_S
        time.sleep(max(0.0, due - time.monotonic()))
        started = time.perf_counter()
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        size = max(size, len(answer.read()))
        took_ms.append(1000 * (time.perf_counter() - started))
        assert answer.status == http.HTTPStatus.OK
    connection.close()
    return _Scraped(sorted(took_ms), size)


def _print_scraped(gpus: str, state: str, found: _Scraped, base: _Scraped, server: Server) -> None:
    times = " ".join(f"{found.at(share):8.2f}" for share in (0.5, 0.99, 1.0))
    ratios = " ".join(f"{found.at(share) / base.at(share):8.2f}" for share in (0.5, 0.99))
    restarts = server.metric("slo_exporter_nvml_restarts_total")
    print(f"{gpus:>4}   {state:12}{times} {ratios:>25} {found.size:18d} {restarts:8.0f}", flush=True)


def _server_cpu_ms(server: Server, seconds: float) -> float:
    """On a CPU, per second, all threads together, while nobody scrapes."""
    assert server.process is not None
    tasks = Path(f"/proc/{server.process.pid}/task")

    def spent_ns() -> int:
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir())

    before = spent_ns()
    server.lives_for(seconds)
    return (spent_ns() - before) / 1e6 / seconds


def _cpu_ns(pid: int) -> int:
    """On a CPU so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def _memory_kib(pid: int) -> tuple[int, int]:
    """Resident, and of that anonymous."""
    status = Path(f"/proc/{pid}/status").read_text()
    return tuple(int(status.split(name)[1].split()[0]) for name in ("VmRSS:", "RssAnon:"))  # type: ignore[return-value]


if __name__ == "__main__":
    main()
