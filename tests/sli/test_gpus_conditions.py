"""Conditions on GPUs: what is read, what is refused, and what identifies an SLO."""

import json
from fractions import Fraction

import pytest

from slo_exporter.sli.condition import ConditionError, parse
from slo_exporter.sli.gpus import GPU_FIELDS, GpuSelector
from slo_exporter.sli.indicator import Empty, Indicator, Selector
from slo_exporter.sli.records import FIELDS, Kind
from slo_exporter.sli.vocabulary import GPUS
from slo_exporter.web import wording

SHARES = [name for name, kind in GPU_FIELDS.items() if kind is Kind.RATIO]


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("mean(utilization) >= 40%", "mean(utilization) >= 40%"),
        ("mean( utilization )>=0.4", "mean(utilization) >= 40%"),
        ("p99(memory) < 85 %", "p99(memory) < 85%"),
        ("min(up) >= 100%", "min(up) >= 100%"),
        ("min(up) >= 1", "min(up) >= 100%"),
        ("max(throttled) <= 0", "max(throttled) <= 0%"),
        ("p50(sm_active) >= 33.33333333333%", "p50(sm_active) >= 33.3333334%"),
        ("p50(sm_active) <= 33.33333333333%", "p50(sm_active) <= 33.3333333%"),
        ("mean(sm_active) >= 33.3333333333333333333%", "mean(sm_active) >= 33.3333333333333333333%"),
        ("mean(dram_active) > 0.0000000000000000001", "mean(dram_active) > 0.00000000000000001%"),
        ("max(temperature) <= 85", "max(temperature) <= 85"),
        ("mean(power) <= 650.5", "mean(power) <= 650.5"),
        ("max(xids) <= 0 and max(critical_xids) <= 0", "max(critical_xids) <= 0 and max(xids) <= 0"),
        ("ratio(tensor_active, sm_active) >= 50%", "ratio(tensor_active, sm_active) >= 50%"),
        ("ratio(sm_active, utilization) <= 2", "ratio(sm_active, utilization) <= 200%"),
    ],
)
def test_a_condition_on_gpus_is_read_to_its_normal_form(text: str, normal: str) -> None:
    """Shares in percent, other numbers plain; the normal form reads back, as does what people see."""
    condition = parse(text, GPUS)
    assert condition.normal_form() == normal
    assert parse(normal, GPUS).normal_form() == normal
    assert parse(wording.condition(condition), GPUS).normal_form() == normal


def test_a_share_is_compared_in_whole_billionths() -> None:
    """40 % of one is 400,000,000; a mean keeps what lies between two billionths."""
    assert parse("p90(memory) <= 40%", GPUS).aggregates[0].bound == 400_000_000
    assert parse("mean(memory) <= 0.00000000005%", GPUS).aggregates[0].bound == Fraction(1, 2000)


@pytest.mark.parametrize("name", SHARES)
def test_no_share_is_more_than_all(name: str) -> None:
    """100 % is the most, and 40 without a unit was meant as 40 %."""
    assert parse(f"mean({name}) <= 100%", GPUS).aggregates[0].bound == 10**9
    for text in ("100.0000000000000001%", "1.0000000000001", "40"):
        with pytest.raises(ConditionError) as error:
            parse(f"mean({name}) <= {text}", GPUS)
        assert str(error.value) == f"mean({name}) is a share and never more than 100%, as in 40% or 0.4, not '{text}'"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; write for example: mean(utilization) >= 40%"),
        ("utilization >= 40%", "utilization has a value every second; aggregate it, as in mean(utilization) >= 40%"),
        ("utilisation >= 40%", "unknown field 'utilisation'; fields of GPUs are: up, utilization, memory"),
        ("mean(load) >= 40%", "unknown field 'load'; fields of GPUs are: up, utilization, memory, sm_active"),
        ("p99(e2e) <= 80ms", "e2e is a field of requests; write requests: {} instead of gpus"),
        ("e2e <= 80ms", "e2e is a field of requests; write requests: {} instead of gpus"),
        ("outcome == ok", "outcome is a field of requests; write requests: {} instead of gpus"),
        ("mean(outcome) == ok", "outcome is a field of requests; write requests: {} instead of gpus"),
        ("rate >= 1/s", "rate is about requests: GPUs have a record every second, busy or not; bound a field instead"),
        ("rate(xids) >= 1/s", "rate is about requests"),
        ("count(xids) <= 0", "bound a field instead, as in max(xids) <= 0"),
        ("sum(xids) <= 0", "unknown aggregate 'sum'; aggregates are: p50, p90, p95, p99, mean, min, max, ratio"),
        ("mean() >= 1%", "mean takes one field, as in mean(utilization) >= 40%"),
        ("p90(up, up) >= 1%", "p90 takes one field, as in p90(utilization) >= 40%"),
        ("ratio(up) >= 1%", "ratio takes two fields, as in ratio(tensor_active, sm_active) >= 50%"),
        ("ratio(power, power) >= 1%", "ratio takes two shares, not power and power"),
        ("ratio(power, up) >= 1%", "ratio takes two shares, not power and up"),
        ("min(up) == 100%", "min takes <=, <, >= or >, not =="),
        ("max(temperature) <= 85C", "max(temperature) is a plain number (temperature in degrees Celsius, power in"),
        ("max(power) <= 85%", "and takes no unit, not '%'"),
        ("max(xids) <= none", "cannot read the quantity 'none' of max(xids); write for example 80"),
        ("mean(memory) <= 85GB", "mean(memory) is a share and takes % or no unit, as in 40% or 0.4, not '85GB'"),
        ("mean(memory) <= most", "cannot read the quantity 'most' of mean(memory); write for example 40%"),
        ("mean utilization >= 40%", "a clause is: aggregate(field) <= | <"),
    ],
)
def test_what_cannot_be_meant_of_gpus_is_told_what_would_be_right(text: str, says: str) -> None:
    """The message names fields and examples of GPUs."""
    with pytest.raises(ConditionError) as error:
        parse(text, GPUS)
    assert says in str(error.value)


@pytest.mark.parametrize("name", GPU_FIELDS)
def test_a_field_of_gpus_is_not_one_of_requests(name: str) -> None:
    """Aggregated or not, the message says how to ask for it."""
    for text in (f"{name} >= 1", f"mean({name}) >= 1"):
        with pytest.raises(ConditionError) as error:
            parse(text)
        assert str(error.value) == f"{name} is a field of GPUs; write gpus: {{}} instead of requests"


def test_no_field_is_of_both() -> None:
    """What a bound is follows from the name of its field."""
    assert not GPU_FIELDS.keys() & FIELDS.keys()


def _form(good: str = "mean(utilization) >= 40%", width_s: int = 60, empty: Empty | None = None, **keys: tuple) -> str:
    selector = GpuSelector("chat", tuple(keys.items()))
    return Indicator(selector, parse(good, GPUS), timeslice_s=width_s, empty=empty).normal_form()


def test_the_normal_form_of_gpus_is_stable_text() -> None:
    """It is stored: another spelling in a later version would start new generations."""
    assert _form(group=("b", "a", "b"), gpu=("0",)) == (
        '{"empty":"no_data","good":"mean(utilization) >= 40%","gpus":{"gpu":["0"],"group":["a","b"]},'
        '"service":"chat","timeslice":60}'
    )
    assert _form(gpu=("0",), group=("a", "b")) == _form(group=("b", "a"), gpu=("0",))
    assert _form() == _form("mean(utilization)>=0.40", empty=Empty.NO_DATA)


def test_counting_other_gpus_is_another_generation() -> None:
    """Selector, condition, width and what an empty slice is."""
    others = [
        _form(gpu=("1",)),
        _form(good="mean(utilization) >= 41%"),
        _form(width_s=10),
        _form(empty=Empty.BAD),
        json.dumps({**json.loads(_form()), "service": "embed"}, sort_keys=True, separators=(",", ":")),
    ]
    assert len({_form(), *others}) == len(others) + 1


def test_the_normal_form_of_requests_is_the_one_that_databases_hold() -> None:
    """Byte for byte: an upgrade starts no generation."""
    on_requests = Indicator(Selector("chat", matches=(("model", ("x",)),)), parse("e2e <= 80ms"))
    outcomes = (
        '"outcomes":{"cancelled":"exclude","client_error":"exclude","error":"bad","incomplete":"bad",'
        '"ok":"decide","rate_limited":"bad"},"requests":{"model":["x"]},"service":"chat"'
    )
    assert on_requests.normal_form() == f'{{"good":"e2e <= 80000000ns",{outcomes},"view":"server"}}'
    sliced = Indicator(Selector("chat", matches=(("model", ("x",)),)), parse("rate >= 1/s"), timeslice_s=60)
    assert sliced.normal_form() == (f'{{"empty":"bad","good":"rate >= 1/s",{outcomes},"timeslice":60,"view":"server"}}')


def test_a_selector_and_its_condition_are_of_one_kind() -> None:
    """GPUs are judged by time slices, on their own fields."""
    with pytest.raises(ValueError, match="aggregates judge time slices"):
        Indicator(GpuSelector("chat"), parse("mean(up) >= 1", GPUS))
    with pytest.raises(ValueError, match="aggregates judge time slices"):
        Indicator(GpuSelector("chat"), parse("e2e <= 1s"))
    with pytest.raises(ValueError, match="the condition is on GPUs and the selector on requests"):
        Indicator(GpuSelector("chat"), parse("p99(e2e) <= 1s"), timeslice_s=60)
    with pytest.raises(ValueError, match="the condition is on GPUs and the selector on requests"):
        Indicator(Selector("chat"), parse("mean(up) >= 1", GPUS), timeslice_s=60)
