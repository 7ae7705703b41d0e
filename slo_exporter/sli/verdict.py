"""
From the sums of a time slice to its verdict (docs/laws.md, law 5).

Whole numbers and fractions only: a bound that is met exactly is met.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final

from slo_exporter.sli.condition import PERCENTS, Aggregate
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.indicator import Empty, Indicator
from slo_exporter.sli.slicing import parts_of

LEAST_UP: Final = Fraction(9, 10)
"""A slice in which we were up for a smaller share says nothing good about the service."""

_SECOND_NS: Final = 10**9
_COMPARE: Final[Mapping[str, Callable[[Fraction, Fraction], bool]]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
_OF_EMPTY: Final[Mapping[Empty, bool | None]] = {Empty.NO_DATA: None, Empty.GOOD: True, Empty.BAD: False}


@dataclass(frozen=True, slots=True)
class Seen:
    """What one clause looks at in a slice."""

    records: int
    parts: Sequence[int]
    """What `slicing` keeps for the clause."""
    up_ns: int


class Judge:
    """
    Judges the slices of one indicator.

    Args:
        indicator: one on time slices.

    Attributes:
        width: how many integers a slice has, see `slicing.width_of`.
    """

    def __init__(self, indicator: Indicator) -> None:
        aggregates = indicator.good.distinct_aggregates
        ends = list(accumulate(map(parts_of, aggregates), initial=1))
        self.width = ends[-1]
        self._clauses = tuple(zip(aggregates, map(slice, ends, ends[1:]), strict=True))
        self._least_up_ns = (indicator.timeslice_s or 0) * _SECOND_NS * LEAST_UP
        self._empty = _OF_EMPTY[indicator.when_empty]
        # A GPU that failed tells of `up` alone, and would hide that failure by what it does not tell.
        self._is_bad_once_broken = isinstance(indicator.selector, GpuSelector)

    def verdict(self, sums: Sequence[int], up_ns: int) -> bool | None:
        """
        Judge a slice: True is good, False bad, None no data.

        Args:
            sums: Python integers in the layout of `slicing`.
            up_ns: for how much of the slice records could come in.
        """
        clauses = [(aggregate, Seen(sums[0], sums[part], up_ns)) for aggregate, part in self._clauses]
        if up_ns < self._least_up_ns:
            return False if any(_is_lost(*clause) for clause in clauses) else None
        held = [_holds(*clause) for clause in clauses]
        if self._is_bad_once_broken and False in held:
            return False
        return self._empty if None in held else all(held)


def _holds(aggregate: Aggregate, seen: Seen) -> bool | None:
    """Whether a clause holds; None when it has no value."""
    if aggregate.function in PERCENTS:
        return _percentile(aggregate, seen)
    if aggregate.function in ("min", "max"):
        return _extreme(aggregate, seen)
    value = _VALUES[aggregate.function](seen)
    return None if value is None else _COMPARE[aggregate.op](value, aggregate.bound)


def _percentile(aggregate: Aggregate, seen: Seen) -> bool | None:
    """
    Compare the value at nearest rank ceil(NN % × n).

    It is at most q when that many values are, and at least q when fewer are
    below q.
    """
    n, satisfying = seen.parts
    percent = PERCENTS[aggregate.function]
    if n == 0:
        return None
    if aggregate.op in ("<=", "<"):
        return 100 * satisfying >= percent * n
    return 100 * (n - satisfying) < percent * n


def _extreme(aggregate: Aggregate, seen: Seen) -> bool | None:
    n, satisfying = seen.parts
    if n == 0:
        return None
    return satisfying == n if _asks_all(aggregate) else satisfying > 0


def _asks_all(aggregate: Aggregate) -> bool:
    """``max(f) <= q`` and ``min(f) >= q`` are about every record, the others about some."""
    return (aggregate.function, aggregate.op[0]) in (("max", "<"), ("min", ">"))


def _mean(seen: Seen) -> Fraction | None:
    n, total = seen.parts
    return Fraction(total, n) if n else None


def _ratio(seen: Seen) -> Fraction | None:
    upper, lower = seen.parts
    return Fraction(upper, lower) if lower else None


def _rate(seen: Seen) -> Fraction | None:
    n, total = seen.parts or (seen.records, seen.records)
    return Fraction(total * _SECOND_NS, seen.up_ns) if n else None


def _count(seen: Seen) -> Fraction | None:
    return Fraction(seen.records) if seen.records else None


_VALUES: Final[Mapping[str, Callable[[Seen], Fraction | None]]] = {
    "mean": _mean,
    "ratio": _ratio,
    "rate": _rate,
    "count": _count,
}


def _is_lost(aggregate: Aggregate, seen: Seen) -> bool:
    """True when no record that we missed could make the clause hold."""
    if aggregate.function == "count":
        at_most = {"<=": operator.gt, "==": operator.gt, "<": operator.ge}.get(aggregate.op)
        return at_most is not None and at_most(seen.records, aggregate.bound)
    if aggregate.function in ("min", "max") and _asks_all(aggregate):
        n, satisfying = seen.parts
        return satisfying < n
    return False
