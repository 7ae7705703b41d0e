"""
How GPUs read: the page and the terminal say the same.

As in `wording`: shares round down, what is unknown is a dash, and ASCII only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum
from math import floor
from typing import Final

from slo_exporter.web import wording
from slo_exporter.web.api.models_gpus import GpuItem, GpuList, XidItem

_GIB: Final = 2**30
_RATHER: Final = "NVIDIA "
"""Every GPU's name begins so."""

_WITHOUT: Final = "that is normal without a GPU, and gpu.source: simulated shows what there would be to see"

SOURCES: Final[Mapping[str, str]] = {
    "simulated": "simulated: these GPUs do not exist",
    "replay": "replayed from a recording: these GPUs are elsewhere",
}
"""What is said beside GPUs that are not those of this machine."""

REASONS: Final[Mapping[str, str]] = {
    "ok": "it can be read",
    "starting": "the first reading is under way",
    "off": "gpu.source is off",
    "no_library": "there is no NVIDIA driver library (libnvidia-ml.so.1) here",
    "no_driver": "the NVIDIA driver is not loaded",
    "version_mismatch": "the driver was upgraded under its library",
    "no_permission": "the driver refuses: no permission",
    "container_lost": "the container lost its devices",
    "nvml_error": "the driver answers with an error",
    "hang": "the driver does not answer",
    "crash": "the driver library crashed",
    "exit": "the process that reads GPUs ended by itself",
    "garbage": "the process that reads GPUs wrote what cannot be read",
    "stuck": "two processes hang in the driver, and no third is started",
    "lost": "fell off the bus",
    "reset_required": "needs a reset",
    "missing": "expected, and not there",
    "unknown": "answers with an unknown error, again and again",
}
"""Why a GPU, or all of them, cannot be read."""

_WHAT_TO_DO: Final[Mapping[str, str]] = {
    "off": "set gpu.source: auto in the configuration to read them",
    "no_library": _WITHOUT,
    "no_driver": _WITHOUT,
}
"""Beside what the message says."""

_EVENTS: Final[Mapping[str, str]] = {
    "hw_slowdown": "hardware slowdown",
    "hw_thermal": "heat (hardware)",
    "sw_thermal": "heat (driver)",
    "power_brake": "power brake",
}
"""Reasons of lower clocks that no GPU meets in good health."""

_ACTIONS: Final[Mapping[str, str]] = {
    "restart_app": "restart the application",
    "check_app": "check the application",
    "reset_gpu": "reset the GPU",
    "reboot": "reboot",
    "contact_support": "contact support",
    "ignore": "informational",
    "reset": "reset the GPU",
    "drain_p2p": "drain peer-to-peer work",
    "drain_and_reset": "drain and reset the GPU",
    "recover_imex_domain": "recover the IMEX domain",
    "reset_bus": "reset the bus",
    "reboot_system": "reboot the system",
}
_OF_APPLICATIONS: Final = frozenset({"restart_app", "check_app", "ignore"})
"""XIDs with these actions are no fault of the GPU."""

_PAST: Final = timedelta(hours=24)
_PAST_AND_HEALTHY: Final = timedelta(hours=1)
"""So old an XID is history; sooner where the driver says that nothing is to be done."""

_FABRIC: Final[Mapping[str | None, str]] = {
    "not_started": "registration with the NVSwitch fabric has not started",
    "in_progress": "registration with the NVSwitch fabric is in progress",
}
"""Until it is completed NVLink cannot be used."""


class Level(IntEnum):
    """How bad it is."""

    FINE = 0
    NOTE = 1
    """Happens in good health."""
    UNKNOWN = 2
    WARNING = 3
    FAILURE = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know about a GPU: in a word, and in full."""

    level: Level
    word: str
    text: str


FINE: Final = Finding(Level.FINE, "ok", "")


def findings(gpu: GpuItem, now: datetime | None) -> Sequence[Finding]:
    """What there is to know about a GPU at *now*, the worst first; `FINE` where there is nothing."""
    return sorted(_findings(gpu, now), key=lambda found: -found.level) or [FINE]


def _findings(gpu: GpuItem, now: datetime | None) -> Iterator[Finding]:
    if gpu.up is not True:
        yield _unread(gpu)
    if gpu.recovery_action not in (None, "none"):
        asked = _ACTIONS.get(gpu.recovery_action, f"take recovery action {gpu.recovery_action}")
        yield Finding(Level.FAILURE, "needs help", f"the driver asks to {asked}")
    for xid in gpu.xids:
        yield _xid(xid, gpu, now)
    yield from _memory(gpu)
    yield from _links(gpu)
    yield from _clocks(gpu.clock_events or ())
    yield from map(_left_out, gpu.left_out)


def _unread(gpu: GpuItem) -> Finding:
    level, word = (Level.UNKNOWN, "unknown") if gpu.up is None else (Level.FAILURE, wording.words(gpu.reason))
    which = f" ({gpu.uuid})" if gpu.gpu is None else ""
    return Finding(level, word, f"{wording.words(gpu.reason)}: {reason(gpu.reason)}{which}")


def _xid(xid: XidItem, gpu: GpuItem, now: datetime | None) -> Finding:
    age = None if xid.last is None or now is None else now - xid.last
    is_note = xid.action in _OF_APPLICATIONS or _is_past(age, gpu)
    level = Level.NOTE if is_note else Level.FAILURE
    times = "" if xid.count == 1 else f", {xid.count:,} times"
    last = ""
    if age is not None:
        last = f"{', ' if xid.count == 1 else ', last '}{wording.age(max(0.0, age.total_seconds()))}"
    return Finding(
        level, f"XID {xid.xid}", f"XID {xid.xid}{times}{last}: {_ACTIONS.get(xid.action, wording.words(xid.action))}"
    )


def _is_past(age: timedelta | None, gpu: GpuItem) -> bool:
    if age is None:
        return False
    return age > (_PAST_AND_HEALTHY if gpu.recovery_action == "none" else _PAST)


def _left_out(name: str) -> Finding:
    what = "the whole GPU" if name == "*" else wording.words(name)
    return Finding(Level.NOTE, "left out", f"{what} is left out for 10 min: NVML hung or crashed in it")


def _memory(gpu: GpuItem) -> Iterator[Finding]:
    if gpu.remapped_rows_failure:
        yield Finding(Level.FAILURE, "memory", "bad memory could not be replaced: the GPU has to be exchanged")
    if gpu.ecc_uncorrected:
        errors = "error" if gpu.ecc_uncorrected == 1 else "errors"
        yield Finding(Level.WARNING, "ECC", f"{gpu.ecc_uncorrected:,} uncorrected memory {errors}")
    if gpu.remapped_rows_pending:
        yield Finding(Level.WARNING, "memory", "bad memory waits for a reset to be replaced")
    if gpu.retired_pages_pending:
        yield Finding(Level.WARNING, "memory", "bad memory waits for a reset to go out of use")


def _links(gpu: GpuItem) -> Iterator[Finding]:
    # Where none is up there may be no peer at all.
    if gpu.nvlinks_up and gpu.nvlinks_down:
        yield Finding(
            Level.WARNING, "NVLink", f"{gpu.nvlinks_down} of {gpu.nvlinks_up + gpu.nvlinks_down} NVLinks down"
        )
    if gpu.fabric_state in _FABRIC:
        yield Finding(Level.WARNING, "fabric", _FABRIC[gpu.fabric_state])
    # The generation goes down in idleness, the width does not.
    if gpu.pcie_width and gpu.pcie_max_width and gpu.pcie_width < gpu.pcie_max_width:
        yield Finding(Level.WARNING, "PCIe", f"PCIe x{gpu.pcie_width} of x{gpu.pcie_max_width}")


def _clocks(events: Sequence[str]) -> Iterator[Finding]:
    throttling = [text for event, text in _EVENTS.items() if event in events]
    if throttling:
        yield Finding(Level.WARNING, "throttled", f"throttled by {', '.join(throttling)}")
    elif "sw_power_cap" in events:
        yield Finding(Level.NOTE, "power cap", "at its power limit")


def reason(code: str) -> str:
    """Why GPUs cannot be read, as words."""
    return REASONS.get(code, wording.words(code))


def unread(view: GpuList) -> str:
    """Why there is no GPU to show, and what to do about it."""
    if view.reason == "ok":
        return "There is no GPU on this machine."
    why = view.message.rstrip(".") or reason(view.reason)
    return f"No GPU is read: {'; '.join([why, *filter(None, [_WHAT_TO_DO.get(view.reason)])])}."


def names(gpus: Sequence[GpuItem]) -> str:
    """How many of which: ``8 x H200``."""
    counted: dict[str, int] = {}
    for gpu in gpus:
        counted[name(gpu)] = counted.get(name(gpu), 0) + 1
    return ", ".join(f"{count} x {'GPU' if text == wording.UNDEFINED else text}" for text, count in counted.items())


def index(gpu: GpuItem) -> str:
    """Its number; a dash where only its UUID is known."""
    return wording.UNDEFINED if gpu.gpu is None else str(gpu.gpu)


def name(gpu: GpuItem) -> str:
    """Its model, without the vendor's name."""
    return (gpu.name or "").removeprefix(_RATHER) or wording.UNDEFINED


def percent(ratio: float | None) -> str:
    """A share of time, rounded down; nothing that is more than 0 reads as it."""
    if ratio is None:
        return wording.UNDEFINED
    return "<1%" if 0 < ratio < 0.01 else f"{floor(round(ratio * 100, 6))}%"


def gib(bytes_: float | None) -> str:
    """Memory in GiB: ``121.4``."""
    return wording.UNDEFINED if bytes_ is None else f"{bytes_ / _GIB:.1f}"


def whole(number: float | None) -> str:
    """Watts or degrees."""
    return wording.UNDEFINED if number is None else f"{number:.0f}"


def megahertz(hertz: float | None) -> str:
    """A clock: ``1515``."""
    return wording.UNDEFINED if hertz is None else f"{hertz / 1e6:.0f}"


def of(part: str, total: str) -> str:
    """``690/700``; one dash where nothing is known, no limit where there is none."""
    return part if total == wording.UNDEFINED else f"{part}/{total}"


def with_unit(number: str, unit: str) -> str:
    """``690/700 W``; a dash has no unit."""
    return number if number == wording.UNDEFINED else f"{number} {unit}"
