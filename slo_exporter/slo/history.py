"""
An SLO over time: counts in steps, read back from the slices that are kept.

Slices get wider with age (docs/laws.md, law 4), so an answer has one grid, that of
the widest slice in it: the step is a multiple of it and every point begins and
ends where a slice does. Points stand on multiples of the step since the epoch,
so that asking again a moment later gives the same points and new ones.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.counting import SLICE_NS, SLICE_S
from slo_exporter.sli.records import Ints, Mask
from slo_exporter.slo import budget
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Ledger, counts_of
from slo_exporter.slo.windows import BURN_WINDOWS, Range, cell_of, cells_of, grid_of

MOST_POINTS: Final = 11_000
"""Points that may be asked for, as in Prometheus' range queries."""
USUAL_POINTS: Final = 500
"""At most so many when nobody says how many: more than a screen shows."""

_SECOND_NS: Final = 10**9


class TooManyPointsError(ValueError):
    """The step is too short for the range; the message says how many points there would be."""


@dataclass(frozen=True, slots=True)
class Point:
    """One step, and the budget at its end."""

    time_s: int
    """Its start."""
    counts: Counts
    sli: float | None
    remaining_ratio: float | None
    """Of the SLO's own window that ends with the step; None without events, or where slices of it were forgotten."""
    burn_1h: float | None
    """Of the hour before the step's end; None as above."""


@dataclass(frozen=True, slots=True)
class _Lookback:
    """The counts of one window at the end of each point."""

    counts: Ints
    """Shape (n, 3)."""
    is_kept: Mask
    """Shape (n,): False where slices of the window were forgotten."""

    def known(self) -> list[Counts]:
        """Counts that are all there; none where some are not."""
        return counts_of(self.counts * self.is_kept[:, np.newaxis])


@dataclass(frozen=True, slots=True)
class History:
    """Counts in steps."""

    slo: Slo
    span: Range
    """Half-open; both edges are multiples of the step."""
    step_s: int
    steps: Ints
    """Shape (n, 3): the counts of each step."""
    own: _Lookback
    hour: _Lookback

    @property
    def points(self) -> tuple[Point, ...]:
        """One a step, oldest first; worked out when asked for, which needs no lock."""
        objective, times = self.slo.objective, range(self.span.start, self.span.end, self.step_s)
        return tuple(
            Point(
                time_s=time_s,
                counts=counts,
                sli=budget.sli(counts),
                remaining_ratio=budget.budget(own, objective).remaining_ratio,
                burn_1h=budget.burn_rate(hour, objective),
            )
            for time_s, counts, own, hour in zip(
                times, counts_of(self.steps), self.own.known(), self.hour.known(), strict=True
            )
        )


def usual_step_s(from_s: int, to_s: int) -> int:
    """The step that gives at most `USUAL_POINTS` points, those of both edges included."""
    return max(SLICE_S, -(-(to_s - from_s) // (USUAL_POINTS - 2)))


def history(ledger: Ledger, row: int, from_s: int, to_s: int, step_s: int, now_ns: int) -> History:
    """
    Read an SLO back, at the price of a few reads a point.

    Args:
        ledger: where the counts are.
        row: which SLO.
        from_s: start of the asked range, inclusive, in seconds; widened to a step.
        to_s: its end, exclusive; widened likewise, but nothing begins after *now_ns*.
        step_s: at least 1; widened to a multiple of the widest slice in the range.
        now_ns: decides how wide slices are by then.

    Raises:
        TooManyPointsError: more than `MOST_POINTS` were asked for.
    """
    timeline, slo = ledger.timeline, ledger.slos[row]
    kept_ns, end_s = max(now_ns, timeline.folded_ns), now_ns // SLICE_NS * SLICE_S + SLICE_S
    to_s = min(to_s, end_s)
    asked = -(-(to_s - from_s) // step_s)
    if asked > MOST_POINTS:
        raise TooManyPointsError(f"{step_s}s gives {asked} points; at most {MOST_POINTS} may be asked for")
    span, step_s = _widened(from_s, to_s, step_s, kept_ns)
    starts = np.arange(span.start, span.end, step_s, dtype=np.int64)
    # A step that still runs ends now: its budget is that of `Ledger.reports`.
    at_ns = np.minimum((starts + step_s) * _SECOND_NS - 1, now_ns)
    until = timeline.before(row, at_ns // SLICE_NS * SLICE_S + SLICE_S)

    def lookback(seconds: int) -> _Lookback:
        grid = grid_of(seconds)
        first = cells_of((at_ns - seconds * _SECOND_NS) // (grid * _SECOND_NS) * grid, kept_ns)
        began = np.maximum(first, ledger.started_ns[row] // SLICE_NS * SLICE_S)
        return _Lookback(until - timeline.before(row, first), began >= timeline.kept_from_s)

    steps = until - timeline.before(row, starts)
    return History(slo, span, step_s, steps, lookback(slo.window.seconds), lookback(BURN_WINDOWS["1h"]))


def _widened(from_s: int, to_s: int, step_s: int, now_ns: int) -> tuple[Range, int]:
    """The range and the step, such that every edge of a point is an edge of the cells of *now_ns*."""
    width, reached = 0, SLICE_S
    while reached > width:  # a longer step may begin in a wider cell
        width = reached
        step = _ceil(step_s, width)
        start = from_s // step * step
        cell = cell_of(start, now_ns)
        reached = cell.end - cell.start
    return Range(start, max(start, _ceil(to_s, step))), step


def _ceil(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
