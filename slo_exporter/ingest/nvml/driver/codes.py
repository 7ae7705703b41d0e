"""What NVML's return codes are called, and what each means for who asked."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from slo_exporter.ingest.nvml.frame import Reason


class NvmlError(Exception):
    """A call that was refused."""

    def __init__(self, code: int, call: str) -> None:
        super().__init__(f"{call}: {name(code)} ({code})")
        self.code = code
        self.call = call


class Behaviour(StrEnum):
    """What to do about a refusal."""

    DROP = "drop"
    """This GPU does not tell that, so it is not asked again before it is opened anew."""
    EMPTY = "empty"
    """Nothing to tell now."""
    COUNT = "count"
    """Passing: no value this time."""
    STREAK = "streak"
    """Passing, or the end of this GPU: three in a row decide."""
    GPU_DOWN = "gpu_down"
    """This GPU is gone; the others go on."""
    FAULT = "fault"
    """NVML itself is gone: only a new process can recover."""


UNINITIALIZED: Final = 1
INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
INSUFFICIENT_SIZE: Final = 7
DRIVER_NOT_LOADED: Final = 9
TIMEOUT: Final = 10
LIBRARY_NOT_FOUND: Final = 12
FUNCTION_NOT_FOUND: Final = 13
GPU_IS_LOST: Final = 15
RESET_REQUIRED: Final = 16
VERSION_MISMATCH: Final = 18
ARGUMENT_VERSION_MISMATCH: Final = 25
GPU_NOT_FOUND: Final = 28
UNKNOWN: Final = 999

_CODES: Final[Mapping[int, tuple[str, Behaviour]]] = {
    UNINITIALIZED: ("Uninitialized", Behaviour.FAULT),
    INVALID_ARGUMENT: ("InvalidArgument", Behaviour.DROP),
    NOT_SUPPORTED: ("NotSupported", Behaviour.DROP),
    NO_PERMISSION: ("NoPermission", Behaviour.DROP),
    5: ("AlreadyInitialized", Behaviour.COUNT),
    NOT_FOUND: ("NotFound", Behaviour.EMPTY),
    INSUFFICIENT_SIZE: ("InsufficientSize", Behaviour.EMPTY),
    8: ("InsufficientPower", Behaviour.COUNT),
    DRIVER_NOT_LOADED: ("DriverNotLoaded", Behaviour.FAULT),
    TIMEOUT: ("Timeout", Behaviour.COUNT),
    11: ("IrqIssue", Behaviour.COUNT),
    LIBRARY_NOT_FOUND: ("LibraryNotFound", Behaviour.FAULT),
    FUNCTION_NOT_FOUND: ("FunctionNotFound", Behaviour.DROP),
    14: ("CorruptedInforom", Behaviour.COUNT),
    GPU_IS_LOST: ("GpuIsLost", Behaviour.GPU_DOWN),
    RESET_REQUIRED: ("ResetRequired", Behaviour.GPU_DOWN),
    17: ("OperatingSystem", Behaviour.STREAK),
    VERSION_MISMATCH: ("LibRmVersionMismatch", Behaviour.FAULT),
    19: ("InUse", Behaviour.COUNT),
    20: ("Memory", Behaviour.STREAK),
    21: ("NoData", Behaviour.EMPTY),
    22: ("VgpuEccNotSupported", Behaviour.DROP),
    23: ("InsufficientResources", Behaviour.COUNT),
    24: ("FreqNotSupported", Behaviour.DROP),
    ARGUMENT_VERSION_MISMATCH: ("ArgumentVersionMismatch", Behaviour.DROP),
    26: ("Deprecated", Behaviour.DROP),
    27: ("NotReady", Behaviour.COUNT),
    GPU_NOT_FOUND: ("GpuNotFound", Behaviour.GPU_DOWN),
    29: ("InvalidState", Behaviour.COUNT),
    30: ("ResetTypeNotSupported", Behaviour.DROP),
    UNKNOWN: ("Unknown", Behaviour.STREAK),
}
"""nvmlReturn_t. Source of the behaviours: NVML API reference, and what each did to other exporters."""

_OF_GPU: Final[Mapping[int, Reason]] = {
    GPU_IS_LOST: Reason.LOST,
    RESET_REQUIRED: Reason.RESET_REQUIRED,
    GPU_NOT_FOUND: Reason.MISSING,
    NOT_FOUND: Reason.MISSING,
    INVALID_ARGUMENT: Reason.MISSING,
    NO_PERMISSION: Reason.NO_PERMISSION,
    UNKNOWN: Reason.UNKNOWN,
    20: Reason.UNKNOWN,
    17: Reason.UNKNOWN,
}
"""Of a GPU that cannot be opened or read. No handle under its number or UUID (2, 6, 28): it is not there."""

_OF_NVML: Final[Mapping[int, tuple[Reason, str]]] = {
    NO_PERMISSION: (Reason.NO_PERMISSION, "NVML may not be used by this user"),
    DRIVER_NOT_LOADED: (Reason.NO_DRIVER, "the NVIDIA kernel module is not loaded"),
    LIBRARY_NOT_FOUND: (Reason.NO_LIBRARY, "libnvidia-ml.so.1 is not there"),
    VERSION_MISMATCH: (
        Reason.VERSION_MISMATCH,
        "the driver was upgraded under the library, or the module not reloaded after the upgrade",
    ),
}


def name(code: int) -> str:
    """The name of a return code; ``slo_exporter_nvml_errors_total`` has it in snake case."""
    known = _CODES.get(code)
    return f"Code{code}" if known is None else known[0]


def behaviour(code: int) -> Behaviour:
    """What to do about it; a code from the future passes and is counted."""
    known = _CODES.get(code)
    return Behaviour.COUNT if known is None else known[1]


def reason_of_gpu(code: int) -> Reason:
    """Why a GPU that answered *code* is not read."""
    return _OF_GPU.get(code, Reason.NVML_ERROR)


def reason_of_nvml(error: NvmlError) -> tuple[Reason, str]:
    """Why nothing can be read, and a sentence for people."""
    reason, text = _OF_NVML.get(error.code, (Reason.NVML_ERROR, "NVML refused"))
    return reason, f"{text} ({error})"
