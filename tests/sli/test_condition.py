import operator
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slo_exporter.sli.condition import OPERATORS, UNIT_NS, Aggregate, Clause, ConditionError, parse
from slo_exporter.sli.records import FIELDS, Kind, Outcome

MEANING = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
DURATIONS = sorted(name for name, kind in FIELDS.items() if kind is Kind.DURATION)
COUNTS = sorted(name for name, kind in FIELDS.items() if kind is Kind.COUNT)


def _holds(clause: Clause, value: int) -> bool:
    return MEANING[clause.op](value, clause.bound)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("e2e <= 80ms", "e2e <= 80000000ns"),
        ("e2e <= 0.08s", "e2e <= 80000000ns"),
        ("e2e <= 80000us", "e2e <= 80000000ns"),
        ("e2e<=80ms", "e2e <= 80000000ns"),
        ("  e2e\t<=\n 80   ms  ", "e2e <= 80000000ns"),
        ("queue < 7ns", "queue < 7ns"),
        ("decode > 1.5m", "decode > 90000000000ns"),
        ("ttft >= 0.5h", "ttft >= 1800000000000ns"),
        ("e2e != 0s", "e2e != 0ns"),
        ("e2e <= 080ms", "e2e <= 80000000ns"),
        ("prompt_tokens == 12", "prompt_tokens == 12"),
        ("cached_tokens >= 12.0", "cached_tokens >= 12"),
        ("outcome == ok", "outcome == ok"),
        ("outcome!=rate_limited", "outcome != rate_limited"),
        ("ttft <= 1s and e2e <= 2s", "e2e <= 2000000000ns and ttft <= 1000000000ns"),
        ("e2e <= 2s\n and  ttft <= 1s and e2e <= 2000ms", "e2e <= 2000000000ns and ttft <= 1000000000ns"),
        ("outcome == ok and e2e <= 2s", "e2e <= 2000000000ns and outcome == ok"),
        ("e2e <= 999999999999999999h", "e2e <= 9223372036854775807ns"),
    ],
)
def test_text_is_read_to_its_normal_form(text: str, normal: str) -> None:
    """Units, whitespace and the order of clauses do not change what a condition means."""
    assert parse(text).normal_form() == normal


@pytest.mark.parametrize(
    ("unit", "nanoseconds"),
    [("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9), ("m", 60 * 10**9), ("h", 3600 * 10**9)],
)
def test_every_duration_takes_every_unit(unit: str, nanoseconds: int) -> None:
    """A unit scales the number, whatever the field."""
    bounds = {parse(f"{field} <= 2{unit}").clauses[0].bound for field in DURATIONS}
    assert bounds == {2 * nanoseconds}


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize(
    "quantity", ["0.5ns", "0.999999ns", "1ns", "1.000001us", "80ms", "79.9999999ms", "0.0000000015s"]
)
def test_a_bound_decides_whole_values_as_the_exact_one_does(op: str, quantity: str) -> None:
    """Around the bound every operator agrees with rational arithmetic to the nanosecond."""
    number, unit = quantity.rstrip("nums"), quantity.lstrip("0123456789.")
    exact = Fraction(number) * UNIT_NS[unit]
    clause = parse(f"e2e {op} {quantity}").clauses[0]
    for value in range(int(exact) - 2, int(exact) + 4):
        assert _holds(clause, value) == MEANING[op](value, exact), value


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("quantity", ["0", "1", "10.5", "0.1"])
def test_counts_have_bounds_without_a_unit(op: str, quantity: str) -> None:
    """A fractional count has an equivalent whole bound too."""
    clause = parse(f"completion_tokens {op} {quantity}").clauses[0]
    for value in range(13):
        assert _holds(clause, value) == MEANING[op](value, Fraction(quantity)), value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "e2e <= 80ms"),
        (" \n ", "e2e <= 80ms"),
        ("e2e", "a clause is: field <= | < | >= | > | == | != quantity"),
        ("e2e 80ms", "a clause is: field"),
        ("e2e = 80ms", "a clause is: field"),
        ("e2e =< 80ms", "a clause is: field"),
        ("e2e <=", "a clause is: field"),
        ("E2E <= 80ms", "a clause is: field"),
        ("and", "a clause is: field"),
        ("e2e <= 80ms and and ttft <= 1s", "a clause is: field"),
        ("e2e <= 80ms or ttft <= 1s", "join them with and"),
        ("e2e <= 80ms and", "write for example 80ms"),
        ("e2e <= 80ms AND ttft <= 1s", "write for example 80ms"),
        ("e2e <= 80m s", "write for example 80ms"),
        ("e2e <= 8 0ms", "write for example 80ms"),
        ("e2e <= -1ms", "write for example 80ms"),
        ("e2e <= 1e3ms", "write for example 80ms"),
        ("e2e <= .5s", "write for example 80ms"),
        ("e2e <= 5.s", "write for example 80ms"),
        ("e2e <= 1,5s", "write for example 80ms"),
        ("e2e <=> 80ms", "a clause is: field"),
        ("e2e <= ٨ms", "write for example 80ms"),
        ("e2e <= 80", "needs a unit (ns us ms s m h), as in 80ms"),
        ("e2e <= 80%", "needs a unit (ns us ms s m h), as in 80ms"),
        ("e2e <= 80MS", "needs a unit (ns us ms s m h), as in 80ms"),
        ("e2e <= 3/s", "needs a unit (ns us ms s m h), as in 80ms"),
        ("e2e <= 1d", "needs a unit (ns us ms s m h), as in 80ms"),
        ("prompt_tokens <= 80ms", "is a count and takes no unit, not 'ms'"),
        ("prompt_tokens <= many", "write for example 80"),
        ("latency <= 80ms", "fields are: e2e, queue, preprocess, prefill, decode, inference, postprocess, ttft"),
        ("model == llama", "fields are: e2e"),
        ("outcome <= ok", "outcome takes == or !=, not <="),
        ("outcome == good", "outcomes are: ok, error, incomplete, rate_limited, client_error, cancelled"),
        ("outcome == o k", "outcomes are: ok"),
        ("outcome == OK", "outcomes are: ok"),
        ("outcome == 0", "outcomes are: ok"),
        ("e2e <= " + "9" * 5000 + "s", "write for example 80ms"),
        ("e2e <= 0." + "9" * 5000 + "s", "write for example 80ms"),
    ],
)
def test_an_unreadable_condition_is_told_what_would_be_right(text: str, says: str) -> None:
    """The message names what is accepted."""
    with pytest.raises(ConditionError) as error:
        parse(text)
    assert says in str(error.value)


def test_fields_and_outcomes_read_apart() -> None:
    """Clauses on the outcome and on numbers are found by kind, in the order written."""
    condition = parse("outcome != error and e2e <= 1s and outcome != cancelled and prompt_tokens > 3")
    assert [clause.bound for clause in condition.on_outcome] == [Outcome.ERROR, Outcome.CANCELLED]
    assert [clause.field for clause in condition.on_numbers] == ["e2e", "prompt_tokens"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("e2e <= 80ms", "e2e <= 80.000001ms"),
        ("e2e <= 80ms", "e2e < 80ms"),
        ("e2e <= 80ms", "ttft <= 80ms"),
        ("e2e <= 80ms", "e2e <= 80ms and outcome == ok"),
        ("outcome == ok", "outcome != ok"),
        ("outcome == error", "outcome == incomplete"),
        ("prompt_tokens <= 80", "completion_tokens <= 80"),
    ],
)
def test_another_meaning_is_another_normal_form(one: str, other: str) -> None:
    """What counts differently never shares a normal form."""
    assert parse(one).normal_form() != parse(other).normal_form()


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("p99(e2e) <= 80ms", "p99(e2e) <= 80000000ns"),
        (" p50 ( ttft )<1s", "p50(ttft) < 1000000000ns"),
        ("p90(e2e) > 0.5ns", "p90(e2e) > 0ns"),
        ("p95(completion_tokens) >= 2.5", "p95(completion_tokens) >= 3"),
        ("min(queue) >= 1us", "min(queue) >= 1000ns"),
        ("max(step) <= 1.2s", "max(step) <= 1200000000ns"),
        ("mean(inter_token) <= 0.5ns", "mean(inter_token) <= 0.5ns"),
        ("mean(samples) != 0.25", "mean(samples) != 0.25"),
        ("rate >= 100/s", "rate >= 100/s"),
        ("rate>=0.50 /s", "rate >= 0.5/s"),
        ("rate() > 1/s", "rate > 1/s"),
        ("rate(completion_tokens) >= 1000/s", "rate(completion_tokens) >= 1000/s"),
        ("count >= 10", "count >= 10"),
        ("count <= 10.5", "count <= 10"),
        ("ratio(data_wait, step) <= 15%", "ratio(data_wait, step) <= 15%"),
        ("ratio( data_wait ,step)<=0.15", "ratio(data_wait, step) <= 15%"),
        ("ratio(cached_tokens, prompt_tokens) >= 1", "ratio(cached_tokens, prompt_tokens) >= 100%"),
        ("rate >= 1/s and count >= 2 and rate >= 1.0/s", "count >= 2 and rate >= 1/s"),
        ("mean(e2e) < 999999999999999999h", "mean(e2e) < 9223372036854775807ns"),
        ("ratio(e2e, e2e) < 9999999999999999999", "ratio(e2e, e2e) < 9999999999999999999%"),
    ],
)
def test_aggregates_are_read_to_their_normal_form(text: str, normal: str) -> None:
    """Bounds of whole values are whole, those of means, rates and ratios exact."""
    assert parse(text).normal_form() == normal
    assert parse(text).clauses == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("p99(e2e) <= 80ms and e2e <= 1s", "mixes one request (e2e) with a time slice (p99(e2e)); with timeslice"),
        ("outcome == ok and rate >= 1/s", "mixes one request (outcome) with a time slice (rate); with timeslice"),
        ("p75(e2e) <= 80ms", "unknown aggregate 'p75'; aggregates are: p50, p90, p95, p99, mean, min, max, rate"),
        ("sum(e2e) <= 80ms", "unknown aggregate 'sum'"),
        ("p99(latency) <= 80ms", "unknown field 'latency'; fields are: e2e"),
        ("p99(outcome) == ok", "outcome is no number, so p99 cannot aggregate it; set outcomes beside good"),
        ("p99() <= 80ms", "p99 takes one field, as in p99(e2e) <= 80ms"),
        ("mean(e2e, ttft) <= 80ms", "mean takes one field, as in mean(e2e) <= 80ms"),
        ("ratio(step) <= 15%", "ratio takes two fields, as in ratio(data_wait, step) <= 15%"),
        ("ratio <= 15%", "ratio takes two fields, as in ratio(data_wait, step) <= 15%"),
        ("count(e2e) >= 1", "count takes no field, as in count >= 100"),
        ("rate(samples, samples) >= 1/s", "rate takes one field, as in rate >= 100/s or rate(completion_tokens)"),
        ("p99(e2e) == 80ms", "p99 takes <=, <, >= or >, not =="),
        ("min(e2e) != 80ms", "min takes <=, <, >= or >, not !="),
        ("p99(e2e) <= 80", "p99(e2e) is a duration and needs a unit (ns us ms s m h), as in 80ms, not '80'"),
        ("mean(samples) <= 80ms", "mean(samples) is a count and takes no unit, not 'ms'"),
        ("rate >= 100", "rate is counted per second and needs /s, as in 100/s, not '100'"),
        ("rate >= 100/m", "needs /s, as in 100/s, not '100/m'"),
        ("rate(samples) >= 100 samples", "rate(samples) is counted per second and needs /s"),
        ("rate(e2e) >= 1/s", "rate sums counts, and e2e is a duration; counts are: prompt_tokens"),
        ("count >= 100/s", "count is a count and takes no unit, not '/s'"),
        ("ratio(data_wait, step) <= 15ms", "is a ratio and takes % or no unit, as in 15% or 0.15, not '15ms'"),
        ("ratio(samples, step) <= 1", "ratio takes two durations or two counts, not samples and step"),
        ("rate >= fast", "cannot read the quantity 'fast' of rate; write for example 100/s"),
        ("p99(e2e <= 80ms", "a clause is: field"),
        ("p99 e2e <= 80ms", "a clause is: field"),
        ("p99 <= 80ms", "p99 takes one field, as in p99(e2e) <= 80ms"),
        ("p99(e2e)) <= 80ms", "a clause is: field"),
    ],
)
def test_an_unreadable_aggregate_is_told_what_would_be_right(text: str, says: str) -> None:
    """The message names what is accepted."""
    with pytest.raises(ConditionError) as error:
        parse(text)
    assert says in str(error.value)


def test_an_aggregate_is_data() -> None:
    """Bounds are nanoseconds, events, per second or plain ratios."""
    assert parse("ratio(data_wait, step) <= 15% and p99(e2e) < 1us").aggregates == (
        Aggregate("ratio", ("data_wait", "step"), "<=", Fraction(15, 100)),
        Aggregate("p99", ("e2e",), "<", Fraction(1000)),
    )


_NUMBERS = st.from_regex(r"[0-9]{1,19}(\.[0-9]{1,19})?", fullmatch=True)
_SPACE = st.sampled_from(["", " ", "  ", "\n\t"])
_DURATION_CLAUSES = st.builds(
    "{}{}{}{}{}{}{}".format,
    st.sampled_from(DURATIONS),
    _SPACE,
    st.sampled_from(OPERATORS),
    _SPACE,
    _NUMBERS,
    _SPACE,
    st.sampled_from(list(UNIT_NS)),
)
_COUNT_CLAUSES = st.builds("{} {} {}".format, st.sampled_from(COUNTS), st.sampled_from(OPERATORS), _NUMBERS)
_OUTCOME_CLAUSES = st.builds(
    "outcome {} {}".format, st.sampled_from(["==", "!="]), st.sampled_from([o.name.lower() for o in Outcome])
)
_CONDITIONS = st.lists(_DURATION_CLAUSES | _COUNT_CLAUSES | _OUTCOME_CLAUSES, min_size=1, max_size=4)


@settings(deadline=None, max_examples=50)
@given(_CONDITIONS)
@example(["e2e == 0.5ns"])
@example(["prompt_tokens != 0.1"])
def test_the_normal_form_reads_back_as_itself(clauses: list[str]) -> None:
    """The normal form is itself a condition, and a fixed point."""
    condition = parse(" and ".join(clauses))
    normal = condition.normal_form()
    assert parse(normal).normal_form() == normal
    assert set(parse(normal).clauses) == set(condition.clauses)


@settings(deadline=None, max_examples=20)
@given(_CONDITIONS, st.randoms(use_true_random=False))
def test_order_and_repetition_of_clauses_do_not_matter(clauses: list[str], random) -> None:  # noqa: ANN001 - hypothesis
    """A shuffled condition with a clause twice has the same normal form."""
    shuffled = [*clauses, random.choice(clauses)]
    random.shuffle(shuffled)
    assert parse(" and ".join(shuffled)).normal_form() == parse(" and ".join(clauses)).normal_form()


_RANKED = st.sampled_from(["p50", "p90", "p95", "p99", "min", "max"])
_ORDERED_OPS = st.sampled_from(["<=", "<", ">=", ">"])
_ALL_OPS = st.sampled_from(OPERATORS)
_DURATION_UNITS = st.sampled_from(list(UNIT_NS))
_AGGREGATES = st.one_of(
    st.builds("{}({}) {} {}{}".format, _RANKED, st.sampled_from(DURATIONS), _ORDERED_OPS, _NUMBERS, _DURATION_UNITS),
    st.builds("{}({}) {} {}".format, _RANKED, st.sampled_from(COUNTS), _ORDERED_OPS, _NUMBERS),
    st.builds("mean({}) {} {}{}".format, st.sampled_from(DURATIONS), _ALL_OPS, _NUMBERS, _DURATION_UNITS),
    st.builds("mean({}){}{}".format, st.sampled_from(COUNTS), _ALL_OPS, _NUMBERS),
    st.builds("rate {} {}/s".format, _ALL_OPS, _NUMBERS),
    st.builds("rate({}) {} {}/s".format, st.sampled_from(COUNTS), _ALL_OPS, _NUMBERS),
    st.builds("count {} {}".format, _ALL_OPS, _NUMBERS),
    st.builds("ratio(e2e,step) {} {}{}".format, _ALL_OPS, _NUMBERS, st.sampled_from(["", "%"])),
)


@settings(deadline=None, max_examples=80)
@given(st.lists(_AGGREGATES, min_size=1, max_size=4))
@example(["mean(e2e) <= 0.0000000000000000001h"])
@example(["ratio(e2e,step) == 9999999999999999999.9999999999999999999"])
@example(["ratio(e2e,step) == 0.0000000000000000001%"])
def test_the_normal_form_of_aggregates_reads_back_as_itself(clauses: list[str]) -> None:
    """Nothing of a bound is lost, however it was written."""
    condition = parse(" and ".join(clauses))
    normal = condition.normal_form()
    assert parse(normal).normal_form() == normal
    assert parse(normal).aggregates == condition.distinct_aggregates


_PIECES = st.sampled_from(
    [
        "e2e",
        "outcome",
        "ok",
        "<=",
        "==",
        "=",
        "<",
        "80",
        "ms",
        "1.5",
        "and",
        "p99",
        "rate",
        "(",
        ")",
        "%",
        ",",
        "/s",
        "\n",
        "٣",
        "9" * 30,
    ]
)


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=40) | st.lists(_PIECES, max_size=9).map(" ".join) | st.lists(_PIECES, max_size=9).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but ConditionError."""
    try:
        assert parse(text).normal_form()
    except ConditionError as error:
        assert str(error)  # noqa: PT017 - most texts are refused, some are not
