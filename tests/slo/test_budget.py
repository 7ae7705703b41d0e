import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slo_exporter.slo.budget import (
    Counts,
    budget,
    burn_rate,
    burn_rate_factor,
    exhausts_in_seconds,
    is_exhausted,
    is_low,
    sli,
)
from slo_exporter.slo.report import State, state_of
from slo_exporter.slo.windows import BURN_WINDOWS

GOLDEN = json.loads((Path(__file__).parent / "cases" / "golden_budgets.json").read_text())
STATES = {"ok": {State.OK, State.AT_RISK}, "breached": {State.EXHAUSTED}, "no_data": {State.NO_DATA}}
"""Names of the golden file in ours."""


def _exact(value: dict | None) -> float | None:
    return None if value is None else float(Fraction(value["exact"]))


@pytest.mark.parametrize("case", GOLDEN["budget_cases"], ids=lambda case: f"{case['objective']} {case['good']}")
def test_golden_budgets_are_met_exactly(case: dict) -> None:
    """Every number is the float nearest to the exact one, and the state follows."""
    counts, objective = Counts(case["good"], case["total"]), Decimal(case["objective"])
    found = budget(counts, objective)
    assert counts.bad == case["bad"]
    assert sli(counts) == _exact(case["sli"])
    assert burn_rate(counts, objective) == _exact(case["burn_rate"])
    assert found.allowed_bad == _exact(case["allowed_bad_events"])
    assert found.remaining_ratio == _exact(case["budget_remaining_ratio"])
    assert state_of(counts, objective, 1.0) in STATES[case["state"]]


@pytest.mark.parametrize("table", GOLDEN["burn_factors_google_budgets"], ids=lambda table: f"{table['window_days']}d")
def test_golden_burn_factors_are_met_exactly(table: dict) -> None:
    """Fraction × window / long window, for every row of the workbook's table."""
    for row in table["rows"]:
        fraction, long_s = Decimal(str(row["budget_fraction"])), BURN_WINDOWS[row["long"]]
        assert burn_rate_factor(fraction, table["window_days"] * 86400, long_s) == _exact(row["factor"])


def test_events_are_weighed_not_hours() -> None:
    """One bad quiet hour in a busy month spends next to nothing."""
    golden = GOLDEN["average_of_ratios_bias"]
    counts = Counts(719 * 1_000_000, 719 * 1_000_000 + 10)
    assert counts.bad / counts.total == golden["event_weighted_error_ratio"]
    assert budget(counts, Decimal("0.999")).consumed_ratio == golden["event_weighted_budget_consumed"]
    assert burn_rate(counts, Decimal("0.999")) == golden["event_weighted_budget_consumed"]


_OBJECTIVES = st.decimals("0.000001", "0.999999", places=6) | st.sampled_from(
    [Decimal("0.999999999999"), Decimal("1e-12"), Decimal("0." + "1234567890" * 4), Decimal("0." + "9" * 40)]
)
_COUNTS = st.integers(0, 10**12).flatmap(lambda total: st.builds(Counts, st.integers(0, total), st.just(total)))


@settings(deadline=None, max_examples=80)
@given(_COUNTS, _OBJECTIVES)
@example(Counts(0, 0), Decimal("0.5"))
@example(Counts(10**12 - 1, 10**12), Decimal("0.999999999999"))
def test_every_number_is_the_nearest_to_the_exact_one(counts: Counts, objective: Decimal) -> None:
    """Rational arithmetic, rounded once, comes to the same floats and verdicts."""
    allowed = (1 - Fraction(objective)) * counts.total
    found = budget(counts, objective)
    assert found.allowed_bad == float(allowed)
    assert found.remaining_events == float(allowed - counts.bad)
    if not counts.total:
        assert (found.remaining_ratio, found.consumed_ratio, sli(counts), burn_rate(counts, objective)) == (None,) * 4
        assert not is_exhausted(counts, objective)
        return
    assert found.consumed_ratio == burn_rate(counts, objective) == float(counts.bad / allowed)
    assert found.remaining_ratio == float(1 - counts.bad / allowed)
    assert sli(counts) == float(Fraction(counts.good, counts.total))
    assert is_exhausted(counts, objective) == (counts.bad > allowed)
    assert is_low(counts, objective, Decimal("0.25")) == (1 - counts.bad / allowed < Fraction(1, 4))


def test_the_decimal_context_has_no_say() -> None:
    """Someone's coarse context elsewhere in the process rounds nothing here."""
    with localcontext(prec=2):
        assert budget(Counts(0, 10**6), Decimal("0.99999")).allowed_bad == 10.0


@pytest.mark.parametrize(
    ("bad", "exhausted", "low"),
    [(74, False, False), (75, False, False), (76, False, True), (100, False, True), (101, True, True)],
)
def test_thresholds_are_exact_at_the_edge(bad: int, exhausted: bool, low: bool) -> None:  # noqa: FBT001 - a table
    """Exactly nothing left is not exhausted, exactly a quarter left is not low."""
    counts, objective = Counts(10_000 - bad, 10_000), Decimal("0.99")
    assert is_exhausted(counts, objective) == exhausted
    assert is_low(counts, objective, Decimal("0.25")) == low


def test_one_event_too_many_is_seen_where_floats_are_blind() -> None:
    """The verdict does not go through a rounded ratio."""
    total = 10**18
    allowed = total // 10
    assert not is_exhausted(Counts(total - allowed, total), Decimal("0.9"))
    assert is_exhausted(Counts(total - allowed - 1, total), Decimal("0.9"))


@pytest.mark.parametrize(
    ("remaining", "burn", "seconds"),
    [
        (1.0, 1.0, 2_592_000.0),
        (0.5, 14.4, 90_000.0),
        (0.5, 0.5, 2_592_000.0),
        (0.0, 2.0, 0.0),
        (0.0, 0.0, None),
        (0.5, 0.0, None),
        (0.5, None, None),
        (-0.1, 2.0, 0.0),
        (-0.1, 0.0, 0.0),
        (-0.1, None, 0.0),
        (None, None, None),
        (None, 2.0, None),
    ],
)
def test_time_until_nothing_is_left(remaining: float | None, burn: float | None, seconds: float | None) -> None:
    """0 when exhausted, unknown while nothing burns or nothing is known."""
    found = exhausts_in_seconds(remaining, burn, 30 * 86400)
    assert found == (None if seconds is None else pytest.approx(seconds, rel=1e-15))
    assert found is None or math.isfinite(found)
