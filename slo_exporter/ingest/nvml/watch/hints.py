"""What to do about each reason for which GPUs cannot be read."""

from collections.abc import Mapping
from typing import Final

from slo_exporter.ingest.nvml.frame import Reason

HINTS: Final[Mapping[Reason, str]] = {
    Reason.STARTING: "the first values come within seconds",
    Reason.OFF: "gpu.source is off",
    Reason.NO_LIBRARY: "libnvidia-ml.so.1 is not here: normal without a GPU; in a container, start it with GPU access",
    Reason.NO_DRIVER: "the NVIDIA kernel module is not loaded: normal without a GPU; else load it",
    Reason.VERSION_MISMATCH: (
        "the driver was upgraded under its library: new processes are tried; "
        "if it persists, reboot or restart the container"
    ),
    Reason.NO_PERMISSION: "this user may not open the NVIDIA devices: see the permissions of /dev/nvidia*",
    Reason.CONTAINER_LOST: (
        "every call on every GPU fails: the container lost its devices, as after systemctl daemon-reload; "
        "restart the container"
    ),
    Reason.NVML_ERROR: "NVML does not work as a whole; nvidia-smi should fail likewise; it is tried again",
    Reason.HANG: (
        "NVML did not answer; the reader was killed and is started again without the call that hung; "
        "look for Xid 119 in the kernel's log"
    ),
    Reason.CRASH: "the reader was ended by a signal; it is started again without the call that it died in",
    Reason.EXIT: "the reader ended without saying why; what it wrote stands on standard error; it is started again",
    Reason.GARBAGE: "the reader wrote what is no frame; it was killed and is started again",
    Reason.STUCK: (
        "two readers hang in the driver past SIGKILL, no third is started until one is gone; the machine needs a reboot"
    ),
    Reason.LOST: "this GPU fell off the bus: drain the machine and reboot it; if it comes again, check its power",
    Reason.RESET_REQUIRED: "this GPU asks for a reset: stop what runs on it, then nvidia-smi --gpu-reset",
    Reason.MISSING: "this GPU was seen or is named in gpu.groups, and NVML does not list it",
    Reason.UNKNOWN: "this GPU answers with errors only; look for Xids in the kernel's log",
}
"""One sentence for people, by reason; `Reason.OK` needs none."""
