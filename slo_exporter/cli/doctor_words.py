"""How `doctor` writes names of metrics, capabilities, labels and reasons."""

from collections.abc import Mapping
from typing import Final

_SPELLED: Final[Mapping[str, str]] = {
    "bar1": "BAR1",
    "cpu": "CPU",
    "dram": "DRAM",
    "ecc": "ECC",
    "gpm": "GPM",
    "gpu": "GPU",
    "io": "I/O",
    "jpeg": "JPEG",
    "mig": "MIG",
    "nvlink": "NVLink",
    "ofa": "OFA",
    "pcie": "PCIe",
    "sm": "SM",
    "xid": "Xid",
}
_CAPABILITIES: Final[Mapping[str, str]] = {
    "clock_event_pulse": "clock events, sampled",
    "gpm_graphics": "GPM graphics engine",
    "gpm_pulse": "GPM activity, sampled",
    "gpm_second": "GPM, one second",
    "power_average": "power, average",
    "power_instant": "power, instant",
}
"""Those that words alone do not tell."""


def words(name: str) -> str:
    """``sw_power_cap`` as it is read."""
    return " ".join(_SPELLED.get(word, word) for word in name.split("_"))


def capability(name: str) -> str:
    """What a row of a capability is called."""
    return _CAPABILITIES.get(name) or words(name)


def told(reason: str, call: str, text: str) -> str:
    """What happened, where, and how: ``hang in temperature: it did not answer``."""
    return f"{words(reason)}{f' in {call}' if call else ''}: {text}"
