"""Packed rows: what goes in comes out, on the grids that memory has."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.windows import GRIDS_S, cells_of
from slo_exporter.store.errors import UnusableError
from slo_exporter.store.packing import CHUNK_CELLS, chunks_of, folded, pack, unpack

NOW_S = 1_796_040_000
INTS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.integers(0, CHUNK_CELLS - 1), st.tuples(INTS, INTS, INTS)), max_size=20))
def test_a_chunk_comes_back(cells: list[tuple[int, tuple[int, int, int]]]) -> None:
    """Every 64-bit count, exactly."""
    counts = np.zeros((CHUNK_CELLS, 3), dtype=np.int64)
    for cell, values in cells:
        counts[cell] = values

    assert np.array_equal(unpack([pack(counts), pack(-counts)]), [counts, -counts])


def test_no_chunks_are_no_chunks() -> None:
    """An empty database has none."""
    assert unpack([]).shape == (0, CHUNK_CELLS, 3)


@pytest.mark.parametrize("blob", [b"", b"not zlib", pack(np.zeros((CHUNK_CELLS, 3), dtype=np.int64))[:-1]])
def test_a_damaged_row_is_said_so(blob: bytes) -> None:
    """No counts are made up."""
    with pytest.raises(UnusableError, match="damaged"):
        unpack([blob])


@given(st.lists(st.integers(0, 40 * 86400), min_size=1), st.integers(0, 10**6), st.integers(0, 10**7))
def test_rows_are_folded_where_memory_folds_them(ages: list[int], first_s: int, then_s: int) -> None:
    """In one step or in two: a cell is where `cells_of` puts its slices."""
    starts = (NOW_S - np.array(ages, dtype=np.int64)) // 5 * 5
    fives = np.full(len(starts), 5, dtype=np.int64)
    first_ns, then_ns = (NOW_S + first_s) * SECOND_NS, (NOW_S + first_s + then_s) * SECOND_NS

    grids, once = folded(fives, starts, first_ns)
    _, twice = folded(grids, once, then_ns)

    assert np.array_equal(once, cells_of(starts, first_ns))
    assert np.array_equal(twice, cells_of(starts, then_ns))
    assert not np.any(once % grids)


@given(st.integers(0, 2 * 10**9), st.sampled_from(GRIDS_S))
def test_a_cell_is_in_its_chunk(instant_s: int, grid: int) -> None:
    """And the chunk is as wide as 120 cells."""
    start = instant_s // grid * grid
    (chunk,) = chunks_of(np.array([grid]), np.array([start])).tolist()

    assert 0 <= start - chunk < CHUNK_CELLS * grid
    assert chunk % (CHUNK_CELLS * grid) == 0
