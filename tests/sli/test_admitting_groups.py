"""Exports that share a commit are admitted as one only where that makes no difference."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.sli.admission import Admission, Admitted, Role, Roles
from slo_exporter.sli.records import MISSING, Layer, Outcome, RequestBatch, View, concat

SERVICES = ("chat", "rag", "edge")
NONE: Roles = frozenset()

Export = tuple[RequestBatch, Roles]


def _row(random: Random, mark: int, *, calm: bool, halves: bool) -> dict[str, object]:
    start = random.randrange(40) * 10**9
    row: dict[str, object] = {
        "fingerprint": mark if calm or random.random() < 0.9 else random.randrange(1, mark + 1),
        "start_ns": start,
        "end_ns": start + random.choice((0, 1, 3)) * 10**9,
        "request_key": random.choice((0, mark, mark + 10_000)) if calm else random.choice((0, mark, 7, 8)),
        "service": random.choice(SERVICES),
        "view": random.choice((View.SERVER, View.SERVER, View.GATEWAY)),
        "outcome": random.choice((Outcome.OK, Outcome.OK, Outcome.ERROR)),
        "layer": random.choice((Layer.ENGINE, Layer.HTTP, Layer.PLAIN, Layer.FRONT)),
        "completion_tokens": random.choice((None, 1, 9)),
        "prompt_tokens": random.choice((None, 300)),
    }
    if not calm and random.random() < 0.2:
        row["layer"] = Layer.PREFILL
    if halves:
        layer = random.choice((Layer.PREFILL, Layer.ENGINE))
        times = {"start_ns": 10**9, "end_ns": 2 * 10**9}
        return (
            row | times | {"layer": layer, "pair_key": random.choice((90, 91)), "prompt_tokens": 300, "request_key": 0}
        )
    # Of an HTTP row the key or the mark of an engine's, maybe of another export.
    if row["layer"] == Layer.HTTP:
        return row | {"pair_key": random.choice((0, max(1, mark - 1), max(1, mark - 3), 7))}
    return row | {"pair_key": mark + 50_000 if calm else random.choice((0, 90, 91, 92))}


def _group(random: Random, make_batch: Callable, mark: int) -> list[Export]:
    """Exports of one commit: some that have nothing to do with one another, some that have."""
    calm, halves, exports = random.random() < 0.7, random.random() < 0.2, []
    for _ in range(random.randrange(1, 5)):
        rows = []
        for _ in range(random.randrange(6)):
            mark += 1
            rows.append(_row(random, mark, calm=calm, halves=halves))
        batch = _as_decoded(make_batch(rows))
        roles = frozenset((random.choice(SERVICES), random.choice(tuple(Role))) for _ in range(random.random() < 0.15))
        exports.append((batch, roles))
    return exports


def _as_decoded(batch: RequestBatch) -> RequestBatch:
    """Without rows that one export never has: a span twice, or one id in intervals that overlap."""
    rows, marks, spans = [], set(), []
    for row in range(len(batch)):
        mark, key = int(batch.fingerprint[row]), int(batch.request_key[row])
        start, end = int(batch.start_ns[row]), int(batch.end_ns[row])
        meets = any(key == k and (start == s or (start < e and s < end)) for k, s, e in spans)
        if mark in marks or (key and meets):
            continue
        rows.append(row)
        marks.add(mark)
        spans.append((key, start, end))
    return batch.take(np.array(rows, dtype=np.int64))


def _told(several: list[Admitted]) -> tuple[object, ...]:
    """All that a commit hears of."""
    requests, behind = (concat([getattr(each, name) for each in several]) for name in ("requests", "behind"))
    return (
        requests.fingerprint.tolist(),
        requests.shadowed.tolist(),
        [requests.service.at(row) for row in range(len(requests))],
        [requests.number("completion_tokens")[row] for row in range(len(requests))],
        behind.fingerprint.tolist(),
        frozenset().union(*(each.roles for each in several)),
        sum(each.repeated_spans for each in several),
        sum(each.repeated_requests for each in several),
        {name: sum(each.repeated[name] for each in several) for name in SERVICES},
        sum(each.unlearnt_roles for each in several),
    )


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_group_is_its_exports_one_after_the_other(make_batch: Callable, seed: int) -> None:
    """Rows, their order and marks, what repeats and what is learnt; also after commits, and after what was refused."""
    random = Random(seed)
    together, apart, mark = Admission([]), Admission([]), 0
    for _ in range(8):
        exports = _group(random, make_batch, mark)
        mark += 20 * random.randrange(2)
        found = [together.admit(exports, 0)]
        assert _told(found) == _told([apart.admit([export], 0) for export in exports])
        end = Admission.keep if random.random() < 0.7 else Admission.undo
        end(together)
        end(apart)
        assert [len(seen) for seen in (together.spans, together.requests)] == [
            len(seen) for seen in (apart.spans, apart.requests)
        ]


@pytest.mark.parametrize("layer", [Layer.ENGINE, Layer.HTTP])
def test_exports_without_anything_in_common_are_one(make_batch: Callable, layer: Layer) -> None:
    """It is the usual case: nothing of it is looked at export by export."""
    rows = [[{"fingerprint": 10 * at + row, "layer": layer} for row in (1, 2)] for at in range(3)]
    admission = Admission([])
    group = admission._as_one([(make_batch(each), NONE) for each in rows])
    assert group is not None
    assert len(group) == 6


@pytest.mark.parametrize(
    "second",
    [
        {"fingerprint": 1},
        {"fingerprint": 2, "request_key": 5},
        {"fingerprint": 2, "layer": Layer.PREFILL},
    ],
)
def test_exports_that_touch_are_not_one(make_batch: Callable, second: dict[str, object]) -> None:
    """A span or an id of both, or what may be half of a request."""
    first = make_batch([{"fingerprint": 1, "request_key": 5}])
    assert Admission([])._as_one([(first, NONE), (make_batch([second]), NONE)]) is None


def test_a_failure_pairs_with_an_engine_of_its_own_export_alone(make_batch: Callable) -> None:
    """The same ids in another export of the commit are not looked at."""
    failed = {"layer": Layer.HTTP, "outcome": Outcome.ERROR, "fingerprint": 1, "pair_key": 9}
    engine = {"layer": Layer.ENGINE, "fingerprint": 2, "request_key": 9, "prompt_tokens": MISSING}
    apart = [(make_batch([failed]), NONE), (make_batch([engine]), NONE)]
    together = [(make_batch([failed, engine]), NONE), (make_batch([{"fingerprint": 3}]), NONE)]
    assert Admission([]).admit(apart, 0).requests.shadowed.tolist() == [False, False]
    assert Admission([]).admit(together, 0).requests.shadowed.tolist() == [True, False, False]
