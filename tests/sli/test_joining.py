from collections import defaultdict
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.sli.joining import join, without_repeats
from slo_exporter.sli.records import FIELDS, MISSING, Outcome, RequestBatch, View

LEAST = ("queue", "preprocess", "prefill", "ttft")
MOST = (
    "e2e",
    "decode",
    "inference",
    "postprocess",
    "inter_token",
    "prompt_tokens",
    "cached_tokens",
    "step",
    "data_wait",
)
SUMMED = ("completion_tokens", "samples")
WORST_FIRST = ("ERROR", "INCOMPLETE", "RATE_LIMITED", "CLIENT_ERROR", "CANCELLED", "OK")


def _overlap(one: dict, other: dict) -> bool:
    """Half-open intervals that share an instant, or begin at the same one."""
    if one["start_ns"] == other["start_ns"]:
        return True
    return one["start_ns"] < other["end_ns"] and other["start_ns"] < one["end_ns"]


def _requests(rows: list[dict]) -> list[list[dict]]:
    """Rows with one id that overlap directly or through others: every pair is looked at."""
    groups = [[row] for row in rows]
    merged = True
    while merged:
        merged = False
        for i, one in enumerate(groups):
            for other in groups[i + 1 :]:
                if any(_is_one(a, b) for a in one for b in other):
                    one.extend(other)
                    groups.remove(other)
                    merged = True
    return groups


def _is_one(one: dict, other: dict) -> bool:
    return one["request_key"] == other["request_key"] != 0 and _overlap(one, other)


def _record(rows: list[dict]) -> tuple[object, ...]:
    known = {name: [row[name] for row in rows if row.get(name) is not None] for name in FIELDS}
    fields = {name: min(known[name], default=None) for name in LEAST}
    fields |= {name: max(known[name], default=None) for name in MOST}
    combine = sum if rows[0]["view"] is View.SERVER else max
    fields |= {name: combine(known[name]) if known[name] else None for name in SUMMED}
    worst = min((row["outcome"].name for row in rows), key=WORST_FIRST.index)
    return (
        rows[0]["request_key"],
        min(row["start_ns"] for row in rows),
        max(row["end_ns"] for row in rows),
        worst,
        *(fields[name] for name in FIELDS),
    )


def _records(batch: RequestBatch) -> list[tuple[object, ...]]:
    numbers = [[None if value == MISSING else value for value in batch.number(name).tolist()] for name in FIELDS]
    outcomes = [Outcome(code).name for code in batch.outcome.tolist()]
    return list(
        zip(batch.request_key.tolist(), batch.start_ns.tolist(), batch.end_ns.tolist(), outcomes, *numbers, strict=True)
    )


def _random_row(random: Random) -> dict:
    start, key = random.randrange(20), random.choice((0, 0, 7, 7, 7, 2**64 - 2, 2**64 - 1))
    row: dict = {
        "request_key": key,
        "view": View.CLIENT if key == 2**64 - 2 else View.SERVER,  # a key is of one view
        "start_ns": start,
        "end_ns": start + random.choice((0, 0, 1, 2, 3, 8)),
        "outcome": random.choice((Outcome.OK, *Outcome)),
    }
    for name in FIELDS:
        row[name] = random.choice((None, 0, 1, 5, 9))
    return row


def _sort_key(record: tuple[object, ...]) -> str:
    return repr(record)


@settings(deadline=None, max_examples=80)
@given(seed=st.integers(0, 2**32))
def test_joining_finds_what_comparing_every_pair_finds(make_batch: Callable, seed: int) -> None:
    """Random spans join to the requests of an oracle that compares each with each."""
    random = Random(seed)
    rows = [_random_row(random) for _ in range(random.choice((1, 2, 3, 12)))]
    expected = [_record(request) for request in _requests(rows)]
    assert sorted(_records(join(make_batch(rows))), key=_sort_key) == sorted(expected, key=_sort_key)


def _count(make_batch: Callable, *intervals: tuple[int, int]) -> int:
    rows = [{"request_key": 7, "start_ns": start, "end_ns": end} for start, end in intervals]
    return len(join(make_batch(rows)))


@pytest.mark.parametrize(
    ("intervals", "requests"),
    [
        (((0, 10), (5, 15)), 1),
        (((0, 10), (2, 3)), 1),
        (((0, 10), (9, 20)), 1),
        (((0, 10), (10, 20)), 2),
        (((0, 10), (11, 20)), 2),
        (((0, 10), (5, 15), (14, 20)), 1),
        (((0, 30), (1, 2), (20, 25)), 1),
        (((14, 20), (0, 10), (5, 15)), 1),
        (((0, 10), (20, 30), (25, 26), (30, 31)), 3),
        (((5, 5), (5, 5)), 1),
        (((5, 5), (5, 9)), 1),
        (((0, 5), (5, 5)), 2),
        (((0, 6), (5, 5)), 1),
        (((0, 5), (5, 5), (5, 9)), 2),
    ],
)
def test_overlap_makes_one_request_of_an_id(
    make_batch: Callable, intervals: tuple[tuple[int, int], ...], requests: int
) -> None:
    """Overlap counts through others, ends are open, equal starts overlap however short they are."""
    assert _count(make_batch, *intervals) == requests
    assert _count(make_batch, *reversed(intervals)) == requests


def test_requests_without_an_id_never_join(make_batch: Callable) -> None:
    """No id is no common id."""
    assert len(join(make_batch([{"start_ns": 0, "end_ns": 9}] * 3))) == 3


def test_other_ids_never_join(make_batch: Callable) -> None:
    """Overlap alone makes no request."""
    rows = [{"request_key": key, "start_ns": 0, "end_ns": 9} for key in (1, 2, 1)]
    assert sorted(join(make_batch(rows)).request_key.tolist()) == [1, 2]


def test_children_of_one_request_combine(make_batch: Callable) -> None:
    """The first token of any, the last end of all, the prompt once, completions summed."""
    child = {"request_key": 7, "start_ns": 100, "prompt_tokens": 40, "model": "m"}
    rows = [
        {**child, "end_ns": 300, "queue": 5, "ttft": 30, "e2e": 200, "inter_token": 4, "completion_tokens": 10},
        {**child, "end_ns": 350, "queue": 6, "ttft": 20, "e2e": 250, "inter_token": 3, "completion_tokens": 12},
        {**child, "end_ns": 310, "e2e": 210, "completion_tokens": None},
    ]
    joined = join(make_batch(rows))
    assert (len(joined), joined.start_ns[0], joined.end_ns[0], joined.model.at(0)) == (1, 100, 350, "m")
    found = {name: int(joined.number(name)[0]) for name in FIELDS}
    expected = {"queue": 5, "ttft": 20, "e2e": 250, "inter_token": 4, "prompt_tokens": 40, "completion_tokens": 22}
    assert found == dict.fromkeys(FIELDS, MISSING) | expected


def test_two_layers_of_a_client_tell_of_the_same_tokens(make_batch: Callable) -> None:
    """Only the children of a server made tokens of their own."""
    layers = [{"request_key": 7, "start_ns": 0, "end_ns": 9, "completion_tokens": n} for n in (10, 12)]
    for view, tokens in ((View.SERVER, 22), (View.GATEWAY, 12), (View.CLIENT, 12)):
        joined = join(make_batch([{**layer, "view": view} for layer in layers]))
        assert joined.number("completion_tokens").tolist() == [tokens]


def test_an_error_is_not_hidden_by_a_sibling_that_was_cancelled(make_batch: Callable) -> None:
    """The worst outcome of the children is the request's: an error spends budget."""
    outcomes = (Outcome.OK, Outcome.CANCELLED, Outcome.ERROR, Outcome.CANCELLED)
    rows = [{"request_key": 7, "start_ns": 0, "end_ns": 9, "outcome": outcome} for outcome in outcomes]
    assert join(make_batch(rows)).outcome.tolist() == [Outcome.ERROR]


def test_joining_twice_changes_nothing(make_batch: Callable) -> None:
    """A joined batch has one row per request."""
    random = Random(3)
    joined = join(make_batch([_random_row(random) for _ in range(40)]))
    again = join(joined)
    assert sorted(_records(again), key=_sort_key) == sorted(_records(joined), key=_sort_key)


def test_a_repeated_span_counts_once_and_first_wins(make_batch: Callable) -> None:
    """Rows keep their order."""
    rows = [{"fingerprint": mark, "end_ns": end} for mark, end in ((9, 1), (4, 2), (9, 3), (5, 4), (4, 5))]
    assert without_repeats(make_batch(rows)).end_ns.tolist() == [1, 2, 4]
    unique = make_batch(rows[:2])
    assert without_repeats(unique) is unique


def test_the_order_of_spans_in_an_export_does_not_matter(make_batch: Callable) -> None:
    """Any order of the same spans makes the same requests."""
    random = Random(11)
    rows = [_random_row(random) for _ in range(25)]
    orders: dict[str, int] = defaultdict(int)
    for _ in range(5):
        random.shuffle(rows)
        orders[repr(sorted(_records(join(make_batch(rows))), key=_sort_key))] += 1
    assert len(orders) == 1


def test_an_empty_batch_stays_empty(make_batch: Callable) -> None:
    """Nothing joins to nothing."""
    empty = make_batch([{}]).take(np.zeros(0, dtype=np.int64))
    assert len(join(empty)) == 0
    assert len(without_repeats(empty)) == 0
