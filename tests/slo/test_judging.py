from collections.abc import Sequence
from decimal import Decimal
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeslices import MS, Record, S, batch_of, indicator_of

from slo_exporter.sli.indicator import Indicator
from slo_exporter.sli.records import MISSING, Outcome
from slo_exporter.sli.slicing import SlicePlan
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.judging import MOST_UP_S, SliceBook, SliceChange, SliceOpening, due_slices, settled_s
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Range, Window

NOON_S = 1_796_040_000
LATENESS_S = 600
ALWAYS = Uptime([(0, (NOON_S + 10**7) * S)])


class _Desk:
    """A book with what would be in SQL beside it."""

    def __init__(self, *indicators: Indicator, since_s: int = NOON_S, judged_s: int = NOON_S) -> None:
        self.slos = [
            Slo(service="chat", name=f"s{row}", objective=Decimal("0.9"), window=Window("1d", 86400), indicator=one)
            for row, one in enumerate(indicators)
        ]
        self.plan = SlicePlan(indicators)
        self.sums: dict[tuple[int, int], np.ndarray] = {}
        self.counts: dict[tuple[int, int], list[int]] = {}
        self.totals = np.zeros((len(indicators), 3), dtype=np.int64)
        self.judged_s = self.final_s = judged_s
        self.since_ns = [since_s * S] * len(indicators)
        self.restart()

    def restart(self) -> None:
        self.book = SliceBook(self.slos, SliceOpening(self.sums, self.since_ns, self.judged_s, self.final_s))

    def arrive(self, records: Sequence[Record], uptime: Uptime = ALWAYS) -> SliceChange:
        return self._keep(self.book.arrived(self.plan.sum(batch_of(records)), uptime))

    def beat(self, now_s: int, uptime: Uptime = ALWAYS, lateness_s: int = LATENESS_S) -> SliceChange:
        return self._keep(self.book.due(now_s * S, uptime, lateness_s * S))

    def _keep(self, change: SliceChange) -> SliceChange:
        self.book.apply(change)
        self.sums.update(change.sums)
        for key in change.done:
            del self.sums[key]
        for slice_s, counts in zip(change.counts.slices.tolist(), change.counts.counts.tolist(), strict=True):
            for row, (good, total, _) in enumerate(counts):
                held = self.counts.setdefault((row, slice_s - NOON_S), [0, 0])
                held[0] += good
                held[1] += total
        self.totals += change.totals
        self.judged_s, self.final_s = change.judged_s, change.final_s
        return change

    def verdicts(self) -> dict[int, str]:
        """By the second of its last 5 s slice after noon, of the first SLO."""
        words = {(1, 1): "good", (0, 1): "bad"}
        return {at: words[tuple(tally)] for (row, at), tally in self.counts.items() if row == 0 and tally != [0, 0]}


def _at(seconds: float, e2e: int = 80 * MS, **fields: object) -> Record:
    return {"end_ns": int((NOON_S + seconds) * S), "e2e": e2e, **fields}


P99 = indicator_of("p99(e2e) <= 80ms")
RATE = indicator_of("rate >= 0.1/s")


def test_a_slice_is_judged_30_seconds_after_its_end_in_its_last_5_seconds() -> None:
    """Not a second earlier, and once."""
    desk = _Desk(P99)
    desk.arrive([_at(7)])
    desk.beat(NOON_S + 89)
    assert desk.verdicts() == {}
    change = desk.beat(NOON_S + 90)
    assert desk.verdicts() == {55: "good"}
    assert change.counts.newest_ns.tolist() == [(NOON_S + 60) * S]
    assert desk.beat(NOON_S + 95).counts.slices.tolist() == []


def test_a_late_record_judges_its_slice_again() -> None:
    """The verdict is replaced, whichever way it goes."""
    desk = _Desk(P99, indicator_of("count == 2"))
    desk.arrive([_at(7)])
    desk.beat(NOON_S + 90)
    change = desk.arrive([_at(8, S)])
    assert change.counts.counts.tolist() == [[[-1, 0, 0], [1, 0, 0]]]
    assert desk.verdicts() == {55: "bad"}
    desk.arrive([_at(9)] * 98)
    assert desk.verdicts() == {55: "good"}


def test_a_slice_without_data_gets_its_verdict_when_records_come() -> None:
    """An export may have waited."""
    desk = _Desk(P99)
    desk.beat(NOON_S + 90)
    assert desk.verdicts() == {}
    change = desk.arrive([_at(59)])
    assert change.counts.counts.tolist() == [[[1, 1, 0]]]


def test_a_final_slice_enters_the_totals_once_and_takes_no_more() -> None:
    """30 s after the last record that could be taken; its sums are dropped."""
    desk = _Desk(P99)
    desk.arrive([_at(7)])
    desk.beat(NOON_S + 60 + LATENESS_S + 29)
    assert desk.totals.tolist() == [[0, 0, 0]]
    change = desk.beat(NOON_S + 60 + LATENESS_S + 30)
    assert change.done == ((0, NOON_S),)
    assert desk.totals.tolist() == [[1, 1, 0]]
    late = desk.arrive([_at(8, S), _at(9, S), _at(9, outcome=Outcome.CANCELLED), _at(61)])
    assert late.refused == 2
    assert late.counts.newest_ns.tolist() == [(NOON_S + 120) * S]
    desk.beat(NOON_S + 7200)
    assert desk.totals.tolist() == [[2, 2, 0]]
    assert desk.sums == {}


def test_refused_records_are_not_the_newest() -> None:
    """What is too late makes nothing fresh."""
    desk = _Desk(P99)
    desk.beat(NOON_S + 7200)
    change = desk.arrive([_at(7)])
    assert (change.refused, change.counts.newest_ns.tolist(), change.sums) == (1, [MISSING], {})


def test_what_is_not_applied_changes_nothing() -> None:
    """A transaction that failed is made anew, to the same change."""
    desk = _Desk(RATE)
    for _ in range(2):
        change = desk.book.arrived(desk.plan.sum(batch_of([_at(7)])), ALWAYS)
        assert change.sums[0, NOON_S].tolist() == [1]
    for _ in range(2):
        change = desk.book.due((NOON_S + 90) * S, ALWAYS, LATENESS_S * S)
        assert change.counts.counts.tolist() == [[[0, 1, 0]]]
    assert (desk.book.judged_s, desk.book.final_s) == (NOON_S, NOON_S)


def test_a_restart_inside_a_slice_goes_on_where_it_was() -> None:
    """The verdict in the counts is found again from sums and uptime, and replaced when records come."""
    desk = _Desk(P99, RATE)
    desk.arrive([_at(7), _at(66), _at(67, S)])
    desk.beat(NOON_S + 90)
    uptime = Uptime([(0, (NOON_S + 92) * S), ((NOON_S + 94) * S, (NOON_S + 999) * S)])
    desk.restart()
    desk.arrive([_at(50, S), _at(68)], uptime)
    desk.beat(NOON_S + 150, uptime)
    assert desk.verdicts() == {55: "bad", 115: "bad"}
    desk.restart()
    desk.beat(NOON_S + 7200, uptime)
    assert desk.totals[0].tolist() == [0, 2, 0]


def test_time_before_an_slo_was_counted_is_time_down() -> None:
    """A slice that it began in is not judged, one that was over takes no records."""
    desk = _Desk(RATE, since_s=NOON_S + 67)
    assert desk.arrive([_at(59), _at(68)]).refused == 1
    desk.beat(NOON_S + 210)
    assert desk.verdicts() == {175: "bad"}
    exact = _Desk(RATE, since_s=NOON_S + 66)
    exact.beat(NOON_S + 210)
    assert exact.verdicts() == {115: "bad", 175: "bad"}


class _CountedUptime(Uptime):
    """Says how often it was asked."""

    asked = 0

    def up_ns(self, start_ns: int, end_ns: int) -> int:
        """Count the question."""
        self.asked += 1
        return super().up_ns(start_ns, end_ns)


def test_a_long_outage_is_passed_over() -> None:
    """100 days without uptime are not walked through, slice by slice."""
    desk = _Desk(RATE, P99, indicator_of("rate >= 1/s", 10))
    desk.arrive([_at(7)])
    back_s = NOON_S + 100 * 86400
    uptime = _CountedUptime([(NOON_S * S, (NOON_S + 57) * S), (back_s * S, (back_s + 60) * S)])
    desk.beat(back_s + 60, uptime)
    assert uptime.asked < 20
    assert desk.verdicts() == {55: "bad"}
    assert desk.totals.tolist() == [[0, 1, 0], [1, 1, 0], [0, 5, 0]]
    assert desk.judged_s == back_s + 30


def test_a_long_sleep_is_judged_in_steps() -> None:
    """The watermark waits for the rest, and nothing is left out."""
    desk = _Desk(RATE)
    hours = 3
    now_s = NOON_S + hours * MOST_UP_S + 30
    for hour in range(1, hours + 1):
        desk.beat(now_s)
        assert desk.judged_s == NOON_S + hour * MOST_UP_S
    assert len(desk.verdicts()) == hours * 60
    desk.beat(now_s)
    assert desk.totals.tolist() == [[0, hours * 60 - LATENESS_S // 60, 0]]


def test_the_first_time_slice_of_an_old_database_waits_for_nothing() -> None:
    """Uptime before any SLO on time slices is not walked through."""
    desk = _Desk(RATE, judged_s=NOON_S - 30 * 86400)
    desk.beat(NOON_S + 90)
    assert desk.verdicts() == {55: "bad"}
    assert desk.judged_s == NOON_S + 60


def test_a_clock_that_jumped_ahead_and_back_loses_no_slice() -> None:
    """What was judged before its time is judged again in its time; watermarks stay."""
    desk = _Desk(P99, RATE)
    silent = Uptime([(NOON_S * S, (NOON_S + 20) * S)])
    desk.beat(NOON_S + 400, silent)
    assert desk.verdicts() == {}
    for now_s in range(NOON_S + 25, NOON_S + 500, 5):
        uptime = Uptime([(NOON_S * S, now_s * S)])
        desk.arrive([_at(now_s - NOON_S - 3)], uptime)
        assert desk.beat(now_s, uptime).judged_s >= NOON_S + 370
    ends = range(55, 460, 60)
    assert desk.verdicts() == dict.fromkeys(ends, "good")
    assert {at: tally for (row, at), tally in desk.counts.items() if row == 1} == {end: [1, 1] for end in ends}


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_no_clock_makes_a_slice_count_twice(seed: int) -> None:
    """
    Whatever it does, each slice has one verdict, and the totals are those of final slices.

    Restarts come while the clock is right: after one that is behind, uptime
    grows where slices were judged already.
    """
    random = Random(seed)
    desk = _Desk(P99, indicator_of("rate >= 0.1/s", 10), indicator_of("max(e2e) <= 80ms", 10))
    now = NOON_S * S
    intervals = [(now, now)]
    for _ in range(30):
        now += random.choice((S, 7 * S, 40 * S, 40 * S, -60 * S, 900 * S, -900 * S))
        if random.random() < 0.2 and now > intervals[-1][1]:
            intervals.append((now, now))
            desk.restart()
        intervals[-1] = (intervals[-1][0], max(now, intervals[-1][1]))
        uptime = Uptime(intervals)
        ends = [now - random.randrange(60 * S) for _ in range(4)]
        desk.arrive([{"end_ns": end, "e2e": random.choice((MS, S))} for end in ends], uptime)
        desk.beat(now // S, uptime, 60)
        assert all(0 <= good <= total <= 1 for good, total in desk.counts.values())
        for row, width in enumerate((60, 10, 10)):
            final = [tally for (of, at), tally in desk.counts.items() if of == row and NOON_S + at + 5 <= desk.final_s]
            assert desk.totals[row].tolist() == [*np.sum([[0, 0], *final], axis=0).tolist(), 0], width


@pytest.mark.parametrize(
    ("width_s", "span", "started_s", "now_s", "slices"),
    [
        (60, Range(0, 3605), 0, 3600, 59),
        (60, Range(0, 3605), 0, 3630, 60),
        (60, Range(0, 3605), 0, 3629, 59),
        (60, Range(0, 3605), 1, 3630, 59),
        (60, Range(55, 60), 0, 9999, 1),
        (60, Range(60, 65), 0, 9999, 0),
        (3600, Range(0, 305), 0, 300, 0),
    ],
)
def test_slices_are_due_30_seconds_after_their_end(
    width_s: int, span: Range, started_s: int, now_s: int, slices: int
) -> None:
    """Whole ones since the start, whose last 5 s lie in the window."""
    assert due_slices(width_s, span, started_s * S, settled_s(now_s * S)) == slices


@given(
    st.sampled_from([10, 15, 60, 300]),
    st.lists(st.integers(0, 300), min_size=2, max_size=2).map(sorted),
    st.integers(0, 1500 * S),
    st.integers(0, 1600 * S),
)
def test_due_slices_are_those_that_looking_at_each_finds(
    width_s: int, edges: list[int], started_ns: int, now_ns: int
) -> None:
    """Slice by slice."""
    span = Range(edges[0] * 5, edges[1] * 5)
    due = [
        start
        for start in range(0, 1600, width_s)
        if start * S >= started_ns
        and span.start <= start + width_s - 5 < span.end
        and (start + width_s + 30) * S <= now_ns
    ]
    assert due_slices(width_s, span, started_ns, settled_s(now_ns)) == len(due)


@pytest.mark.parametrize(("behind_s", "until_s"), [(0, 100), (5, 95), (10, 90), (11, 100), (-5, 100)])
def test_what_waits_for_a_heartbeat_is_not_missing(behind_s: int, until_s: int) -> None:
    """Else coverage would dip for some seconds after each slice; where nothing is judged at all it falls."""
    assert settled_s(130 * S, 100 - behind_s) == until_s
