"""True counters: sums of what a child says that they grew by, over as many children as it takes."""

from collections.abc import Iterable, Mapping
from typing import Final

from slo_exporter.ingest.nvml.book.shapes import Key

_COUNTER: Final = "counter"
_STAND_INS: Final = ("integrated", "sampled")
"""Last labels of what the hardware counts, and of what we sum up where it does not."""


class Counters:
    """
    The counters of one GPU; they never fall, but a stand-in goes when the real one comes.

    Plain sums: a double holds nine petabytes to the byte, and a hundred days to 2 ns.
    """

    def __init__(self) -> None:
        self._totals: dict[Key, float] = {}

    def add(self, grown: Mapping[Key, float]) -> None:
        """Add amounts that are finite and not negative."""
        for key, amount in grown.items():
            self._totals[key] = self._totals.get(key, 0.0) + amount

    def give_way(self, told: Iterable[Key]) -> None:
        """Forget what stood in for counters of the hardware that are *told*."""
        for metric, labels in told:
            if labels and labels[-1] == _COUNTER:
                for stand_in in _STAND_INS:
                    self._totals.pop((metric, (*labels[:-1], stand_in)), None)

    def values(self) -> Mapping[Key, float]:
        """The counters as they are; not a copy."""
        return self._totals
