"""When a GPU's tiers are due: spread over the cycles, so that dear calls on several GPUs fall into different ones."""

from collections.abc import Sequence
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.frame import TIER_S, Tier

PERIOD_NS: Final = int(TIER_S[Tier.FAST] * SECOND_NS)
"""Between two cycles."""
STEPS: Final = {tier: round(seconds / TIER_S[Tier.FAST]) for tier, seconds in TIER_S.items()}
"""In cycles."""
_APART: Final = STEPS[Tier.SLOW] // 2
"""Between the slow and the rare tier of one GPU."""

_DEAR: Final = 0.02
"""A fast tier that takes more of the time than this holds the driver's lock too long, and is read each second."""
_CHEAP: Final = 0.01
"""It is fast again when a reading four times a second would take less than this."""
_JUDGED: Final = 8
"""Readings of which the mean decides: one may be slow by chance."""


class Rhythm:
    """
    The tiers of one GPU.

    Args:
        index: of the GPU.
    """

    __slots__ = ("_next", "_phases", "_readings", "_spent_ns", "step")

    def __init__(self, index: int) -> None:
        self.step = STEPS[Tier.FAST]
        """Of the fast tier, in cycles."""
        self._phases = {Tier.FAST: 0, Tier.NORMAL: 0, Tier.SLOW: index, Tier.RARE: index + _APART}
        self._next: dict[Tier, int] = {}
        self._readings = self._spent_ns = 0

    def start(self, cycle: int) -> None:
        """Begin with *cycle*."""
        self._next = {tier: self._aligned(tier, cycle) for tier in self._phases}

    def due(self, cycle: int) -> Sequence[Tier]:
        """The tiers that are due; one that was missed is due once."""
        due = [tier for tier, at in self._next.items() if cycle >= at]
        for tier in due:
            self._next[tier] = self._aligned(tier, cycle + 1)
        return due

    def took(self, duration_ns: int) -> None:
        """Judge how long the fast tier took."""
        self._readings += 1
        self._spent_ns += duration_ns
        if self._readings < _JUDGED:
            return
        share = self._spent_ns / self._readings / PERIOD_NS
        if share > _DEAR:
            self.step = STEPS[Tier.NORMAL]
        elif share < _CHEAP:
            self.step = STEPS[Tier.FAST]
        self._readings = self._spent_ns = 0

    def _aligned(self, tier: Tier, cycle: int) -> int:
        """The first cycle from *cycle* on that is the tier's."""
        step = self.step if tier is Tier.FAST else STEPS[tier]
        return cycle + (self._phases[tier] - cycle) % step


class Beat:
    """When the fast tier was last read."""

    __slots__ = ("_last_ns",)

    def __init__(self) -> None:
        self._last_ns: int | None = None

    def since_last(self, now_ns: int) -> float | None:
        """Seconds since the last beat; this one is the next last."""
        last_ns, self._last_ns = self._last_ns, now_ns
        return None if last_ns is None else (now_ns - last_ns) / SECOND_NS
