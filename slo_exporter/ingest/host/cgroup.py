"""
What our own control group may use of the machine, and uses.

Version 2 keeps every controller in one tree, version 1 each in its own; a
machine may have both at once, so the version is found for each controller.
A path that leads upwards, as a process outside its namespace sees it, is not
followed: then nothing is known.

Limits are those of the group itself, not of the groups above it.

Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1, cgroup_namespaces(7).
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

from slo_exporter.ingest.host.kernel import TICKS_PER_S, Sample, table, whole

Files: TypeAlias = Callable[[str], str | None]
"""Text of a file below the root directory; None where it cannot be read."""

SELF: Final = "proc/self/cgroup"
TREE: Final = "sys/fs/cgroup"
_UNIFIED: Final = ""
"""Stands for the controllers of version 2 in /proc/self/cgroup."""
_LIMITLESS: Final = 1 << 62
"""Version 1 writes the largest whole page number for no limit."""
_NS: Final = 1e-9
_US: Final = 1e-6


def samples(files: Files) -> Iterator[Sample]:
    """Read our own group."""
    groups = groups_of(files(SELF) or "")
    yield from _controller(files, groups, "cpu", _cpu_1, _cpu_2)
    yield from _controller(files, groups, "cpuacct", _accounting_1, _nothing)
    yield from _controller(files, groups, "memory", _memory_1, _memory_2)


def groups_of(text: str) -> Mapping[str, tuple[str, str]]:
    """Read /proc/self/cgroup: for each controller the names it is mounted under, and the path."""
    found: dict[str, tuple[str, str]] = {}
    for line in text.split("\n"):  # the only character that a name cannot have
        _, _, rest = line.partition(":")
        controllers, separator, path = rest.partition(":")
        if separator and path.startswith("/") and ".." not in path.split("/"):
            found |= dict.fromkeys(controllers.split(","), (controllers, path.strip("/")))
    return found


Read: TypeAlias = Callable[[Files], Iterator[Sample]]


def _controller(
    files: Files, groups: Mapping[str, tuple[str, str]], name: str, version_1: Read, version_2: Read
) -> Iterator[Sample]:
    if name in groups:
        together, path = groups[name]
        # Mounted as `cpu,cpuacct`, or in another order than it is listed in: then `cpu` is a link to it.
        yield from _first((f"{TREE}/{name}", f"{TREE}/{together}"), path, files, version_1)
    elif _UNIFIED in groups:
        yield from _first((TREE,), groups[_UNIFIED][1], files, version_2)


def _first(trees: tuple[str, ...], path: str, files: Files, read: Read) -> Iterator[Sample]:
    """
    Read the group at *path*; where the tree lacks it, the tree's root.

    A container may see its path on the host while its own group is what is mounted.
    """
    for folder in (*(f"{tree}/{path}".rstrip("/") for tree in trees), *trees):
        if found := list(read(partial(_below, files, folder))):
            yield from found
            return


def _below(files: Files, folder: str, name: str) -> str | None:
    return files(f"{folder}/{name}")


def _nothing(_: Files) -> Iterator[Sample]:
    yield from ()


def _cpu_2(files: Files) -> Iterator[Sample]:
    quota, _, period = (files("cpu.max") or "").strip().partition(" ")
    yield from _cores(quota, period)
    stat = table(files("cpu.stat") or "")
    for mode in ("user", "system"):
        yield from _scaled("cgroup_cpu_seconds_total", (mode,), stat.get(f"{mode}_usec"), _US)
    yield from _scaled("cgroup_cpu_throttled_seconds_total", (), stat.get("throttled_usec"), _US)


def _cpu_1(files: Files) -> Iterator[Sample]:
    quota, period = (files(f"cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    yield from _cores(quota.strip(), period.strip())  # -1 is no limit
    stat = table(files("cpu.stat") or "")
    yield from _scaled("cgroup_cpu_throttled_seconds_total", (), stat.get("throttled_time"), _NS)


def _accounting_1(files: Files) -> Iterator[Sample]:
    """cpuacct.usage is finer, but does not tell user from system."""
    stat = table(files("cpuacct.stat") or "")
    for mode in ("user", "system"):
        yield from _scaled("cgroup_cpu_seconds_total", (mode,), stat.get(mode), 1 / TICKS_PER_S)


def _cores(quota: str, period: str) -> Iterator[Sample]:
    granted, each = whole(quota), whole(period)
    if granted and each:
        yield "cgroup_cpu_limit_cores", (), granted / each


def _memory_2(files: Files) -> Iterator[Sample]:
    yield from _memory(files("memory.current"), files("memory.max"))


def _memory_1(files: Files) -> Iterator[Sample]:
    yield from _memory(files("memory.usage_in_bytes"), files("memory.limit_in_bytes"))


def _memory(used: str | None, most: str | None) -> Iterator[Sample]:
    yield from _scaled("cgroup_memory_used_bytes", (), whole((used or "").strip()), 1.0)
    limit = whole((most or "").strip())
    yield from _scaled("cgroup_memory_limit_bytes", (), None if (limit or 0) >= _LIMITLESS else limit, 1.0)


def _scaled(metric: str, labels: tuple[str, ...], number: int | None, unit: float) -> Iterator[Sample]:
    if number is not None:
        yield metric, labels, number * unit
