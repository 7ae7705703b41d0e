"""
What processes that hold a GPU use of the CPU and of memory.

NVML names processes by the ids of the host. They mean the same here only where
/proc is the host's: in the first PID namespace, or where the host's /proc is
what is mounted. Elsewhere, as in a pod without ``hostPID``, the same number is
another process, so nothing is told.

A number that was given to another process since starts again at its small
counter, which Prometheus reads as a reset.

Source: proc_pid_stat(5), proc_pid_statm(5), pid_namespaces(7).
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slo_exporter.ingest.host.kernel import TICKS_PER_S, whole
from slo_exporter.ingest.host.reader import text_of

FIRST_NAMESPACE: Final = "pid:[4026531836]"
"""The first PID namespace has this number on every machine: PROC_PID_INIT_INO in the kernel's proc_ns.h."""
LONGEST_NAME: Final = 64
"""Of a process's name, the longest that the kernel writes (those of its own workers)."""
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")

_USER: Final = 11
"""utime, counted from the state, the first field behind the name; stime is the next."""
_RESIDENT: Final = 1


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """What one process uses."""

    name: str
    """The program's, as the kernel keeps it."""
    cpu_seconds: float
    """Since it started."""
    resident_bytes: int


def of(pids: Iterable[int], root: Path = Path("/")) -> Mapping[int, ProcessUse]:
    """What processes use, by the host's ids; those that are gone or not ours to see are left out."""
    proc = root / "proc"
    if not _is_of_host(proc):
        return {}
    found = ((pid, _use(proc / str(pid))) for pid in pids)
    return {pid: use for pid, use in found if use is not None}


def _is_of_host(proc: Path) -> bool:
    try:
        if str((proc / "self/ns/pid").readlink()) == FIRST_NAMESPACE:
            return True
    except OSError:
        return False
    # We are in an inner namespace, and this /proc, which knows us by more than one number, is of an outer one.
    return len(_numbers(text_of(f"{proc}/self/status") or "")) > 1


def _numbers(status: str) -> list[str]:
    """The ids of a process, from the namespace of /proc inwards."""
    lines = (line.split() for line in status.splitlines())
    return next((line[1:] for line in lines if line[:1] == ["NSpid:"]), [])


def _use(folder: Path) -> ProcessUse | None:
    return parse(text_of(f"{folder}/stat") or "", text_of(f"{folder}/statm") or "")


def parse(stat: str, statm: str) -> ProcessUse | None:
    """Read /proc/PID/stat and statm; None where one of the figures is missing."""
    # The name may hold anything, brackets and line ends too, but it ends at the last bracket.
    head, bracket, tail = stat.rpartition(")")
    ticks = [whole(field) for field in tail.split()[_USER : _USER + 2]]
    pages = [whole(field) for field in statm.split()[_RESIDENT : _RESIDENT + 1]]
    match ticks, pages:
        case [int(user), int(system)], [int(resident)] if bracket:
            return ProcessUse(_printable(head.partition("(")[2]), (user + system) / TICKS_PER_S, resident * PAGE_BYTES)
        case _:
            return None


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name[:LONGEST_NAME])
