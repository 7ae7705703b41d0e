import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from slo_exporter.sli.condition import parse
from slo_exporter.sli.counting import Delta
from slo_exporter.sli.indicator import Indicator
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.report import State
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Range

S = 10**9
DAY = 86400
NOW_S = 1_700_000_003
NOW_NS = NOW_S * S

GOLDEN = json.loads((Path(__file__).parent / "cases" / "golden_budgets.json").read_text())


def _ledger(
    slos: Sequence[Slo], *, started_s: Sequence[int] | None = None, uptime: Sequence[tuple[int, int]] = ((0, NOW_S),)
) -> Ledger:
    started_s = started_s or [0] * len(slos)
    return Ledger(
        Opening(
            slos=slos,
            started_ns=[start * S for start in started_s],
            totals=np.zeros((len(slos), 3), dtype=np.int64),
            newest_ns=np.full(len(slos), MISSING, dtype=np.int64),
            uptime=Uptime((start * S, end * S) for start, end in uptime),
        )
    )


def _add(ledger: Ledger, slice_s: int, *counts: tuple[int, int, int]) -> None:
    """Good, total and excluded of each SLO in one slice; its newest event ends a second into it."""
    newest = [(slice_s + 1) * S if total else MISSING for _, total, _ in counts]
    ledger.add(Entry.of(Delta(np.array([slice_s // 5 * 5]), np.array([counts]), np.array(newest, dtype=np.int64))))


def test_each_slo_is_reported_over_its_own_window(make_slo: Callable) -> None:
    """Counts, budget and burn rates come from the windows that they are named after."""
    ledger = _ledger([make_slo("month"), make_slo("week", "0.9", "7d")])
    _add(ledger, NOW_S - 20 * DAY, (900, 1000, 1), (800, 1000, 2))
    _add(ledger, NOW_S - 2 * DAY, (90, 100, 4), (80, 100, 8))
    _add(ledger, NOW_S - 1200, (20, 20, 16), (9, 10, 32))
    month, week = ledger.reports(NOW_NS)
    assert (month.counts, week.counts) == (Counts(1010, 1120, 21), Counts(89, 110, 40))
    assert month.sli == 1010 / 1120
    assert month.budget.remaining_ratio == float(1 - Fraction(110) / (Fraction(1120) / 100))
    assert (month.burn_rates["5m"], month.slis["5m"]) == (None, None)
    assert (week.burn_rates["30m"], week.slis["30m"]) == (1.0, 0.9)
    assert {text: month.burn_rates[text] for text in ("30m", "1h", "2h", "6h", "1d")} == dict.fromkeys(
        ("30m", "1h", "2h", "6h", "1d"), 0.0
    )
    assert month.slis["3d"] == 110 / 120
    assert month.burn_rates["window"] == float(Fraction(110, 1120) * 100)
    assert list(month.burn_rates) == list(month.slis) == ["5m", "30m", "1h", "2h", "6h", "1d", "3d", "window"]
    assert month.span == Range(1_697_407_200, 1_700_000_005)


def test_the_next_slice_and_the_minute_ahead_are_not_in_a_window_yet(make_slo: Callable) -> None:
    """`to` is the end of the slice that holds now."""
    ledger = _ledger([make_slo()])
    for slice_s in (NOW_S - 3, NOW_S + 2, NOW_S + 57):
        _add(ledger, slice_s, (1, 1, 0))
    assert [ledger.reports((NOW_S + ahead) * S)[0].counts.total for ahead in (0, 1, 2, 60)] == [1, 1, 2, 3]


def test_an_idle_hour_weighs_nothing(make_slo: Callable) -> None:
    """The golden month: a mean of hourly ratios would call it overspent."""
    ledger = _ledger([make_slo(objective="0.999")])
    for hour in range(719):
        _add(ledger, NOW_S - 3600 * hour - 7200, (1_000_000, 1_000_000, 0))
    _add(ledger, NOW_S - 60, (0, 10, 0))
    (report,) = ledger.reports(NOW_NS)
    assert report.budget.consumed_ratio == GOLDEN["average_of_ratios_bias"]["event_weighted_budget_consumed"]
    assert report.state is State.OK
    assert report.exhausts_in_seconds == report.budget.remaining_ratio * 30 * DAY / 1000.0


@pytest.mark.parametrize(
    ("started_s", "uptime", "coverage"),
    [
        (0, ((0, NOW_S),), 1.0),
        (0, ((NOW_S - 1000, NOW_S),), 201 / 518_561),
        (NOW_S - 1000, ((NOW_S - 1000, NOW_S),), 1.0),
        (NOW_S - 1000, ((0, NOW_S),), 1.0),
        (NOW_S - 1001, ((NOW_S - 500, NOW_S),), 101 / 201),
        (NOW_S - 1000, ((NOW_S - 1000, NOW_S - 500), (NOW_S - 498, NOW_S)), 1.0),
        (NOW_S - 1000, ((NOW_S - 1000, NOW_S - 508), (NOW_S - 503, NOW_S)), 200 / 201),
        (NOW_S, ((0, NOW_S),), 1.0),
        (NOW_S, (), 0.0),
        (NOW_S + 60, ((0, NOW_S),), 1.0),  # the clock was ahead when it began: it begins now
    ],
)
def test_coverage_counts_from_the_start_of_the_generation(
    make_slo: Callable, started_s: int, uptime: Sequence[tuple[int, int]], coverage: float
) -> None:
    """Slices in which receivers were accepting, over the slices since the start or in the window."""
    ledger = _ledger([make_slo()], started_s=[started_s], uptime=uptime)
    assert ledger.reports(NOW_NS)[0].coverage_ratio == coverage


def test_coverage_decides_the_state(make_slo: Callable) -> None:
    """A generation that began inside the window is judged by its own slices."""
    slos = [make_slo("old"), make_slo("young")]
    ledger = _ledger(slos, started_s=[0, NOW_S - 100], uptime=((NOW_S - 100, NOW_S),))
    _add(ledger, NOW_S - 5, (9, 9, 0), (9, 9, 0))
    old, young = ledger.reports(NOW_NS)
    assert (old.state, young.state) == (State.INSUFFICIENT_DATA, State.OK)
    assert "30d" not in old.reason
    assert young.reason == "100.0% of the error budget remains"


def test_data_age_is_that_of_the_newest_counted_event(make_slo: Callable) -> None:
    """Never negative, absent before the first, not made younger by excluded or late events."""
    ledger = _ledger([make_slo("busy"), make_slo("idle"), make_slo("ahead")])
    _add(ledger, NOW_S - 103, (1, 1, 0), (0, 0, 3), (1, 1, 0))
    _add(ledger, NOW_S - 503, (1, 1, 0), (0, 0, 3), (0, 0, 0))
    _add(ledger, NOW_S + 40, (0, 0, 2), (0, 0, 0), (1, 1, 0))
    busy, idle, ahead = ledger.reports(NOW_NS)
    assert [report.data_age_seconds for report in (busy, idle, ahead)] == [102.0, None, 0.0]
    assert [report.is_stale for report in (busy, idle, ahead)] == [False, True, False]


@pytest.mark.parametrize(("ahead_ns", "age_s"), [(60 * S, 0.0), (60 * S + 1, None)])
def test_a_clock_that_was_set_back_tells_no_age(make_slo: Callable, ahead_ns: int, age_s: float | None) -> None:
    """An event further ahead than any may be was counted by another clock: what is fresh cannot be told."""
    ledger = _ledger([make_slo()])
    _add(ledger, NOW_S - 103, (1, 1, 0))
    ledger.newest_ns[0] = NOW_NS + ahead_ns
    (report,) = ledger.reports(NOW_NS)
    assert (report.data_age_seconds, report.is_stale) == (age_s, age_s is None)


@pytest.mark.parametrize(("age_ns", "stale"), [(900 * S - 1, False), (900 * S, False), (900 * S + 1, True)])
def test_data_is_stale_beyond_its_greatest_age(make_slo: Callable, age_ns: int, stale: bool) -> None:  # noqa: FBT001 - a table
    """Exactly as old as allowed is fresh."""
    ledger = _ledger([make_slo(max_data_age="15m")])
    ledger.newest_ns[0] = NOW_NS - age_ns
    assert ledger.reports(NOW_NS)[0].is_stale == stale


@pytest.mark.parametrize(("until_s", "as_of_s"), [(NOW_S - 30, NOW_S - 30), (NOW_S + 30, NOW_S), (None, NOW_S)])
def test_counts_are_complete_until_the_last_heartbeat(make_slo: Callable, until_s: int | None, as_of_s: int) -> None:
    """`as_of` is never later than now."""
    ledger = _ledger([make_slo()], uptime=() if until_s is None else ((0, until_s),))
    assert ledger.reports(NOW_NS)[0].as_of_ns == as_of_s * S


def test_lifetime_totals_only_grow(make_slo: Callable) -> None:
    """What left the window, or lies outside of it, stays in the totals; folding takes nothing."""
    ledger = _ledger([make_slo("a"), make_slo("b")])
    ledger.totals[0] = (7, 9, 1)
    _add(ledger, NOW_S - 300 * DAY, (1, 2, 3), (0, 0, 0))
    _add(ledger, NOW_S, (10, 20, 30), (5, 5, 5))
    ledger.timeline.fold(NOW_NS)
    assert ledger.totals.tolist() == [[18, 31, 34], [5, 5, 5]]
    assert ledger.reports(NOW_NS)[0].counts == Counts(10, 20, 30)


def test_chosen_rows_are_reported_in_the_order_asked(make_slo: Callable) -> None:
    """A report of some SLOs equals theirs in the report of all."""
    ledger = _ledger([make_slo(name) for name in "abc"])
    _add(ledger, NOW_S, (1, 2, 0), (3, 4, 0), (5, 6, 0))
    everything = ledger.reports(NOW_NS)
    assert [report.counts.good for report in everything] == [1, 3, 5]
    assert ledger.reports(NOW_NS, [2, 0]) == [everything[2], everything[0]]
    assert ledger.reports(NOW_NS, []) == []


def test_an_slo_is_found_by_service_and_name(make_slo: Callable) -> None:
    """An unknown one is a KeyError."""
    ledger = _ledger([make_slo("a"), make_slo("b")])
    assert ledger.row("chat", "b") == 1
    for service, name in (("chat", "c"), ("other", "a")):
        with pytest.raises(KeyError):
            ledger.row(service, name)


@pytest.mark.parametrize(
    ("bad", "bad_lately", "seconds"),
    [(0, 0, None), (50, 0, None), (49, 1, 0.5 * 30 * DAY / 10), (99, 1, 0.0), (100, 1, 0.0), (101, 0, 0.0)],
)
def test_exhaustion_extrapolates_the_last_hour(
    make_slo: Callable, bad: int, bad_lately: int, seconds: float | None
) -> None:
    """What remains × window / burn of one hour; none while it does not burn, 0 once overspent."""
    ledger = _ledger([make_slo(objective="0.99")])
    _add(ledger, NOW_S - 10 * DAY, (9_990 - bad, 9_990, 0))
    _add(ledger, NOW_S - 60, (10 - bad_lately, 10, 0))
    (report,) = ledger.reports(NOW_NS)
    assert report.exhausts_in_seconds == (None if seconds is None else pytest.approx(seconds, rel=1e-15))
    assert report.slo.objective == Decimal("0.99")


def _sliced(slo: Slo) -> Slo:
    indicator = Indicator(slo.indicator.selector, parse("p99(e2e) <= 80ms"), timeslice_s=60)
    return replace(slo, indicator=indicator)


@pytest.mark.parametrize(
    ("started_s", "verdicts", "without", "coverage"),
    [
        (NOW_S - 3600, 0, 0, 0.0),
        (NOW_S - 3600, 29, 0, 29 / 58),
        (NOW_S - 3600, 50, 8, 1.0),
        (NOW_S - 40, 0, 0, None),
        (NOW_S + 600, 0, 0, None),
    ],
)
def test_time_slices_are_covered_by_verdicts(
    make_slo: Callable, started_s: int, verdicts: int, without: int, coverage: float | None
) -> None:
    """Slices with a verdict, corrected ones included, over those that are due; uptime does not matter."""
    ledger = _ledger([_sliced(make_slo())], started_s=[started_s], uptime=())
    for n in range(verdicts + without):
        good = (1, 1, 0) if n < verdicts else (0, 0, 1)
        _add(ledger, (NOW_S - 3600) // 60 * 60 + 60 * n + 115, good)
    assert ledger.reports(NOW_NS)[0].coverage_ratio == coverage


def test_time_slices_are_called_slices(make_slo: Callable) -> None:
    """The reason says what was counted."""
    ledger = _ledger([_sliced(make_slo())], started_s=[NOW_S - 3600])
    assert ledger.reports(NOW_NS)[0].reason == "no slice was judged in 30d"
    _add(ledger, NOW_S - 65, (0, 2, 0))
    assert ledger.reports(NOW_NS)[0].reason == "2 bad slices, 0.02 allowed in 30d"


def test_what_a_commit_adds_to_slices_and_totals_may_differ(make_slo: Callable) -> None:
    """A verdict counts in its window at once, in the lifetime totals when it is final."""
    ledger = _ledger([make_slo()])
    delta = Delta(np.array([NOW_S // 5 * 5]), np.array([[[1, 1, 0]]]), np.array([NOW_NS]))
    ledger.add(Entry(delta, np.zeros((1, 3), dtype=np.int64)))
    assert (ledger.totals.tolist(), ledger.reports(NOW_NS)[0].counts) == ([[0, 0, 0]], Counts(1, 1))
    ledger.add(Entry(Delta(delta.slices, -delta.counts, delta.newest_ns), np.array([[0, 1, 0]])))
    assert (ledger.totals.tolist(), ledger.reports(NOW_NS)[0].counts) == ([[0, 1, 0]], Counts(0, 0))
