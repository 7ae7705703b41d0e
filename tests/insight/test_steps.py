"""Buckets without a search, and rows in runs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.insight.runs import Runs, ascending
from slo_exporter.insight.steps import Steps

numbers = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 2000))


@given(
    st.sets(st.integers(1, 2000), min_size=1, max_size=40),
    st.sampled_from([1, 999_983, 10**6, 2**41 - 1]),
    st.lists(numbers, max_size=40),
)
def test_steps_are_those_of_a_search(bounds: set[int], unit: int, values: list[int]) -> None:
    """Bounds are inclusive, beyond all of them is one more, and what is huge is there too."""
    ends = np.array(sorted(bounds), dtype=np.int64) * unit
    column = np.array([*values, *ends, *(ends + 1), *(ends - 1)], dtype=np.int64)
    expected = np.searchsorted(ends, column, side="left")
    assert (Steps(ends).of(column) == expected).all()
    assert (Steps(ends).of(column, column.astype(np.float64)) == expected).all()


def test_steps_of_a_table_are_a_table() -> None:
    """Whatever is negative has some step, and spoils no other."""
    found = Steps(np.array([10, 20], dtype=np.int64)).of(np.array([[10, 11, -(2**63)], [-1, 21, 2**63 - 1]]))
    assert found[0, :2].tolist() == [0, 1]
    assert found[1, 1:].tolist() == [2, 2]


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=60))
def test_an_order_is_stable(values: list[int]) -> None:
    """Be the values near each other or not."""
    assert ascending(np.array(values, dtype=np.int64)).tolist() == sorted(range(len(values)), key=values.__getitem__)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2**40)), min_size=1, max_size=40))
def test_runs_agree_with_a_loop(rows: list[tuple[int, int]]) -> None:
    """Of each run the sum, and whether any row has a number."""
    places, values = zip(*rows, strict=True)
    _, position = np.unique(places, return_inverse=True)
    runs = Runs.of(position, np.arange(len(rows)))
    (column,) = runs.columns([np.array(values, dtype=np.int64)])
    each = [[value for place, value in rows if place == run and value >= 0] for run in sorted(set(places))]
    assert runs.sums(np.maximum(column, 0.0)[np.newaxis]).tolist() == [[sum(known) for known in each]]
    assert runs.tell(column[np.newaxis]).tolist() == [[bool(known) for known in each]]
