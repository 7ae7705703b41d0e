"""Why GPUs cannot be read: what happened, what we do about it, and what there is to do for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slo_exporter.ingest.nvml.frame import Reason


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason for people, as docs/gpu.md has it; empty where there is nothing to do."""

    happened: str
    we: str = ""
    you: str = ""

    @property
    def sentence(self) -> str:
        """All of it."""
        return "; ".join(filter(None, (self.happened, self.we, self.you)))


_AGAIN: Final = "it is tried again, once a minute in the end"
_OTHERS: Final = "the others are read on, this one is tried every 30 s"

EXPLANATIONS: Final[Mapping[Reason, Explanation]] = {
    Reason.OK: Explanation("it is read"),
    Reason.STARTING: Explanation("the first values come within seconds"),
    Reason.OFF: Explanation("gpu.source is off"),
    Reason.NO_LIBRARY: Explanation(
        "libnvidia-ml.so.1 is not here: normal without a GPU", _AGAIN, "start a container with GPU access"
    ),
    Reason.NO_DRIVER: Explanation(
        "the NVIDIA kernel module is not loaded: normal without a GPU", _AGAIN, "load it where there is one"
    ),
    Reason.VERSION_MISMATCH: Explanation(
        "the driver was upgraded under its library",
        "new processes are tried, which load the new library",
        "if it persists, reload the module, reboot or restart the container",
    ),
    Reason.NO_PERMISSION: Explanation(
        "this user may not open the NVIDIA devices", _AGAIN, "see the permissions of /dev/nvidia*"
    ),
    Reason.CONTAINER_LOST: Explanation(
        "every call on every GPU fails: the container lost its devices, as after systemctl daemon-reload on the host",
        _AGAIN,
        "restart the container",
    ),
    Reason.NVML_ERROR: Explanation(
        "NVML does not work as a whole", _AGAIN, "nvidia-smi should fail likewise: look at the kernel's log"
    ),
    Reason.HANG: Explanation(
        "NVML did not answer",
        "the reader was killed and is started again without the call that hung",
        "look for Xid 119 in the kernel's log; if nvidia-smi hangs too, reboot",
    ),
    Reason.CRASH: Explanation(
        "the reader was ended by a signal",
        "it is started again without the call that it died in",
        "update the driver if it comes again",
    ),
    Reason.EXIT: Explanation(
        "the reader ended without saying why", "it is started again", "look at what it wrote on standard error"
    ),
    Reason.GARBAGE: Explanation(
        "the reader wrote what is no frame", "it was killed and is started again", "report it if it comes again"
    ),
    Reason.STUCK: Explanation(
        "two readers hang in the driver past SIGKILL", "no third is started until one is gone", "reboot the machine"
    ),
    Reason.LOST: Explanation(
        "this GPU fell off the bus",
        _OTHERS,
        "drain the machine and reboot it; if it comes again, check its seat and power",
    ),
    Reason.RESET_REQUIRED: Explanation(
        "this GPU asks for a reset", _OTHERS, "stop what runs on it, then nvidia-smi --gpu-reset"
    ),
    Reason.MISSING: Explanation(
        "this GPU was seen or is named in gpu.groups, and NVML does not list it",
        "it is expected until the exporter is restarted",
        "look for Xid 79 in the kernel's log, or correct gpu.groups",
    ),
    Reason.UNKNOWN: Explanation("this GPU answers with errors only", _OTHERS, "look for Xids in the kernel's log"),
}
"""Every reason; what to do does not depend on the machine here."""

NO_ANSWER: Final = Explanation(
    "the reader did not answer", "it was killed and is started again", "see whether something stopped its process"
)
"""Of a hang with no call under way."""
KILLED: Final = Explanation(
    "the reader was ended from outside", "it is started again", "look for the OOM killer in the kernel's log"
)
"""Of a crash that is not NVML's."""

HINTS: Final[Mapping[Reason, str]] = {reason: told.sentence for reason, told in EXPLANATIONS.items()}
"""The same as sentences, for the log and for answers."""
