"""
From records to good and total events per SLO and time slice.

Rules of this module:

1. Masks over columns, never a loop over requests.
2. What several SLOs ask of a batch is computed once.
3. Integers only: a `Delta` adds up exactly, in any order.
"""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from slo_exporter.sli.condition import Clause
from slo_exporter.sli.indicator import Indicator, Rule, Selector
from slo_exporter.sli.ladders import WORTH_IT, Ladder, Places
from slo_exporter.sli.masks import Masks, Rules, rules_of
from slo_exporter.sli.records import MISSING, Ints, Mask, RequestBatch

SLICE_S: Final = 5
"""Width of the finest time slice, in seconds (docs/laws.md, law 4)."""
SLICE_NS: Final = SLICE_S * 10**9

GOOD, TOTAL, EXCLUDED = 0, 1, 2
"""Columns of every array of counts."""

Clauses = tuple[Clause, ...]


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

    @property
    def services(self) -> Iterable[str]:
        """Of which services its requests may be."""
        named = [texts for key, texts in self.selector.matches if key == "service.name"]
        return set(named[0]) if named else (self.selector.service,)


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


@dataclass(frozen=True, slots=True)
class _Counted:
    """The indicators of one frame."""

    frame: Frame
    columns: Ints
    """Of all of them."""
    singly: tuple[tuple[Clauses, Ints], ...]
    """Distinct conditions, and the columns of each."""
    ladders: tuple[tuple[Ladder, Clauses, Ints], ...]
    """Many bounds on one field beside the same clauses on ``outcome``, and the column of each."""


class Plan:
    """
    How to count for some indicators: what they share is computed once a batch.

    Args:
        indicators: their order is that of the SLOs in every `Delta`. Those on
            time slices are left out: their counts stay 0.
    """

    def __init__(self, indicators: Sequence[Indicator]) -> None:
        frames: dict[Frame, list[int]] = {}
        for column, indicator in enumerate(indicators):
            if indicator.timeslice_s is None and isinstance(indicator.selector, Selector):
                frames.setdefault(_frame(indicator, indicator.selector), []).append(column)
        self._width = len(indicators)
        self._by_service: dict[str, list[_Counted]] = {}
        for frame, columns in frames.items():
            counted = _counted(frame, {column: indicators[column].good.clauses for column in columns})
            for service in frame.services:
                self._by_service.setdefault(service, []).append(counted)

    def count(self, batch: RequestBatch) -> Delta:
        """Count a batch."""
        places, masks = Places.cut(batch.end_ns, SLICE_S), Masks(batch)
        delta = Delta(
            places.starts,
            np.zeros((len(places.starts), self._width, 3), dtype=np.int64),
            np.full(self._width, MISSING, dtype=np.int64),
        )
        concerned = (each for name in set(batch.service.values) for each in self._by_service.get(name, ()))
        for counted in {id(each): each for each in concerned}.values():
            framed = _look(masks, counted.frame, places)
            if framed is not None:
                _fill(delta, counted, framed, masks, places)
        return delta


def _fill(delta: Delta, counted: _Counted, framed: Framed, masks: Masks, places: Places) -> None:
    """Write the columns of one frame."""
    delta.counts[:, counted.columns, TOTAL] = framed.total[:, np.newaxis]
    delta.counts[:, counted.columns, EXCLUDED] = framed.excluded[:, np.newaxis]
    delta.newest_ns[counted.columns] = framed.newest_ns
    for clauses, columns in counted.singly:
        good = reduce(operator.and_, map(masks.holds, clauses), framed.judged)
        delta.counts[:, columns, GOOD] = places.tally(good)[:, np.newaxis]
    for ladder, clauses, columns in counted.ladders:
        judged = reduce(operator.and_, map(masks.holds, clauses), framed.judged)
        delta.counts[:, columns, GOOD] = _climbed(ladder, judged, masks, places)


def _climbed(ladder: Ladder, judged: Mask, masks: Masks, places: Places) -> Ints:
    """How many of *judged* satisfy each clause of a ladder; shape (k, clauses)."""
    if ladder.field != "inter_token":
        return ladder.satisfying(masks.number(ladder.field), judged, places)
    one_token = masks.one_token()
    counts = ladder.satisfying(masks.number(ladder.field), judged & ~one_token, places)
    return counts + places.tally(judged & one_token)[:, np.newaxis]


def _frame(indicator: Indicator, selector: Selector) -> Frame:
    condition = indicator.good
    return Frame(
        selector=selector,
        rules=rules_of(indicator),
        on_outcome=condition.on_outcome,
        fields=tuple(sorted({clause.field for clause in condition.on_numbers})),
    )


def _counted(frame: Frame, conditions: dict[int, Clauses]) -> _Counted:
    """Put the conditions of one frame, by column, together as far as they share something."""
    distinct: dict[Clauses, list[int]] = {}
    for column, clauses in conditions.items():
        distinct.setdefault(clauses, []).append(column)
    on_one: dict[str, list[Clauses]] = {}
    for clauses in distinct:
        numbers = [clause.field for clause in clauses if clause.field != "outcome"]
        if len(numbers) == 1:
            on_one.setdefault(numbers[0], []).append(clauses)
    ladders = [_ladder(frame, distinct, every) for every in on_one.values() if len(every) >= WORTH_IT]
    climbed = {column for _, _, columns in ladders for column in columns.tolist()}
    singly = [(clauses, np.array(columns)) for clauses, columns in distinct.items() if columns[0] not in climbed]
    return _Counted(frame, np.array(list(conditions)), tuple(singly), tuple(ladders))


def _ladder(
    frame: Frame, columns: dict[Clauses, list[int]], conditions: Sequence[Clauses]
) -> tuple[Ladder, Clauses, Ints]:
    """A ladder of conditions with one clause on a number each; those of a frame share the clauses on ``outcome``."""
    steps = [(clause, columns[each]) for each in conditions for clause in each if clause.field != "outcome"]
    clauses = [clause for clause, those in steps for _ in those]
    return Ladder(clauses), frame.on_outcome, np.array([column for _, those in steps for column in those])


def _look(masks: Masks, frame: Frame, places: Places) -> Framed | None:
    """
    Split a batch into judged, ruled bad and excluded requests of one frame; None where it has none.

    An outcome that meets the clauses on ``outcome`` is decided by the
    condition; any other follows `Indicator.rules`. A missing field excludes.
    """
    selected = masks.selected(frame.selector)
    if not selected.any():
        return None
    decided = masks.ruled(frame.rules, Rule.DECIDE)
    if frame.on_outcome:
        decided = decided | reduce(operator.and_, map(masks.holds, frame.on_outcome))
    judged = reduce(operator.and_, map(masks.known, frame.fields), selected & decided)
    counted = judged | (selected & ~decided & masks.ruled(frame.rules, Rule.BAD))
    return Framed(
        judged=judged,
        total=places.tally(counted),
        excluded=places.tally(selected & ~counted),
        newest_ns=int(np.max(masks.batch.end_ns, where=counted, initial=MISSING)),
    )


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
