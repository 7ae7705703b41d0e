"""Which GPUs serve which service: ``gpu.groups``."""

from collections.abc import Mapping, Sequence

Groups = Mapping[str, Sequence[str]]
"""Group → GPUs, each an NVML index, a UUID or a PCI bus id."""


def of(groups: Groups, index: int, uuid: str, pci_bus_id: str) -> tuple[str, ...]:
    """The groups of one GPU, sorted; an empty *uuid* or *pci_bus_id* matches nothing."""
    names = {str(index), uuid.lower(), _bus_id(pci_bus_id)} - {""}
    return tuple(sorted(group for group, gpus in groups.items() if names & {_name(gpu) for gpu in gpus}))


def named(groups: Groups) -> tuple[Sequence[int], Sequence[str]]:
    """Indices and UUIDs that groups name; GPUs that are named so are expected before they are seen."""
    every = {gpu.strip() for gpus in groups.values() for gpu in gpus}
    indices = sorted(int(gpu) for gpu in every if gpu.isdecimal())
    return indices, sorted(gpu for gpu in every if not gpu.isdecimal() and not _is_bus_id(gpu))


def _name(gpu: str) -> str:
    gpu = gpu.strip()
    if gpu.isdecimal():
        return str(int(gpu))
    return _bus_id(gpu) if _is_bus_id(gpu) else gpu.lower()


def _is_bus_id(gpu: str) -> bool:
    return ":" in gpu


def _bus_id(text: str) -> str:
    """A PCI bus id without the zeros that some tools write before its domain."""
    return text.strip().lower().lstrip("0")
