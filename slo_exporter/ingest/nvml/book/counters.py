"""True counters: sums of what a child says that they grew by, over as many children as it takes."""

from collections.abc import Mapping

from slo_exporter.ingest.nvml.book.shapes import Key


class Counters:
    """
    The counters of one GPU; they never fall.

    Plain sums: a double holds nine petabytes to the byte, and a hundred days to 2 ns.
    """

    def __init__(self) -> None:
        self._totals: dict[Key, float] = {}

    def add(self, grown: Mapping[Key, float]) -> None:
        """Add amounts that are finite and not negative."""
        for key, amount in grown.items():
            self._totals[key] = self._totals.get(key, 0.0) + amount

    def values(self) -> Mapping[Key, float]:
        """The counters as they are; not a copy."""
        return self._totals
