"""The newest values of one GPU, each as long as its tier makes it true."""

from collections.abc import Mapping
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.book.shapes import Key
from slo_exporter.ingest.nvml.frame import FRAME_S, TIER_S, Tier

PERIODS: Final = 3
"""A tier that did not come for so many of its periods is no longer true; it comes with a frame, no more often."""
_LASTING_NS: Final = {tier: int(PERIODS * max(seconds, FRAME_S) * SECOND_NS) for tier, seconds in TIER_S.items()}


class Newest:
    """
    The tiers of one GPU, each whole.

    A mapping that was put is not changed any more: readers may keep it. Instants are monotonic.
    """

    def __init__(self) -> None:
        self._tiers: dict[Tier, tuple[int, Mapping[Key, float]]] = {}
        self._processes: tuple[int, Mapping[Key, float]] = (0, {})

    def put(self, tier: Tier, values: Mapping[Key, float], now_ns: int) -> None:
        """Replace what *tier* said before."""
        self._tiers[tier] = (now_ns, values)

    def put_processes(self, values: Mapping[Key, float], now_ns: int) -> None:
        """Replace what was known of processes, which are read in the slow tier."""
        self._processes = (now_ns, values)

    def clear(self) -> None:
        """Forget everything: the GPU cannot be read."""
        self._tiers.clear()
        self._processes = (0, {})

    def values(self, now_ns: int) -> dict[Key, float]:
        """What is still true."""
        values: dict[Key, float] = {}
        for tier, (at_ns, found) in self._tiers.items():
            if now_ns - at_ns <= _LASTING_NS.get(tier, now_ns):
                values.update(found)
        at_ns, found = self._processes
        if now_ns - at_ns <= _LASTING_NS[Tier.SLOW]:
            values.update(found)
        return values
