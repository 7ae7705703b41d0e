"""Exponential histograms: bounds, buckets and quantiles."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.insight.histogram import BOUNDS_NS, BUCKETS, TOP_NS, Clamp, buckets_of, quantiles

SECOND = 10**9
HALF_MS = 500_000


def counted(durations: list[int]) -> np.ndarray:
    """The histogram of some durations."""
    return np.bincount(buckets_of(np.array(durations, dtype=np.int64)), minlength=BUCKETS)


def test_bounds_are_the_powers_rounded_down() -> None:
    """64 of them double, and each is the largest whole nanosecond that is not above its power."""
    for index, bound in zip(range(-702, 591), BOUNDS_NS.tolist(), strict=True):
        power = Fraction(2) ** (index + 1)
        assert Fraction(bound, SECOND) ** 64 <= power < Fraction(bound + 1, SECOND) ** 64


def test_the_range_is_half_a_millisecond_to_ten_minutes() -> None:
    """1,293 buckets: the first holds 0.5 ms, the last but one 600 s."""
    assert len(BOUNDS_NS) == BUCKETS - 1 == 1293
    assert buckets_of(np.array([HALF_MS, 600 * SECOND])).tolist() == [0, 1292]


def test_a_bound_belongs_to_its_bucket() -> None:
    """At every bound: one nanosecond less and the bound are in, one more is in the next."""
    every = np.arange(BUCKETS - 1)
    assert (buckets_of(BOUNDS_NS) == every).all()
    assert (buckets_of(BOUNDS_NS - 1) == every).all()
    assert (buckets_of(BOUNDS_NS + 1) == every + 1).all()


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50))
def test_buckets_are_those_of_a_search(durations: list[int]) -> None:
    """A table is only a guess; integers decide."""
    columns = np.array(durations, dtype=np.int64)
    assert (buckets_of(columns) == np.searchsorted(BOUNDS_NS, columns, side="left")).all()


@given(st.lists(st.integers(HALF_MS + 5_000, 600 * SECOND), min_size=1, max_size=200), st.integers(1, 100))
def test_quantiles_are_close_to_the_exact_ones(durations: list[int], percent: int) -> None:
    """Nearest rank, at most 0.55 % off."""
    exact = sorted(durations)[-(-len(durations) * percent // 100) - 1] / SECOND
    (found,) = quantiles(counted(durations), [percent])
    assert found is not None
    assert found.clamp is None
    assert found.seconds == pytest.approx(exact, rel=0.0055)


@given(st.lists(st.integers(0, 10**12), max_size=30), st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_histograms_merge(one: list[int], other: list[int]) -> None:
    """The sum of two is the histogram of both."""
    assert (counted(one) + counted(other) == counted(one + other)).all()


@pytest.mark.parametrize("duration", [0, 1, HALF_MS])
def test_what_is_too_short_to_tell_is_at_most(duration: int) -> None:
    """A quantile in the first bucket says so."""
    (found,) = quantiles(counted([duration]), [50])
    assert found is not None
    assert (found.clamp, found.seconds) == (Clamp.AT_MOST, pytest.approx(0.000504, abs=1e-6))


@pytest.mark.parametrize("duration", [603 * SECOND, 2**63 - 1])
def test_what_is_too_long_to_tell_is_at_least(duration: int) -> None:
    """A quantile beyond the bounds is 600 s or more."""
    (found,) = quantiles(counted([duration]), [99])
    assert found is not None
    assert (found.clamp, found.seconds) == (Clamp.AT_LEAST, TOP_NS / SECOND)


def test_without_a_duration_there_is_no_quantile() -> None:
    """Undefined is None, never 0."""
    assert quantiles(np.zeros(BUCKETS), [50, 99]) == (None, None)
