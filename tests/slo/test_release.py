"""The release check: what denies, what cannot decide, and what is written beside it."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import builders
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.slo import alerting
from slo_exporter.slo.alerting import AlertRule, Severity, Tier
from slo_exporter.slo.budget import Counts, budget
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.policy import OnNoData, ReleasePolicy
from slo_exporter.slo.release import Asked, Decision, Override, check
from slo_exporter.slo.report import AlertReport, BudgetReport, reason_of, state_of
from slo_exporter.slo.windows import Range

FINE = {"bad": 20}
OVERSPENT = {"bad": 101}
SILENT = {"total": 0, "bad": 0, "age_s": None}
OLD = {"bad": 20, "age_s": 901}
THIN = {"bad": 20, "coverage": 0.899}
HOT = {"bad": 20, "burn": 2.5}
PAGED = {"bad": 20, "pages": True}
HALF = Asked(min_remaining=Decimal("0.5"))
CALM = Asked(max_burn_1h=Decimal(2))
WHO = Override("ann", "it fixes the outage")


def _alert(severity: Severity) -> AlertReport:
    """A quick alert, as it looks while it is active."""
    rule = AlertRule(severity, Tier.QUICK, "1h", "5m", Fraction(144, 10), 5)
    return AlertReport(rule=rule, since_ns=1, holds=True, long="1h", burn_long=20.0, burn_short=20.0, bad_events=40)


def _report(
    slo: Slo,
    *,
    bad: int,
    total: int = 10_000,
    coverage: float | None = 1.0,
    age_s: float | None = 1.0,
    burn: float | None = 0.5,
    pages: bool = False,
    tickets: bool = False,
) -> BudgetReport:
    """A report of an SLO whose budget is one event in a hundred."""
    counts = Counts(total - bad, total)
    alerts = [_alert(Severity.PAGE)] * pages + [_alert(Severity.TICKET)] * tickets
    state = state_of(counts, slo.objective, coverage, is_burning=bool(alerts))
    return BudgetReport(
        slo=slo,
        span=Range(0, 5),
        counts=counts,
        sli=None,
        budget=budget(counts, slo.objective),
        burn_rates={"1h": burn if total else None},
        slis={},
        exhausts_in_seconds=None,
        coverage_ratio=coverage,
        as_of_ns=0,
        data_age_seconds=age_s,
        state=state,
        reason=reason_of(state, slo, counts, coverage, alerts),
        bad_events={"1h": 12},
        alerts=tuple(alerts),
    )


@pytest.mark.parametrize(
    ("one", "least", "decision", "codes"),
    [
        (FINE, 0.0, "allow", []),
        ({"bad": 100}, 0.0, "allow", []),
        (OVERSPENT, 0.0, "deny", ["exhausted"]),
        (OVERSPENT, 0.5, "deny", ["exhausted"]),
        (OVERSPENT, 1.0, "deny", ["exhausted"]),
        ({"bad": 90}, 0.1, "allow", []),
        ({"bad": 91}, 0.1, "deny", ["below_minimum"]),
        ({"bad": 100}, 0.0001, "deny", ["below_minimum"]),
        ({"bad": 0}, 1.0, "allow", []),
        (SILENT, 0.0, "undecided", ["no_data"]),
        (SILENT, 0.5, "undecided", ["no_data"]),
        (SILENT | {"coverage": None}, 0.0, "undecided", ["no_data"]),
        (OLD, 0.0, "undecided", ["stale"]),
        (OLD | {"age_s": 900}, 0.0, "allow", []),
        (OLD | {"age_s": None}, 0.0, "undecided", ["stale"]),
        (THIN, 0.0, "undecided", ["insufficient_data"]),
        (THIN | {"coverage": 0.9}, 0.0, "allow", []),
        (THIN | {"coverage": None}, 0.0, "undecided", ["insufficient_data"]),
        (THIN | OLD, 0.0, "undecided", ["stale", "insufficient_data"]),
        (OVERSPENT | {"age_s": 901, "coverage": 0.1}, 0.0, "deny", ["exhausted", "stale", "insufficient_data"]),
        (THIN | {"bad": 95}, 0.1, "deny", ["below_minimum", "insufficient_data"]),
    ],
)
def test_one_slo_decides(make_slo: Callable, one: dict, least: float, decision: str, codes: list[str]) -> None:
    """What denies denies, whatever else the data cannot say; the least remaining ratio itself allows."""
    found = check([_report(make_slo(), **one)], Asked(Decimal(str(least))))
    assert (found.decision, [reason.code for reason in found.reasons]) == (decision, codes)


@pytest.mark.parametrize(
    ("cases", "decision", "who"),
    [
        ([FINE, FINE], "allow", []),
        ([FINE, SILENT], "undecided", [("s1", "no_data")]),
        ([SILENT, OVERSPENT], "deny", [("s0", "no_data"), ("s1", "exhausted")]),
        ([OVERSPENT, SILENT], "deny", [("s0", "exhausted"), ("s1", "no_data")]),
        ([FINE, OVERSPENT, FINE], "deny", [("s1", "exhausted")]),
        ([OLD, THIN], "undecided", [("s0", "stale"), ("s1", "insufficient_data")]),
    ],
)
def test_deny_beats_undecided_beats_allow(
    make_slo: Callable, cases: list[dict], decision: str, who: list[tuple[str, str]]
) -> None:
    """Over several SLOs, whatever their order; every reason is given."""
    reports = [_report(make_slo(f"s{place}"), **case) for place, case in enumerate(cases)]
    found = check(reports)
    assert (found.decision, [(reason.slo, reason.code) for reason in found.reasons]) == (decision, who)
    assert found.reports == tuple(reports)


def test_by_default_nothing_must_remain(make_slo: Callable) -> None:
    """A budget that is spent to the last event still allows."""
    assert check([_report(make_slo(), bad=100)]).decision is Decision.ALLOW


@pytest.mark.parametrize(("case", "allowed"), [(FINE, True), (OVERSPENT, False), (SILENT, None)])
def test_undecided_is_neither_allowed_nor_not(make_slo: Callable, case: dict, allowed: bool | None) -> None:  # noqa: FBT001 - a table
    """True, False or None, as the API answers it."""
    assert check([_report(make_slo(), **case)]).allowed is allowed


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (OVERSPENT, "101 bad events, 100 allowed in 30d"),
        ({"bad": 60}, "40.0% of the error budget remains, 50% is the minimum: 60 bad events, 100 allowed in 30d"),
        (SILENT, "no event was counted in 30d"),
        (OLD, "the newest event is 901 s old, more than 900 s"),
        (OLD | {"age_s": None}, "the newest event ends after now: was the clock set back?"),
        (THIN, "coverage is 89.9%, 90% is needed"),
        (THIN | {"coverage": None}, "coverage is 0.0%, 90% is needed"),
    ],
)
def test_a_reason_has_its_numbers(make_slo: Callable, case: dict, message: str) -> None:
    """What was found, and what would have been enough."""
    assert check([_report(make_slo(), **case)], HALF if case == {"bad": 60} else Asked()).reasons[0].message == message


def test_nothing_to_judge_is_a_mistake() -> None:
    """A gate without SLOs does not open."""
    with pytest.raises(ValueError, match="at least one"):
        check([])


@pytest.mark.parametrize(
    ("case", "asked", "decision", "codes"),
    [
        (HOT, Asked(), "allow", []),
        (HOT, CALM, "deny", ["burn_too_high"]),
        (HOT | {"burn": 2.0}, CALM, "allow", []),
        (HOT | {"burn": 0.0}, Asked(max_burn_1h=Decimal(0)), "allow", []),
        (HOT | {"burn": None}, CALM, "undecided", ["no_data"]),
        (HOT | {"burn": None, "age_s": 901}, CALM, "undecided", ["stale"]),
        (SILENT, CALM, "undecided", ["no_data"]),
        (PAGED, Asked(), "deny", ["alert_active"]),
        (SILENT | {"pages": True}, Asked(), "deny", ["no_data", "alert_active"]),
        ({"bad": 20, "tickets": True}, Asked(), "allow", []),
        (
            HOT | PAGED | {"bad": 60},
            Asked(Decimal("0.5"), Decimal(1)),
            "deny",
            ["below_minimum", "burn_too_high", "alert_active"],
        ),
    ],
)
def test_what_burns_now_decides_too(
    make_slo: Callable, case: dict, asked: Asked, decision: str, codes: list[str]
) -> None:
    """The burn rate only where it is asked for, pages always, tickets never; an unknown burn rate is no low one."""
    found = check([_report(make_slo(), **case)], asked)
    assert (found.decision, [reason.code for reason in found.reasons]) == (decision, codes)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (HOT, "the budget burns at 2.5 over 1h, 2 is the most: 12 bad events"),
        (HOT | {"burn": 2.0001}, "the budget burns at 2.0001 over 1h, 2 is the most: 12 bad events"),
        (HOT | {"burn": None}, "nothing was counted in 1h, so its burn rate is unknown; 2 is the most"),
        (PAGED, "the budget burns at 20 over 1h and 20 over 5m, a page alert (quick) is active above 14.4"),
    ],
)
def test_a_burn_is_told_with_its_limit(make_slo: Callable, case: dict, message: str) -> None:
    """A number that is too large never reads as one that is not."""
    assert check([_report(make_slo(), **case)], CALM).reasons[0].message == message


@pytest.mark.parametrize("case", [SILENT, OLD, THIN])
@pytest.mark.parametrize(
    ("word", "decision", "effect"),
    [("deny", "deny", "denies"), ("undecided", "undecided", "undecided"), ("allow", "allow", "ignored")],
)
def test_the_policy_says_what_missing_data_means(
    make_slo: Callable, case: dict, word: str, decision: str, effect: str
) -> None:
    """For data that is absent, old, or thin; the reason is there in any case."""
    slo = replace(make_slo(), release=ReleasePolicy(on_no_data=OnNoData(word)))
    found = check([_report(slo, **case)])
    assert (found.decision, {reason.effect for reason in found.reasons}) == (decision, {effect})


def test_missing_data_that_is_ignored_hides_no_denial(make_slo: Callable) -> None:
    """`allow` is about data alone."""
    found = check([_report(make_slo(), **OVERSPENT, age_s=901)], Asked(on_no_data=OnNoData.ALLOW))
    assert [(reason.code, reason.effect) for reason in found.reasons] == [("exhausted", "denies"), ("stale", "ignored")]
    assert found.decision is Decision.DENY


def test_what_is_asked_wins_over_the_policy(make_slo: Callable) -> None:
    """Word by word: what is not said stays as the policy has it."""
    slo = replace(make_slo(), release=ReleasePolicy(Decimal("0.5"), Decimal(1), OnNoData.DENY))
    report = _report(slo, bad=60, burn=2.5)
    assert [reason.code for reason in check([report]).reasons] == ["below_minimum", "burn_too_high"]
    assert [reason.code for reason in check([report], Asked(Decimal("0.4"))).reasons] == ["burn_too_high"]
    assert check([report], Asked(Decimal("0.4"), Decimal(3))).decision is Decision.ALLOW
    assert check([report], Asked(Decimal("0.4"))).policy == ReleasePolicy(Decimal("0.4"), Decimal(1), OnNoData.DENY)


def test_each_slo_is_judged_by_its_own_policy(make_slo: Callable) -> None:
    """The answer names the strictest of them."""
    strict = replace(make_slo("s0"), release=ReleasePolicy(Decimal("0.9"), None, OnNoData.ALLOW))
    other = replace(make_slo("s1"), release=ReleasePolicy(Decimal(0), Decimal(4), OnNoData.DENY))
    found = check([_report(strict, **FINE), _report(other, **FINE)])
    assert [(reason.slo, reason.code) for reason in found.reasons] == [("s0", "below_minimum")]
    assert found.policy == ReleasePolicy(Decimal("0.9"), Decimal(4), OnNoData.DENY)


@pytest.mark.parametrize("case", [OVERSPENT, SILENT, PAGED, OLD])
def test_an_override_allows_and_the_reasons_stay(make_slo: Callable, case: dict) -> None:
    """Each says that it was overridden, and the last one by whom."""
    found = check([_report(make_slo(), **case)], Asked(), WHO)
    assert (found.decision, found.allowed, found.is_overridden) == (Decision.ALLOW, True, True)
    assert {reason.effect for reason in found.reasons[:-1]} == {"overridden"}
    last = found.reasons[-1]
    assert (last.slo, last.code, last.effect) == ("", "overridden", "allows")
    assert last.message == "ann allows it: it fixes the outage"


@pytest.mark.parametrize("asked", [Asked(), Asked(on_no_data=OnNoData.ALLOW)])
def test_an_override_of_nothing_is_none(make_slo: Callable, asked: Asked) -> None:
    """Where the budgets allow it, nobody overrode them; who wanted to is told all the same."""
    found = check([_report(make_slo(), **(OLD if asked.on_no_data else FINE))], asked, WHO)
    assert (found.decision, found.is_overridden, found.override) == (Decision.ALLOW, False, WHO)


@given(bad=st.integers(0, 300), least=st.integers(0, 100), burn=st.integers(0, 40), most=st.integers(0, 40))
def test_the_numbers_decide_exactly(bad: int, least: int, burn: int, most: int) -> None:
    """Against the same question in whole numbers: no float is in the way."""
    asked = Asked(Decimal(least) / 100, Decimal(most) / 10)
    found = check([_report(builders.slo(), bad=bad, burn=burn / 10)], asked)
    codes = {reason.code.value for reason in found.reasons}
    left = 100 - bad  # of one hundred
    assert ("exhausted" in codes) == (left < 0)
    assert ("below_minimum" in codes) == (0 <= left < least)
    assert ("burn_too_high" in codes) == (burn > most)
    assert (found.decision is Decision.ALLOW) == (not codes)


def test_the_alerts_of_these_tests_are_those_that_slos_have(make_slo: Callable) -> None:
    """A page of a month."""
    policy = make_slo().alerts
    known = alerting.rules(policy, window_s=30 * 86400, objective=Decimal("0.99"), timeslice_s=None)
    assert _alert(Severity.PAGE).rule in known
