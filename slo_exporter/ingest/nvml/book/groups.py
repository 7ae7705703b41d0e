"""Which GPUs serve which service: ``gpu.groups``."""

from collections.abc import Mapping, Sequence

Groups = Mapping[str, Sequence[str]]
"""Group → GPUs, each an NVML index, a UUID or a PCI bus id."""


def of(groups: Groups, index: int, uuid: str, pci_bus_id: str) -> tuple[str, ...]:
    """The groups of one GPU, sorted; an empty *uuid* or *pci_bus_id* matches nothing."""
    names = {str(index), uuid.lower(), bus_id(pci_bus_id)} - {""}
    return tuple(sorted(group for group, gpus in groups.items() if names & {_name(gpu) for gpu in gpus}))


def named(groups: Groups) -> tuple[Sequence[int], Sequence[str]]:
    """Indices, and UUIDs and PCI bus ids, that groups name: these GPUs are expected before they are seen."""
    every = {_name(gpu): gpu.strip() for gpus in groups.values() for gpu in gpus}
    indices = sorted(int(name) for name in every if name.isdecimal())
    return indices, sorted(gpu for name, gpu in every.items() if not name.isdecimal())


def _name(gpu: str) -> str:
    gpu = gpu.strip()
    if gpu.isdecimal():
        return str(int(gpu))
    return bus_id(gpu) if is_bus_id(gpu) else gpu.lower()


def is_bus_id(gpu: str) -> bool:
    """Whether a GPU is named by its PCI bus id."""
    return ":" in gpu


def bus_id(text: str) -> str:
    """A PCI bus id without the zeros that some tools write before its domain."""
    return text.strip().lower().lstrip("0")
