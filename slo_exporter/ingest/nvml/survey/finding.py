"""
What a survey tells whoever examines a machine: one JSON document a line, each reading on its own.

What was found before a call hangs or kills the survey is not lost.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from slo_exporter.ingest.nvml.frame import Fault, Reason, Sample

XID_EVENTS: Final = "xid_events"
"""Stands among the capabilities: whether errors of the GPU are reported."""
XIDS: Final = "gpu_xid_errors_total"


@dataclass(frozen=True, slots=True)
class Library:
    """NVML could be initialised."""

    driver: str | None
    library: str | None
    cuda: str | None
    gpus: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A GPU answers: who it is, as far as it told by then."""

    gpu: int
    uuid: str
    info: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shut:
    """A GPU cannot be read, or not any more."""

    gpu: int
    reason: Reason
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of one capability that succeeded."""

    gpu: int
    capability: str
    wall_us: float
    cpu_us: float
    samples: Sequence[Sample] = ()
    grown: Sequence[Sample] = ()
    """What counters grew by since the reading before."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reading that was refused."""

    gpu: int
    capability: str
    call: str
    code: int
    name: str


@dataclass(frozen=True, slots=True)
class Done:
    """The last line: nothing is left to read."""

    refused: Mapping[str, int] = field(default_factory=dict)
    """Values that could not be true, by metric."""
    unread: Sequence[tuple[int, str]] = ()
    """(GPU, capability) for which no time was left."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: exactly one of these is there."""

    library: Library | None = None
    opened: Opened | None = None
    shut: Shut | None = None
    reading: Reading | None = None
    refusal: Refusal | None = None
    done: Done | None = None
    fault: Fault | None = None


def line(said: Library | Opened | Shut | Reading | Refusal | Done | Fault) -> bytes:
    """Write a finding, as one line of JSON."""
    name = type(said).__name__.lower()
    return json.dumps({name: said}, default=_plain, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _plain(value: object) -> Mapping[str, object]:
    """The fields of a dataclass with slots."""
    return {name: getattr(value, name) for name in getattr(value, "__slots__", ())}
