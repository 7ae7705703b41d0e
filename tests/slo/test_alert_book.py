"""Which alerts are active, since when, over many SLOs at once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from builders import NOON_NS, slo
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.sli.records import Ints
from slo_exporter.slo import alerting, burning
from slo_exporter.slo.alert_book import AlertBook, AlertChange, counts_by_window
from slo_exporter.slo.alerting import AlertKey, AlertPolicy, Severity, Tier
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import BURN_WINDOWS

TOTAL = (Severity.PAGE, Tier.TOTAL)
QUICK = (Severity.PAGE, Tier.QUICK)
SLOW = (Severity.TICKET, Tier.SLOW)
LATER_NS = NOON_NS + 5 * 10**9
Row = tuple[int, int]
"""Good and bad events."""


def lookback(*rows: Mapping[str, Row] | Row) -> Mapping[str, Ints]:
    """Counts by window; a row alone is the same in every window."""
    table: dict[str, list[list[int]]] = {text: [] for text in BURN_WINDOWS}
    for row in rows:
        for text, counts in table.items():
            good, bad = row.get(text, (0, 0)) if isinstance(row, Mapping) else row
            counts.append([good, good + bad, 0])
    return {text: np.array(counts, dtype=np.int64) for text, counts in table.items()}


def fired(book: AlertBook, counts: Mapping[str, Ints], now_ns: int = NOON_NS) -> AlertChange:
    """Evaluate and apply."""
    change = book.evaluate(counts, now_ns)
    book.apply(change)
    return change


def test_what_burns_fires_and_nothing_else_does() -> None:
    """Of two SLOs the one that burns, at every factor below its burn rate."""
    book = AlertBook([slo("a"), slo("b")], {})

    change = book.evaluate(lookback((1000, 0), (900, 100)), NOON_NS)

    keys = [(Severity.PAGE, Tier.SLOW), (Severity.TICKET, Tier.QUICK), SLOW]
    assert change == AlertChange(NOON_NS, tuple((1, key) for key in keys), ())
    assert book.active == {}


def test_an_alert_is_active_since_it_fired() -> None:
    """An evaluation that finds it so again changes nothing."""
    book = AlertBook([slo()], {})
    fired(book, lookback((0, 100)))

    assert not fired(book, lookback((0, 101)), LATER_NS)
    assert set(book.active[0].values()) == {NOON_NS}


def test_an_alert_ends_with_its_short_window() -> None:
    """The page for the hour ends, the ticket for three days does not."""
    burning = lookback(dict.fromkeys(BURN_WINDOWS, (0, 100)))
    book = AlertBook([slo()], {})
    fired(book, burning)

    over = {**dict.fromkeys(BURN_WINDOWS, (100, 100)), "5m": (50, 0), "30m": (50, 0)}
    change = fired(book, lookback(over), LATER_NS)
    assert not fired(book, lookback(over), LATER_NS)

    assert [key for _, key in change.resolved] == [QUICK, (Severity.PAGE, Tier.SLOW), TOTAL]
    assert book.active == {0: {(Severity.TICKET, Tier.QUICK): NOON_NS, SLOW: NOON_NS}}


def test_no_data_freezes() -> None:
    """What is active stays so with its time, what is not does not fire."""
    book = AlertBook([slo("a"), slo("b")], {0: {QUICK: NOON_NS}})

    assert not fired(book, lookback((0, 0), (0, 0)), LATER_NS)
    assert book.active == {0: {QUICK: NOON_NS}}


def test_total_failure_does_not_end_because_a_window_moves_on() -> None:
    """The half hour, that tells where five minutes hold too little, has good events of before."""
    book = AlertBook([slo()], {0: {TOTAL: NOON_NS}})
    before = lookback({"5m": (0, 4), "30m": (50, 30), "1h": (500, 30)})

    assert not fired(book, before, NOON_NS + 1799 * 10**9)
    assert fired(book, before, NOON_NS + 1800 * 10**9).resolved == ((0, TOTAL),)


def test_a_correction_that_leaves_nothing_ends_what_was_active() -> None:
    """Of its own SLO; elsewhere no data goes on to freeze."""
    active = {QUICK: NOON_NS, TOTAL: NOON_NS}
    book = AlertBook([slo("a"), slo("b")], {0: active, 1: active})

    change = book.evaluate(lookback((0, 0), (0, 0)), LATER_NS, corrected=[1])

    assert change == AlertChange(LATER_NS, (), ((1, QUICK), (1, TOTAL)))


def test_a_correction_ends_nothing_that_still_burns() -> None:
    """What is left calls for it."""
    book = AlertBook([slo()], {0: {QUICK: NOON_NS, TOTAL: NOON_NS}})

    assert not book.evaluate(lookback((0, 100)), LATER_NS, corrected=[0]).resolved


def test_an_alert_that_its_slo_has_no_more_ends() -> None:
    """It was turned off: data or not."""
    silent = replace(slo(), alerts=AlertPolicy.silent())
    book = AlertBook([silent], {0: {QUICK: NOON_NS}})

    assert fired(book, lookback((0, 0))) == AlertChange(NOON_NS, (), ((0, QUICK),))
    assert book.active == {}


def test_another_threshold_is_the_same_alert() -> None:
    """Its identity is SLO, severity and tier: it goes on with its time."""
    burns = tuple(replace(burn, share=Fraction(3, 100)) for burn in alerting.STANDARD[:1])
    changed = replace(slo(), alerts=AlertPolicy(burns))
    book = AlertBook([changed], {0: {QUICK: NOON_NS}})

    fired(book, lookback({"5m": (0, 1), "1h": (0, 100)}), LATER_NS)

    assert book.active[0][QUICK] == NOON_NS


def test_a_bound_that_is_met_exactly_does_not_fire() -> None:
    """14.4 × 1 % of 10^15 events, where floats are too coarse to tell one event more."""
    book = AlertBook([slo()], {})
    bad, total = 144 * 10**12, 10**15
    none, one = ({"5m": (total - bad - more, bad + more), "1h": (total - bad - more, bad + more)} for more in (0, 1))

    assert (0, QUICK) not in book.evaluate(lookback(none), NOON_NS).fired
    assert (0, QUICK) in book.evaluate(lookback(one), NOON_NS).fired


_EVENTS = (
    st.tuples(st.integers(0, 400), st.integers(0, 40))
    | st.tuples(st.integers(0, 3), st.integers(0, 60))
    | st.sampled_from([(0, 0), (0, 5), (856, 144), (94, 6), (1, 19), (2, 38), (2, 37)])
)
_OBJECTIVE = st.sampled_from(["0.9", "0.99", "0.999", "0.5", "0.05"])
_AGE_S = st.sampled_from([0, 5, 299, 300, 1799, 1800, 3600, 7200, 21600, 10**6])
_WINDOW = st.sampled_from(["6h", "1d", "7d", "28d", "30d", "90d"])
_ROWS = st.lists(
    st.tuples(st.fixed_dictionaries(dict.fromkeys(BURN_WINDOWS, _EVENTS)), _OBJECTIVE, _WINDOW),
    min_size=1,
    max_size=6,
)


@given(_ROWS, st.data())
def test_many_are_judged_as_each_alone(rows: Sequence[tuple[dict[str, Row], str, str]], data: st.DataObject) -> None:
    """The book says what the exact rule says, alert by alert."""
    slos: list[Slo] = [slo(f"s{i}", objective=of, window=window) for i, (_, of, window) in enumerate(rows)]
    ids = [(row, rule.key) for row, one in enumerate(slos) for rule in one.alert_rules]
    active: dict[int, dict[AlertKey, int]] = {}
    for row, key in data.draw(st.sets(st.sampled_from(ids))) if ids else ():
        active.setdefault(row, {})[key] = LATER_NS - data.draw(_AGE_S) * 10**9
    corrected = data.draw(st.sets(st.integers(0, len(slos) - 1)))
    counts = lookback(*(events for events, _, _ in rows))

    change = AlertBook(slos, active).evaluate(counts, LATER_NS, corrected)

    rules = {(row, rule.key): rule for row, one in enumerate(slos) for rule in one.alert_rules}
    asked = {one: (rules[one], counts_by_window(counts, one[0]), slos[one[0]].objective) for one in ids}
    says = {one: burning.holds(*asked[one]) for one in ids}
    was = {(row, key): (LATER_NS - at) / 10**9 for row, since in active.items() for key, at in since.items()}
    over = {one for one in was if burning.is_over(*asked[one], active_s=was[one])}
    assert set(change.fired) == {one for one in ids if says[one] and one not in was}
    assert set(change.resolved) == over | {one for one in was if one[0] in corrected and not says[one]}


@given(_ROWS)
def test_what_fires_is_not_over(rows: Sequence[tuple[dict[str, Row], str, str]]) -> None:
    """No alert that fires ends with the next evaluation of the same counts."""
    book = AlertBook([slo(f"s{i}", objective=of, window=window) for i, (_, of, window) in enumerate(rows)], {})
    counts = lookback(*(events for events, _, _ in rows))

    fired(book, counts)

    assert not book.evaluate(counts, LATER_NS)
