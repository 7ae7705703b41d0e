"""
What the kernel writes about the machine, as samples.

Rules of this module:

1. Pure: a file's text in, samples out.
2. A field that is missing or malformed gives no sample, and takes no other one away.
3. Base units: the kernel's ticks, kilobytes and microseconds end here.

Source: proc_stat(5), proc_meminfo(5), Documentation/accounting/psi.rst.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

Sample: TypeAlias = tuple[str, tuple[str, ...], float]
"""(metric, values of its labels in the catalogue's order, value)."""

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
"""Of the times in /proc/stat, /proc/PID/stat and cpuacct.stat."""
_MICROSECONDS: Final = 1e-6
_MODES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The first columns of /proc/stat; what guests use is in ``user`` and ``nice`` already."""
_MEMORY: Final = {"MemTotal": "host_memory_total_bytes", "MemAvailable": "host_memory_available_bytes"}
_UNDEFINED: Final = ("cpu", "full")
"""A machine as a whole always runs something: the kernel writes 0 here, which means nothing."""
_MOST_DIGITS: Final = 20
"""Of a 64-bit number."""
_MOST_CPUS: Final = 1 << 16
"""Far above what Linux runs on (8192 on x86-64)."""


def whole(text: str) -> int | None:
    """A number as the kernel writes it: digits only."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


def table(text: str) -> dict[str, int]:
    """Lines of a name and a number; others are left out."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: number for pair in pairs if len(pair) >= 2 and (number := whole(pair[1])) is not None}


def cpu_seconds(text: str) -> Iterator[Sample]:
    """Read /proc/stat: how long all CPUs together were in each mode."""
    first = text.partition("\n")[0].split()
    if first[:1] != ["cpu"]:
        return
    for mode, column in zip(_MODES, first[1:], strict=False):
        if (ticks := whole(column)) is not None:
            yield "host_cpu_seconds_total", (mode,), ticks / TICKS_PER_S


def memory(text: str) -> Iterator[Sample]:
    """Read /proc/meminfo."""
    for name, kilobytes in table(text.replace(":", " ")).items():
        if name in _MEMORY:
            yield _MEMORY[name], (), kilobytes * 1024.0


def pressure(resource: str, text: str) -> Iterator[Sample]:
    """Read /proc/pressure/*resource*: how long some, or all, tasks waited for it."""
    for line in text.splitlines():
        kind, *figures = line.split() or [""]
        waited = _named(figures, "total")
        if kind in {"some", "full"} and (resource, kind) != _UNDEFINED and waited is not None:
            yield "host_pressure_seconds_total", (resource, kind), waited * _MICROSECONDS


def _named(figures: list[str], name: str) -> int | None:
    pairs: Mapping[str, str] = dict(figure.partition("=")[::2] for figure in figures)
    return whole(pairs.get(name, ""))


def online(text: str) -> Iterator[Sample]:
    """Read /sys/devices/system/cpu/online: ranges such as ``0-3,8``."""
    lengths = [_length(part) for part in text.strip().split(",")]
    known = [length for length in lengths if length is not None]
    if len(known) == len(lengths):  # half a count would be a wrong one
        yield "host_cpus", (), float(sum(known))


def _length(part: str) -> int | None:
    first, dash, last = part.partition("-")
    start, end = whole(first), whole(last if dash else first)
    return end - start + 1 if start is not None and end is not None and start <= end < _MOST_CPUS else None
