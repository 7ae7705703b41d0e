"""
What a simulated GPU does, as a function of the seconds since the start.

Rules of this module:

1. Pure and the same in every run: chance is in the phases of waves, whose seeds are names.
2. Waves are sums of sines, so that every counter is the exact integral of its gauge.
3. The two GPUs share each token of a chat model. In an incident the second one
   is too hot and slows down; the first one waits for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import atan, cos, exp, hypot, pi, sin
from random import Random
from typing import Final, TypeAlias

from slo_exporter.ingest.nvml.order import Incidents

MAX_SM_HERTZ: Final = 1_980e6
"""Highest SM clock of an H200."""
HOT_SM_HERTZ: Final = 1_110e6
XID: Final = 63
"""A row of memory was remapped."""
XID_EVERY: Final = 3
"""Incidents: the first one has an XID, and each so many after it."""

HW_SLOWDOWN: Final = 0x8
SW_THERMAL: Final = 0x20
HW_THERMAL: Final = 0x40

_LAG_S: Final = 12.0
"""How slowly the temperature follows: after so long 63 % of the way are gone."""
_HEATING_S: Final = 25.0
"""The cooling fails so long before the incident: the GPU slows down once it is hot."""
_AMBIENT: Final = 31.0
_DEGREES_PER_WATT: Final = 0.068
_HOTTER: Final = 34.0
"""Degrees that the failing cooling adds in the end; 95 shut an H200 down."""


@dataclass(frozen=True, slots=True)
class Level:
    """Around which a quantity swings."""

    calm: float
    waiting: float
    """In an incident, on the GPU that waits for the other."""
    hot: float
    """In an incident, on the GPU that is too hot."""
    swing: float


LEVELS: Final[Mapping[str, Level]] = {
    "busy": Level(0.65, 0.84, 0.86, 0.09),
    "sm": Level(0.325, 0.42, 0.475, 0.07),
    "tensor": Level(0.15, 0.075, 0.06, 0.045),
    "dram": Level(0.45, 0.30, 0.28, 0.09),
    "occupancy": Level(0.18, 0.20, 0.22, 0.03),
    "watts": Level(380.0, 320.0, 305.0, 45.0),
    "pcie_receive": Level(45e6, 25e6, 25e6, 15e6),
    "pcie_transmit": Level(30e6, 16e6, 16e6, 10e6),
    "nvlink": Level(28e9, 16e9, 16e9, 6e9),
}
"""Shares of time, watts and bytes a second. What one GPU sends over NVLink the other receives."""

Sine: TypeAlias = tuple[float, float, float]
"""Share of the swing, radians a second, phase."""


@cache
def _wave(index: int, name: str) -> tuple[Sine, ...]:
    """Most of it is the load, which both GPUs share; the rest is its own."""
    own = "both" if name == "nvlink" else str(index)
    return (*_sines("load", 0.7), *_sines(f"{name} of {own}", 0.3))


def _sines(seed: str, share: float) -> Iterator[Sine]:
    chance = Random(seed)  # noqa: S311 - no secret
    for part, period_s in ((0.6, 53.0), (0.3, 19.0), (0.1, 7.0)):
        yield share * part, 2 * pi / period_s, chance.uniform(0, 2 * pi)


def _now(wave: tuple[Sine, ...], t: float) -> float:
    return sum(share * sin(speed * t + phase) for share, speed, phase in wave)


def _sum(wave: tuple[Sine, ...], t: float) -> float:
    """Integral from 0."""
    return sum(share / speed * (cos(phase) - cos(speed * t + phase)) for share, speed, phase in wave)


def _lagging(wave: tuple[Sine, ...]) -> tuple[Sine, ...]:
    """The wave behind something slow: smaller and later."""
    return tuple(
        (share / hypot(1, speed * _LAG_S), speed, phase - atan(speed * _LAG_S)) for share, speed, phase in wave
    )


@dataclass(frozen=True, slots=True)
class Spells:
    """Spells that come again and again: each is half-open, the first begins after *first_s*."""

    first_s: float
    every_s: float
    lasting_s: float

    def on(self, t: float) -> bool:
        """Whether *t* is in one."""
        return t >= self.first_s and (t - self.first_s) % self.every_s < self.lasting_s

    def begun(self, t: float) -> int:
        """How many have begun."""
        return int((t - self.first_s) // self.every_s) + 1 if t >= self.first_s else 0

    def start(self, number: int) -> float:
        """When one begins, counted from 0."""
        return self.first_s + number * self.every_s

    def seconds(self, t: float) -> float:
        """How long they lasted together."""
        if t < self.first_s:
            return 0.0
        whole, rest = divmod(t - self.first_s, self.every_s)
        return whole * self.lasting_s + min(rest, self.lasting_s)

    def warmth(self, t: float) -> float:
        """What follows them slowly, from 0 to 1."""
        if t < self.first_s:
            return 0.0
        whole, rest = divmod(t - self.first_s, self.every_s)
        on, off = exp(-self.lasting_s / _LAG_S), exp(-(self.every_s - self.lasting_s) / _LAG_S)
        # Each spell begins with what the ones before left: a geometric series.
        left = off * (1 - on) / (1 - on * off) * (1 - exp(-whole * self.every_s / _LAG_S))
        risen = 1 - (1 - left) * exp(-min(rest, self.lasting_s) / _LAG_S)
        return risen * exp(-max(rest - self.lasting_s, 0.0) / _LAG_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A GPU at an instant."""

    elapsed_s: float
    watts: float
    celsius: float
    sm_hertz: float
    reasons: int
    """Bits of the clock event reasons."""
    totals: Mapping[str, float]
    """Integrals of `LEVELS` since the start."""
    hot_seconds: float
    """Throttled for heat at all."""
    very_hot_seconds: float
    """By the hardware."""
    incidents: int
    """That have begun."""


class SimulatedGpu:
    """
    One of the two.

    Args:
        index: 0, or 1 for the one that gets too hot.
        incidents: when.
    """

    def __init__(self, index: int, incidents: Incidents) -> None:
        self.index = index
        every_s, lasting_s = incidents.every_s, min(incidents.lasting_s, incidents.every_s)
        early_s = min(_HEATING_S, every_s - lasting_s)
        self.incidents = Spells(incidents.first_s, every_s, lasting_s)
        self._late = Spells(incidents.first_s + lasting_s / 2, every_s, lasting_s / 2)
        self._heating = Spells(incidents.first_s - early_s, every_s, lasting_s + early_s)

    @property
    def gets_hot(self) -> bool:
        """Whether it is the one that slows down."""
        return self.index == 1

    def at(self, elapsed_s: float) -> State:
        """What it does *elapsed_s* after the start."""
        return State(
            elapsed_s=elapsed_s,
            watts=self._level("watts", float(self.incidents.on(elapsed_s)))
            + LEVELS["watts"].swing * _now(_wave(self.index, "watts"), elapsed_s),
            celsius=self._celsius(elapsed_s),
            sm_hertz=HOT_SM_HERTZ if self.gets_hot and self.incidents.on(elapsed_s) else MAX_SM_HERTZ,
            reasons=self._reasons(elapsed_s),
            totals={name: self._total(name, elapsed_s) for name in LEVELS},
            hot_seconds=self.incidents.seconds(elapsed_s) if self.gets_hot else 0.0,
            very_hot_seconds=self._late.seconds(elapsed_s) if self.gets_hot else 0.0,
            incidents=self.incidents.begun(elapsed_s),
        )

    def _level(self, name: str, share: float) -> float:
        """Between calm, 0, and an incident, 1."""
        level = LEVELS[name]
        return level.calm + share * ((level.hot if self.gets_hot else level.waiting) - level.calm)

    def _total(self, name: str, t: float) -> float:
        level, troubled = LEVELS[name], self.incidents.seconds(t)
        steady = level.calm * (t - troubled) + self._level(name, 1.0) * troubled
        return steady + level.swing * _sum(_wave(self.index, name), t)

    def _celsius(self, t: float) -> float:
        watts = self._level("watts", self.incidents.warmth(t))
        watts += LEVELS["watts"].swing * _now(_lagging(_wave(self.index, "watts")), t)
        hotter = _HOTTER * self._heating.warmth(t) if self.gets_hot else 0.0
        return _AMBIENT + _DEGREES_PER_WATT * watts + hotter

    def _reasons(self, t: float) -> int:
        if not (self.gets_hot and self.incidents.on(t)):
            return 0
        return SW_THERMAL | (HW_THERMAL | HW_SLOWDOWN if self._late.on(t) else 0)
