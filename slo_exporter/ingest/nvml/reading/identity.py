"""Who a GPU is, and who reads it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from slo_exporter.ingest.nvml.driver import abi, codes
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.driver.library import Handle, Nvml
from slo_exporter.ingest.nvml.reading.gpu import Gpu

_ARCHITECTURES: Final[Mapping[int, str]] = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
"""NVML_DEVICE_ARCH_*"""
_TEXTS: Final[Mapping[str, str]] = {
    "name": "nvmlDeviceGetName",
    "serial": "nvmlDeviceGetSerial",
    "vbios": "nvmlDeviceGetVbiosVersion",
}
_NUMBERS: Final[Mapping[str, str]] = {
    "minor": "nvmlDeviceGetMinorNumber",
    "module": "nvmlDeviceGetModuleId",
    "numa": "nvmlDeviceGetNumaNodeId",
}
_CAPABILITY: Final = "nvmlDeviceGetCudaComputeCapability"
_NO_NODE: Final = 0xFFFF_FFFF
"""What stands for "no NUMA node"."""
_PASSING: Final = frozenset({Behaviour.DROP, Behaviour.EMPTY, Behaviour.COUNT})
"""A label that is refused like that is absent; the GPU is read all the same."""


@dataclass(slots=True)
class Identity:
    """Who a GPU is, as far as it told: what came before a call that failed is kept."""

    uuid: str = ""
    info: dict[str, str] = field(default_factory=dict)
    """Labels of ``gpu_info`` beside ``gpu``, ``uuid`` and those of `versions`; what is not told is absent."""


def open_gpu(nvml: Nvml, index: int, who: Identity) -> Gpu:
    """
    Open a GPU, by its UUID where that is known: its number may have changed.

    First of all where it is and its UUID: by these a GPU that is lost is found.

    Raises:
        NvmlError: it cannot be opened.
    """
    handle = nvml.by_uuid(who.uuid) if who.uuid else nvml.by_index(index)
    try:
        who.uuid = who.uuid or nvml.text("nvmlDeviceGetUUID", handle)
    finally:
        _tell(who.info, "pci_bus_id", lambda: _bus_id(nvml, handle))
    return Gpu(nvml=nvml, index=index, handle=handle, uuid=who.uuid)


def describe(gpu: Gpu, who: Identity) -> None:
    """
    Ask for everything else that `Identity` holds.

    Raises:
        NvmlError: the GPU is gone.
    """
    nvml, handle = gpu.nvml, gpu.handle
    for label, call in _TEXTS.items():
        _tell(who.info, label, partial(nvml.text, call, handle))
    for label, call in _NUMBERS.items():
        _tell(who.info, label, partial(_number, nvml, call, handle))
    _tell(who.info, "architecture", lambda: _architecture(nvml, handle))
    _tell(who.info, "compute_capability", lambda: "{}.{}".format(*nvml.pair(_CAPABILITY, handle)))


def versions(nvml: Nvml) -> tuple[str | None, str | None, str | None]:
    """Of the driver, the library and CUDA; None where not told."""
    found: dict[str, str] = {}
    _tell(found, "library", lambda: nvml.text("nvmlSystemGetNVMLVersion"))
    _tell(found, "cuda", lambda: _cuda(nvml.number("nvmlSystemGetCudaDriverVersion_v2")))
    return nvml.driver_version or None, found.get("library"), found.get("cuda")


def _tell(found: dict[str, str], label: str, ask: Callable[[], str]) -> None:
    try:
        text = ask()
    except NvmlError as error:
        if codes.behaviour(error.code) not in _PASSING:
            raise
        return
    if text:
        found[label] = text


def _number(nvml: Nvml, call: str, handle: Handle) -> str:
    number = nvml.number(call, handle)
    return "" if number == _NO_NODE else str(number)


def _cuda(version: int) -> str:
    """13.0 of 13000."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _bus_id(nvml: Nvml, handle: Handle) -> str:
    """Eight digits of domain, in small letters: as the kernel writes it, but with a longer domain."""
    found: bytes = nvml.struct("nvmlDeviceGetPciInfo_v3", handle, abi.PciInfo).busId
    return found.decode(errors="replace").lower()


def _architecture(nvml: Nvml, handle: Handle) -> str:
    return _ARCHITECTURES.get(nvml.number("nvmlDeviceGetArchitecture", handle), "")
