"""
A history against raw slices.

The oracle keeps every 5 s slice for ever and adds up what lies in a range.
"""

from collections.abc import Callable
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.history import MOST_POINTS, Point, TooManyPointsError, history, usual_step_s
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Range

S = 10**9
DAY = 86400
START_S = 19_675 * DAY
"""A multiple of every grid."""
GRIDS = (5, 30, 60, 300, 1200, 3600, 7200)


def _ledger(slo: Slo, *, started_s: int = 0) -> Ledger:
    return Ledger(
        Opening(
            slos=[slo, slo],
            started_ns=[started_s * S] * 2,
            totals=np.zeros((2, 3), dtype=np.int64),
            newest_ns=np.full(2, MISSING, dtype=np.int64),
            uptime=Uptime(),
        )
    )


class Raw:
    """Every slice of one SLO, five seconds wide."""

    def __init__(self, random: Random) -> None:
        self.slices: dict[int, tuple[int, int, int]] = {}
        self._random = random

    def add(self, ledger: Ledger, starts: list[int]) -> None:
        """Add some counts to the second SLO; the first one gets others."""
        slices = np.array(sorted(set(starts)), dtype=np.int64)
        counts = np.array(
            [[[9, 9, 9], [*sorted(self._random.choices(range(9), k=2)), 1]] for _ in slices], dtype=np.int64
        ).reshape(-1, 2, 3)
        ledger.add(Entry.of(Delta(slices, counts, np.full(2, MISSING, dtype=np.int64))))
        for start, (_, own) in zip(slices.tolist(), counts.tolist(), strict=True):
            self.slices[start] = tuple(a + b for a, b in zip(self.slices.get(start, (0, 0, 0)), own, strict=True))

    def sum(self, start: int, end: int) -> Counts:
        """What happened in ``[start, end)``."""
        inside = [counts for at, counts in self.slices.items() if start <= at < end]
        return Counts(*map(sum, zip(*inside, strict=True))) if inside else Counts(0, 0)


def _cell(instant_s: int, now_s: float) -> tuple[int, int]:
    """Law 4, in its own words: the widest cell around an instant whose end is 50 of its widths old."""
    for grid in reversed(GRIDS):
        start = instant_s // grid * grid
        if grid == 5 or start + grid + 50 * grid <= now_s:
            return start, start + grid
    raise AssertionError


def _width(instant_s: int, now_ns: int) -> int:
    start, end = _cell(instant_s, now_ns / S)
    return end - start


def _lookback(raw: Raw, end_s: int, now_ns: int, seconds: int) -> Counts:
    """A window that ends with a step, or now, widened to the slices that are there."""
    at_ns = min(end_s * S - 1, now_ns)
    grid = max([grid for grid in GRIDS if grid * 100 <= seconds * 2], default=5)
    start = (at_ns - seconds * S) // (grid * S) * grid
    return raw.sum(_cell(start, now_ns / S)[0], at_ns // (5 * S) * 5 + 5)


def _burn(counts: Counts, objective: Fraction) -> float | None:
    return float(Fraction(counts.bad, counts.total) / (1 - objective)) if counts.total else None


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), window=st.sampled_from(["5m", "1h", "7d", "30d"]))
def test_a_history_adds_up_as_raw_slices_do(make_slo: Callable, seed: int, window: str) -> None:
    """Whole cells, half-open steps, and budgets at their ends, whenever slices were folded."""
    random = Random(seed)
    slo = make_slo(window=window)
    ledger, raw, now_ns = _ledger(slo), Raw(random), START_S * S
    for _ in range(random.randrange(1, 12)):
        now_ns += int(10 ** random.uniform(0, 6.5) * S) + random.randrange(S)
        raw.add(ledger, [(now_ns // S - random.randrange(-60, 1200)) // 5 * 5 for _ in range(random.randrange(12))])
        if random.random() < 0.7:
            ledger.timeline.fold(now_ns)
    reach = int(10 ** random.uniform(1, 6.9))
    to_s = now_ns // S + random.randrange(-reach, 100)
    from_s = min(to_s - random.randrange(1, reach + 1), now_ns // S)
    step_s = max(int(10 ** random.uniform(0, 5)), (to_s - from_s) // 300)
    answer = history(ledger, 1, from_s, to_s, step_s, now_ns)

    now_end = now_ns // (5 * S) * 5 + 5
    assert answer.step_s % _width(answer.span.start, now_ns) == 0
    assert answer.span.start % answer.step_s == answer.span.end % answer.step_s == 0
    assert step_s <= answer.step_s < step_s + _width(from_s - answer.step_s, now_ns)
    assert from_s - answer.step_s < answer.span.start <= from_s
    assert min(to_s, now_end) <= answer.span.end < min(to_s, now_end) + answer.step_s
    objective = Fraction(slo.objective)
    points = answer.points
    assert [point.time_s for point in points] == list(range(answer.span.start, answer.span.end, answer.step_s))
    for point in points:
        end_s = point.time_s + answer.step_s
        counts = raw.sum(point.time_s, min(end_s, now_end))
        own, hour = (_lookback(raw, end_s, now_ns, seconds) for seconds in (slo.window.seconds, 3600))
        consumed = _burn(own, objective)
        assert point == Point(
            time_s=point.time_s,
            counts=counts,
            sli=counts.good / counts.total if counts.total else None,
            remaining_ratio=None if consumed is None else float(1 - Fraction(own.bad, own.total) / (1 - objective)),
            burn_1h=_burn(hour, objective),
        )


def test_the_last_point_is_the_budget_of_now(make_slo: Callable) -> None:
    """A step that still runs ends now, exactly as a report does."""
    ledger, random = _ledger(make_slo(window="7d")), Random(7)
    now_ns = (START_S + 3 * DAY + 4321) * S + 5
    Raw(random).add(ledger, [now_ns // S // 5 * 5 - 5 * random.randrange(-5, 50_000) for _ in range(300)])
    (report,) = ledger.reports(now_ns, [1])
    last = history(ledger, 1, report.span.start, report.span.end, 7200, now_ns).points[-1]
    assert (last.remaining_ratio, last.burn_1h) == (report.budget.remaining_ratio, report.burn_rates["1h"])


def test_what_was_forgotten_is_unknown(make_slo: Callable) -> None:
    """A window that reaches beyond the retention has no budget; its own counts are there."""
    ledger, now_s = _ledger(make_slo(window="7d")), START_S + 30 * DAY
    Raw(Random(1)).add(ledger, list(range(START_S, now_s, 1800)))
    ledger.timeline.fold(now_s * S)
    ledger.forget(now_s - 20 * DAY)
    points = history(ledger, 1, now_s - 20 * DAY, now_s, DAY, now_s * S).points
    assert [point.remaining_ratio is None for point in points] == [True] * 7 + [False] * 13
    assert [point.burn_1h is None for point in points] == [False] * 20
    assert all(point.counts.total for point in points)


def test_a_young_slo_has_nothing_to_forget(make_slo: Callable) -> None:
    """What began after the retention did is known from its beginning."""
    now_s = START_S + 30 * DAY
    ledger = _ledger(make_slo(window="7d"), started_s=now_s - 19 * DAY)
    Raw(Random(1)).add(ledger, list(range(now_s - 19 * DAY, now_s, 1800)))
    ledger.timeline.fold(now_s * S)
    ledger.forget(now_s - 20 * DAY)
    points = history(ledger, 1, now_s - 20 * DAY, now_s, DAY, now_s * S).points
    assert [point.remaining_ratio is None for point in points] == [True] + [False] * 19


def test_asking_again_gives_the_same_points(make_slo: Callable) -> None:
    """Points stand on multiples of the step: a range that moves on adds points and changes none."""
    ledger, now_s = _ledger(make_slo()), START_S + DAY
    Raw(Random(3)).add(ledger, [now_s - 5 * n for n in range(1, 200)])
    first = history(ledger, 1, now_s - 900, now_s, 60, now_s * S)
    second = history(ledger, 1, now_s - 871, now_s + 29, 60, (now_s + 29) * S)
    assert first.span == Range(now_s - 900, now_s)
    assert second.span == Range(now_s - 900, now_s + 60)
    assert second.points[:-1] == first.points


def test_too_many_points_are_refused(make_slo: Callable) -> None:
    """The message says how many; one fewer is answered."""
    ledger, now_s = _ledger(make_slo()), START_S + DAY
    with pytest.raises(TooManyPointsError, match="7s gives 11001 points; at most 11000 may be asked for"):
        history(ledger, 1, now_s - 7 * MOST_POINTS - 1, now_s, 7, now_s * S)
    assert history(ledger, 1, now_s - 7 * MOST_POINTS, now_s, 7, now_s * S).step_s == 1200


@pytest.mark.parametrize(("seconds", "step_s"), [(5, 5), (2490, 5), (2491, 6), (86_400, 174)])
def test_the_usual_step_gives_five_hundred_points(seconds: int, step_s: int) -> None:
    """Or fewer, with a point at either edge for the widening."""
    assert usual_step_s(START_S, START_S + seconds) == step_s


def test_nothing_was_before_the_first_event_and_nothing_will_be(make_slo: Callable) -> None:
    """An SLO without events has points without numbers; a range after now has no points."""
    ledger = _ledger(make_slo())
    (point,) = history(ledger, 1, START_S, START_S + 60, 60, (START_S + 60) * S - 1).points
    assert point == Point(START_S, Counts(0, 0), None, None, None)
    assert history(ledger, 1, START_S + 600, START_S + 900, 60, START_S * S).points == ()
