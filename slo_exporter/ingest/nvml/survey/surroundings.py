"""
What of NVIDIA is on this machine beside NVML: why NVML cannot be read, and what to do about it.

Files only: nothing is opened that could hang.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slo_exporter.ingest.host.reader import text_of
from slo_exporter.ingest.nvml.frame import Reason

_DEVICE: Final = re.compile(r"nvidia(ctl|[0-9]+)")
_VERSION: Final = re.compile(r"\b([0-9]{3,}\.[0-9.]+)\b")
_NVIDIA: Final = "0x10de"
_DISPLAYS: Final = ("0x0300", "0x0302")
"""PCI classes VGA and 3D controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What there is."""

    kernel_driver: str | None
    """Version of the loaded module; seen from a container too."""
    devices: tuple[str, ...]
    """/dev/nvidiactl, /dev/nvidia0, ..."""
    closed: tuple[str, ...]
    """Those that this user may not open."""
    on_pci: int
    """GPUs of NVIDIA on the PCI bus."""
    in_container: bool


def look(root: Path = Path("/"), *, in_container: bool) -> Surroundings:
    """See what there is below *root*."""
    devices = sorted(path for path in _children(root / "dev") if _DEVICE.fullmatch(path.name))
    version = _VERSION.search(text_of(f"{root}/proc/driver/nvidia/version") or "")
    return Surroundings(
        kernel_driver=version[1] if version else None,
        devices=tuple(f"/dev/{path.name}" for path in devices),
        closed=tuple(f"/dev/{path.name}" for path in devices if not os.access(path, os.R_OK | os.W_OK)),
        on_pci=sum(map(_is_gpu, _children(root / "sys/bus/pci/devices"))),
        in_container=in_container,
    )


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _is_gpu(device: Path) -> bool:
    vendor, kind = (text_of(f"{device}/{name}") or "" for name in ("vendor", "class"))
    return vendor.strip() == _NVIDIA and kind.startswith(_DISPLAYS)


_IN_CONTAINER: Final = (
    "start the container with the GPU: docker run --gpus all, or --runtime nvidia with "
    "NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=utility; in Kubernetes ask for nvidia.com/gpu "
    "or set runtimeClassName: nvidia"
)
_INSTALL: Final = "install NVIDIA's driver: its package brings the kernel module and libnvidia-ml.so.1"
_LIBRARY: Final = "the driver is loaded but its library is not here: install the one of the same version"
_RELOAD: Final = "reboot, or stop what uses the GPUs and reload the modules (rmmod nvidia_uvm nvidia; modprobe nvidia)"
_OPEN: Final = "let this user open {devices}: run as root, or correct the owner and mode of these files"

_ADVICE: Final[Mapping[Reason, str]] = {
    Reason.NO_PERMISSION: "run as a user who may open /dev/nvidia*",
    Reason.CONTAINER_LOST: "restart the container: it lost its devices, as after systemctl daemon-reload on the host",
    Reason.HANG: "look for Xid 119 in the kernel's log; if nvidia-smi hangs too, the machine needs a reboot",
    Reason.CRASH: "update the driver; serve leaves out a call that NVML dies in",
    Reason.EXIT: "look at what it wrote above",
    Reason.STUCK: "reboot the machine: the driver does not let go of a process",
    Reason.LOST: "drain the machine and reboot it; if it comes again, check the GPU's seat and power",
    Reason.RESET_REQUIRED: "stop what runs on it, then nvidia-smi --gpu-reset",
    Reason.UNKNOWN: "look for Xids in the kernel's log",
}


def advice(reason: Reason, around: Surroundings) -> str | None:
    """What to do about it; None where nothing is to be done."""
    if reason in {Reason.NO_LIBRARY, Reason.NO_DRIVER}:
        return _advice_without(reason, around)
    if reason is Reason.VERSION_MISMATCH:
        return "restart the container, so that it gets the host's new library" if around.in_container else _RELOAD
    if around.closed:
        return _OPEN.format(devices=", ".join(around.closed))
    return _ADVICE.get(reason)


def _advice_without(reason: Reason, around: Surroundings) -> str | None:
    has_driver = around.kernel_driver is not None
    if around.in_container:
        return _IN_CONTAINER if has_driver or around.on_pci or around.devices else None
    if has_driver and reason is Reason.NO_LIBRARY:
        return _LIBRARY
    if not around.on_pci:
        return None
    return _INSTALL if reason is Reason.NO_LIBRARY else "load the kernel module: modprobe nvidia"
