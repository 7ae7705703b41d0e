"""Which burn alerts an SLO has, and what its counts say to each."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from builders import slo
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.slo import alerting, burning
from slo_exporter.slo.alerting import KEYS, STANDARD, AlertPolicy, AlertRule, Burn, Severity, Tier
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.windows import BURN_WINDOWS

DAY_S = 86400
TOTAL = (Severity.PAGE, Tier.TOTAL)
QUICK = (Severity.PAGE, Tier.QUICK)
GOLDEN = {
    7: ("84/25", "7/5", "7/10", "7/30"),
    28: ("336/25", "28/5", "14/5", "14/15"),
    30: ("72/5", "6", "3", "1"),
}
"""By days of the compliance window: 2 % in 1 h, 5 % in 6 h, 10 % in 1 d, 10 % in 3 d."""


def rule_of(key: tuple[Severity, Tier], *, objective: str = "0.99", min_bad_events: int | None = None) -> AlertRule:
    """A rule of an SLO over 30 days."""
    one = replace(slo(objective=objective), alerts=AlertPolicy(min_bad_events=min_bad_events))
    return {rule.key: rule for rule in one.alert_rules}[key]


def windows(**counts: tuple[int, int]) -> Mapping[str, Counts]:
    """Counts by window text, from bad and total: ``w1h=(1, 2)``; a window without takes those of the next shorter."""
    found: dict[str, Counts] = {}
    last = (0, 0)
    for text in BURN_WINDOWS:
        last = counts.get(f"w{text}", last)
        found[text] = Counts(last[1] - last[0], last[1])
    return found


@pytest.mark.parametrize("days", GOLDEN)
def test_factors_are_those_of_the_golden_cases(days: int) -> None:
    """Share × window / long window, exactly."""
    factors = [burn.factor(days * DAY_S) for burn in STANDARD]

    assert factors == [Fraction(factor) for factor in GOLDEN[days]]


def test_the_usual_rules_of_thirty_days() -> None:
    """The pairs of the Workbook, and total failure."""
    found = [
        (str(rule.severity), str(rule.tier), rule.long, rule.short, rule.factor, rule.min_bad_events)
        for rule in slo().alert_rules
    ]

    assert found == [
        ("page", "total", "", "", None, 5),
        ("page", "quick", "1h", "5m", Fraction("14.4"), 5),
        ("page", "slow", "6h", "30m", Fraction(6), 5),
        ("ticket", "quick", "1d", "2h", Fraction(3), 5),
        ("ticket", "slow", "3d", "6h", Fraction(1), 5),
    ]
    assert [rule.key for rule in slo().alert_rules] == list(KEYS)


def test_tickets_of_a_short_window_never_fire_on_a_service_that_keeps_its_objective() -> None:
    """Their shares are raised until the factor is 1; pages are as they are."""
    factors = {rule.key: rule.factor for rule in slo(window="7d").alert_rules}

    assert factors[Severity.TICKET, Tier.QUICK] == factors[Severity.TICKET, Tier.SLOW] == 1
    assert factors[QUICK] == Fraction("3.36")


def test_an_alert_that_can_never_fire_is_left_out() -> None:
    """At 90 % no burn rate is above 10; total failure still pages."""
    one = slo(objective="0.9")

    assert QUICK not in {rule.key for rule in one.alert_rules}
    assert TOTAL in {rule.key for rule in one.alert_rules}
    found = alerting.left_out(one.alerts, window_s=one.window.seconds, objective=one.objective)
    assert [(burn.long, why) for burn, why in found] == [
        ("1h", "is a burn rate of 14.4 over 1h: no more than 10 can be")
    ]


@pytest.mark.parametrize(
    ("share", "window_s", "why"),
    [
        ("0.001", 30 * DAY_S, "is a burn rate of 0.72 over 1h: below 1 a service keeps its objective"),
        ("0.14", 30 * DAY_S, "is a burn rate of 101 over 1h: no more than 100 can be"),
        ("0.6", 5 * 3600, "is 60% of the budget in 1h: most of it is gone by then"),
        ("0.5", 1800, "is judged over 1h, which is longer than the window"),
        ("0.02", 30 * DAY_S, None),
    ],
)
def test_why_a_share_makes_no_sense(share: str, window_s: int, why: str | None) -> None:
    """Below 1, unreachable, most of the budget, or longer than the window."""
    burn = Burn(Severity.PAGE, Tier.QUICK, "1h", "5m", Fraction(share))

    assert burn.unfit(window_s, Decimal("0.99")) == why


@given(
    burn=st.sampled_from(STANDARD),
    window_s=st.integers(300, 100 * DAY_S),
    objective=st.decimals("0.001", "0.9999", places=4),
    share=st.fractions(Fraction(1, 10000), Fraction(1)),
)
def test_shares_are_fit_where_they_are_said_to_be(
    burn: Burn, window_s: int, objective: Decimal, share: Fraction
) -> None:
    """`fitting` and `unfit` are two sides of one thing."""
    fitting = burn.fitting(window_s, objective)

    fits = fitting is not None and fitting[0] <= share < fitting[1] and share <= alerting.MOST_SHARE
    assert fits == (replace(burn, share=share).unfit(window_s, objective) is None)


def test_one_failure_in_ten_requests_an_hour_does_not_page() -> None:
    """It burns at 10 at 99 %, at 100 at 99.9 %; one bad event is no news."""
    rule = rule_of(QUICK, objective="0.999")

    assert burning.holds(rule, windows(w5m=(1, 1), w1h=(1, 10)), Decimal("0.999")) is False
    assert burning.holds(rule_of(TOTAL), windows(w5m=(1, 1), w1h=(1, 10)), Decimal("0.999")) is False


def test_a_total_outage_of_ten_requests_an_hour_pages() -> None:
    """Half an hour of nothing but failures, in the shortest window that tells."""
    counts = windows(w5m=(1, 1), w30m=(5, 5), w1h=(5, 10))

    assert burning.holds(rule_of(TOTAL), counts, Decimal("0.99")) is True
    assert burning.failure_window(rule_of(TOTAL), counts) == "30m"


def test_a_total_outage_needs_no_reachable_factor() -> None:
    """At an objective of 50 % half the requests may fail; all of them may not."""
    assert burning.holds(rule_of(TOTAL, objective="0.5"), windows(w5m=(9, 9)), Decimal("0.5")) is True
    assert burning.holds(rule_of(TOTAL, objective="0.5"), windows(w5m=(8, 9)), Decimal("0.5")) is False


@pytest.mark.parametrize(("bad", "total", "fails"), [(19, 20, True), (18, 19, False), (38, 40, True), (37, 40, False)])
def test_total_failure_is_that_hardly_any_event_is_good(bad: int, total: int, *, fails: bool) -> None:
    """One in twenty may be: a health check, a cached answer."""
    assert burning.holds(rule_of(TOTAL), windows(w5m=(bad, total)), Decimal("0.99")) is fails


def test_total_failure_does_not_fire_while_a_shorter_window_works() -> None:
    """An outage that only a longer window still shows is over: 20 failures at night, one good request since."""
    counts = windows(w30m=(0, 1), w6h=(20, 21))

    assert burning.holds(rule_of(TOTAL), counts, Decimal("0.99")) is False
    assert burning.failure_window(rule_of(TOTAL), counts) == "30m"


def test_total_failure_ends_on_news_alone() -> None:
    """Not with good events of before, nor without any; with one good event of few it does."""
    rule, objective = rule_of(TOTAL), Decimal("0.99")
    before = windows(w5m=(1, 1), w30m=(9, 100))

    assert burning.holds(rule, before, objective) is False
    assert burning.is_over(rule, before, objective, active_s=1799) is False
    assert burning.is_over(rule, before, objective, active_s=1800) is True
    assert burning.is_over(rule, windows(), objective, active_s=86400) is False
    assert burning.is_over(rule, windows(w5m=(3, 4)), objective, active_s=0) is True
    assert burning.is_over(rule, windows(w5m=(57, 60)), objective, active_s=86400) is False


@pytest.mark.parametrize(("objective", "has"), [("0.05", False), ("0.051", True)])
def test_an_objective_that_allows_total_failure_has_no_alert_on_it(objective: str, *, has: bool) -> None:
    """One good event in twenty is all that is asked."""
    assert (TOTAL in {rule.key for rule in slo(objective=objective).alert_rules}) is has


def test_the_short_window_resolves() -> None:
    """The long window still burns, five minutes after the fault nobody is paged."""
    rule, objective = rule_of(QUICK), Decimal("0.99")

    assert burning.holds(rule, windows(w5m=(50, 100), w1h=(50, 200)), objective) is True
    assert burning.holds(rule, windows(w5m=(0, 100), w1h=(50, 200)), objective) is False


def test_no_data_says_nothing() -> None:
    """Neither to a burn nor to total failure."""
    objective = Decimal("0.99")

    assert burning.holds(rule_of(QUICK), windows(), objective) is None
    assert burning.holds(rule_of(QUICK), windows(w1h=(50, 50)), objective) is None
    assert burning.holds(rule_of(TOTAL), windows(w6h=(4, 4)), objective) is None


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [
        ((0, 0), (50, 50), None),
        ((0, 0), (1, 100), False),
        ((0, 0), (4, 4), False),
        ((1, 100), (0, 0), False),
        ((50, 50), (0, 0), None),
        ((50, 50), (50, 50), True),
    ],
)
def test_what_one_window_denies_the_other_need_not_tell(
    short: tuple[int, int], long: tuple[int, int], *, expected: bool | None
) -> None:
    """An and of three values: no, yes and no data."""
    counts = {**windows(), "5m": Counts(short[1] - short[0], short[1]), "1h": Counts(long[1] - long[0], long[1])}

    assert burning.holds(rule_of(QUICK), counts, Decimal("0.99")) is expected


@pytest.mark.parametrize(
    ("timeslice_s", "least", "failed"),
    [(10, 12, 12), (15, 8, 8), (30, 4, 5), (60, 2, 5), (120, 1, 5), (3600, 1, 5), (None, 5, 5)],
)
def test_two_minutes_of_bad_time_slices_are_news(timeslice_s: int | None, least: int, failed: int) -> None:
    """Each is many records; total failure is five of them all the same."""
    found = alerting.rules(AlertPolicy(), window_s=30 * DAY_S, objective=Decimal("0.99"), timeslice_s=timeslice_s)

    assert [rule.min_bad_events for rule in found] == [failed, *[least] * 4]


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("14.4", "14.4"),
        ("20", "20"),
        ("0.001", "<0.01"),
        ("0", "0"),
        ("999.4", "999"),
        ("999.6", "999.6"),
        ("1e5", "100,000"),
    ],
)
def test_burn_rates_are_plain_numbers(rate: str, words: str) -> None:
    """Without exponents, of three digits or more."""
    assert alerting.burn_text(Fraction(rate)) == words


def test_a_bound_of_a_strict_objective_is_a_plain_number() -> None:
    """At 99.99 % ten thousand is the most that can be."""
    burn = Burn(Severity.PAGE, Tier.QUICK, "1h", "5m", Fraction(1))

    assert burn.unfit(5 * 365 * DAY_S, Decimal("0.9999")) == (
        "is a burn rate of 43,800 over 1h: no more than 10,000 can be"
    )


def test_a_silent_policy_has_no_rule() -> None:
    """`alerts: off`."""
    assert replace(slo(), alerts=AlertPolicy.silent()).alert_rules == ()


_COUNTS = st.integers(0, 2**62).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


@given(
    _COUNTS,
    _COUNTS,
    st.decimals("0.000001", "0.999999", places=6),
    st.fractions(Fraction(1), Fraction(1000)),
    st.integers(1, 100),
)
def test_a_burn_is_judged_exactly(
    long: tuple[int, int], short: tuple[int, int], objective: Decimal, factor: Fraction, least: int
) -> None:
    """As fractions say it, up to what 64 bits hold."""
    rule = AlertRule(*QUICK, "1h", "5m", factor, least)

    def burns(bad: int, total: int) -> bool:
        return Fraction(bad, total) / (1 - Fraction(objective)) > factor

    says = [long[0] >= least and burns(*long) if long[1] else None, burns(*short) if short[1] else None]
    expected = False if False in says else None if None in says else True
    assert burning.holds(rule, windows(w5m=short, w1h=long), objective) is expected
