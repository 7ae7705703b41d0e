"""The machine beside its GPUs, in a few figures."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rich.table import Table
from rich.text import Text

from slo_exporter.cli import doctor_words, terminal
from slo_exporter.cli.doctor_report import Host
from slo_exporter.cli.doctor_rows import figure
from slo_exporter.ingest.nvml.reading.quantities import Unit

_NOT_BUSY: Final = frozenset({("idle",), ("iowait",)})


def table(host: Host, *, is_wide: bool) -> Table:
    """A row for each part."""
    made = terminal.table(is_wide=is_wide)
    made.add_column("beside the GPUs", no_wrap=True)
    made.add_column("", overflow="fold")
    for name, tell in _PARTS.items():
        made.add_row(name, ", ".join(tell(host)) or Text("not here", "dim"))
    return made


def _cpu(host: Host) -> Iterator[str]:
    if (cpus := _one(host, "host_cpus")) is not None:
        yield f"{cpus:g} CPUs"
    seconds = host.get("host_cpu_seconds_total", {})
    if total := sum(seconds.values()):
        busy = sum(spent for mode, spent in seconds.items() if mode not in _NOT_BUSY)
        yield f"{busy / total:.1%} busy since boot"


def _memory(host: Host) -> Iterator[str]:
    yield from _sizes(host, {"host_memory_total_bytes": "total", "host_memory_available_bytes": "available"})


def _pressure(host: Host) -> Iterator[str]:
    for (resource, kind), seconds in sorted(_labelled(host, "host_pressure_seconds_total")):
        if kind == "some":
            yield f"{doctor_words.words(resource)} {figure(seconds, Unit.SECONDS)}"


def _cgroup_cpu(host: Host) -> Iterator[str]:
    used = [seconds for _, seconds in _labelled(host, "cgroup_cpu_seconds_total")]
    if used:
        yield f"used {figure(sum(used), Unit.SECONDS)}"
    if (limit := _one(host, "cgroup_cpu_limit_cores")) is not None:
        yield f"limit {limit:g} cores"
    if (throttled := _one(host, "cgroup_cpu_throttled_seconds_total")) is not None:
        yield f"throttled {figure(throttled, Unit.SECONDS)}"


def _cgroup_memory(host: Host) -> Iterator[str]:
    yield from _sizes(host, {"cgroup_memory_used_bytes": "used", "cgroup_memory_limit_bytes": "limit"})


def _sizes(host: Host, names: Mapping[str, str]) -> Iterator[str]:
    for metric, name in names.items():
        if (size := _one(host, metric)) is not None:
            yield f"{name} {figure(size, Unit.BYTES)}"


def _one(host: Host, metric: str) -> float | None:
    return host.get(metric, {}).get(())


def _labelled(host: Host, metric: str) -> list[tuple[tuple[str, ...], float]]:
    return list(host.get(metric, {}).items())


_PARTS: Final[Mapping[str, Callable[[Host], Iterator[str]]]] = {
    "CPU": _cpu,
    "memory": _memory,
    "waited for": _pressure,
    "cgroup CPU": _cgroup_cpu,
    "cgroup memory": _cgroup_memory,
}
