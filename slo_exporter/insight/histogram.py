"""
Base-2 exponential histograms of durations, for quantiles of any window.

Rules of this module:

1. Scale 6: bounds are the powers of 2^(1/64) s, each bucket holds its upper one.
   They are those of OpenTelemetry's exponential histograms of seconds at that
   scale, so counts of both could be added.
2. Bounds are whole nanoseconds, rounded down: no duration lies between the
   exact bound and ours, so every one is in the bucket it belongs to.
3. What lies outside is in the first or the last bucket, and a quantile there
   says so. Missing has no bucket.

Source: OpenTelemetry specification, Metrics Data Model, ExponentialHistogram.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isqrt, sqrt
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.insight.steps import Floats, Steps
from slo_exporter.sli.records import Ints

SCALE: Final = 6
"""Buckets are 2^(2^-SCALE) wide, and their middles at most 0.55 % from what is in them."""
TOP_NS: Final = 600 * 10**9
"""What a quantile beyond all bounds is at least: the longest that clients wait for."""

_SECOND_NS: Final = 10**9
_PER_OCTAVE: Final = 1 << SCALE
_FIRST: Final = -702
"""Index of the first bucket: 0.5 ms is in it, 2^(-702/64) s < 0.5 ms."""
_LAST: Final = 590
"""Index of the last bucket with an upper bound: 600 s is in it."""


def _bound_ns(index: int) -> int:
    """The upper bound of a bucket, ⌊2^((index + 1) / 64) s⌋, by integers alone."""
    power, shift = pow(_SECOND_NS, _PER_OCTAVE), index + 1
    root: int = power << shift if shift >= 0 else power >> -shift
    for _ in range(SCALE):  # a root of a root rounded down is the root rounded down
        root = isqrt(root)
    return root


BOUNDS_NS: Final[Ints] = np.array([_bound_ns(index) for index in range(_FIRST, _LAST + 1)], dtype=np.int64)
"""Upper bounds of all buckets but the last, ascending; the first bucket begins at 0."""
BUCKETS: Final = len(BOUNDS_NS) + 1
"""1,293 buckets from 0.5 ms to 600 s, and one beyond."""
_STEPS: Final = Steps(BOUNDS_NS)


class Clamp(StrEnum):
    """What is known of a quantile outside the range."""

    AT_MOST = "<="
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Quantile:
    """A duration that was read from a histogram."""

    seconds: float
    clamp: Clamp | None = None
    """None: within 0.55 % of the exact one."""


def buckets_of(durations_ns: Ints, floats: Floats | None = None) -> Ints:
    """The bucket of each duration, whatever where one is negative; *floats* are the same where somebody has them."""
    return _STEPS.of(durations_ns, floats)


def quantiles(counts: NDArray[Any], percents: Sequence[int]) -> tuple[Quantile | None, ...]:
    """
    The nearest rank of each percentage: the least duration that so many of all do not exceed.

    Args:
        counts: of every bucket, shape (BUCKETS,).
        percents: from 1 to 100.

    Returns:
        The geometric middle of each one's bucket; None without a duration.
    """
    below = np.cumsum(counts)
    total = int(below[-1])
    if not total:
        return (None,) * len(percents)
    ranks = [-(-total * percent // 100) for percent in percents]
    return tuple(map(_of_bucket, np.searchsorted(below, ranks, side="left").tolist()))


def _of_bucket(bucket: int) -> Quantile:
    if bucket == 0:
        return Quantile(int(BOUNDS_NS[0]) / _SECOND_NS, Clamp.AT_MOST)
    if bucket == BUCKETS - 1:
        return Quantile(TOP_NS / _SECOND_NS, Clamp.AT_LEAST)
    return Quantile(sqrt(int(BOUNDS_NS[bucket - 1]) * int(BOUNDS_NS[bucket])) / _SECOND_NS)
