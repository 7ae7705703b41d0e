"""
From records to good and total events per SLO and time slice.

Rules of this module:

1. Masks over columns, never a loop over requests.
2. What several SLOs ask of a batch is computed once.
3. Integers only: a `Delta` adds up exactly, in any order.
"""

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce, update_wrapper
from typing import Concatenate, Final, ParamSpec

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.condition import Clause
from slo_exporter.sli.indicator import Indicator, Rule, Selector
from slo_exporter.sli.records import MISSING, Ints, Mask, Outcome, RequestBatch

SLICE_S: Final = 5
"""Width of the finest time slice, in seconds (docs/laws.md, law 4)."""
SLICE_NS: Final = SLICE_S * 10**9

GOOD, TOTAL, EXCLUDED = 0, 1, 2
"""Columns of every array of counts."""

Clauses = tuple[Clause, ...]
Rules = tuple[Rule, ...]
"""The rule of each `Outcome`, in their order."""

COMPARE: Final[Mapping[str, Callable[[NDArray[np.int64], int], Mask]]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Delta:
    """Counts to add: for k touched slices and s SLOs."""

    slices: Ints
    """Shape (k,): slice starts in seconds since the epoch, ascending, distinct."""
    counts: Ints
    """Shape (k, s, 3): good, total, excluded."""
    newest_ns: Ints
    """Shape (s,): end of the newest good or bad event; `MISSING` where none."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What decides which requests an indicator judges; its thresholds decide the rest."""

    selector: Selector
    rules: Rules
    on_outcome: Clauses
    fields: tuple[str, ...]
    """Fields that must be known."""


@dataclass(frozen=True, slots=True)
class Framed:
    """A batch as all indicators of one frame see it."""

    judged: Mask
    """Requests that the condition decides."""
    total: Ints
    """Good and bad requests per slice."""
    excluded: Ints
    """Excluded requests per slice."""
    newest_ns: int
    """End of the newest good or bad one; `MISSING` if there is none."""


class Plan:
    """
    How to count for some indicators: what they share is computed once a batch.

    Args:
        indicators: their order is that of the SLOs in every `Delta`. Those on
            time slices are left out: their counts stay 0.
    """

    def __init__(self, indicators: Sequence[Indicator]) -> None:
        frames = {
            column: _frame(indicator, indicator.selector)
            for column, indicator in enumerate(indicators)
            if indicator.timeslice_s is None and isinstance(indicator.selector, Selector)
        }
        self._width = len(indicators)
        self._frames = tuple(dict.fromkeys(frames.values()))
        self._columns = tuple(
            (column, self._frames.index(frame), indicators[column].good.clauses) for column, frame in frames.items()
        )

    def count(self, batch: RequestBatch) -> Delta:
        """Count a batch."""
        batch = batch.take(np.argsort(batch.end_ns, kind="stable"))
        slices, first = np.unique(batch.end_ns // SLICE_NS * SLICE_S, return_index=True)
        counts = np.zeros((len(slices), self._width, 3), dtype=np.int64)
        newest = np.full(self._width, MISSING, dtype=np.int64)
        masks = Masks(batch)
        framed = [_look(masks, frame, first) for frame in self._frames]
        for column, frame, clauses in self._columns:
            seen = framed[frame]
            good = reduce(operator.and_, map(masks.holds, clauses), seen.judged)
            counts[:, column, GOOD] = per_slice(good, first)
            counts[:, column, TOTAL] = seen.total
            counts[:, column, EXCLUDED] = seen.excluded
            newest[column] = seen.newest_ns
        return Delta(slices, counts, newest)


def rules_of(indicator: Indicator) -> Rules:
    """The rules of *indicator* in the order of outcomes."""
    return tuple(indicator.rules[outcome] for outcome in Outcome)


def _frame(indicator: Indicator, selector: Selector) -> Frame:
    condition = indicator.good
    return Frame(
        selector=selector,
        rules=rules_of(indicator),
        on_outcome=condition.on_outcome,
        fields=tuple(sorted({clause.field for clause in condition.on_numbers})),
    )


def _look(masks: "Masks", frame: Frame, first: Ints) -> Framed:
    """
    Split a batch into judged, ruled bad and excluded requests of one frame.

    An outcome that meets the clauses on ``outcome`` is decided by the
    condition; any other follows `Indicator.rules`. A missing field excludes.
    """
    selected = masks.selected(frame.selector)
    decided = masks.ruled(frame.rules, Rule.DECIDE)
    if frame.on_outcome:
        decided = decided | reduce(operator.and_, map(masks.holds, frame.on_outcome))
    judged = reduce(operator.and_, map(masks.known, frame.fields), selected & decided)
    counted = judged | (selected & ~decided & masks.ruled(frame.rules, Rule.BAD))
    return Framed(
        judged=judged,
        total=per_slice(counted, first),
        excluded=per_slice(selected & ~counted, first),
        newest_ns=last(masks.batch.end_ns, counted),
    )


_P = ParamSpec("_P")


def _once(method: Callable[Concatenate["Masks", _P], Mask]) -> Callable[Concatenate["Masks", _P], Mask]:
    """Make the mask for these arguments when first asked for, and keep it."""

    def kept(self: "Masks", /, *args: _P.args, **kwargs: _P.kwargs) -> Mask:
        key = (method.__name__, args)
        if key not in self.made:
            self.made[key] = method(self, *args, **kwargs)
        return self.made[key]

    update_wrapper(kept, method)
    return kept


class Masks:
    """The masks of one batch; what several SLOs ask for is made once."""

    def __init__(self, batch: RequestBatch) -> None:
        self.batch = batch
        self.made: dict[Hashable, Mask] = {}

    @_once
    def selected(self, selector: Selector) -> Mask:
        """Requests that *selector* is about."""
        mask: Mask = self.batch.view == selector.view
        if not any(key == "service.name" for key, _ in selector.matches):
            mask = mask & self.batch.service.among((selector.service,))
        for key, texts in selector.matches:
            mask = mask & self.batch.text(key).among(texts)
        return mask if selector.names_http else mask & ~self.batch.shadowed

    @_once
    def ruled(self, rules: Rules, rule: Rule) -> Mask:
        """Requests whose outcome has this rule."""
        ruled: Mask = np.array(rules)[self.batch.outcome] == rule
        return ruled

    @_once
    def fated(self, selector: Selector, rules: Rules, rule: Rule) -> Mask:
        """Requests of *selector* whose outcome has this rule."""
        return self.selected(selector) & self.ruled(rules, rule)

    def number(self, field: str) -> Ints:
        """The column of *field*."""
        return self.batch.number(field)

    @_once
    def known(self, field: str) -> Mask:
        """Requests whose *field* can be judged."""
        known: Mask = self.batch.number(field) != MISSING
        return known | self.one_token() if field == "inter_token" else known

    @_once
    def measured(self, field: str) -> Mask:
        """Requests that have a value of *field*: one token has no time between tokens."""
        measured: Mask = self.batch.number(field) != MISSING
        return measured & ~self.one_token() if field == "inter_token" else measured

    @_once
    def holds(self, clause: Clause) -> Mask:
        """Requests that satisfy *clause*; one with a missing field does not."""
        compare = COMPARE[clause.op]
        if clause.field == "outcome":
            return compare(self.batch.outcome.astype(np.int64), clause.bound)
        column = self.batch.number(clause.field)
        held: Mask = compare(column, clause.bound) & (column != MISSING)
        return held | self.one_token() if clause.field == "inter_token" else held

    @_once
    def one_token(self) -> Mask:
        """At most one output token: there is no gap between tokens to be slow."""
        tokens = self.batch.number("completion_tokens")
        few: Mask = (tokens != MISSING) & (tokens <= 1)
        return few


def per_slice(mask: Mask, first: Ints) -> Ints:
    """How many of *mask* from each of the rows *first* to the next; shape (k,)."""
    if len(first) == 1:
        return np.array([np.count_nonzero(mask)], dtype=np.int64)
    sums: Ints = np.add.reduceat(mask, first, dtype=np.int64) if len(first) else np.zeros(0, dtype=np.int64)
    return sums


def last(column: Ints, mask: Mask) -> int:
    """The value of the last row of *mask*, `MISSING` if it has none."""
    rows = np.flatnonzero(mask)
    return int(column[rows[-1]]) if rows.size else MISSING


def count(batch: RequestBatch, indicators: Sequence[Indicator]) -> Delta:
    """Count a batch for every indicator; the order of SLOs is theirs."""
    return Plan(indicators).count(batch)


def merged(one: Delta, other: Delta) -> Delta:
    """Both deltas, of the same SLOs, as one."""
    if not len(other.slices):
        return Delta(one.slices, one.counts, np.maximum(one.newest_ns, other.newest_ns))
    slices = np.union1d(one.slices, other.slices)
    counts = np.zeros((len(slices), *one.counts.shape[1:]), dtype=np.int64)
    for delta in (one, other):
        counts[np.searchsorted(slices, delta.slices)] += delta.counts
    return Delta(slices, counts, np.maximum(one.newest_ns, other.newest_ns))


def attribute_keys(indicators: Sequence[Indicator]) -> frozenset[str]:
    """Attribute keys that the selectors ask for."""
    selectors = [one.selector for one in indicators if isinstance(one.selector, Selector)]
    return frozenset(key for selector in selectors for key in selector.attribute_keys)
