from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Range

S = 10**9

Intervals = list[tuple[int, int]]


def _covered(intervals: Intervals, span: Range) -> int:
    """Slice by slice: accepting in any part of it."""
    return sum(
        any(start < (edge + 5) * S and edge * S < end for start, end in intervals)
        for edge in range(span.start, span.end, 5)
    )


_INTERVALS = st.lists(
    st.tuples(st.integers(0, 100 * S), st.sampled_from([1, S, 5 * S, 17 * S]) | st.integers(1, 20 * S)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    max_size=6,
)
_SPANS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: Range(5 * min(pair), 5 * max(pair)))


@settings(deadline=None, max_examples=80)
@given(_INTERVALS, _SPANS)
def test_coverage_is_what_looking_at_every_slice_says(intervals: Intervals, span: Range) -> None:
    """Overlaps, gaps and touching intervals, given at once or one after the other, in any order."""
    at_once, in_turn = Uptime(intervals), Uptime()
    for start, end in intervals:
        in_turn.add(start, end)
    expected = _covered(intervals, span)
    slices = (span.end - span.start) // 5
    for uptime in (at_once, in_turn):
        assert uptime.covered(span) == expected
        assert uptime.ratio(span) == (expected / slices if slices else None)
        assert uptime.until_ns == max((end for _, end in intervals), default=None)


@pytest.mark.parametrize(
    ("intervals", "slices"),
    [
        ([], 0),
        ([(0, 100 * S)], 20),
        ([(12 * S, 13 * S)], 1),
        ([(14 * S, 16 * S)], 2),
        ([(10 * S, 15 * S)], 1),
        ([(10 * S, 15 * S + 1)], 2),
        ([(15 * S - 1, 15 * S)], 1),
        ([(0, 11 * S), (13 * S, 20 * S)], 4),
        ([(0, 11 * S), (12 * S, 12 * S + 1), (13 * S, 14 * S)], 3),
        ([(0, 10 * S), (20 * S, 30 * S)], 4),
        ([(0, 30 * S), (5 * S, 10 * S)], 6),
        ([(0, 10 * S), (10 * S, 20 * S)], 4),
        ([(-50 * S, 500 * S)], 20),
        ([(-50 * S, 0), (100 * S, 500 * S)], 0),
        ([(99 * S, 500 * S)], 1),
    ],
)
def test_a_slice_is_covered_by_any_part_of_it(intervals: Intervals, slices: int) -> None:
    """A kill and a restart within one slice cover it once; outside of the span nothing counts."""
    assert Uptime(intervals).covered(Range(0, 100)) == slices


def test_a_heartbeat_extends_the_newest_interval() -> None:
    """The same start with a later end is one interval, however often."""
    uptime = Uptime([(0, 10 * S)])
    for end in range(20, 40, 5):
        uptime.add(20 * S, end * S)
    assert uptime._intervals == [(0, 10 * S), (20 * S, 35 * S)]
    assert uptime.until_ns == 35 * S


@settings(deadline=None, max_examples=80)
@given(_INTERVALS, st.integers(0, 110 * S), st.integers(0, 110 * S))
def test_uptime_is_what_its_edges_say(intervals: Intervals, start: int, end: int) -> None:
    """To the nanosecond: between two edges we were up all the time or not at all."""
    edges = sorted({start, end, *(edge for pair in intervals for edge in pair if start < edge < end)})
    up = sum(
        upper - lower
        for lower, upper in pairwise(edges)
        if start <= lower and upper <= end and any(a <= lower and upper <= b for a, b in intervals)
    )
    assert Uptime(intervals).up_ns(start, end) == up


@pytest.mark.parametrize(
    ("span", "parts"),
    [
        ((0, 100), [(10, 20), (30, 40)]),
        ((15, 35), [(15, 20), (30, 35)]),
        ((20, 30), []),
        ((12, 13), [(12, 13)]),
        ((13, 12), []),
    ],
)
def test_the_parts_of_a_span_are_cut_to_it(span: tuple[int, int], parts: Intervals) -> None:
    """Half-open at both ends."""
    uptime = Uptime([(10, 20), (30, 40)])
    assert uptime.within(*span) == parts
    assert uptime.up_ns(*span) == sum(end - start for start, end in parts)


def test_a_clock_that_was_set_back_takes_no_uptime_away() -> None:
    """Neither an end before its start nor a start before the newest interval invents or drops any."""
    uptime = Uptime([(100, 200)])
    uptime.add(100, 50)
    uptime.add(10, 20)
    uptime.add(10, 30)
    assert uptime._intervals == [(10, 30), (100, 200)]
    assert uptime.extended(150, 250)._intervals == [(10, 30), (100, 250)]
    assert uptime.until_ns == 200


def test_what_ended_before_is_forgotten_but_for_the_newest() -> None:
    """Intervals stay whole, and the end stays known."""
    uptime = Uptime([(0, 10), (20, 30), (40, 50)])
    uptime.forget(10)
    assert uptime._intervals == [(0, 10), (20, 30), (40, 50)]
    uptime.forget(25)
    assert uptime._intervals == [(20, 30), (40, 50)]
    uptime.forget(100)
    assert uptime._intervals == [(40, 50)]
