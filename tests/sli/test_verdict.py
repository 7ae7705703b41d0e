from collections.abc import Sequence

import pytest
from timeslices import MS, Record, S, indicator_of, verdict_of

from slo_exporter.sli.indicator import Empty, Rule
from slo_exporter.sli.records import Outcome

UP = 60 * S


def _times(count: int, **record: object) -> list[Record]:
    return [record] * count


FAST, SLOW = {"e2e": 80 * MS}, {"e2e": 80 * MS + 1}
ERROR = {"e2e": 80 * MS, "outcome": Outcome.ERROR}
CANCELLED = {"e2e": 80 * MS + 1, "outcome": Outcome.CANCELLED}


@pytest.mark.parametrize(
    ("good", "records", "verdict"),
    [
        ("p99(e2e) <= 80ms", [FAST] * 99 + [SLOW], True),
        ("p99(e2e) <= 80ms", [FAST] * 98 + [SLOW], False),
        ("p99(e2e) <= 80ms", [FAST] * 198 + [SLOW] * 2, True),
        ("p99(e2e) <= 80ms", [FAST] * 197 + [SLOW] * 2, False),
        ("p99(e2e) <= 80ms", [FAST], True),
        ("p99(e2e) <= 80ms", [SLOW], False),
        ("p99(e2e) < 80ms", [FAST], False),
        ("p95(e2e) <= 80ms", [FAST] * 19 + [SLOW], True),
        ("p95(e2e) <= 80ms", [FAST] * 18 + [SLOW], False),
        ("p90(e2e) <= 80ms", [FAST] * 9 + [SLOW], True),
        ("p90(e2e) <= 80ms", [FAST] * 8 + [SLOW], False),
        ("p50(e2e) <= 80ms", [FAST, SLOW], True),
        ("p50(e2e) <= 80ms", [FAST, SLOW, SLOW], False),
        ("p50(e2e) > 80ms", [FAST, SLOW], False),
        ("p50(e2e) > 80ms", [FAST, SLOW, SLOW], True),
        ("p99(e2e) > 80ms", [FAST] * 99 + [SLOW], False),
        ("p99(e2e) > 80ms", [FAST] * 98 + [SLOW], True),
        ("p99(e2e) >= 80ms", [FAST], True),
    ],
)
def test_a_percentile_is_the_value_at_its_nearest_rank(good: str, records: list[Record], verdict: bool) -> None:  # noqa: FBT001 - a table
    """NN % of the records exactly is enough, one record less is not."""
    assert verdict_of(indicator_of(good), records) is verdict


@pytest.mark.parametrize(
    ("good", "records", "verdict"),
    [
        ("p99(e2e) <= 80ms", [FAST] * 99 + [ERROR], True),
        ("p99(e2e) <= 80ms", [FAST] * 98 + [ERROR], False),
        ("p50(e2e) >= 80ms", [FAST, ERROR], False),
        ("p99(e2e) <= 80ms", [FAST, CANCELLED], True),
        ("max(e2e) <= 80ms", [FAST, {**ERROR, "e2e": S}], True),
        ("min(e2e) >= 80ms", [FAST, {**ERROR, "e2e": 1}], True),
        ("mean(e2e) <= 80ms", [FAST, {**ERROR, "e2e": S}], True),
        ("ratio(queue, e2e) <= 50%", [{"queue": 1, "e2e": 2}, {**ERROR, "queue": 2, "e2e": 2}], True),
        ("count == 2", [FAST, ERROR], True),
        ("count == 1", [FAST, CANCELLED], True),
        ("rate >= 1/s", [FAST] * 59 + [ERROR], True),
        ("rate >= 1/s", [FAST] * 59 + [CANCELLED], False),
        ("rate(samples) >= 1/s", [{"samples": 30}, {"samples": 30, "outcome": Outcome.ERROR}], True),
    ],
)
def test_an_outcome_that_is_bad_satisfies_nothing_and_is_traffic(
    good: str,
    records: list[Record],
    verdict: bool,  # noqa: FBT001 - a table
) -> None:
    """Bad ones count in percentiles, rates and counts, not in values; excluded ones nowhere."""
    assert verdict_of(indicator_of(good), records) is verdict


@pytest.mark.parametrize(
    ("good", "verdict"),
    [
        ("max(e2e) <= 30ms", True),
        ("max(e2e) < 30ms", False),
        ("max(e2e) >= 30ms", True),
        ("max(e2e) > 30ms", False),
        ("min(e2e) >= 10ms", True),
        ("min(e2e) > 10ms", False),
        ("min(e2e) <= 10ms", True),
        ("min(e2e) < 10ms", False),
        ("mean(e2e) <= 20ms", True),
        ("mean(e2e) < 20ms", False),
        ("mean(e2e) == 20ms", True),
        ("mean(e2e) != 20ms", False),
        ("mean(e2e) > 19.9999999ms", True),
        ("mean(completion_tokens) == 1.5", True),
        ("mean(completion_tokens) <= 1.4999999999999999999", False),
        ("ratio(e2e, queue) <= 400%", True),
        ("ratio(e2e, queue) < 4", False),
        ("ratio(completion_tokens, prompt_tokens) == 0.2", True),
        ("count == 3", True),
        ("count >= 3", True),
        ("count > 3", False),
        ("count < 3.5", True),
        ("count != 3", False),
        ("rate == 0.05/s", True),
        ("rate >= 0.0500000000000000001/s", False),
        ("rate(prompt_tokens) <= 0.25/s", True),
        ("rate(prompt_tokens) < 0.25/s", False),
        ("rate(completion_tokens) == 0.05/s", True),
        ("mean(e2e) == 20ms and count == 3", True),
        ("mean(e2e) == 20ms and count == 4", False),
    ],
)
def test_values_are_compared_exactly(good: str, verdict: bool) -> None:  # noqa: FBT001 - a table
    """To the last digit of a bound, over records that know the field."""
    records = [
        {"e2e": 10 * MS, "queue": 5 * MS, "prompt_tokens": 5, "completion_tokens": 1},
        {"e2e": 20 * MS, "prompt_tokens": None, "completion_tokens": None},
        {"e2e": 30 * MS, "queue": 5 * MS, "prompt_tokens": 10, "completion_tokens": 2},
    ]
    assert verdict_of(indicator_of(good), records) is verdict


def test_a_rate_is_per_second_of_our_uptime() -> None:
    """A restart within the slice does not make the service slow."""
    indicator, records = indicator_of("rate >= 1/s"), _times(54)
    assert verdict_of(indicator, records, 54 * S) is True
    assert verdict_of(indicator, records, 54 * S + 1) is False


@pytest.mark.parametrize(
    ("good", "record", "verdict"),
    [
        ("p99(inter_token) <= 5ms", {"completion_tokens": 1}, True),
        ("p99(inter_token) <= 5ms", {"completion_tokens": 1, "inter_token": S}, True),
        ("p99(inter_token) >= 5ms", {"completion_tokens": 0}, True),
        ("p99(inter_token) <= 5ms", {"completion_tokens": 2}, None),
        ("mean(inter_token) <= 5ms", {"completion_tokens": 1, "inter_token": 1}, None),
        ("max(inter_token) <= 5ms", {"completion_tokens": 1, "inter_token": 1}, None),
        ("ratio(inter_token, e2e) <= 5%", {"completion_tokens": 1, "inter_token": 1, "e2e": 100}, None),
    ],
)
def test_one_token_has_no_gap_to_be_slow_and_none_to_be_averaged(
    good: str,
    record: Record,
    verdict: bool | None,  # noqa: FBT001 - a table
) -> None:
    """It satisfies a percentile, and has no value."""
    assert verdict_of(indicator_of(good), [record]) is verdict


EMPTY_SLICES = {
    "without records": [],
    "with excluded records": [CANCELLED],
    "that knows no field": [{"outcome": Outcome.OK}],
}


@pytest.mark.parametrize(
    ("good", "verdict"),
    [
        ("p99(e2e) <= 80ms", None),
        ("max(e2e) <= 80ms", None),
        ("mean(e2e) <= 80ms", None),
        ("ratio(queue, e2e) <= 50%", None),
        ("rate(samples) <= 100/s", False),
        ("rate >= 1/s and p99(e2e) <= 80ms", False),
        ("count <= 9 and p99(e2e) <= 80ms", False),
    ],
)
@pytest.mark.parametrize("records", EMPTY_SLICES.values(), ids=EMPTY_SLICES)
def test_an_empty_slice_is_bad_where_traffic_was_promised(
    good: str,
    verdict: bool | None,  # noqa: FBT001 - a table
    records: Sequence[Record],
) -> None:
    """Without a value nothing can be said, except under rate and count; `empty` says otherwise."""
    assert verdict_of(indicator_of(good), records) is verdict
    for empty, said in ((Empty.NO_DATA, None), (Empty.GOOD, True), (Empty.BAD, False)):
        assert verdict_of(indicator_of(good, empty=empty), records) is said


@pytest.mark.parametrize("good", ["rate <= 100/s", "count <= 100"])
def test_no_traffic_is_no_rate(good: str) -> None:
    """Also where little is asked for: silence is what nobody promised."""
    assert verdict_of(indicator_of(good), []) is False
    assert verdict_of(indicator_of(good), [CANCELLED]) is False


def test_a_ratio_to_nothing_has_no_value() -> None:
    """A denominator of 0 is no share of 0 or of all."""
    assert verdict_of(indicator_of("ratio(data_wait, step) <= 15%"), [{"data_wait": 0, "step": 0}]) is None


@pytest.mark.parametrize(
    ("good", "records", "verdict"),
    [
        ("p99(e2e) <= 80ms", [SLOW], None),
        ("mean(e2e) <= 80ms", [SLOW], None),
        ("rate >= 100/s", [], None),
        ("max(e2e) <= 80ms", [FAST], None),
        ("max(e2e) <= 80ms", [FAST, SLOW], False),
        ("max(e2e) < 80ms", [FAST], False),
        ("max(e2e) > 80ms", [FAST], None),
        ("min(e2e) >= 80.000001ms", [FAST, SLOW], False),
        ("min(e2e) > 80ms", [SLOW], None),
        ("min(e2e) <= 80ms", [SLOW], None),
        ("count <= 2", _times(2), None),
        ("count <= 2", _times(3), False),
        ("count < 2", _times(2), False),
        ("count == 2", _times(2), None),
        ("count == 2", _times(3), False),
        ("count >= 2", _times(3), None),
        ("count != 2", _times(2), None),
        ("p99(e2e) <= 80ms and max(e2e) <= 80ms", [SLOW], False),
    ],
)
@pytest.mark.parametrize("empty", [None, *Empty])
def test_a_slice_that_was_down_is_bad_only_beyond_hope(
    good: str,
    records: list[Record],
    verdict: bool | None,  # noqa: FBT001 - a table
    empty: Empty | None,
) -> None:
    """More than a tenth down says nothing, unless no record that we missed could make it good."""
    assert verdict_of(indicator_of(good, empty=empty), records, UP * 9 // 10 - 1) is verdict


def test_a_tenth_down_is_not_too_much() -> None:
    """The limit itself is up."""
    assert verdict_of(indicator_of("p99(e2e) <= 80ms"), [FAST], UP * 9 // 10) is True


def test_rules_of_outcomes_apply_to_time_slices() -> None:
    """`outcomes` moves an outcome between bad and excluded."""
    indicator = indicator_of("count == 1", error=Rule.EXCLUDE, cancelled=Rule.BAD)
    assert verdict_of(indicator, [ERROR, CANCELLED]) is True
