"""
Lookback windows: which half-open range ``[from, to)`` a window is.

Both ends are functions of ``now`` and the window alone (docs/laws.md, law 3), and the
grids on which slices are kept are chosen so that both are always slice edges
(law 4). Seconds since the epoch, UTC.
"""

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.counting import SLICE_NS, SLICE_S
from slo_exporter.sli.records import Ints

GRIDS_S: Final = (5, 30, 60, 300, 1200, 3600, 7200)
"""Widths of slices, each a divisor of the next."""
KEEP: Final = 50
"""A slice is folded into the next grid when it is this many of its widths old."""

BURN_WINDOWS: Final = {
    "5m": 300,
    "30m": 1800,
    "1h": 3600,
    "2h": 7200,
    "6h": 21600,
    "1d": 86400,
    "3d": 259200,
}
"""
Lookback windows of the burn rate, text and seconds.

Source: Google, The Site Reliability Workbook, ch. 5, table 5-8, and the
windows that Sloth and its dashboards read (facts: 5m 30m 1h 2h 6h 1d 3d).
"""

_SECOND_NS: Final = 10**9
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION: Final = re.compile(r"([1-9][0-9]{0,999})(ms|s|m|h|d|w)")


@dataclass(frozen=True, slots=True)
class Window:
    """A rolling compliance period, as its author wrote it."""

    text: str
    seconds: int


@dataclass(frozen=True, slots=True)
class Range:
    """Half-open ``[start, end)`` in seconds since the epoch; both are slice edges."""

    start: int
    end: int


def duration_ns(text: str) -> int:
    """
    Read a duration such as ``10m``; nanoseconds.

    Raises:
        ValueError: says what a duration looks like.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is no duration; write a whole number and ms, s, m, h, d or w, such as 30d")
    number, unit = match.groups()
    return int(number) * (10**6 if unit == "ms" else _UNIT_S[unit] * _SECOND_NS)


def grid_of(seconds: int) -> int:
    """The grid of a window: the widest that is at most 2 % of it (law 3)."""
    return max(grid for grid in GRIDS_S if grid * KEEP <= seconds or grid == SLICE_S)


def range_of(seconds: int, now_ns: int) -> Range:
    """The range that a window of *seconds* covers at *now_ns*."""
    grid = grid_of(seconds)
    start = (now_ns - seconds * _SECOND_NS) // (grid * _SECOND_NS) * grid
    return Range(start, now_ns // SLICE_NS * SLICE_S + SLICE_S)


def starts_of(seconds: Ints, now_ns: int) -> Ints:
    """Where the ranges of windows of so many *seconds*, (n,), start at *now_ns*; they end where `range_of` says."""
    lengths, which = np.unique(seconds, return_inverse=True)
    starts = np.array([range_of(length, now_ns).start for length in lengths.tolist()], dtype=np.int64)
    return starts[which]


def folded_before(now_ns: int, grid: int = GRIDS_S[1]) -> int:
    """Slices that start before this second are kept in cells of *grid*, or wider, at *now_ns*."""
    return (now_ns - KEEP * grid * _SECOND_NS) // (grid * _SECOND_NS) * grid


def cells_of(slices: Ints, now_ns: int) -> Ints:
    """
    Where slices are kept at *now_ns*: the start of each one's cell.

    A cell of grid g is whole once its end is ``KEEP`` × g old, so an edge that
    `range_of` can still name is never inside a cell.
    """
    cells = slices.copy()
    for grid in GRIDS_S[1:]:
        folded = cells < folded_before(now_ns, grid)
        cells = np.where(folded, cells // grid * grid, cells)
    return cells


def cell_of(instant_s: int, now_ns: int) -> Range:
    """The cell in which *instant_s* is kept at *now_ns*."""
    width = max((grid for grid in GRIDS_S[1:] if instant_s < folded_before(now_ns, grid)), default=SLICE_S)
    start = instant_s // width * width
    return Range(start, start + width)
