"""The union of intervals, against counting every instant."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.ingest.otlp.conventions.numbers import LONGEST_NS
from slo_exporter.ingest.otlp.conventions.parts import requests_above, time_in_parts
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import MISSING
from slo_exporter.sli.texts import missing_texts

PARENTS = range(1, 4)
INTERVALS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20), st.integers(0, 20)), max_size=12)


def spans(ids: list[int], parents: list[int], starts: list[int], ends: list[int]) -> SpanBatch:
    """Spans of one trace."""
    rows = len(ids)
    small, texts = np.zeros(rows, dtype=np.uint8), missing_texts(rows)
    return SpanBatch(
        trace_id=np.full((rows, 2), 7, dtype=np.uint64),
        span_id=np.array(ids, dtype=np.uint64),
        parent_id=np.array(parents, dtype=np.uint64),
        start_ns=np.array(starts, dtype=np.int64),
        end_ns=np.array(ends, dtype=np.int64),
        kind=small,
        status=small,
        name=texts,
        scope=texts,
        service=texts,
        attributes={},
        resource={},
    )


def times(intervals: list[tuple[int, int, int]]) -> list[int]:
    """The time in parts of each of `PARENTS`."""
    requests = spans(list(PARENTS), [0] * 3, [0] * 3, [20] * 3)
    parents, starts, ends = ([interval[at] for interval in intervals] for at in range(3))
    return time_in_parts(requests, spans([9] * len(intervals), parents, starts, ends)).tolist()


@given(INTERVALS)
def test_each_instant_under_way_counts_once(intervals: list[tuple[int, int, int]]) -> None:
    """For each parent; missing without a child that ends no sooner than it starts."""
    own = {parent: [(s, e) for p, s, e in intervals if p == parent and s <= e] for parent in PARENTS}
    covered = {parent: len({at for s, e in pairs for at in range(s, e)}) for parent, pairs in own.items()}
    assert times(intervals) == [covered[parent] if own[parent] else MISSING for parent in PARENTS]


def test_an_absurd_time_is_missing() -> None:
    """Thirty-two years is a broken clock, as in an attribute."""
    assert times([(1, 0, LONGEST_NS - 1), (2, 0, LONGEST_NS)]) == [LONGEST_NS - 1, MISSING, MISSING]


def nearest(parents: list[int], requests: set[int], row: int) -> int:
    """Walk up from *row*; ids are rows + 1."""
    for _ in parents:
        row = parents[row] - 1
        if not 0 <= row < len(parents):
            return -1
        if row in requests:
            return row
    return -1


@given(st.lists(st.integers(0, 12), max_size=11), st.sets(st.integers(0, 10)))
def test_the_nearest_request_above_is_found(parents: list[int], requests: set[int]) -> None:
    """As by walking from parent to parent, circles and lost parents included."""
    rows = range(len(parents))
    requests &= set(rows)
    batch = spans([row + 1 for row in rows], parents, [0] * len(parents), [0] * len(parents))
    found = requests_above(batch, np.array(sorted(requests), dtype=np.int64))
    assert found.tolist() == [nearest(parents, requests, row) for row in rows]


def test_no_request_has_no_parts() -> None:
    """And no part no request."""
    nothing = spans([], [], [], [])
    assert time_in_parts(nothing, spans([9], [1], [0], [5])).tolist() == []
    assert times([]) == [MISSING] * 3
