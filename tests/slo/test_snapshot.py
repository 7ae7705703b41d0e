"""Where many SLOs stand, worked out at once, is where each of them stands."""

from collections.abc import Callable

import numpy as np
from builders import slo
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import MISSING
from slo_exporter.slo import budget
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.declared import OWN, WINDOWS
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.report import state_of
from slo_exporter.slo.snapshot import STATES, standing
from slo_exporter.slo.timeline import Timeline
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import BURN_WINDOWS, Range, range_of, starts_of

S = 10**9
NOW_S = 1_700_000_003
OBJECTIVES = ("0.9", "0.99", "0.9995")
TEXTS = ("1h", "1d", "7d", "30d", "90d")

instants = st.integers(0, 95 * 86400).map(lambda ago: NOW_S - ago)
slices = st.tuples(instants, st.integers(0, 2), st.integers(0, 10**6), st.integers(0, 50), st.integers(0, 9))
spans = st.lists(st.tuples(instants, st.integers(0, 10**7)).map(lambda of: (of[0] * S, of[0] * S + of[1] * 1000)))


def _ledger(slos: list[Slo], intervals: list[tuple[int, int]], started_s: int) -> Ledger:
    return Ledger(
        Opening(
            slos=slos,
            started_ns=[(started_s + 7 * row) * S for row in range(len(slos))],
            totals=np.zeros((len(slos), 3), dtype=np.int64),
            newest_ns=np.full(len(slos), MISSING, dtype=np.int64),
            uptime=Uptime(intervals),
        )
    )


def _count(ledger: Ledger, at_s: int, row: int, good: int, bad: int, excluded: int) -> None:
    counts = np.zeros((1, len(ledger.slos), 3), dtype=np.int64)
    counts[0, row] = (good, good + bad, excluded)
    newest = np.full(len(ledger.slos), MISSING, dtype=np.int64)
    newest[row] = at_s * S
    ledger.add(Entry.of(Delta(np.array([at_s // 5 * 5]), counts, newest)))


@given(
    st.lists(slices, max_size=25),
    st.lists(st.sampled_from(TEXTS), min_size=3, max_size=3),
    spans,
    instants,
    st.sets(st.integers(0, 2)),
)
def test_many_at_once_stand_where_each_stands(
    counted: list[tuple[int, int, int, int, int]],
    texts: list[str],
    intervals: list[tuple[int, int]],
    started_s: int,
    burning: set[int],
) -> None:
    """Counts of every window, and each number that follows, as one by one."""
    slos = [slo(f"s{row}", objective=OBJECTIVES[row], window=text) for row, text in enumerate(texts)]
    ledger = _ledger(slos, intervals, started_s)
    ledger.timeline.fold(NOW_S * S)
    for each in sorted(counted):
        _count(ledger, *each)
    active = {row: {slos[row].alert_rules[0].key: NOW_S * S} for row in burning}
    found = standing(ledger.snapshot(NOW_S * S, active=active))
    for row, one in enumerate(slos):
        ranges = [range_of(seconds, NOW_S * S) for seconds in (*BURN_WINDOWS.values(), one.window.seconds)]
        counts = [ledger.counts(row, span) for span in ranges]
        assert [Counts(*of) for of in found.snapshot.counts[:, row].tolist()] == counts
        covered = Range(max(ranges[OWN].start, min(ledger.started_ns[row] // S, NOW_S) // 5 * 5), ranges[OWN].end)
        coverage = ledger.uptime.ratio(covered)
        assert _plain(found.coverage_ratio[row]) == coverage
        left = budget.budget(counts[OWN], one.objective).remaining_ratio
        burn_1h = budget.burn_rate(counts[WINDOWS.index("1h")], one.objective)
        exhausts = budget.exhausts_in_seconds(left, burn_1h, one.window.seconds)
        assert _plain(found.exhausts_in_seconds[row]) == exhausts
        state = state_of(counts[OWN], one.objective, coverage, is_burning=row in burning)
        assert STATES[found.state[row]] is state


@given(spans, st.lists(st.integers(0, 95 * 17280), max_size=9), st.integers(0, 10))
def test_coverage_of_many_ranges_is_that_of_each(intervals: list[tuple[int, int]], back: list[int], ahead: int) -> None:
    """Gaps, pieces of slices and empty ranges included."""
    uptime, end = Uptime(intervals), NOW_S // 5 * 5 + 5 * ahead
    starts = np.array([NOW_S // 5 * 5 + 25 - 5 * slices_ago for slices_ago in back], dtype=np.int64)
    expected = [uptime.ratio(Range(start, end)) for start in starts.tolist()]
    assert list(map(_plain, uptime.ratios(starts, end))) == expected


def test_without_an_event_every_window_is_empty() -> None:
    """Nothing is held: nothing is read beyond it."""
    counts = Timeline(2).windows(np.arange(2), [0, 100], np.array([5, 10]), 200)
    assert counts.tolist() == [[[0, 0, 0]] * 2] * 3


def test_starts_are_those_of_the_ranges() -> None:
    """Of each window, in the order asked for."""
    seconds = [30 * 86400, 300, 86400, 300]
    starts = starts_of(np.array(seconds), NOW_S * S)
    assert starts.tolist() == [range_of(each, NOW_S * S).start for each in seconds]


def test_a_snapshot_stays_as_it_was(make_slo: Callable) -> None:
    """What is counted later, and what becomes active, changes the ledger alone."""
    ledger = _ledger([make_slo()], [(0, NOW_S * S)], 0)
    _count(ledger, NOW_S - 60, 0, 9, 1, 2)
    active = {0: {make_slo().alert_rules[0].key: 5}}
    taken = ledger.snapshot(NOW_S * S, active=active)
    before = (taken.counts.tolist(), taken.totals.tolist(), taken.newest_ns.tolist(), taken.uptime.until_ns)
    _count(ledger, NOW_S - 30, 0, 5, 5, 5)
    ledger.uptime.add(NOW_S * S, 2 * NOW_S * S)
    active[0].clear()
    after = (taken.counts.tolist(), taken.totals.tolist(), taken.newest_ns.tolist(), taken.uptime.until_ns)
    assert after == before
    assert taken.active[0]


def test_some_slos_stand_where_they_stand_among_all(make_slo: Callable) -> None:
    """In the order asked for, with their own alerts."""
    slos = [make_slo("a"), make_slo("b", "0.9", "7d"), make_slo("c", "0.999", "1d")]
    ledger = _ledger(slos, [(0, NOW_S * S)], 0)
    for row in range(3):
        _count(ledger, NOW_S - 60, row, 90 + row, 10, row)
    active = {2: {slos[2].alert_rules[0].key: 5}}
    every = ledger.reports(NOW_S * S, active=active)
    assert ledger.reports(NOW_S * S, [2, 0], active=active) == [every[2], every[0]]


def _plain(number: float) -> float | None:
    return None if np.isnan(number) else float(number)
