"""Time slices of GPUs against an oracle that looks at every row."""

from collections.abc import Sequence
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from gpu_seconds import FLEET, SHARE, AskedOfGpus, S, Second, gpu_indicator, gpu_verdict, seconds_of
from hypothesis import given, settings
from hypothesis import strategies as st
from timeslices import batch_of, indicator_of

from slo_exporter.sli.gpu_slicing import GpuSlicePlan
from slo_exporter.sli.gpus import GPU_FIELDS, Gpu
from slo_exporter.sli.indicator import Empty
from slo_exporter.sli.records import Kind
from slo_exporter.sli.slicing import SlicePlan, added
from slo_exporter.sli.verdict import Judge

UP, DOWN = 60 * S, 53 * S
FIELDS = ("up", "utilization", "memory", "temperature", "xids")
SHARES = {"40%": 400_000_000, "0": 0, "100%": SHARE, "33.33333333335%": Fraction("333333333.3335")}
NUMBERS = {"0": 0, "80": 80, "79.5": Fraction(159, 2)}
RATIOS = {"50%": Fraction(1, 2), "1.25": Fraction(5, 4), "0": Fraction(0)}
VALUES = (None, 0, 333_333_333, 333_333_334, 400_000_000 - 1, 400_000_000, 400_000_001, SHARE)


@pytest.mark.parametrize(
    ("good", "values", "verdict"),
    [
        ("mean(utilization) >= 40%", [0.4], True),
        ("mean(utilization) >= 40%", [0.2, 0.6], True),
        ("mean(utilization) > 40%", [0.2, 0.6], False),
        ("mean(utilization) >= 40%", [0.2, None, 0.6, None], True),
        ("mean(utilization) >= 40%", [0.2, 0.599999999], False),
        ("mean(utilization) >= 40%", [None, None], None),
        ("p90(utilization) <= 40%", [0.4] * 9 + [1], True),
        ("p90(utilization) <= 40%", [0.4] * 8 + [1], False),
        ("p90(utilization) <= 40%", [0.4] * 8 + [1, None], False),
        ("p50(utilization) >= 40%", [0.3, 0.4], False),
        ("p50(utilization) >= 40%", [0.3, 0.4, 0.5], True),
        ("min(utilization) >= 40%", [0.4, None, 1], True),
        ("min(utilization) >= 40%", [0.399999999, 1], False),
        ("max(utilization) < 40%", [None, 0.399999999], True),
    ],
)
def test_a_slice_is_judged_by_the_values_that_are_known(
    good: str,
    values: Sequence[float | None],
    verdict: bool | None,  # noqa: FBT001 - a table
) -> None:
    """Exactly on the bound is within it; a missing value is neither good nor bad."""
    rows = [{"utilization": None if value is None else round(value * SHARE)} for value in values]
    assert gpu_verdict(gpu_indicator(good), rows) is verdict


def test_a_mean_is_exact_between_two_billionths() -> None:
    """A third of a billionth decides."""
    rows = [{"memory": 1}, {"memory": 0}, {"memory": 0}]
    assert gpu_verdict(gpu_indicator("mean(memory) >= 0.00000003333333333%"), rows) is True
    assert gpu_verdict(gpu_indicator("mean(memory) >= 0.00000003333333334%"), rows) is False


def test_a_gpu_that_failed_is_not_up_and_tells_nothing_else() -> None:
    """Its seconds count for ``up`` alone: the others are judged by what they do."""
    rows = [{"gpu": 0, "up": SHARE, "utilization": SHARE // 2}] * 60 + [{"gpu": 1, "up": SHARE}] * 30
    rows += [{"gpu": 1, "up": 0}] * 30
    assert gpu_verdict(gpu_indicator("min(up) >= 100%"), rows) is False
    assert gpu_verdict(gpu_indicator("mean(up) >= 75%"), rows) is True
    assert gpu_verdict(gpu_indicator("mean(up) > 75%"), rows) is False
    assert gpu_verdict(gpu_indicator("mean(utilization) >= 50%"), rows) is True
    assert gpu_verdict(gpu_indicator("mean(utilization) >= 50% and min(up) >= 100%"), rows) is False


@pytest.mark.parametrize(
    ("good", "row", "verdict"),
    [
        ("max(xids) <= 0", {"xids": 1}, False),
        ("max(xids) <= 0", {"xids": 0}, None),
        ("min(up) >= 100%", {"up": 0}, False),
        ("min(up) >= 100%", {"up": SHARE}, None),
        ("mean(up) >= 100%", {"up": 0}, None),
        ("mean(utilization) >= 40% and max(xids) <= 0", {"utilization": SHARE, "xids": 2}, False),
    ],
)
def test_while_we_were_down_only_what_is_lost_is_known(good: str, row: Second, verdict: bool | None) -> None:  # noqa: FBT001 - a table
    """Less than nine tenths of a minute: no data, unless nothing could make it good."""
    assert gpu_verdict(gpu_indicator(good), [row], DOWN) is verdict
    assert gpu_verdict(gpu_indicator(good), [row], 54 * S) is not None


@pytest.mark.parametrize(("empty", "verdict"), [(None, None), (Empty.GOOD, True), (Empty.BAD, False)])
def test_a_slice_without_a_value_is_no_data_unless_said_otherwise(empty: Empty | None, verdict: bool | None) -> None:  # noqa: FBT001 - a table
    """Nobody can tell; rows in which all that is asked is missing are no records."""
    indicator = gpu_indicator("mean(tensor_active) >= 40%", empty=empty)
    assert gpu_verdict(indicator, []) is verdict
    assert gpu_verdict(indicator, [{"up": SHARE}]) is verdict
    assert GpuSlicePlan([indicator]).sum(seconds_of([{"up": SHARE, "tensor_active": None}])) == {}


@pytest.mark.parametrize("empty", [None, *Empty])
def test_a_total_outage_is_bad_whatever_else_nobody_can_tell(empty: Empty | None) -> None:
    """All GPUs are lost: no utilization at all, but one clause is broken; whatever an empty slice is."""
    indicator = gpu_indicator("mean(utilization) >= 40% and min(up) >= 100%", empty=empty)
    lost = [{"gpu": gpu, "up": 0} for gpu in range(3)]
    assert gpu_verdict(indicator, lost * 60) is False
    assert gpu_verdict(indicator, lost) is False
    assert gpu_verdict(gpu_indicator("min(up) >= 100% and mean(utilization) >= 40%", empty=empty), lost) is False


@pytest.mark.parametrize(("empty", "verdict"), [(None, None), (Empty.GOOD, True), (Empty.BAD, False)])
def test_what_holds_does_not_stand_for_what_nobody_can_tell(empty: Empty | None, verdict: bool | None) -> None:  # noqa: FBT001 - a table
    """All clauses that have a value hold, one has none."""
    indicator = gpu_indicator("mean(utilization) >= 40% and min(up) >= 100%", empty=empty)
    assert gpu_verdict(indicator, [{"up": SHARE}]) is verdict


@pytest.mark.parametrize(("empty", "verdict"), [(None, None), (Empty.GOOD, True), (Empty.BAD, False)])
def test_of_requests_a_clause_without_a_value_goes_first(empty: Empty | None, verdict: bool | None) -> None:  # noqa: FBT001 - a table
    """A broken clause beside it changes nothing: law 5 is as it was."""
    indicator = indicator_of("max(e2e) <= 1ms and mean(ttft) <= 1ms", empty=empty)
    (sums,) = SlicePlan([indicator]).sum(batch_of([{"e2e": S}]))[0].sums.tolist()
    assert Judge(indicator).verdict(sums, UP) is verdict


def test_the_newest_second_is_one_that_tells() -> None:
    """A GPU that tells nothing makes no data fresh."""
    rows = [{"end_ns": 5 * S, "power": 70}, {"end_ns": 6 * S, "power": None}, {"end_ns": 7 * S, "gpu": 1, "power": 1}]
    assert GpuSlicePlan([gpu_indicator("max(power) <= 700", gpu="0")]).sum(seconds_of(rows))[0].newest_ns == 5 * S


@pytest.mark.parametrize(
    ("matches", "indices"),
    [
        ({}, {0, 1, 2}),
        ({"gpu": ("0", "2")}, {0, 2}),
        ({"uuid": "GPU-b"}, {1}),
        ({"uuid": ("gpu-B", "GPU-C")}, {1, 2}),
        ({"name": "H200"}, {0, 1}),
        ({"group": "chat"}, {0, 1}),
        ({"group": ("embed", "nope")}, {1}),
        ({"group": "chat", "gpu": "0"}, {0}),
        ({"group": "chat", "name": "L40S"}, set()),
        ({"gpu": "00"}, set()),
    ],
)
def test_every_key_must_match_and_any_of_its_texts(matches: dict, indices: set[int]) -> None:
    """A GPU may be in several groups, or in none."""
    rows = [{"gpu": place, "power": 1 << gpu.index} for place, gpu in enumerate(FLEET)]
    found = GpuSlicePlan([gpu_indicator("mean(power) <= 1", **matches)]).sum(seconds_of(rows))
    assert (found[0].sums.tolist() if found else []) == (
        [[len(indices), len(indices), sum(1 << index for index in indices)]] if indices else []
    )


@pytest.mark.parametrize(
    ("matches", "power"),
    [({"uuid": "MIG-0a/1"}, 1), ({"uuid": "GPU-0A"}, 2), ({"name": "H200"}, 2), ({"group": "Chat"}, 1)],
)
def test_the_case_of_a_uuid_makes_no_difference(matches: dict, power: int) -> None:
    """Neither in the selector nor in what is read; a name and a group have their case."""
    gpus = (Gpu(0, "MIG-0A/1", "h200", frozenset({"Chat"})), Gpu(1, "GPU-0a", "H200", frozenset({"chat"})))
    rows = seconds_of([{"gpu": place, "power": 1 << place} for place in range(2)], gpus)
    summed = GpuSlicePlan([gpu_indicator("mean(power) <= 1", **matches)]).sum(rows)
    assert summed[0].sums.tolist() == [[1, 1, power]]


def test_requests_and_gpus_are_summed_apart() -> None:
    """Rows of an SLO are those of all indicators; each plan leaves the other's out."""
    indicators = [indicator_of("count >= 1"), gpu_indicator("max(xids) <= 0"), gpu_indicator("max(up) <= 1", 10)]
    assert set(SlicePlan(indicators).sum(batch_of([{}]))) == {0}
    assert set(GpuSlicePlan(indicators).sum(seconds_of([{"up": 1, "xids": 0}]))) == {1, 2}
    assert len(GpuSlicePlan(indicators)) == 2
    assert GpuSlicePlan(indicators[:1]).sum(seconds_of([{"up": 1}])) == {}
    assert GpuSlicePlan(indicators).sum(seconds_of([])) == {}


def test_a_negative_temperature_is_as_cold_as_it_can_be() -> None:
    """Sums never fall, so that they can saturate."""
    rows = [{"temperature": -4}, {"temperature": 4}]
    assert gpu_verdict(gpu_indicator("mean(temperature) == 2"), rows) is True
    assert gpu_verdict(gpu_indicator("max(temperature) <= 4"), rows) is True


def _clause(random: Random) -> tuple[str, tuple[str, ...], str, str, Fraction]:
    function = random.choice(("p50", "p90", "p95", "p99", "mean", "mean", "min", "max", "ratio"))
    if function == "ratio":
        text, bound = random.choice(list(RATIOS.items()))
        return (
            function,
            tuple(random.choices(FIELDS[:3], k=2)),
            random.choice(("<=", "<", ">=", ">", "==")),
            text,
            bound,
        )
    name = random.choice(FIELDS)
    text, bound = random.choice(list((SHARES if GPU_FIELDS[name] is Kind.RATIO else NUMBERS).items()))
    op = random.choice(("<=", "<", ">=", ">", "==", "!=") if function == "mean" else ("<=", "<", ">=", ">"))
    return function, (name,), op, text, Fraction(bound)


def _asked(random: Random) -> AskedOfGpus:
    matches = ((), (), (("gpu", ("0", "1")),), (("group", ("chat",)),), (("group", ("embed",)), ("name", ("H200",))))
    return AskedOfGpus(
        clauses=tuple(_clause(random) for _ in range(random.choice((1, 1, 2, 3)))),
        width_s=60,
        empty=random.choice((None, *Empty)),
        matches=random.choice(matches),
    )


def _row(random: Random, slices: int) -> Second:
    is_up = random.choice((None, 0, SHARE, SHARE, SHARE))
    values = {name: random.choice(VALUES) if is_up else None for name in ("utilization", "memory")}
    plain = {name: random.choice((None, 0, 79, 80, 81)) if is_up else None for name in ("temperature", "xids")}
    end_ns = random.randrange(slices * 60) * S + random.choice((0, 1, S - 1))
    return {"end_ns": end_ns, "gpu": random.randrange(3), "up": is_up, **values, **plain}


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_a_verdict_is_that_of_a_judge_who_sees_every_row(seed: int) -> None:
    """Any clauses, selectors, uptimes and gaps."""
    random = Random(seed)
    asked = _asked(random)
    rows = [_row(random, 1) for _ in range(random.choice((0, 1, 2, 5, 60)))]
    up_ns = random.choice((UP, UP, 54 * S, 54 * S - 1, 0))
    assert gpu_verdict(asked.indicator, rows, up_ns) is asked.verdict(rows, up_ns)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_pieces_of_seconds_add_up_in_any_order(seed: int) -> None:
    """However they are spread over commits."""
    random = Random(seed)
    plan = GpuSlicePlan([_asked(random).indicator for _ in range(4)])
    rows = [_row(random, 4) for _ in range(40)]
    whole = {(row, start): sums.tolist() for row, start, sums in _each(plan, rows)}
    random.shuffle(rows)
    pieces: dict[tuple[int, int], np.ndarray] = {}
    for piece in (rows[:9], rows[9:10], rows[10:]):
        for row, start, more in _each(plan, piece):
            pieces[row, start] = added(pieces[row, start], more) if (row, start) in pieces else more
    assert {key: sums.tolist() for key, sums in pieces.items()} == whole


def _each(plan: GpuSlicePlan, rows: Sequence[Second]) -> list[tuple[int, int, np.ndarray]]:
    return [
        (row, start, more)
        for row, sums in plan.sum(seconds_of(rows)).items()
        for start, more in zip(sums.starts.tolist(), sums.sums, strict=True)
    ]
