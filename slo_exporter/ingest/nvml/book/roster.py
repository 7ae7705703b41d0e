"""
The GPUs that are expected: those seen since the start, and those that ``gpu.groups`` names.

Who is who: the UUID tells. A GPU that does not tell its UUID, since it fails,
is the one last seen at its index, unless that one is elsewhere by now.
One that ``gpu.groups`` names by its PCI bus id has that for a UUID until it is seen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slo_exporter.ingest.nvml.book import groups as grouping
from slo_exporter.ingest.nvml.book.counters import Counters
from slo_exporter.ingest.nvml.book.newest import Newest
from slo_exporter.ingest.nvml.book.shapes import MOST_GPUS, MOST_INDEX
from slo_exporter.ingest.nvml.book.states import NO_INDEX
from slo_exporter.ingest.nvml.book.xids import XidCounts
from slo_exporter.ingest.nvml.frame import GpuReading, Reason


@dataclass(slots=True)
class Expected:
    """All that is known of one GPU."""

    index: int
    uuid: str
    reason: Reason = Reason.STARTING
    """In the newest frame."""
    blamed: Reason | None = None
    """Why it is left out as a whole, while it is."""
    info: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    newest: Newest = field(default_factory=Newest)
    counters: Counters = field(default_factory=Counters)
    xids: XidCounts = field(default_factory=XidCounts)

    @property
    def labels(self) -> tuple[str, str]:
        """Values of ``gpu`` and ``uuid``."""
        return ("" if self.index == NO_INDEX else str(self.index), self.uuid)


class Roster:
    """
    Who is expected.

    Attributes:
        refused: readings of GPUs beyond `MOST_GPUS`.
    """

    def __init__(self, groups: grouping.Groups) -> None:
        self._groups = groups
        indices, names = grouping.named(groups)
        named = [*(Expected(index, "") for index in indices), *map(_unseen, names)]
        self._gpus = named[:MOST_GPUS]
        self.refused = 0
        for gpu in self._gpus:
            self.regroup(gpu)

    def __iter__(self) -> Iterator[Expected]:
        """In the order of their indices."""
        return iter(self._gpus)

    def __len__(self) -> int:
        """How many are expected."""
        return len(self._gpus)

    def at(self, index: int) -> Expected | None:
        """The GPU last seen at *index*, one that told its UUID before one that did not."""
        there = [gpu for gpu in self._gpus if gpu.index == index]
        return max(there, key=lambda gpu: (gpu.reason is not Reason.MISSING, bool(gpu.uuid)), default=None)

    def expect(self, index: int) -> Expected | None:
        """The GPU at *index*; one that was never seen, since nobody could, is expected from now on."""
        known = self.at(index)
        if known is not None or not 0 <= index < MOST_INDEX:
            return known
        gpu = self._new()
        if gpu is not None:
            gpu.index = index
            self.regroup(gpu)
            self._sort()
        return gpu

    def match(self, readings: Sequence[GpuReading]) -> list[tuple[Expected, GpuReading]]:
        """Say whose each reading is; who was not known is expected from now on."""
        present = {reading.uuid.lower() for reading in readings if reading.uuid}
        taken: dict[int, tuple[Expected, GpuReading]] = {}
        for reading in readings:
            gpu = self._of(reading, present) or self._new()
            if gpu is None or id(gpu) in taken:
                self.refused += 1
                continue
            gpu.index, gpu.uuid = reading.gpu, reading.uuid or gpu.uuid
            taken[id(gpu)] = (gpu, reading)
        self._tidy({id(gpu) for gpu, _ in taken.values()}, {_place(reading.info) for _, reading in taken.values()})
        return list(taken.values())

    def regroup(self, gpu: Expected) -> None:
        """Say anew which groups a GPU is of: its index, UUID or PCI bus id changed."""
        gpu.groups = grouping.of(self._groups, gpu.index, gpu.uuid, gpu.info.get("pci_bus_id", ""))

    def _of(self, reading: GpuReading, present: Iterable[str]) -> Expected | None:
        if reading.uuid:
            known = next((gpu for gpu in self._gpus if gpu.uuid.lower() == reading.uuid.lower()), None)
            return known or self._awaited(reading) or self._nameless(reading.gpu)
        there = [gpu for gpu in self._gpus if gpu.index == reading.gpu and gpu.uuid.lower() not in present]
        return max(there, key=lambda gpu: bool(gpu.uuid), default=None)

    def _awaited(self, reading: GpuReading) -> Expected | None:
        """Named by the PCI bus id that it has."""
        place = _place(reading.info)
        return next((gpu for gpu in self._gpus if _is_awaited(gpu) and _place(gpu.info) == place), None)

    def _nameless(self, index: int) -> Expected | None:
        return next((gpu for gpu in self._gpus if gpu.index == index and not gpu.uuid), None)

    def _new(self) -> Expected | None:
        if len(self._gpus) >= MOST_GPUS:
            return None
        self._gpus.append(Expected(NO_INDEX, ""))
        return self._gpus[-1]

    def _tidy(self, present: set[int], places: set[str]) -> None:
        """Forget indices and PCI bus ids whose GPU told its UUID since."""
        told = {gpu.index for gpu in self._gpus if gpu.uuid and id(gpu) in present}

        def is_told(gpu: Expected) -> bool:
            return _place(gpu.info) in places if _is_awaited(gpu) else not gpu.uuid and gpu.index in told

        self._gpus = [gpu for gpu in self._gpus if id(gpu) in present or not is_told(gpu)]
        self._sort()

    def _sort(self) -> None:
        self._gpus.sort(key=lambda gpu: (gpu.index, gpu.uuid))


def _unseen(name: str) -> Expected:
    """A GPU that a group names by its UUID or PCI bus id."""
    return Expected(NO_INDEX, name, info={"pci_bus_id": name} if grouping.is_bus_id(name) else {})


def _is_awaited(gpu: Expected) -> bool:
    """Named by its PCI bus id, and not seen yet."""
    return gpu.index == NO_INDEX and grouping.is_bus_id(gpu.uuid)


def _place(info: Mapping[str, str]) -> str:
    return grouping.bus_id(info.get("pci_bus_id", ""))
