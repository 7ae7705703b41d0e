"""Which capabilities a GPU is asked for, and which it was found not to have."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from slo_exporter.ingest.nvml.frame import Tier
from slo_exporter.ingest.nvml.note import written
from slo_exporter.ingest.nvml.reading.capabilities import CAPABILITIES
from slo_exporter.ingest.nvml.reading.capability import Capability


@dataclass(frozen=True, slots=True)
class Asked:
    """A capability that is asked for, and the note of it."""

    capability: Capability
    note: bytes


class Plan:
    """
    What one GPU is asked for.

    Args:
        index: of the GPU.
        without: capabilities that are not to be read.
    """

    def __init__(self, index: int, without: Collection[str]) -> None:
        self.without = frozenset(without)
        self.dropped: dict[str, int] = {}
        """Capability → the code with which it was refused for good."""
        self._all = {
            tier: tuple(
                Asked(found, written(index, found.name))
                for found in CAPABILITIES
                if found.tier is tier and found.name not in self.without
            )
            for tier in Tier
        }
        self._live = dict(self._all)

    def of(self, tier: Tier) -> Sequence[Asked]:
        """What is asked for in a tier."""
        return self._live[tier]

    def drop(self, asked: Asked, code: int) -> None:
        """Ask for it no more."""
        tier = asked.capability.tier
        self._live[tier] = tuple(other for other in self._live[tier] if other is not asked)
        self.dropped[asked.capability.name] = code

    def renew(self) -> None:
        """Ask for everything again: the GPU was opened anew."""
        self._live, self.dropped = dict(self._all), {}

    def lacks(self, capability: str) -> bool:
        """Whether the GPU was found not to have it; what is left out for a while it may well have."""
        return capability in self.dropped
