"""Corrections against raw slices: what is in a corrected range is excluded, whenever it comes."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.corrections import Correction, corrected_range, effective
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import BURN_WINDOWS, GRIDS_S, Range, cells_of, range_of

S = 10**9
DAY = 86400
START_S = 1_699_999_200
"""A multiple of every grid."""
WIDTH = 2


@pytest.fixture(scope="session")
def open_ledger(make_slo: Callable) -> Callable[..., Ledger]:
    """A ledger of two SLOs with these corrections."""

    def opened(corrections: tuple[Correction, ...] = ()) -> Ledger:
        return Ledger(
            Opening(
                slos=[make_slo("a"), make_slo("b")],
                started_ns=[0] * WIDTH,
                totals=np.zeros((WIDTH, 3), dtype=np.int64),
                newest_ns=np.full(WIDTH, MISSING, dtype=np.int64),
                uptime=Uptime(),
                corrections=corrections,
            )
        )

    return opened


def _delta(counts: dict[int, list[list[int]]]) -> Delta:
    slices = np.array(sorted(counts), dtype=np.int64)
    values = [counts[start] for start in slices.tolist()]
    return Delta(slices, np.array(values, dtype=np.int64).reshape(-1, WIDTH, 3), np.full(WIDTH, MISSING))


def _counts(random: Random) -> list[list[int]]:
    return [[random.randrange(5), random.randrange(5, 9), random.randrange(3)] for _ in range(WIDTH)]


def _oracle(
    raw: list[tuple[int, list[list[int]]]], made: list[Correction], row: int, span: Range
) -> tuple[int, int, int]:
    """Effective counts of *row* in *span*, event by event."""
    good = total = excluded = 0
    for start, counts in raw:
        if span.start <= start < span.end:
            is_out = any(one.row == row and one.span.start <= start < one.span.end for one in made)
            own = counts[row]
            good, total = good + own[0] * (not is_out), total + own[1] * (not is_out)
            excluded += own[2] + own[1] * is_out
    return good, total, excluded


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_windows_hold_effective_counts(open_ledger: Callable[..., Ledger], seed: int) -> None:
    """In any order of events, late ones, corrections, folds and restarts."""
    random = Random(seed)
    ledger, now_ns = open_ledger(), START_S * S
    raw: list[tuple[int, list[list[int]]]] = []
    made: list[Correction] = []
    for _ in range(random.randrange(3, 25)):
        now_ns += int(10 ** random.uniform(0, 6) * S) + random.randrange(S)
        starts = {(now_ns // S - random.randrange(-60, 1200)) // 5 * 5 for _ in range(random.randrange(6))}
        added = {start: _counts(random) for start in starts}
        ledger.add(Entry.of(_delta(added)))
        raw += added.items()
        if random.random() < 0.5:
            ledger.timeline.fold(now_ns)
        if random.random() < 0.5:
            to_ns = now_ns - int(10 ** random.uniform(0, 5) * S)
            span = ledger.corrected_range(0, to_ns - int(10 ** random.uniform(0, 5) * S), to_ns, now_ns)
            made.append(Correction(random.randrange(WIDTH), span))
            before = ledger.totals.copy()
            ledger.correct(made[-1])
            assert (ledger.totals == before).all()
        if random.random() < 0.1:
            ledger = _reopened(open_ledger, raw, made, now_ns)
    assert ledger.corrections == tuple(made)
    for row in range(WIDTH):
        for seconds in (*BURN_WINDOWS.values(), 30 * DAY):
            span = range_of(seconds, now_ns)
            assert ledger.timeline.between(span)[row].tolist() == list(_oracle(raw, made, row, span))


def _reopened(
    open_ledger: Callable[..., Ledger], raw: list[tuple[int, list[list[int]]]], made: list[Correction], now_ns: int
) -> Ledger:
    """As a start does it: effective counts into the slices, corrections for what comes later."""
    ledger = open_ledger(tuple(made))
    ledger.timeline.fold(now_ns)
    for start, counts in raw:
        ledger.timeline.add(effective(_delta({start: counts}), made))
        ledger.totals += np.array(counts)
    return ledger


@settings(deadline=None, max_examples=100)
@given(
    age_s=st.integers(0, 110 * DAY),
    width_ns=st.sampled_from([1, 5 * S - 1, 5 * S, 5 * S + 1]) | st.integers(1, 10 * DAY * S),
    now_ns=st.integers(START_S * S, (START_S + DAY) * S),
    off_ns=st.integers(0, S),
)
def test_a_range_is_widened_to_every_cell_it_touches(age_s: int, width_ns: int, now_ns: int, off_ns: int) -> None:
    """Both edges are cell edges, and no cell at either edge could be left out."""
    to_ns = now_ns - age_s * S - off_ns
    from_ns = to_ns - width_ns
    span = corrected_range(from_ns, to_ns, now_ns)
    slices = np.arange(span.start - 14_400, span.end + 14_400, 5)
    edges = set(cells_of(slices, now_ns).tolist())
    first, last = (int(cells_of(np.array([at // (5 * S) * 5]), now_ns)[0]) for at in (from_ns, to_ns - 1))
    assert span.start == first
    assert span.end == min(edge for edge in edges if edge > last)


def test_a_cell_is_as_wide_as_it_is_by_then() -> None:
    """Yesterday's second takes 20 minutes with it; the last minute's takes five seconds."""
    now_ns = START_S * S
    for age_s, grid in zip((60, 2000, 4000, 20_000, DAY, 3 * DAY, 30 * DAY), GRIDS_S, strict=True):
        at_ns = now_ns - age_s * S
        span = corrected_range(at_ns, at_ns + 1, now_ns)
        assert span.end - span.start == grid


@pytest.mark.parametrize("width_s", [10, 60, 3600])
def test_a_time_slice_is_corrected_as_a_whole(width_s: int) -> None:
    """A second inside one takes it out: its verdict stands at its end."""
    now_ns = (START_S + 7200) * S
    start_s = (START_S // width_s + 1) * width_s
    span = corrected_range((start_s + 2) * S, (start_s + 3) * S, now_ns, width_s)
    assert span.start <= start_s
    assert span.end >= start_s + width_s


def test_a_delta_that_meets_no_correction_stays_the_same_object() -> None:
    """A commit costs nothing where nothing was corrected."""
    delta = _delta({START_S: [[1, 1, 0]] * WIDTH})
    elsewhere = [Correction(0, Range(START_S - 5, START_S)), Correction(1, Range(START_S + 5, START_S + 10))]
    assert effective(delta, elsewhere) is delta
    assert effective(_delta({}), [Correction(0, Range(0, START_S))]).slices.size == 0


def test_a_slice_that_is_judged_again_moves_between_excluded_verdicts(open_ledger: Callable[..., Ledger]) -> None:
    """Signed changes of a corrected slice change excluded only."""
    ledger = open_ledger((Correction(0, Range(START_S, START_S + 60)),))
    ledger.add(Entry(_delta({START_S + 55: [[1, 1, 0]] * WIDTH}), np.zeros((WIDTH, 3), dtype=np.int64)))
    ledger.add(Entry(_delta({START_S + 55: [[-1, 0, 0]] * WIDTH}), np.array([[0, 1, 0]] * WIDTH)))
    assert [ledger.counts(row, Range(START_S, START_S + 60)) for row in range(WIDTH)] == [
        Counts(0, 0, 1),
        Counts(0, 1, 0),
    ]
    assert ledger.totals.tolist() == [[0, 1, 0]] * WIDTH


def test_a_correction_is_forgotten_with_its_slices(open_ledger: Callable[..., Ledger]) -> None:
    """One that reaches into what is kept stays."""
    spans = [Range(START_S, START_S + 7200), Range(START_S, START_S + 7205), Range(START_S + 9000, START_S + 9005)]
    ledger = open_ledger(tuple(Correction(0, span) for span in spans))
    ledger.timeline.fold((START_S + 40 * DAY) * S)
    ledger.forget(START_S + 7200)
    assert [one.span for one in ledger.corrections] == spans[1:]


def test_a_clock_that_was_set_back_cuts_no_cell(open_ledger: Callable[..., Ledger]) -> None:
    """The range is as wide as the slices in memory are."""
    ledger = open_ledger()
    ledger.timeline.fold(START_S * S)
    asked_ns = (START_S - DAY) * S
    span = ledger.corrected_range(0, asked_ns, asked_ns + 1, asked_ns + S)
    assert span.end - span.start == 1200
