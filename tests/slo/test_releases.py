"""What releases cost: the day after each, over slices as wide as they are by then."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from builders import NOON_NS, slo
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.counting import SLICE_S, Delta
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.releases import Cost, Release, costs, dearest, expected, learnt_from
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Range

HOUR = 3600
DAY = 24 * HOUR
NOON = NOON_NS // SECOND_NS
MONTH = slo()


def book(*slos: Slo, started_days_ago: float = 90) -> Ledger:
    """An empty ledger."""
    width = len(slos)
    return Ledger(
        Opening(
            slos=slos,
            started_ns=[NOON_NS - int(started_days_ago * DAY * SECOND_NS)] * width,
            totals=np.zeros((width, 3), dtype=np.int64),
            newest_ns=np.full(width, MISSING, dtype=np.int64),
            uptime=Uptime([]),
        )
    )


def count(ledger: Ledger, at_s: int, *rows: tuple[int, int]) -> None:
    """Good and bad events of each SLO."""
    counts = np.array([[(good, good + bad, 0) for good, bad in rows]], dtype=np.int64)
    newest = np.full(len(rows), MISSING, dtype=np.int64)
    ledger.add(Entry.of(Delta(np.array([at_s // SLICE_S * SLICE_S], dtype=np.int64), counts, newest)))


def release(at_s: int, number: int = 1) -> Release:
    """A release of chat."""
    at_ns = at_s * SECOND_NS
    return Release(id=number, service="chat", version=f"v{number}", at_ns=at_ns, made_ns=at_ns, who="ci", note="")


def cost(ledger: Ledger, at_s: int, now_s: int = NOON) -> Cost:
    """What a release cost the first SLO."""
    return costs(ledger, [0], release(at_s), now_s * SECOND_NS)[0]


def test_a_release_is_charged_with_the_day_after_it() -> None:
    """Bad events of the day over those that the month which ends with it allows; the day before stands beside."""
    ledger = book(MONTH)
    at = NOON - 2 * DAY
    count(ledger, at - 20 * DAY, (90_000, 0))
    count(ledger, at - 3 * HOUR, (4990, 10))
    count(ledger, at, (970, 30))
    count(ledger, at + 23 * HOUR, (3990, 10))
    count(ledger, at + 25 * HOUR, (0, 500))

    found = cost(ledger, at)

    assert (found.counts, found.is_complete) == (Counts(4960, 5000), True)
    assert found.spent_ratio == 40 / 1000  # a hundredth of 100,000
    assert found.before_ratio == 10 / 950
    assert (found.span.start, found.span.end) == (at, at + DAY)


def test_a_day_that_runs_is_charged_so_far() -> None:
    """Up to the slice that runs."""
    ledger = book(MONTH)
    count(ledger, NOON - 10 * DAY, (10_000, 0))
    count(ledger, NOON - HOUR, (995, 5))

    found = cost(ledger, NOON - 2 * HOUR)

    assert (found.counts, found.is_complete, found.spent_ratio) == (Counts(995, 1000), False, 5 / 110)
    assert found.span.end == NOON + SLICE_S


def test_a_day_is_complete_to_the_second() -> None:
    """At its end it is."""
    assert not release(NOON - DAY).is_complete(NOON_NS - 1)
    assert release(NOON - DAY).is_complete(NOON_NS)


def test_a_wide_slice_that_began_before_is_the_releases() -> None:
    """What fails in the first minutes is in the cell that holds them; the answer says so."""
    ledger = book(MONTH)
    at = NOON - 20 * DAY + HOUR + 600
    count(ledger, at - 30, (50, 50))
    ledger.timeline.fold(NOON_NS)

    found = cost(ledger, at)

    assert (found.span.start, found.span.end) == (NOON - 20 * DAY, NOON - 19 * DAY + 2 * HOUR)
    assert found.counts == Counts(50, 100)


def test_a_complete_cost_keeps_its_last_hour() -> None:
    """Slices get wider, and the last one that the day touches stays in it."""
    ledger = book(MONTH)
    at = NOON - 20 * DAY + HOUR + 605
    count(ledger, at + DAY - 5, (50, 50))
    before = cost(ledger, at, at + DAY)
    ledger.timeline.fold(NOON_NS)

    assert before.counts == cost(ledger, at).counts == Counts(50, 100)


def test_a_release_between_two_slices_is_charged_with_both() -> None:
    """Of the one in which its day ends too."""
    ledger = book(MONTH)
    count(ledger, NOON - DAY, (90, 10))
    count(ledger, NOON, (0, 7))
    moved = replace(release(NOON - DAY), at_ns=(NOON - DAY) * SECOND_NS + 1)

    found = costs(ledger, [0], moved, NOON_NS + 60 * SECOND_NS)[0]

    assert (found.span, found.counts) == (Range(NOON - DAY, NOON + SLICE_S), Counts(90, 107))


def test_a_release_that_a_fast_clock_told_costs_nothing_yet() -> None:
    """Its range is empty until it is there."""
    ledger = book(MONTH)
    count(ledger, NOON - HOUR, (90, 10))
    found = cost(ledger, NOON + 30)
    assert (found.counts, found.spent_ratio, found.is_complete) == (Counts(0, 0), None, False)


def test_a_short_window_is_charged_over_the_day() -> None:
    """What an hour allows is no measure of what a day spent."""
    ledger = book(slo(window="1h"))
    at = NOON - 2 * DAY
    count(ledger, at, (960, 40))
    count(ledger, at + 23 * HOUR + 1800, (1000, 0))

    assert cost(ledger, at).spent_ratio == 40 / 20


def test_a_day_that_was_widened_lies_within_its_window() -> None:
    """A window of a day holds every slice that the bad events are from."""
    ledger = book(slo(window="1d"))
    at = NOON - 20 * DAY + HOUR + 600
    count(ledger, at - 30, (50, 50))
    ledger.timeline.fold(NOON_NS)

    assert cost(ledger, at).spent_ratio == 50


def test_nothing_counted_is_not_nothing_spent() -> None:
    """A day without events has no number, and neither has one before the SLO was counted."""
    ledger = book(MONTH)
    count(ledger, NOON - 10 * DAY, (10_000, 0))
    assert (cost(ledger, NOON - 2 * DAY).spent_ratio, cost(ledger, NOON - 2 * DAY).counts) == (None, Counts(0, 0))

    young = book(MONTH, started_days_ago=1.5)
    count(young, NOON - DAY, (990, 10))
    assert (cost(young, NOON - 2 * DAY).spent_ratio, cost(young, NOON - 2 * DAY).counts) == (None, None)
    late = cost(young, NOON - int(1.25 * DAY))
    assert (late.spent_ratio, late.before_ratio) == (1.0, None)


def test_a_range_that_is_kept_no_more_has_no_number() -> None:
    """Nor has one whose window is not kept."""
    ledger = book(MONTH)
    for days in (12, 11, 1):
        count(ledger, NOON - days * DAY, (990, 10))
    ledger.timeline.fold(NOON_NS)
    ledger.forget(NOON - 10 * DAY)

    assert cost(ledger, NOON - 11 * DAY).counts is None
    found = cost(ledger, NOON - DAY)
    assert (found.counts, found.spent_ratio) == (Counts(990, 1000), None)


def test_the_dearest_slo_is_the_one_that_paid_most() -> None:
    """Without a number there is none."""
    ledger = book(slo("a"), slo("b"), slo("silent"))
    count(ledger, NOON - DAY, (995, 5), (980, 20), (0, 0))
    found = costs(ledger, [0, 1, 2], release(NOON - DAY), NOON_NS)

    assert dearest(found) is found[1]
    assert dearest(found[2:]) is None


def _paid(*ratios: float | None, name: str = "latency", is_complete: bool = True) -> list[list[Cost]]:
    """Costs of releases of one SLO."""
    return [
        [
            Cost(
                slo=slo(name),
                span=Range(0, 5),
                counts=None,
                spent_ratio=ratio,
                before_ratio=None,
                is_complete=is_complete,
            )
        ]
        for ratio in ratios
    ]


def test_the_next_one_is_expected_to_cost_what_past_ones_did() -> None:
    """The median and the most, by SLO; what runs and what has no number teach nothing."""
    past = [*_paid(0.1, 0.4, 0.2, None), *_paid(9.0, is_complete=False), *_paid(0.5, name="ttft")]
    found = [(one.slo, one.releases, one.median_ratio, one.most_ratio) for one in expected(past)]
    assert found == [("latency", 3, 0.2, 0.4), ("ttft", 1, 0.5, 0.5)]
    assert expected(_paid(None)) == expected([]) == ()


def test_ten_complete_releases_teach() -> None:
    """The newest ones."""
    made = [release(NOON - hours * HOUR, hours) for hours in range(1, 60, 2)]
    assert [one.id for one in learnt_from(made, NOON_NS)] == list(range(25, 45, 2))


@given(
    events=st.lists(st.tuples(st.integers(-40 * DAY, 0), st.integers(0, 50), st.integers(0, 5)), max_size=12),
    ago=st.integers(0, 30 * DAY),
    objective=st.sampled_from(["0.9", "0.99", "0.999"]),
)
def test_a_cost_is_what_its_range_says(events: Sequence[tuple[int, int, int]], ago: int, objective: str) -> None:
    """Against plain sums over the range that the answer names, whatever was folded."""
    ledger = book(slo(objective=objective))
    for seconds, good, bad in events:
        count(ledger, NOON + seconds, (good, bad))
    ledger.timeline.fold(NOON_NS)

    found = cost(ledger, NOON - ago)

    def within(start: int, end: int) -> Counts:
        inside = [(g, b) for s, g, b in events if start <= (NOON + s) // SLICE_S * SLICE_S < end]
        return Counts(sum(g for g, _ in inside), sum(g + b for g, b in inside))

    assert found.counts == within(found.span.start, found.span.end)
    assert found.span.start <= NOON - ago < found.span.start + 7200
    end = min(NOON - ago + DAY, NOON + SLICE_S)
    assert found.span.end - 7200 < end <= found.span.end
    if found.spent_ratio is None:
        assert found.counts.total == 0
    else:
        # The start of the month is an edge of a cell: at most a grid and a cell before.
        month = found.span.end - 30 * DAY
        least, most = (within(month - more, found.span.end).total for more in (0, 4 * HOUR))
        share = 1 - float(objective)
        assert found.spent_ratio * share * least <= found.counts.bad * (1 + 1e-9)
        assert found.spent_ratio * share * most >= found.counts.bad * (1 - 1e-9)
