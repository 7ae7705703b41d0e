"""How values read, on the page and on a terminal."""

from decimal import Decimal

import pytest
from builders import slo
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.sli import condition
from slo_exporter.slo import budget
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.report import State, reason_of, state_of
from slo_exporter.web import wording


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.0, "100.0%"),
        (0.999996, "99.9%"),
        (0.29, "29.0%"),
        (0.24999, "24.9%"),
        (1e-12, "0.0%"),
        (0.0, "0.0%"),
        (-0.0, "0.0%"),
        (-1e-7, "-0.1%"),
        (-12.5, "-1,250.0%"),
        (None, "-"),
    ],
)
def test_a_share_is_rounded_down(ratio: float | None, text: str) -> None:
    """Almost all is not all, and a little overspent is overspent."""
    assert wording.share(ratio) == text


@given(st.floats(-1e6, 1, exclude_max=True))
def test_less_than_all_never_reads_as_all(ratio: float) -> None:
    """Nor less than nothing as nothing."""
    text = wording.share(ratio)

    assert text != "100.0%"
    assert text.startswith("-") == (ratio < 0)


OBJECTIVES = st.integers(1, 99_999).map(lambda n: Decimal(n) / 100_000)


@given(OBJECTIVES, st.integers(1, 10**7), st.data())
def test_an_sli_reads_below_its_objective_only_if_it_is(objective: Decimal, total: int, data: st.DataObject) -> None:
    """Both in percent: the texts compare as the numbers do."""
    counts = Counts(good=data.draw(st.integers(0, total)), total=total)

    reads = Decimal(wording.sli(budget.sli(counts), objective).removesuffix("%"))

    assert (reads < Decimal(wording.objective(objective).removesuffix("%"))) == budget.is_exhausted(counts, objective)


@given(st.integers(1, 10**6), st.data())
def test_a_sentence_and_a_table_name_the_same_share(total: int, data: st.DataObject) -> None:
    """At every edge: what is at risk reads as less than 25%, in both."""
    bad = data.draw(st.integers(0, total // 100))
    counts = Counts(good=total - bad, total=total)
    state = state_of(counts, slo().objective, 1.0)

    shown = wording.share(budget.budget(counts, slo().objective).remaining_ratio)

    assert reason_of(state, slo(), counts, 1.0).startswith(f"{shown} of the error budget remains")
    assert (float(shown.removesuffix("%")) < 25) == (state is State.AT_RISK)


@pytest.mark.parametrize(
    ("objective", "text"),
    [("0.99", "99.94%"), ("0.9", "99.94%"), ("0.999", "99.94%"), ("0.9999", "99.942%"), ("0.99999", "99.9421%")],
)
def test_an_sli_is_one_decimal_finer_than_its_objective(objective: str, text: str) -> None:
    """At least two."""
    assert wording.sli(0.9994212, Decimal(objective)) == text
    assert wording.sli(None, Decimal(objective)) == "-"


@pytest.mark.parametrize(
    ("objective", "percent"), [("0.990", "99%"), ("0.9995", "99.95%"), ("0.5", "50%"), ("0.1", "10%")]
)
def test_an_objective_is_exact_percent(objective: str, percent: str) -> None:
    """No decimal more than it has."""
    assert wording.objective(Decimal(objective)) == percent


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (None, "-"),
        (0.0, "0.00"),
        (1e-6, "<0.01"),
        (0.005, "0.01"),
        (0.584, "0.58"),
        (9.996, "10.0"),
        (14.44, "14.4"),
        (99.96, "100"),
        (1000.4, "1,000"),
    ],
)
def test_a_burn_rate_has_about_three_digits(rate: float | None, text: str) -> None:
    """More says nothing, but what burns is not 0."""
    assert wording.burn(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (59.9, "59s"), (60, "1m"), (3661, "1h 1m"), (86400, "1d"), (90061, "1d 1h"), (86461, "1d")],
)
def test_a_duration_has_its_two_widest_units(seconds: float, text: str) -> None:
    """A zero is left out."""
    assert wording.duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(None, "none"), (0.0, "0s ago"), (754.2, "12m 34s ago")])
def test_an_age_looks_back(seconds: float | None, text: str) -> None:
    """What never was has none."""
    assert wording.age(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(100.0, "100"), (-23.5, "-23.5"), (1234567.0, "1,234,567"), (0.04, "0"), (-0.04, "-0.1")]
)
def test_events_are_whole_where_they_are(count: float, text: str) -> None:
    """An error budget may end on half an event."""
    assert wording.events(count) == text


@pytest.mark.parametrize(
    ("instant_ns", "text"), [(0, "1970-01-01 00:00:00 UTC"), (10**9 - 1, "1970-01-01 00:00:00 UTC")]
)
def test_an_instant_is_rounded_down(instant_ns: int, text: str) -> None:
    """To the second."""
    assert wording.instant(wording.utc(instant_ns)) == text


@pytest.mark.parametrize(
    ("good", "text"),
    [
        ("e2e <= 0.08s", "e2e <= 80ms"),
        ("ttft < 90s", "ttft < 90s"),
        ("e2e <= 120s and prompt_tokens > 5", "e2e <= 2m and prompt_tokens > 5"),
        ("e2e > 0ms", "e2e > 0s"),
        ("outcome != error", "outcome != error"),
        ("p99(e2e) <= 0.08s and count >= 3", "p99(e2e) <= 80ms and count >= 3"),
        ("mean(inter_token) < 0.5ns", "mean(inter_token) < 0.5ns"),
        ("rate(completion_tokens) >= 1000.0/s", "rate(completion_tokens) >= 1000/s"),
        ("ratio(data_wait, step) <= 0.15", "ratio(data_wait, step) <= 15%"),
    ],
)
def test_a_condition_is_written_as_people_do(good: str, text: str) -> None:
    """Bounds appear in the widest unit that keeps them whole."""
    assert wording.condition(condition.parse(good)) == text
    assert condition.parse(text) == condition.parse(good)
