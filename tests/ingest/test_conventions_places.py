"""Where keys stand in a column."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.ingest.otlp.conventions.places import first_places
from slo_exporter.sli.seen import mix

numbers = st.lists(st.integers(0, 40), max_size=60)


@given(numbers, numbers)
def test_the_first_of_equal_keys_is_found(keys: list[int], wanted: list[int]) -> None:
    """And nothing where there is none."""
    found = first_places(mix(np.array(keys, dtype=np.uint64)), mix(np.array(wanted, dtype=np.uint64)))
    assert found.tolist() == [keys.index(each) if each in keys else -1 for each in wanted]


@given(numbers, numbers)
def test_keys_may_share_a_place(keys: list[int], wanted: list[int]) -> None:
    """All of these stand in the first one."""
    found = first_places(np.array(keys, dtype=np.uint64), np.array(wanted, dtype=np.uint64))
    assert found.tolist() == [keys.index(each) if each in keys else -1 for each in wanted]
