"""
What the child tells its parent: one JSON document a line.

A recording is the same lines in a file. Values are in base units under the
names of the metrics they become. The child writes with `json`, the parent reads
with msgspec into the same types, so that what is malformed is refused there.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

FRAME_S: Final = 1.0
"""Seconds between two frames."""

Sample: TypeAlias = tuple[str, tuple[str, ...], float]
"""(metric, values of its labels after ``gpu`` and ``uuid`` in the catalogue's order, finite value)."""


class Tier(StrEnum):
    """How often something is read: what is dear is read seldom."""

    ONCE = "once"
    """When a GPU is opened."""
    RARE = "rare"
    """Every minute."""
    SLOW = "slow"
    """Every 10 s."""
    NORMAL = "normal"
    """Every second."""
    FAST = "fast"
    """Every 250 ms; reaches the parent as counters and as `Activity`."""


TIER_S: Final[Mapping[Tier, float]] = {Tier.FAST: 0.25, Tier.NORMAL: FRAME_S, Tier.SLOW: 10.0, Tier.RARE: 60.0}


class Reason(StrEnum):
    """Why a GPU, or all of NVML, can be read or not; the label of ``gpu_up``."""

    OK = "ok"
    STARTING = "starting"
    OFF = "off"
    NO_LIBRARY = "no_library"
    """libnvidia-ml.so.1 is not there (code 12)."""
    NO_DRIVER = "no_driver"
    """The kernel module is not loaded (code 9)."""
    VERSION_MISMATCH = "version_mismatch"
    """The driver was upgraded under the library (code 18): only a new process can recover."""
    NO_PERMISSION = "no_permission"
    CONTAINER_LOST = "container_lost"
    """Every call on every GPU fails with 999: the container lost its devices, only its restart heals that."""
    NVML_ERROR = "nvml_error"
    """Any other code of a call that is not about one GPU."""
    HANG = "hang"
    CRASH = "crash"
    """Ended by a signal."""
    EXIT = "exit"
    """Ended by itself without a word."""
    GARBAGE = "garbage"
    """Wrote what is no frame."""
    STUCK = "stuck"
    """Two children are stuck past SIGKILL: no third is started."""
    LOST = "lost"
    """This GPU fell off the bus (code 15)."""
    RESET_REQUIRED = "reset_required"
    MISSING = "missing"
    """Expected, since it was seen or is named in gpu.groups, and not there."""
    UNKNOWN = "unknown"
    """This GPU answered 999, 20 or 17 three times in a row."""


OF_ONE_GPU: Final = frozenset({Reason.LOST, Reason.RESET_REQUIRED, Reason.MISSING, Reason.UNKNOWN})
"""Reasons that say that this GPU failed; the others say that we cannot tell."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What a GPU did in one fast period; None where it does not tell."""

    seconds: float
    sm: float | None = None
    """Share of time, 0 to 1, averaged over streaming multiprocessors."""
    tensor: float | None = None
    dram: float | None = None
    power_watts: float | None = None
    reasons: int | None = None
    """Bits of the clock event reasons at the period's end."""


@dataclass(frozen=True, slots=True)
class Xid:
    """An error that the driver reported."""

    xid: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds a context on a GPU."""

    pid: int
    """In the PID namespace of the host."""
    memory_bytes: int | None = None
    sm_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU at the end of one cycle."""

    gpu: int
    """NVML index."""
    uuid: str
    """Empty where the GPU never answered."""
    reason: Reason
    """`Reason.OK` when it can be read."""
    info: Mapping[str, str] = field(default_factory=dict)
    """Labels of ``gpu_info``; in the first frame of a GPU and when they change, else empty."""
    tiers: Mapping[Tier, Sequence[Sample]] = field(default_factory=dict)
    """The tiers that were read in this cycle, each whole: it replaces what the tier said before."""
    added: Sequence[Sample] = ()
    """What counters grew by since the last frame; never negative."""
    activity: Sequence[Activity] = ()
    xids: Sequence[Xid] = ()
    processes: Sequence[Process] | None = None
    """None where they were not read in this cycle."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first line: who reads."""

    source: str
    """nvml, simulated or replay."""
    pid: int
    driver: str | None = None
    library: str | None = None
    cuda: str | None = None


@dataclass(frozen=True, slots=True)
class Calls:
    """What the calls of one function cost since the last frame."""

    count: int
    seconds: float
    errors: Mapping[str, int] = field(default_factory=dict)
    """By name of the return code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """All GPUs at the end of one cycle."""

    at_ns: int
    """Wall clock."""
    seconds: float
    """Since the frame before, or since the start."""
    gpus: Sequence[GpuReading]
    calls: Mapping[str, Calls] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    """Values that could not be true, by metric."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The last line of a child that gives up."""

    reason: Reason
    call: str
    code: int
    text: str
    """One sentence for people."""


@dataclass(frozen=True, slots=True)
class Message:
    """One line: exactly one of these is there."""

    hello: Hello | None = None
    frame: Frame | None = None
    fault: Fault | None = None


def line(said: Hello | Frame | Fault) -> bytes:
    """Write a message, as one line of JSON."""
    name = type(said).__name__.lower()
    return json.dumps({name: said}, default=_plain, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _plain(value: object) -> Mapping[str, object]:
    """The fields of a dataclass with slots; what is None is left out."""
    names = getattr(value, "__slots__", ())
    return {name: found for name in names if (found := getattr(value, name)) is not None}
