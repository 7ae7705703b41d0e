"""
The same load, seen by each signal of a real GPU: what /metrics said against what was done.

Needs an NVIDIA GPU, PyTorch and a running server (``slo-exporter serve``)::

    python benchmarks/gpu_loads.py --url http://127.0.0.1:9874 --seconds 30

Each load runs in a process of its own, which measures what it did. Counters are
read from when it has been running for `_SETTLE_S`, for ``--seconds``: every figure
is what a counter grew by from its first step to its last. One table, or JSON with ``--json``.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

_SETTLE_S = 12.0
"""Longer than the slow tier: energy and busy time then grow by whole steps of this load."""
_MIB = 2**20

Labels = tuple[tuple[str, str], ...]
Scrape = Mapping[tuple[str, Labels], float]


def _matmul(torch: Any, device: Any) -> tuple[Callable[[], None], float, str]:
    """A large bf16 product; unit of work 1e12 floating point operations."""
    n = 8192
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out), 2 * n**3 / 1e12, "TFLOP/s"


def _copy(torch: Any, device: Any) -> tuple[Callable[[], None], float, str]:
    """Device memory to device memory; bytes read and written."""
    source = torch.empty(2**32, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return lambda: target.copy_(source), 2 * source.numel() / 1e9, "GB/s"


def _tiny(torch: Any, device: Any) -> tuple[Callable[[], None], float, str]:
    """Kernels too small to fill anything; launches a second."""
    one = torch.zeros(1, device=device)

    def launch() -> None:
        for _ in range(1000):
            one.add_(1)

    return launch, 1.0, "k launches/s"


def _upload(torch: Any, device: Any) -> tuple[Callable[[], None], float, str]:
    """Pinned host memory to the device."""
    source = torch.empty(2**30, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(2**30, device=device, dtype=torch.uint8)
    return lambda: target.copy_(source, non_blocking=True), source.numel() / 1e9, "GB/s"


def _download(torch: Any, device: Any) -> tuple[Callable[[], None], float, str]:
    """From the device to pinned host memory."""
    target = torch.empty(2**30, dtype=torch.uint8, pin_memory=True)
    source = torch.empty(2**30, device=device, dtype=torch.uint8)
    return lambda: target.copy_(source, non_blocking=True), source.numel() / 1e9, "GB/s"


def _peer(torch: Any, device: Any) -> tuple[Callable[[], None], float, str]:
    """From this GPU to the next one."""
    other = torch.device("cuda", (device.index + 1) % torch.cuda.device_count())
    source = torch.empty(2**32, device=device, dtype=torch.uint8)
    target = torch.empty(2**32, device=other, dtype=torch.uint8)
    return lambda: target.copy_(source, non_blocking=True), source.numel() / 1e9, "GB/s"


_LOADS: Mapping[str, Any] = {
    "idle": None,
    "matmul": _matmul,
    "bursts": _matmul,
    "copy": _copy,
    "tiny": _tiny,
    "upload": _upload,
    "download": _download,
    "peer": _peer,
}
_DUTY = {"bursts": 0.2}
_BURST_S = 0.05


def _work(load: str, gpu: int, seconds: float) -> None:
    """Do one load, and say what was done: work a second, and its unit."""
    if _LOADS[load] is None:
        print("running", flush=True)
        time.sleep(seconds)
        print(json.dumps({"done": 0.0, "unit": ""}), flush=True)
        return
    import torch  # noqa: PLC0415 - the loads alone need it

    device = torch.device("cuda", gpu)
    torch.cuda.set_device(device)
    step, unit_work, unit = _LOADS[load](torch, device)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    print("running", flush=True)
    duty, steps, began = _DUTY.get(load, 1.0), 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        burst = time.perf_counter()
        while time.perf_counter() - burst < _BURST_S:
            step()
            steps += 1
            if load != "tiny":
                torch.cuda.synchronize()
        torch.cuda.synchronize()
        time.sleep((time.perf_counter() - burst) * (1 / duty - 1))
    torch.cuda.synchronize()
    print(json.dumps({"done": steps * unit_work / elapsed, "unit": unit}), flush=True)


def _fetch(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:  # noqa: S310 - a server of ours
        return str(answer.read().decode())


def _parsed(text: str) -> Scrape:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _value(scrape: Scrape, name: str, gpu: int, **labels: str) -> float | None:
    """The one sample of a GPU with these labels."""
    wanted = {"gpu": str(gpu), **labels}
    for (found, pairs), value in scrape.items():
        if found == name and wanted.items() <= dict(pairs).items():
            return value
    return None


class _Window:
    """Scrapes of one GPU over some seconds, as (seconds, scrape)."""

    def __init__(self, scrapes: list[tuple[float, Scrape]], gpu: int) -> None:
        self._scrapes, self._gpu = scrapes, gpu

    def rate(self, name: str, **labels: str) -> float | None:
        """
        What a counter grew by in a second.

        From its first step to its last: one that moves every 10 s is cut where it moves.
        """
        told = [(at, _value(scrape, name, self._gpu, **labels)) for at, scrape in self._scrapes]
        if any(value is None for _, value in told):
            return None
        steps = [two for one, two in pairwise(told) if two[1] != one[1]]
        if len(steps) < 2:
            return 0.0
        (began, first), (ended, last) = steps[0], steps[-1]
        return (last - first) / (ended - began)  # type: ignore[operator]

    def mean(self, name: str) -> float:
        """Of a gauge."""
        return statistics.fmean(_value(scrape, name, self._gpu) or 0.0 for _, scrape in self._scrapes)


def _child() -> int | None:
    """The process that reads NVML."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"slo_exporter.ingest.nvml.child" in command:
                return int(entry.name)
    return None


def _cpu_s(pid: int) -> float:
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / 100


def _memory_mib(pid: int) -> dict[str, float]:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return {key: int(lines[key].split()[0]) / 1024 for key in ("VmRSS", "RssAnon")}


def _observed(url: str, load: str, gpu: int, seconds: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--load", load, "--gpu", str(gpu), "--seconds", str(seconds + _SETTLE_S + 4)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:  # noqa: S603 - ourselves
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() == "running"
        time.sleep(_SETTLE_S)
        child = _child()
        began, cpu = time.perf_counter(), _cpu_s(child) if child else 0.0
        taken, scrapes = [], []
        while (at := time.perf_counter() - began) < seconds:
            text = _fetch(url)
            scrapes.append(time.perf_counter() - began - at)
            taken.append((at, _parsed(text)))
            time.sleep(0.4)
        used = (_cpu_s(child) - cpu) / (time.perf_counter() - began) if child else None
        told = json.loads(worker.stdout.readline())
    window, last = _Window(taken, gpu), taken[-1][1]
    return {
        "load": load,
        **told,
        "util": window.rate("gpu_busy_seconds_total"),
        "graphics": window.rate("gpu_graphics_active_seconds_total"),
        "sm": window.rate("gpu_sm_active_seconds_total"),
        "tensor": window.rate("gpu_tensor_active_seconds_total"),
        "dram": window.rate("gpu_dram_active_seconds_total"),
        "power_from_energy_w": window.rate("gpu_energy_joules_total"),
        "power_average_w": window.mean("gpu_power_average_watts"),
        "sm_clock_mhz": (_value(last, "gpu_clock_hertz", gpu, clock="sm") or 0.0) / 1e6,
        "power_cap": window.rate("gpu_clock_event_seconds_total", reason="sw_power_cap"),
        **{
            f"{link}_{way}_gb": (window.rate(f"gpu_{link}_bytes_total", direction=way) or 0.0) / 1e9
            for link in ("pcie", "nvlink")
            for way in ("receive", "transmit")
        },
        "child_cpu": used,
        "child_memory_mib": _memory_mib(child) if child else None,
        "scrape_ms_p50": statistics.median(scrapes) * 1e3,
        "scrape_ms_max": max(scrapes) * 1e3,
    }


_COLUMNS = {
    "util": "util",
    "graphics": "graph",
    "sm": "sm",
    "tensor": "tensor",
    "dram": "dram",
}


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _show(seen: list[dict[str, Any]]) -> None:
    print(f"{'load':9}" + "".join(f"{title:>8}" for title in _COLUMNS.values()), end="")
    print(f"{'W(energy)':>11}{'W(avg)':>9}{'cap':>6}{'pcie rx/tx GB/s':>17}{'nvlink rx/tx':>15}{'child':>7}  done")
    for row in seen:
        cells = "".join(f"{_percent(row[name]):>8}" for name in _COLUMNS)
        energy = row["power_from_energy_w"]
        print(f"{row['load']:9}{cells}{'-' if energy is None else format(energy, '.0f'):>11}", end="")
        print(f"{row['power_average_w']:9.0f}{_percent(row['power_cap']):>6}", end="")
        print(f"{row['pcie_receive_gb']:9.1f}{row['pcie_transmit_gb']:8.1f}", end="")
        print(f"{row['nvlink_receive_gb']:8.1f}{row['nvlink_transmit_gb']:7.1f}", end="")
        print(f"{_percent(row['child_cpu']):>6}%  {row['done']:.1f} {row['unit']}")
    newest = seen[-1]
    print(f"child: {newest['child_memory_mib']} MiB; scrape ms p50 {newest['scrape_ms_p50']:.1f}")


def main() -> None:
    """Run the loads one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:9874")
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--loads", default="idle,matmul,copy,bursts,tiny,upload,download")
    parser.add_argument("--load", choices=list(_LOADS), help="only do this load, without looking at metrics")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.load:
        _work(asked.load, asked.gpu, asked.seconds)
        return
    seen = [_observed(asked.url, load, asked.gpu, asked.seconds) for load in asked.loads.split(",")]
    if asked.json:
        print(json.dumps(seen, indent=1))
    else:
        _show(seen)


if __name__ == "__main__":
    main()
