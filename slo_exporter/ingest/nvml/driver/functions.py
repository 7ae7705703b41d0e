"""The functions of the NVML library that we call: their signatures, and a measured call of each."""

from collections.abc import Mapping
from ctypes import CDLL, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any, Final

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.frame import Calls

_PTR: Final = c_void_p
"""Any pointer: `byref`, arrays and handles pass."""
_NUMBER: Final = (_PTR, _PTR)
_OF_KIND: Final = (_PTR, c_uint, _PTR)
_TEXT: Final = (_PTR, _PTR, c_uint)
_PAIR: Final = (_PTR, _PTR, _PTR)

SIGNATURES: Final[Mapping[str, tuple[type[Any], ...]]] = {
    "nvmlInitWithFlags": (c_uint,),
    "nvmlInit_v2": (),
    "nvmlShutdown": (),
    "nvmlSystemGetDriverVersion": (_PTR, c_uint),
    "nvmlSystemGetNVMLVersion": (_PTR, c_uint),
    "nvmlSystemGetCudaDriverVersion_v2": (_PTR,),
    "nvmlDeviceGetCount_v2": (_PTR,),
    "nvmlDeviceGetHandleByIndex_v2": (c_uint, _PTR),
    "nvmlDeviceGetHandleByUUID": (_PTR, _PTR),
    "nvmlDeviceGetUUID": _TEXT,
    "nvmlDeviceGetName": _TEXT,
    "nvmlDeviceGetSerial": _TEXT,
    "nvmlDeviceGetVbiosVersion": _TEXT,
    "nvmlDeviceGetPciInfo_v3": _NUMBER,
    "nvmlDeviceGetArchitecture": _NUMBER,
    "nvmlDeviceGetCudaComputeCapability": _PAIR,
    "nvmlDeviceGetMinorNumber": _NUMBER,
    "nvmlDeviceGetModuleId": _NUMBER,
    "nvmlDeviceGetNumaNodeId": _NUMBER,
    "nvmlDeviceGetUtilizationRates": _NUMBER,
    "nvmlDeviceGetMemoryInfo_v2": _NUMBER,
    "nvmlDeviceGetMemoryInfo": _NUMBER,
    "nvmlDeviceGetBAR1MemoryInfo": _NUMBER,
    "nvmlDeviceGetPowerUsage": _NUMBER,
    "nvmlDeviceGetTotalEnergyConsumption": _NUMBER,
    "nvmlDeviceGetTemperatureV": _NUMBER,
    "nvmlDeviceGetTemperature": _OF_KIND,
    "nvmlDeviceGetTemperatureThreshold": _OF_KIND,
    "nvmlDeviceGetMarginTemperature": _NUMBER,
    "nvmlDeviceGetClockInfo": _OF_KIND,
    "nvmlDeviceGetMaxClockInfo": _OF_KIND,
    "nvmlDeviceGetPerformanceState": _NUMBER,
    "nvmlDeviceGetCurrentClocksEventReasons": _NUMBER,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _NUMBER,
    "nvmlDeviceGetSupportedClocksEventReasons": _NUMBER,
    "nvmlDeviceGetSupportedClocksThrottleReasons": _NUMBER,
    "nvmlDeviceGetEncoderUtilization": _PAIR,
    "nvmlDeviceGetDecoderUtilization": _PAIR,
    "nvmlDeviceGetJpgUtilization": _PAIR,
    "nvmlDeviceGetOfaUtilization": _PAIR,
    "nvmlDeviceGetCurrPcieLinkGeneration": _NUMBER,
    "nvmlDeviceGetCurrPcieLinkWidth": _NUMBER,
    "nvmlDeviceGetMaxPcieLinkGeneration": _NUMBER,
    "nvmlDeviceGetMaxPcieLinkWidth": _NUMBER,
    "nvmlDeviceGetMigMode": _PAIR,
    "nvmlDeviceGetGpuFabricInfoV": _NUMBER,
    "nvmlDeviceGetNvLinkState": _OF_KIND,
    "nvmlDeviceGetFieldValues": (_PTR, c_int, _PTR),
    "nvmlDeviceGetSamples": (_PTR, c_uint, c_ulonglong, _PTR, _PTR, _PTR),
    "nvmlDeviceGetComputeRunningProcesses_v3": (_PTR, _PTR, _PTR),
    "nvmlDeviceGetProcessUtilization": (_PTR, _PTR, _PTR, c_ulonglong),
    "nvmlGpmQueryDeviceSupport": _NUMBER,
    "nvmlGpmSampleAlloc": (_PTR,),
    "nvmlGpmSampleFree": (_PTR,),
    "nvmlGpmSampleGet": (_PTR, _PTR),
    "nvmlGpmMetricsGet": (_PTR,),
    "nvmlEventSetCreate": (_PTR,),
    "nvmlEventSetFree": (_PTR,),
    "nvmlDeviceRegisterEvents": (_PTR, c_ulonglong, _PTR),
    "nvmlEventSetWait_v2": (_PTR, _PTR, c_uint),
}
"""Every function that we call; one that a library lacks answers FunctionNotFound."""

ANSWERS: Final[Mapping[str, frozenset[int]]] = {
    "nvmlEventSetWait_v2": frozenset({codes.TIMEOUT}),
    "nvmlDeviceGetSamples": frozenset({codes.NOT_FOUND, codes.INSUFFICIENT_SIZE}),
    "nvmlDeviceGetProcessUtilization": frozenset({codes.NOT_FOUND, codes.INSUFFICIENT_SIZE}),
    "nvmlDeviceGetComputeRunningProcesses_v3": frozenset({codes.INSUFFICIENT_SIZE}),
    "nvmlDeviceGetNvLinkState": frozenset({codes.INVALID_ARGUMENT, codes.NOT_SUPPORTED}),
}
"""Codes that are answers of a function, not errors."""


class Call:
    """
    One function of the library, measured; raises what it refuses.

    Args:
        name: of the function.
        function: it, or None where the library lacks it.
        clock: to measure with.
    """

    __slots__ = ("_answers", "_count", "_errors", "_function", "_now", "_ns", "is_there", "name")

    def __init__(self, name: str, function: Any, clock: Clock) -> None:
        self.name = name
        self.is_there = function is not None
        self._function = function if self.is_there else _missing
        self._answers = ANSWERS.get(name, frozenset())
        self._now = clock.monotonic_ns
        self._count = 0
        self._ns = 0
        self._errors: dict[str, int] = {}

    def __call__(self, *arguments: object) -> int:
        """Call it: 0, or a code that is an answer; everything else is raised."""
        started = self._now()
        code: int = self._function(*arguments)
        self._ns += self._now() - started
        self._count += 1
        if code and code not in self._answers:
            self.count_error(code)
            raise NvmlError(code, self.name)
        return code

    def count_error(self, code: int) -> None:
        """Count a refusal; also one of a part of an answer that came."""
        text = codes.name(code)
        self._errors[text] = self._errors.get(text, 0) + 1

    def take(self) -> Calls | None:
        """What it cost since it was last asked."""
        if not self._count and not self._errors:
            return None
        taken = Calls(self._count, self._ns / SECOND_NS, self._errors)
        self._count, self._ns, self._errors = 0, 0, {}
        return taken


def _missing(*_: object) -> int:
    return codes.FUNCTION_NOT_FOUND


def bind(loaded: CDLL, clock: Clock) -> Mapping[str, Call]:
    """All functions of a library."""
    return {name: Call(name, _bound(loaded, name, types), clock) for name, types in SIGNATURES.items()}


def _bound(loaded: CDLL, name: str, types: tuple[type[Any], ...]) -> Any:
    function = getattr(loaded, name, None)
    if function is not None:
        function.argtypes = types
    return function
