"""
The machine's figures, read now.

A read is some fifteen small files of the kernel's, as a normal user. Only the
beginning of each is taken: /proc/stat alone is tens of kilobytes on a large
machine, of which one line is wanted.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from slo_exporter.ingest.host import cgroup, kernel
from slo_exporter.ingest.host.kernel import Sample

MOST_BYTES: Final = 8192
"""Of one file: the longest that is wanted whole, /proc/self/cgroup in a pod, has some 3 KiB."""

_FILES: Final[Mapping[str, Callable[[str], Iterator[Sample]]]] = {
    "proc/stat": kernel.cpu_seconds,
    "proc/meminfo": kernel.memory,
    "sys/devices/system/cpu/online": kernel.online,
    **{f"proc/pressure/{resource}": partial(kernel.pressure, resource) for resource in ("cpu", "memory", "io")},
}


def text_of(path: str) -> str | None:
    """Read the beginning of a file; None where it is absent or refuses, as pressure does where it is off."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):  # a NUL in the path is a ValueError
        return None
    try:
        return _beginning(descriptor).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _beginning(descriptor: int) -> bytes:
    """Many of these files give a page at a time."""
    found = os.read(descriptor, MOST_BYTES)
    while found and len(found) < MOST_BYTES and (more := os.read(descriptor, MOST_BYTES - len(found))):
        found += more
    return found


class HostReader:
    """
    Reads the machine and our own control group.

    Args:
        root: where /proc and /sys are; another one in tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = str(root).rstrip("/")

    def read(self) -> Mapping[str, Mapping[tuple[str, ...], float]]:
        """All ``host_`` and ``cgroup_`` metrics that this machine has, by the values of their labels."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for metric, labels, value in self._samples():
            found.setdefault(metric, {})[labels] = value
        return found

    def _samples(self) -> Iterator[Sample]:
        for name, read in _FILES.items():
            yield from read(self._text(name) or "")
        yield from cgroup.samples(self._text)

    def _text(self, name: str) -> str | None:
        return text_of(f"{self._root}/{name}")
