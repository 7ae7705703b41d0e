"""
Folding, lateness and order change no answer: timelines against raw slices.

The oracle keeps every 5 s slice for ever and computes the edges of a window
from the text of law 3.
"""

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.sli.counting import Delta
from slo_exporter.slo.timeline import Timeline
from slo_exporter.slo.windows import BURN_WINDOWS, Range, cells_of, range_of

S = 10**9
DAY = 86400
GRIDS = (5, 30, 60, 300, 1200, 3600, 7200)
AROUND_GRIDS = [50 * grid + off for grid in GRIDS[1:] for off in (-5, 0, 5)]
WINDOWS = [60, 420, 2700, 7 * DAY, 30 * DAY, 100 * DAY, *BURN_WINDOWS.values(), *AROUND_GRIDS]
WIDTH = 2
LATEST_S = 20 * 60
START_S = 1_699_999_200
"""A multiple of every grid."""


def _edges(seconds: int, now_ns: int) -> tuple[int, int]:
    """Law 3, in its own words."""
    grid = max([grid for grid in GRIDS if grid * 100 <= seconds * 2], default=5)
    return (now_ns - seconds * S) // (grid * S) * grid, now_ns // (5 * S) * 5 + 5


def _delta(counts: dict[int, np.ndarray]) -> Delta:
    slices = np.array(sorted(counts), dtype=np.int64)
    values = [counts[start] for start in slices.tolist()]
    return Delta(slices, np.array(values, dtype=np.int64).reshape(-1, WIDTH, 3), np.zeros(WIDTH, dtype=np.int64))


class Raw:
    """Every slice that was ever added, five seconds wide."""

    def __init__(self) -> None:
        self.slices: dict[int, np.ndarray] = {}

    def add(self, counts: dict[int, np.ndarray]) -> None:
        """Add counts by slice."""
        for start, added in counts.items():
            self.slices[start] = self.slices.get(start, 0) + added

    def check(self, timeline: Timeline, now_ns: int) -> None:
        """Compare every window at *now_ns*."""
        starts = np.array(list(self.slices), dtype=np.int64)
        counts = np.array(list(self.slices.values()), dtype=np.int64).reshape(-1, WIDTH, 3)
        for seconds in WINDOWS:
            start, end = _edges(seconds, now_ns)
            expected = counts[(starts >= start) & (starts < end)].sum(axis=0)
            assert (timeline.between(range_of(seconds, now_ns)) == expected).all(), (seconds, now_ns)
        assert (timeline.total == counts.sum(axis=0)).all()


def _rebuilt(raw: Raw, random: Random, folds_ns: Iterable[int], *, fold_first: bool = False) -> Timeline:
    """A fresh timeline from all slices in random order."""
    timeline = Timeline(WIDTH)
    starts = list(raw.slices)
    random.shuffle(starts)
    if fold_first:
        for now_ns in folds_ns:
            timeline.fold(now_ns)
    for start in starts:
        timeline.add(_delta({start: raw.slices[start]}))
    for now_ns in folds_ns:
        timeline.fold(now_ns)
    return timeline


def _counts(random: Random) -> np.ndarray:
    return np.array([[random.randrange(9) for _ in range(3)] for _ in range(WIDTH)], dtype=np.int64)


def _later(random: Random, now_ns: int) -> int:
    """A later instant; often one at which some window just begins in what was counted, or on an edge."""
    ahead_s = random.choice((1, 5, 7, 60, 1500, 3600, 5 * DAY, random.choice(WINDOWS) - random.randrange(LATEST_S)))
    later_ns = now_ns + max(0, ahead_s) * S + random.randrange(S)
    if random.random() < 0.5:
        grid_ns = random.choice(GRIDS) * S
        later_ns = -(-later_ns // grid_ns) * grid_ns + random.choice((0, 1, grid_ns - 1))
    return later_ns


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_any_history_answers_as_raw_slices_do(seed: int) -> None:
    """Late, early and unordered counts, folds at any time, and rebuilding at the end."""
    random = Random(seed)
    raw, timeline, now_ns = Raw(), Timeline(WIDTH), START_S * S
    for _ in range(random.randrange(5, 40)):
        now_ns = _later(random, now_ns)
        ends_ns = [now_ns + random.randrange(-LATEST_S * S, 60 * S) for _ in range(random.randrange(8))]
        added = {end_ns // (5 * S) * 5: _counts(random) for end_ns in ends_ns}
        timeline.add(_delta(added))
        raw.add(added)
        if random.random() < 0.6:
            timeline.fold(now_ns)
        if random.random() < 0.2:
            raw.check(timeline, now_ns)
    later_ns = _later(random, now_ns)
    for instant_ns in (now_ns, later_ns):
        raw.check(timeline, instant_ns)
    for fold_first in (False, True):
        rebuilt = _rebuilt(raw, random, [now_ns], fold_first=fold_first)
        timeline.fold(now_ns)
        assert len(rebuilt) == len(timeline)
        for instant_ns in (now_ns, later_ns):
            raw.check(rebuilt, instant_ns)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_a_fold_changes_no_later_answer(seed: int) -> None:
    """Slices beside every edge that a later window can name stay on their side of it."""
    random = Random(seed)
    folded_ns = _later(random, START_S * S)
    later = [folded_ns, _later(random, folded_ns), folded_ns + random.randrange(3_000) * S]
    edges = {_edges(seconds, now_ns)[0] for seconds in WINDOWS for now_ns in later}
    raw = Raw()
    for edge in edges:
        raw.add({edge + 5 * off: _counts(random) for off in (-2, -1, 0, 1, random.randrange(-400, 400))})
    timeline = _rebuilt(raw, random, [])
    for fold_ns in (None, folded_ns, folded_ns - random.randrange(10**6) * S):
        if fold_ns is not None:
            timeline.fold(fold_ns)
        for now_ns in later:
            raw.check(timeline, now_ns)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_cells_kept_elsewhere_rebuild_to_the_same(seed: int) -> None:
    """Counts that were summed by cell at some instant, in any order, answer for every later one."""
    random = Random(seed)
    raw, kept_ns = Raw(), _later(random, START_S * S)
    for _ in range(120):
        age_s = int(10 ** random.uniform(0, 7))
        raw.add({(kept_ns // S - age_s) // 5 * 5: _counts(random)})
    packed = Raw()
    for start, counts in raw.slices.items():
        packed.add({int(cells_of(np.array([start]), kept_ns)[0]): counts})
    now_ns = _later(random, kept_ns)
    timeline = _rebuilt(packed, random, [now_ns])
    raw.check(timeline, now_ns)
    raw.check(timeline, _later(random, now_ns))


def test_a_hundred_days_take_little_memory() -> None:
    """At most 2,030 slices and 64 KiB per SLO, at any instant, a minute ahead included."""
    most = 0
    for offset_s in (3601, 7199):
        now_s = START_S + offset_s
        slices = np.arange((now_s - 100 * DAY) // 5 * 5, now_s + 61, 5)
        cells = cells_of(slices, now_s * S)
        most = max(most, 1 + np.count_nonzero(np.diff(cells)))
    assert 2_000 < most <= 2_030
    timeline, kept = Timeline(1), np.unique(cells)
    timeline.add(Delta(kept, np.ones((len(kept), 1, 3), dtype=np.int64), np.zeros(1, dtype=np.int64)))
    timeline.fold(now_s * S)
    assert len(timeline) == len(kept)
    assert timeline._edges.nbytes + timeline._sums.nbytes <= 64 * 1024
    assert timeline.between(range_of(7 * DAY, now_s * S))[0, 0] > 0


def test_a_fold_with_an_earlier_clock_unfolds_nothing() -> None:
    """A clock that steps back leaves cells as coarse as they are, and late counts find them."""
    timeline, now_s = Timeline(WIDTH), START_S
    one = np.ones((WIDTH, 3), dtype=np.int64)
    timeline.add(_delta({now_s - 10_000 + 5 * n: one for n in range(60)}))
    timeline.fold(now_s * S)
    held = len(timeline)
    timeline.fold((now_s - 9_000) * S)
    timeline.add(_delta({now_s - 10_000: one}))
    assert held == len(timeline) < 60
    assert timeline.between(range_of(DAY, now_s * S))[0, 0] == 61


@pytest.mark.parametrize("held", [63, 64, 65, 127, 128, 129])
def test_a_late_slice_counts_when_the_arrays_are_full(held: int) -> None:
    """Growing in the middle of an insertion loses nothing behind it."""
    timeline, one = Timeline(WIDTH), np.ones((WIDTH, 3), dtype=np.int64)
    timeline.add(_delta({START_S + 5 * n: one for n in range(held)}))
    timeline.add(_delta({START_S - 5: one, START_S - 10: one}))
    for n in range(-2, held + 1):
        assert (timeline.between(Range(0, START_S + 5 * n)) == n + 2).all()


def test_one_slice_is_read_alone() -> None:
    """`at` gives what was counted in one slice, and nothing where there is none."""
    timeline, one = Timeline(WIDTH), np.ones((WIDTH, 3), dtype=np.int64)
    timeline.add(_delta({START_S: one, START_S + 5: 2 * one, START_S + 15: 3 * one}))
    found = [int(timeline.at(START_S + 5 * n)[1, 2]) for n in range(-1, 5)]
    assert found == [0, 1, 2, 0, 3, 0]


@pytest.mark.parametrize(
    ("start", "end", "slices"), [(0, 5, 1), (0, 15, 3), (5, 15, 2), (5, 10, 1), (-50, 50, 3), (15, 50, 0), (5, 5, 0)]
)
def test_ranges_are_half_open(start: int, end: int, slices: int) -> None:
    """The slice at `start` is inside, the one at `end` is not."""
    timeline = Timeline(WIDTH)
    for offset in (10, 0, 5):
        timeline.add(_delta({START_S + offset: np.ones((WIDTH, 3), dtype=np.int64)}))
    assert (timeline.between(Range(START_S + start, START_S + end)) == slices).all()


def test_an_answer_is_a_copy() -> None:
    """What was read does not change when counts come in later."""
    timeline, one = Timeline(WIDTH), np.ones((WIDTH, 3), dtype=np.int64)
    timeline.add(_delta({START_S: one}))
    read = timeline.between(Range(0, START_S + 5))
    timeline.add(_delta({START_S: one}))
    assert (read == 1).all()


def test_an_empty_timeline_answers_nothing() -> None:
    """No slices, no counts, folding included."""
    timeline = Timeline(WIDTH)
    timeline.fold(START_S * S)
    timeline.add(_delta({}))
    assert (timeline.between(range_of(DAY, START_S * S)) == 0).all()
    assert len(timeline) == 0


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_forgetting_changes_no_window_that_begins_later(seed: int) -> None:
    """What lies before the cell that is named is gone; every later edge answers as before, late counts included."""
    random = Random(seed)
    raw, now_ns = Raw(), _later(random, START_S * S)
    for _ in range(80):
        age_s = int(10 ** random.uniform(0, 7))
        raw.add({(now_ns // S - age_s) // 5 * 5: _counts(random)})
    timeline = _rebuilt(raw, random, [now_ns])
    before_s = now_ns // S - int(10 ** random.uniform(2, 7))
    first = int(cells_of(np.array([before_s // 5 * 5]), now_ns)[0])
    held = len(timeline)
    timeline.forget(before_s)
    late = {now_ns // S // 5 * 5 - 5 * random.randrange(50): _counts(random)}
    for start, counts in late.items():
        if start >= first:
            raw.add({start: counts})
            timeline.add(_delta({start: counts}))
    raw.slices = {start: counts for start, counts in raw.slices.items() if start >= first}
    starts = np.array(list(raw.slices), dtype=np.int64)
    counts = np.array(list(raw.slices.values()), dtype=np.int64).reshape(-1, WIDTH, 3)
    for edge in (0, first, *cells_of(starts[starts >= first], now_ns).tolist()):
        expected = counts[starts >= edge].sum(axis=0)
        assert (timeline.between(Range(edge, now_ns // S + 60)) == expected).all()
    assert (timeline.total == counts.sum(axis=0)).all()
    assert timeline.kept_from_s == first
    assert len(timeline) <= held + 1
    timeline.forget(before_s - DAY)
    assert timeline.kept_from_s == first


def test_everything_can_be_forgotten() -> None:
    """What comes afterwards is there."""
    timeline, one = Timeline(WIDTH), np.ones((WIDTH, 3), dtype=np.int64)
    timeline.add(_delta({START_S + 5 * n: one for n in range(100)}))
    timeline.forget(START_S + 1000)
    assert (len(timeline), int(timeline.total.sum())) == (0, 0)
    timeline.add(_delta({START_S + 1000: one}))
    assert (timeline.between(Range(0, START_S + 2000)) == 1).all()


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_one_slo_is_read_at_many_instants(seed: int) -> None:
    """`before` is `between` from the beginning, for one row."""
    random = Random(seed)
    timeline = Timeline(WIDTH)
    for _ in range(random.randrange(100)):
        timeline.add(_delta({START_S + 5 * random.randrange(300): _counts(random)}))
    instants = np.array([START_S + random.randrange(-100, 1700) for _ in range(20)], dtype=np.int64)
    for row in range(WIDTH):
        expected = [timeline.between(Range(0, instant))[row].tolist() for instant in instants.tolist()]
        assert timeline.before(row, instants).tolist() == expected


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_what_is_excluded_stays_counted(seed: int) -> None:
    """Good and bad events of one SLO in a range become excluded ones; nothing else moves."""
    random = Random(seed)
    raw, timeline = Raw(), Timeline(WIDTH)
    for _ in range(random.randrange(100)):
        added = {START_S + 5 * random.randrange(300): _counts(random)}
        raw.add(added)
        timeline.add(_delta(added))
    start, end = sorted(START_S + 5 * random.randrange(-20, 320) for _ in range(2))
    row = random.randrange(WIDTH)
    for _ in range(2):
        timeline.exclude(row, Range(start, end))
    for at, counts in raw.slices.items():
        if start <= at < end:
            counts[row] = (0, 0, counts[row][1] + counts[row][2])
        assert (timeline.between(Range(at, at + 5)) == counts).all()
    assert (timeline.total == sum(raw.slices.values(), np.zeros((WIDTH, 3), dtype=np.int64))).all()
