"""Many slices at once: as if they had come one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.sli.counting import Delta
from slo_exporter.slo.timeline import Timeline
from slo_exporter.slo.windows import Range

_slices = st.dictionaries(
    st.integers(0, 300).map(lambda n: 5 * n), st.lists(st.integers(-9, 9), min_size=6, max_size=6)
)


@given(_slices, _slices)
def test_loading_is_adding(loaded: dict[int, list[int]], later: dict[int, list[int]]) -> None:
    """And what comes later is added to it."""
    at_once, one_by_one = Timeline(2), Timeline(2)
    starts = np.array(sorted(loaded), dtype=np.int64)
    counts = np.array([loaded[start] for start in starts.tolist()], dtype=np.int64).reshape(-1, 2, 3)

    at_once.load(starts, counts)
    one_by_one.add(Delta(starts, counts, np.zeros(2, dtype=np.int64)))
    for start, one in later.items():
        delta = Delta(np.array([start]), np.array(one).reshape(1, 2, 3), np.zeros(2, dtype=np.int64))
        at_once.add(delta)
        one_by_one.add(delta)

    for span in (Range(0, 2000), Range(500, 1000), Range(5, 10), Range(0, 0)):
        assert np.array_equal(at_once.between(span), one_by_one.between(span))
    assert np.array_equal(at_once.total, one_by_one.total)
    assert len(at_once) == len(one_by_one)
