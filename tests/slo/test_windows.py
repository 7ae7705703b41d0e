from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.slo.windows import BURN_WINDOWS, GRIDS_S, Range, cells_of, duration_ns, grid_of, range_of

S = 10**9
DAY = 86400
NOW_S = 1_700_000_003


@pytest.mark.parametrize(
    ("seconds", "grid"),
    [
        *[(1, 5), (60, 5), (249, 5), (250, 5), (300, 5), (420, 5), (1499, 5)],
        *[(1500, 30), (1501, 30), (1800, 30), (2700, 30), (2999, 30)],
        *[(3000, 60), (3600, 60), (7200, 60), (14_999, 60)],
        *[(15_000, 300), (21_600, 300), (59_999, 300)],
        *[(60_000, 1200), (DAY, 1200), (179_999, 1200)],
        *[(180_000, 3600), (3 * DAY, 3600), (359_999, 3600)],
        *[(360_000, 7200), (7 * DAY, 7200), (30 * DAY, 7200), (100 * DAY, 7200)],
    ],
)
def test_a_window_begins_on_a_grid_of_two_percent(seconds: int, grid: int) -> None:
    """The largest grid that is at most 2 % of the window; the finest for very short ones."""
    assert grid_of(seconds) == grid


@pytest.mark.parametrize(
    ("seconds", "now_ns", "start", "end"),
    [
        (300, NOW_S * S, 1_699_999_700, 1_700_000_005),
        (420, NOW_S * S, 1_699_999_580, 1_700_000_005),
        (1800, NOW_S * S, 1_699_998_180, 1_700_000_005),
        (3600, NOW_S * S, 1_699_996_380, 1_700_000_005),
        (21_600, NOW_S * S, 1_699_978_200, 1_700_000_005),
        (DAY, NOW_S * S, 1_699_912_800, 1_700_000_005),
        (3 * DAY, NOW_S * S, 1_699_740_000, 1_700_000_005),
        (30 * DAY, NOW_S * S, 1_697_407_200, 1_700_000_005),
        (300, 1_700_000_000 * S, 1_699_999_700, 1_700_000_005),
        (300, 1_700_000_000 * S - 1, 1_699_999_695, 1_700_000_000),
        (300, 1_700_000_005 * S - 1, 1_699_999_700, 1_700_000_005),
        (3600, 1_700_000_040 * S, 1_699_996_440, 1_700_000_045),
        (3600, 1_700_000_040 * S - 1, 1_699_996_380, 1_700_000_040),
        (30 * DAY, 1_699_999_200 * S, 1_697_407_200, 1_699_999_205),
        (30 * DAY, 1_699_999_200 * S - 1, 1_697_400_000, 1_699_999_200),
    ],
)
def test_both_ends_of_a_window_are_what_the_law_says(seconds: int, now_ns: int, start: int, end: int) -> None:
    """`to` ends the slice that holds now; `from` is now − W rounded down to the grid."""
    assert range_of(seconds, now_ns) == Range(start, end)


def test_burn_windows_are_those_of_the_workbook() -> None:
    """Text and seconds agree."""
    assert {text: duration_ns(text) // S for text in BURN_WINDOWS} == BURN_WINDOWS
    assert list(BURN_WINDOWS) == ["5m", "30m", "1h", "2h", "6h", "1d", "3d"]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1ms", 10**6),
        ("90s", 90 * S),
        ("10m", 600 * S),
        ("36h", 129_600 * S),
        ("30d", 30 * DAY * S),
        ("4w", 28 * DAY * S),
    ],
)
def test_a_duration_is_a_whole_number_and_a_unit(text: str, nanoseconds: int) -> None:
    """Each unit has its length."""
    assert duration_ns(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    ["", "10", "m", "0m", "010m", "1.5h", "-1h", "1h30m", "10 m", "10M", "1y", "1us", "١m", "1m\n", "9" * 5000 + "s"],
)
def test_anything_else_is_no_duration(text: str) -> None:
    """The message says what a duration looks like."""
    with pytest.raises(ValueError, match="whole number and ms, s, m, h, d or w, such as 30d") as raised:
        duration_ns(text)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(("fine", "coarse"), list(pairwise(GRIDS_S)))
def test_slices_fold_when_fifty_of_the_next_width_old(fine: int, coarse: int) -> None:
    """A cell folds as its end gets 50 of its widths old, not a nanosecond sooner, and as a whole."""
    cell = 1_699_999_200  # a multiple of every width
    slices = np.arange(cell, cell + coarse, fine)
    whole_ns = (cell + coarse + 50 * coarse) * S
    assert set(cells_of(slices, whole_ns).tolist()) == {cell}
    assert cells_of(slices, whole_ns - 1).tolist() == slices.tolist()


@settings(deadline=None, max_examples=100)
@given(
    folded_ns=st.integers(1_700_000_000 * S, 1_700_100_000 * S),
    ahead_ns=st.sampled_from([0, 1, S, 60 * S]) | st.integers(0, 200 * DAY * S),
    align_s=st.sampled_from(GRIDS_S),
    off_ns=st.sampled_from([0, 1, -1]),
    seconds=st.sampled_from([50 * grid - 1 for grid in GRIDS_S]) | st.integers(5, 100 * DAY),
)
def test_no_edge_of_a_window_is_ever_inside_a_cell(
    folded_ns: int, ahead_ns: int, align_s: int, off_ns: int, seconds: int
) -> None:
    """Wherever slices are kept at one instant, a window of a later instant cuts none of them."""
    now_ns = max(folded_ns, (folded_ns + ahead_ns) // (align_s * S) * align_s * S + off_ns)
    span = range_of(seconds, now_ns)
    edges = np.array([span.start, span.end])
    assert cells_of(edges, folded_ns).tolist() == edges.tolist()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000_000), st.integers(0, 10_000_000), st.integers(0, 10_000_000))
def test_folding_in_steps_is_folding_at_once(age_s: int, first_s: int, second_s: int) -> None:
    """Cells of cells are the cells of the slices."""
    slices = np.array([1_700_000_000 - age_s // 5 * 5])
    first_ns, second_ns = (1_700_000_000 + first_s) * S, (1_700_000_000 + first_s + second_s) * S
    assert cells_of(cells_of(slices, first_ns), second_ns).tolist() == cells_of(slices, second_ns).tolist()
