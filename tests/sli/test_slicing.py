from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeslices import MS, Record, S, batch_of, indicator_of

from slo_exporter.sli import condition
from slo_exporter.sli.counting import Plan
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.sli.records import MISSING, Outcome
from slo_exporter.sli.slicing import SlicePlan, SliceSums, added, width_of

MOST = 2**63 - 1


def _sums(good: str, records: list[Record], width_s: int = 60) -> SliceSums:
    return SlicePlan([indicator_of(good, width_s)]).sum(batch_of(records))[0]


@pytest.mark.parametrize(
    ("good", "sums"),
    [
        ("count >= 1", [4]),
        ("rate >= 1/s", [4]),
        ("rate(completion_tokens) >= 1/s", [4, 2, 9]),
        ("p99(e2e) <= 80ms", [4, 3, 1]),
        ("p99(inter_token) <= 5ms", [4, 3, 1]),
        ("max(e2e) <= 80ms", [4, 2, 1]),
        ("mean(e2e) <= 80ms", [4, 2, 180 * MS]),
        ("ratio(e2e, queue) <= 2", [4, 80 * MS, 7]),
        ("mean(e2e) <= 80ms and count >= 1 and max(e2e) <= 80ms and mean(e2e) <= 80ms", [4, 2, 1, 2, 180 * MS]),
    ],
)
def test_a_slice_keeps_the_parts_of_each_aggregate(good: str, sums: list[int]) -> None:
    """Records first, then two numbers an aggregate, in sorted order, each aggregate once."""
    records = [
        {"e2e": 80 * MS, "queue": 7, "completion_tokens": 1},
        {"e2e": 100 * MS},
        {"e2e": S, "outcome": Outcome.ERROR, "completion_tokens": 8},
        {"inter_token": 6 * MS, "completion_tokens": None},
        {"e2e": S, "outcome": Outcome.CANCELLED, "completion_tokens": 8},
    ]
    assert _sums(good, records).sums.tolist() == [sums]
    assert width_of(indicator_of(good)) == len(sums)


def test_writing_clauses_in_another_order_keeps_the_layout() -> None:
    """Sums in SQL outlive an edit that changes nothing."""
    records = [{"e2e": 1, "ttft": 10}]
    one, other = "mean(e2e) <= 1s and mean(ttft) <= 1s", "mean(ttft) <= 1s and mean(e2e) <= 1000ms"
    assert _sums(one, records).sums.tolist() == _sums(other, records).sums.tolist()


def test_the_end_decides_the_slice() -> None:
    """Half-open, aligned to the epoch, in order; the newest record is remembered."""
    ends = (120 * S, 60 * S - 1, 60 * S, 300 * S + 7)
    sums = _sums("count >= 1", [{"end_ns": end} for end in ends])
    assert sums.starts.tolist() == [0, 60, 120, 300]
    assert sums.newest_ns == 300 * S + 7


def test_only_slices_with_records_are_given() -> None:
    """Excluded records and those of others leave nothing behind."""
    records = [
        {"end_ns": 5 * S, "outcome": Outcome.CANCELLED},
        {"end_ns": 65 * S},
        {"end_ns": 125 * S, "service": "other"},
    ]
    sums = _sums("count >= 1", records)
    assert sums.starts.tolist() == [60]
    assert sums.newest_ns == 65 * S
    assert SlicePlan([indicator_of("count >= 1")]).sum(batch_of(records[::2])) == {}


def test_rows_are_those_of_all_indicators() -> None:
    """Indicators on requests keep their place, and have no sums; those on slices have no counts."""
    on_requests = Indicator(Selector("chat"), condition.parse("e2e <= 1s"))
    other = Indicator(Selector("other"), condition.parse("count >= 1"), timeslice_s=10)
    indicators = [on_requests, indicator_of("count >= 1"), other, on_requests, indicator_of("count >= 1", 10)]
    batch = batch_of([{"e2e": 1, "end_ns": 11 * S}])
    sums = SlicePlan(indicators).sum(batch)
    assert {row: found.starts.tolist() for row, found in sums.items()} == {1: [0], 4: [10]}
    delta = Plan(indicators).count(batch)
    assert delta.counts[0].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert delta.newest_ns.tolist() == [11 * S, MISSING, MISSING, 11 * S, MISSING]


def test_nothing_gives_nothing() -> None:
    """No records, or no indicator on time slices."""
    assert SlicePlan([indicator_of("count >= 1")]).sum(batch_of([])) == {}
    on_requests = Indicator(Selector("chat"), condition.parse("e2e <= 1s"))
    assert SlicePlan([on_requests]).sum(batch_of([{"e2e": 1}])) == {}


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([MOST], MOST),
        ([MOST, 1], MOST),
        ([MOST - 1, 1], MOST),
        ([MOST] * 5, MOST),
        ([2**62, 2**62 - 1], MOST),
        ([2**62, 2**62 - 2], MOST - 1),
        ([2**32 - 1] * 3, 3 * 2**32 - 3),
        ([0], 0),
    ],
)
def test_a_sum_that_would_overflow_stays_at_the_most(values: list[int], total: int) -> None:
    """Within a batch and across batches, exactly as long as it fits."""
    assert _sums("mean(samples) <= 1", [{"samples": value} for value in values]).sums[0, 2] == total
    one_by_one = np.zeros(1, dtype=np.int64)
    for value in values:
        one_by_one = added(one_by_one, np.array([value]))
    assert one_by_one.tolist() == [total]


_GOODS = (
    "p99(e2e) <= 80ms and max(inter_token) <= 5ms",
    "mean(e2e) <= 80ms and rate(completion_tokens) >= 1/s",
    "ratio(inter_token, e2e) <= 1",
)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_pieces_of_a_batch_add_up_in_any_order(seed: int) -> None:
    """However records are spread over commits."""
    random = Random(seed)
    records = [
        {
            "end_ns": random.randrange(40) * 5 * S,
            "outcome": random.choice((Outcome.OK, Outcome.OK, *Outcome)),
            "e2e": random.choice((None, 0, 80 * MS, MOST)),
            "inter_token": random.choice((None, 0, 6 * MS)),
            "completion_tokens": random.choice((None, 0, 1, 2)),
        }
        for _ in range(30)
    ]
    plan = SlicePlan([indicator_of(good, random.choice((10, 60))) for good in _GOODS])
    pieces: dict[tuple[int, int], np.ndarray] = {}
    random.shuffle(records)
    for piece in (records[:7], records[7:8], records[8:]):
        for row, sums in plan.sum(batch_of(piece)).items():
            for start, more in zip(sums.starts.tolist(), sums.sums, strict=True):
                pieces[row, start] = added(pieces[row, start], more) if (row, start) in pieces else more
    whole = {
        (row, start): more.tolist()
        for row, sums in plan.sum(batch_of(records)).items()
        for start, more in zip(sums.starts.tolist(), sums.sums, strict=True)
    }
    assert {key: sums.tolist() for key, sums in pieces.items()} == whole
