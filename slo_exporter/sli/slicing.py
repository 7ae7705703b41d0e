"""
From records to the sums of time slices (docs/laws.md, law 5).

Rules of this module:

1. Sums only: the pieces of a slice add up to the same integers in any order,
   and saturate instead of overflowing.
2. A slice of an SLO is a vector: how many records, then the parts of each
   distinct aggregate in their sorted order, `PARTS` each.
3. Masks over columns, shared with `counting` and among SLOs.

Of requests here; of GPUs, with the same sums, in `gpu_slicing`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from slo_exporter.sli.condition import Aggregate, Clause
from slo_exporter.sli.indicator import Indicator, Rule, Selector
from slo_exporter.sli.masks import Masks, Rules, rules_of
from slo_exporter.sli.records import MISSING, Ints, Mask, RequestBatch

PARTS: Final = 2
"""Integers that an aggregate keeps; `rate` and `count` of records need none of their own."""

_SECOND_NS: Final = 10**9
_MOST: Final = np.int64(2**63 - 1)
_LOW: Final = np.int64(2**32 - 1)


@dataclass(frozen=True, slots=True)
class SliceSums:
    """What one batch adds to the time slices of one SLO."""

    starts: Ints
    """Shape (k,): starts of the slices in seconds since the epoch, ascending, distinct."""
    sums: Ints
    """Shape (k, `width_of`): element 0 counts the records, at least 1."""
    newest_ns: int
    """End of the newest record."""


def parts_of(aggregate: Aggregate) -> int:
    """How many integers *aggregate* keeps."""
    return PARTS if aggregate.fields else 0


def width_of(indicator: Indicator) -> int:
    """How many integers a slice of *indicator* keeps."""
    return 1 + sum(map(parts_of, indicator.good.distinct_aggregates))


def added(sums: Ints, more: Ints) -> Ints:
    """Sums together; none is negative, and what would overflow stays at the most."""
    total: Ints = sums + more
    return np.where(total < sums, _MOST, total)


class Look(Protocol):
    """A batch as clauses look at it: one mask over all rows each."""

    def number(self, field: str) -> Ints:
        """The column of *field*."""
        ...

    def known(self, field: str) -> Mask:
        """Rows whose *field* a percentile can judge."""
        ...

    def measured(self, field: str) -> Mask:
        """Rows that have a value of *field*."""
        ...

    def holds(self, clause: Clause) -> Mask:
        """Rows that satisfy *clause*."""
        ...


@dataclass(frozen=True, slots=True)
class Records:
    """A batch, ascending in time, as one SLO sees it."""

    look: Look
    judged: Mask
    """Records that the clauses are about."""
    bad: Mask
    """Records that are bad by their outcome."""
    first: Ints
    """The first row of each slice."""

    def tally(self, records: Mask, satisfying: Mask) -> tuple[Ints, Ints]:
        """Per slice how many *records*, and how many are *satisfying*."""
        return _per_slice(records, self.first), _per_slice(satisfying, self.first)

    def total(self, field: str, records: Mask) -> Ints:
        """Per slice the sum of *field* over *records*."""
        column = np.where(records, self.look.number(field), 0)
        high = np.add.reduceat(column >> 32, self.first)
        low = np.add.reduceat(column & _LOW, self.first)
        high += low >> 32
        total: Ints = np.where(high > _MOST >> 32, _MOST, (high << 32) | (low & _LOW))
        return total


@dataclass(frozen=True, slots=True)
class _Asked:
    """A time-slice SLO on requests."""

    row: int
    width_s: int
    selector: Selector
    rules: Rules
    aggregates: tuple[Aggregate, ...]


class SlicePlan:
    """
    How to sum requests for some indicators.

    Args:
        indicators: in the order of rows; those on requests one by one, and on GPUs, are left out.
    """

    def __init__(self, indicators: Sequence[Indicator]) -> None:
        self._asked = tuple(
            _Asked(row, one.timeslice_s, one.selector, rules_of(one), one.good.distinct_aggregates)
            for row, one in enumerate(indicators)
            if one.timeslice_s is not None and isinstance(one.selector, Selector)
        )

    def sum(self, batch: RequestBatch) -> dict[int, SliceSums]:
        """Sum a batch; by row, those alone that have records in it."""
        if not self._asked or not len(batch):
            return {}
        batch = batch.take(np.argsort(batch.end_ns, kind="stable"))
        masks = Masks(batch)
        cuts = {width: cut(batch.end_ns, width) for width in {asked.width_s for asked in self._asked}}
        return {asked.row: sums for asked in self._asked if (sums := _sums(asked, masks, *cuts[asked.width_s]))}


def cut(end_ns: Ints, width_s: int) -> tuple[Ints, Ints]:
    """Where the slices of *width_s* start, in seconds, and the first row of each; *end_ns* ascends."""
    starts, first = np.unique(end_ns // (width_s * _SECOND_NS) * width_s, return_index=True)
    return starts, first


def _sums(asked: _Asked, masks: Masks, starts: Ints, first: Ints) -> SliceSums | None:
    judged = masks.fated(asked.selector, asked.rules, Rule.DECIDE)
    bad = masks.fated(asked.selector, asked.rules, Rule.BAD)
    return summed(Records(masks, judged, bad, first), asked.aggregates, starts, masks.batch.end_ns)


def summed(records: Records, aggregates: Sequence[Aggregate], starts: Ints, end_ns: Ints) -> SliceSums | None:
    """What the *records* of a batch add to the slices from *starts*; None where there are none."""
    counted = records.judged | records.bad
    counts = _per_slice(counted, records.first)
    held = np.flatnonzero(counts)
    if not held.size:
        return None
    parts = [part for aggregate in aggregates if aggregate.fields for part in _parts(records, aggregate)]
    return SliceSums(starts[held], np.stack([counts, *parts], axis=1)[held], _last(end_ns, counted))


def _per_slice(mask: Mask, first: Ints) -> Ints:
    """How many of *mask* from each of the rows *first* to the next; shape (k,)."""
    if len(first) == 1:
        return np.array([np.count_nonzero(mask)], dtype=np.int64)
    sums: Ints = np.add.reduceat(mask, first, dtype=np.int64) if len(first) else np.zeros(0, dtype=np.int64)
    return sums


def _last(column: Ints, mask: Mask) -> int:
    """The value of the last row of *mask*, `MISSING` if it has none."""
    rows = np.flatnonzero(mask)
    return int(column[rows[-1]]) if rows.size else MISSING


def _parts(records: Records, aggregate: Aggregate) -> tuple[Ints, Ints]:
    return _PARTS[aggregate.function](records, aggregate)


def _percentile(records: Records, aggregate: Aggregate) -> tuple[Ints, Ints]:
    """Records, bad ones too, and those that satisfy the bound."""
    clause = _per_record(aggregate)
    known = records.judged & records.look.known(clause.field)
    return records.tally(known | records.bad, known & records.look.holds(clause))


def _extreme(records: Records, aggregate: Aggregate) -> tuple[Ints, Ints]:
    """Records with a value, and those that satisfy the bound."""
    clause = _per_record(aggregate)
    known = records.judged & records.look.measured(clause.field)
    return records.tally(known, known & records.look.holds(clause))


def _mean(records: Records, aggregate: Aggregate) -> tuple[Ints, Ints]:
    """Records with a value, and the sum of the values."""
    (field,) = aggregate.fields
    known = records.judged & records.look.measured(field)
    return _per_slice(known, records.first), records.total(field, known)


def _ratio(records: Records, aggregate: Aggregate) -> tuple[Ints, Ints]:
    """Both sums, over records that know both."""
    upper, lower = aggregate.fields
    known = records.judged & records.look.measured(upper) & records.look.measured(lower)
    return records.total(upper, known), records.total(lower, known)


def _flow(records: Records, aggregate: Aggregate) -> tuple[Ints, Ints]:
    """Records with a value, bad ones too, and the sum of the values."""
    (field,) = aggregate.fields
    known = (records.judged | records.bad) & records.look.measured(field)
    return _per_slice(known, records.first), records.total(field, known)


_PARTS: Final[Mapping[str, Callable[[Records, Aggregate], tuple[Ints, Ints]]]] = {
    **dict.fromkeys(("p50", "p90", "p95", "p99"), _percentile),
    **dict.fromkeys(("min", "max"), _extreme),
    "mean": _mean,
    "ratio": _ratio,
    "rate": _flow,
}


def _per_record(aggregate: Aggregate) -> Clause:
    """The comparison with the bound as a clause on one record; such bounds are whole."""
    return Clause(aggregate.fields[0], aggregate.op, int(aggregate.bound))
