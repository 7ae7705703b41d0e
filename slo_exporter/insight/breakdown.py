"""
Where the time goes: the share of each stage, from sums, and its quantiles.

Rules of this module:

1. A share is Σ stage / Σ e2e. Quantiles of stages do not add up and are no base
   of it.
2. Unaccounted is Σ e2e − Σ stages, never below 0; where it would be, the flag
   `over_accounted` says so.
3. Stage times whose request came in another export are added to the requests'
   own as long as there are no more of both than requests, but for 1 %: they are
   of requests that do not say. Beyond that they tell the same twice, and stand in
   place of the requests' own if there are at least as many: they are more
   specific. They know neither model nor token counts, so they are left out where
   either is asked for.
4. Inference takes in the prefill and decode that came so, by the same rule. Of
   such a sum there are no quantiles, nor of unaccounted: nobody knows which times
   were one request's.
5. One view at a time, as requests are counted; only groups by view show several.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.insight import histogram
from slo_exporter.insight.histogram import BUCKETS, Quantile
from slo_exporter.insight.labels import Labels, cut
from slo_exporter.insight.observations import (
    BUCKET_BITS,
    GROUPS_PER_SET,
    INNER,
    MEASURE_BITS,
    ORIGINS,
    STAGES,
    TOKEN_BUCKETS,
    Measure,
)
from slo_exporter.insight.stages import Cells, Reading
from slo_exporter.sli.records import Ints, View

Numbers: TypeAlias = NDArray[np.float64]

MOST_GROUPS: Final = 100
"""Most groups of one answer: those with the most requests."""
UNACCOUNTED: Final = Measure.UNACCOUNTED.field
"""Name of the stage that is none: what no stage explains."""
PERCENTS: Final = (50, 95, 99)
"""The quantiles that are shown."""

_SLACK: Final = 100
"""A hundredth more stages than requests are still one a request: some requests are in another minute."""
_SECOND_NS: Final = 10**9
_TOKENS: Final = len(TOKEN_BUCKETS)
_CELL_BITS: Final = MEASURE_BITS + BUCKET_BITS
_MEASURES: Final = len(Measure)
_MEASURE: Final = (1 << MEASURE_BITS) - 1
_CELL: Final = np.arange(1 << _CELL_BITS) // (1 << BUCKET_BITS) * BUCKETS + np.arange(1 << _CELL_BITS) % (
    1 << BUCKET_BITS
)
"""By measure and bucket as they stand in a key: its place where they are packed."""
_LEFT_OUT: Final = -1
_VIEWS: Final = tuple(view.name.lower() for view in View)
_BY_SPECIFICITY: Final = (View.SERVER, View.GATEWAY, View.CLIENT)


class Dimension(StrEnum):
    """What requests can be grouped by."""

    MODEL = "model"
    VIEW = "view"
    PROMPT_TOKENS = "prompt_tokens"
    COMPLETION_TOKENS = "completion_tokens"


class Flag(StrEnum):
    """What a reader of the numbers must know."""

    OVER_ACCOUNTED = "over_accounted"
    """Stages take longer than requests: something is counted twice, or in a wrong unit."""
    STAGES_APART = "stages_apart"
    """Some stages are of spans whose request came in another export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a service."""

    service: str
    window_s: int
    view: View | None = None
    """None: server, or the first of gateway and client that has requests where it has none."""
    model: str | None = None
    """Only this one, its name cut as labels are; None: all."""
    by: tuple[Dimension, ...] = ()

    @property
    def takes_parts(self) -> bool:
        """Its groups may take in what knows neither model nor token counts."""
        return self.model is None and set(self.by) <= {Dimension.VIEW}


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution of durations."""

    count: int = 0
    sum_ns: float = 0.0
    quantiles: tuple[Quantile | None, ...] = (None,) * len(PERCENTS)
    """At `PERCENTS`; None where there is no distribution, only a sum."""

    @property
    def seconds(self) -> float:
        """Their sum."""
        return self.sum_ns / _SECOND_NS

    @property
    def mean(self) -> float | None:
        """Seconds; None without any."""
        return self.seconds / self.count if self.count else None


@dataclass(frozen=True, slots=True)
class Stage:
    """What requests spend time on."""

    name: str
    share: float | None
    """Of Σ e2e; None where that is 0."""
    spread: Spread
    inner: tuple["Stage", ...] = ()
    """What it consists of, as far as known; shares are of Σ e2e too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Where the time of some requests goes."""

    requests: int
    """Those whose end to end time is known."""
    e2e: Spread
    stages: tuple[Stage, ...]
    """The largest share first, `unaccounted` among them; without requests none."""
    ttft: Spread | None
    inter_token: Spread | None
    flags: tuple[Flag, ...]
    over_accounted: int
    """Requests whose own stages are longer than they are; they have no unaccounted time."""


@dataclass(frozen=True, slots=True)
class Group:
    """The requests that agree in what was asked for."""

    labels: Mapping[Dimension, str]
    figures: Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Where the time of a service goes."""

    service: str
    view: View
    from_s: int
    to_s: int
    is_whole: bool
    """What is known reaches as far back as the window does."""
    figures: Figures
    groups: tuple[Group, ...] = ()
    """The most requests first."""
    is_truncated: bool = False
    """There are more than `MOST_GROUPS` groups."""
    hides: bool = False
    """See `Reading.hides`."""


def breakdown(reading: Reading, question: Question) -> Breakdown:
    """Answer *question* from what was read for it; about 20 ns a cell."""
    sets = _Sets.of(reading.labels, question)
    with_parts = question.model is None
    by_view = _tallies(reading.cells, sets.of_views(with_parts=with_parts), len(View), ORIGINS)
    view = question.view if question.view is not None else _first_with_requests(by_view)
    groups, is_truncated = _groups(reading.cells, sets, question)
    return Breakdown(
        service=question.service,
        view=view,
        from_s=reading.from_s,
        to_s=reading.to_s,
        is_whole=reading.is_whole,
        figures=_figures(by_view[view]),
        groups=groups,
        is_truncated=is_truncated,
        hides=reading.hides,
    )


@dataclass(frozen=True, slots=True)
class _Tally:
    """What was added up of some groups, for each origin that was asked for."""

    counts: Numbers
    """Shape (origins, measures, BUCKETS)."""
    sums_ns: Numbers
    """Shape (origins, measures)."""

    totals: Numbers
    """Shape (origins, measures): of all buckets."""

    def spread(self, measure: Measure, origin: int = 0) -> Spread:
        count = self.count(measure, origin)
        if not count:
            return Spread()
        quantiles = histogram.quantiles(self.counts[origin, measure], PERCENTS)
        return Spread(count, float(self.sums_ns[origin, measure]), quantiles)

    def added(self, measure: Measure) -> Spread:
        """Of both origins."""
        quantiles = histogram.quantiles(self.counts[:, measure].sum(axis=0), PERCENTS)
        return Spread(int(self.totals[:, measure].sum()), float(self.sums_ns[:, measure].sum()), quantiles)

    def fits(self, count: int) -> bool:
        """So many are at most one a request."""
        requests = self.count(Measure.E2E)
        return count <= requests + requests // _SLACK

    def count(self, measure: Measure, origin: int = 0) -> int:
        return int(self.totals[origin, measure]) if origin < len(self.totals) else 0


@dataclass(frozen=True, slots=True)
class _Sets:
    """Which groups of the book there are, and what each is of: one row a group, by its code."""

    codes: Ints
    models: tuple[str, ...]
    model: Ints
    view: Ints

    @classmethod
    def of(cls, labels: Mapping[Labels, int], question: Question) -> "_Sets":
        """The label sets that match the model."""
        model_asked = None if question.model is None else cut(question.model)
        wanted = {names: number for names, number in labels.items() if model_asked in (None, names[1])}
        models = tuple(sorted({names[1] for names in wanted}))
        numbers = np.array(list(wanted.values()), dtype=np.int64)
        codes = (numbers[:, None] * GROUPS_PER_SET + np.arange(GROUPS_PER_SET)).ravel()
        model = np.array([models.index(names[1]) for names in wanted], dtype=np.int64).repeat(GROUPS_PER_SET)
        view = np.array([_VIEWS.index(names[2]) for names in wanted], dtype=np.int64).repeat(GROUPS_PER_SET)
        return cls(codes, models, model, view)

    def of_views(self, *, with_parts: bool) -> Ints:
        """By code: the view."""
        return self._table(self.view, np.ones(len(self.codes), dtype=np.bool_), with_parts=with_parts)

    def of_groups(self, question: Question) -> tuple[Ints, list[Mapping[Dimension, str]]]:
        """By code: the group; and what each group is."""
        columns: dict[Dimension, tuple[Ints, Sequence[str]]] = {
            Dimension.MODEL: (self.model, self.models),
            Dimension.VIEW: (self.view, _VIEWS),
            Dimension.PROMPT_TOKENS: (self.codes // (ORIGINS * _TOKENS) % _TOKENS, TOKEN_BUCKETS),
            Dimension.COMPLETION_TOKENS: (self.codes // ORIGINS % _TOKENS, TOKEN_BUCKETS),
        }
        asked = {dimension: columns[dimension] for dimension in question.by}
        shape = [max(1, len(names)) for _, names in asked.values()]
        mixed = np.ravel_multi_index(tuple(column for column, _ in asked.values()), shape)
        distinct, groups = np.unique(mixed, return_inverse=True)
        labels: list[Mapping[Dimension, str]] = [
            {dimension: names[int(at)] for (dimension, (_, names)), at in zip(asked.items(), place, strict=True)}
            for place in zip(*np.unravel_index(distinct, shape), strict=True)
        ]
        is_wanted = self.view == question.view if question.view is not None else np.ones(len(groups), dtype=np.bool_)
        return self._table(groups, is_wanted, with_parts=question.takes_parts), labels

    def _table(self, values: Ints, is_wanted: NDArray[np.bool_], *, with_parts: bool) -> Ints:
        is_wanted = is_wanted if with_parts else is_wanted & (self.codes % ORIGINS == 0)
        # One more at the end, so that there is a code where nothing is known.
        table = np.full(int(self.codes.max(initial=-1)) + 2, _LEFT_OUT, dtype=np.int64)
        table[self.codes[is_wanted]] = values[is_wanted]
        return table


def _tallies(cells: Cells, table: Ints, size: int, origins: int) -> list[_Tally]:
    """
    Add up cells by what *table* says of their group.

    Args:
        cells: of any slots.
        table: by group, from 0 to *size*; negative where it is left out.
        size: how many tallies to make.
        origins: 1 if *table* leaves out what came apart from its request.
    """
    cell = _MEASURES * BUCKETS
    base = _based(table, origins, cell)
    at = np.take(base, cells.keys >> _CELL_BITS, mode="clip")
    at += np.take(_CELL, cells.keys & (len(_CELL) - 1))
    counts = _added(at, cells.counts, size * origins * cell)
    at = np.take(_based(table, origins, _MEASURES), cells.sum_keys >> MEASURE_BITS, mode="clip")
    at += (cells.sum_keys & _MEASURE).astype(np.int64)
    sums = _added(at, cells.sums_ns, size * origins * _MEASURES)
    shaped = counts.reshape(size, origins, _MEASURES, BUCKETS)
    every = zip(shaped, sums.reshape(size, origins, _MEASURES), shaped.sum(axis=-1), strict=True)
    return [_Tally(*each) for each in every]


def _based(table: Ints, origins: int, width: int) -> Ints:
    """Where the numbers of each group begin; far below 0 where it is left out."""
    place = table * origins + np.arange(len(table)) % origins
    return np.where(table < 0, -(1 << 40), place * width)


def _added(at: Ints, values: NDArray[Any], size: int) -> Numbers:
    """Sums of *values* by place; those below 0 are left out."""
    known = at >= 0
    if not known.all():
        at, values = at[known], values[known]
    return np.bincount(at, weights=values, minlength=size).astype(np.float64, copy=False)


def _first_with_requests(by_view: Sequence[_Tally]) -> View:
    return next((view for view in _BY_SPECIFICITY if by_view[view].count(Measure.E2E)), View.SERVER)


def _groups(cells: Cells, sets: _Sets, question: Question) -> tuple[tuple[Group, ...], bool]:
    """The groups with the most requests, and whether there are more."""
    if not question.by or not len(sets.codes):
        return (), False
    table, labels = sets.of_groups(question)
    requests = _requests(cells, table, len(labels))
    # Those of equal size stay in the order of their labels.
    order = np.argsort(-requests, kind="stable")[: np.count_nonzero(requests)]
    shown = order[:MOST_GROUPS]
    rank = np.full(len(labels) + 1, _LEFT_OUT, dtype=np.int64)
    rank[shown] = np.arange(len(shown))
    # The last entry answers for what is left out.
    tallies = _tallies(cells, rank[table], len(shown), ORIGINS if question.takes_parts else 1)
    groups = (Group(labels[at], _figures(tally)) for at, tally in zip(shown.tolist(), tallies, strict=True))
    return tuple(groups), len(order) > len(shown)


def _requests(cells: Cells, table: Ints, size: int) -> Numbers:
    """How many requests each group has."""
    is_e2e = np.flatnonzero(cells.keys >> BUCKET_BITS & _MEASURE == Measure.E2E)
    at = np.take(table, cells.keys[is_e2e] >> _CELL_BITS, mode="clip")
    return _added(at, cells.counts[is_e2e], size)


@dataclass(slots=True)
class _Chosen:
    """The distribution that stands for each stage, and which of them came apart from the requests."""

    spreads: dict[Measure, Spread] = field(default_factory=dict)
    apart: set[Measure] = field(default_factory=set)

    @classmethod
    def of(cls, tally: _Tally) -> "_Chosen":
        chosen = cls()
        for measure in (*STAGES, *INNER):
            chosen._choose(tally, measure)
        chosen._sum_inference(tally)
        return chosen

    def _choose(self, tally: _Tally, measure: Measure) -> None:
        own, parts = tally.count(measure), tally.count(measure, 1)
        if parts and tally.fits(own + parts):
            self.apart.add(measure)
            self.spreads[measure] = tally.added(measure)
            return
        if parts and parts >= own:
            self.apart.add(measure)
        self.spreads[measure] = tally.spread(measure, int(measure in self.apart))

    def _sum_inference(self, tally: _Tally) -> None:
        own, known = self.spreads[Measure.INFERENCE], [self.spreads[m] for m in INNER if self.spreads[m].count]
        if not self.apart.intersection(INNER):
            return
        apart = [tally.spread(measure, 1) for measure in INNER]
        most = max(spread.count for spread in apart)
        if own.count and Measure.INFERENCE not in self.apart and tally.fits(own.count + most):
            total = own.sum_ns + sum(spread.sum_ns for spread in apart)
            self.spreads[Measure.INFERENCE] = Spread(own.count + most, total)
        elif not own.count or len(known) == len(INNER):
            # A half of it is no better than what requests say of the whole.
            total = sum(spread.sum_ns for spread in known)
            whole = Spread(max(spread.count for spread in known), total)
            self.spreads[Measure.INFERENCE] = known[0] if len(known) == 1 else whole


def _figures(tally: _Tally) -> Figures:
    e2e, chosen = tally.spread(Measure.E2E), _Chosen.of(tally)
    left = e2e.sum_ns - sum(chosen.spreads[measure].sum_ns for measure in STAGES)
    # Sums of many numbers are rounded: no less than a billionth is anything.
    is_over = left < -1e-9 * e2e.sum_ns
    flags = {Flag.OVER_ACCOUNTED: is_over, Flag.STAGES_APART: bool(chosen.apart)}
    return Figures(
        requests=e2e.count,
        e2e=e2e,
        stages=tuple(_ranked(_stages(chosen, e2e, _unaccounted(tally, chosen, max(left, 0.0))))),
        ttft=_if_any(tally.spread(Measure.TTFT)),
        inter_token=_if_any(tally.spread(Measure.INTER_TOKEN)),
        flags=tuple(flag for flag, holds in flags.items() if holds),
        over_accounted=0 if chosen.apart else tally.count(Measure.OVER_ACCOUNTED),
    )


def _unaccounted(tally: _Tally, chosen: _Chosen, left_ns: float) -> Spread:
    own = tally.spread(Measure.UNACCOUNTED)
    return Spread(tally.count(Measure.E2E), left_ns) if chosen.apart else Spread(own.count, left_ns, own.quantiles)


def _stages(chosen: _Chosen, e2e: Spread, unaccounted: Spread) -> Iterator[Stage]:
    def stage(measure: Measure, spread: Spread, inner: Iterable[Measure] = ()) -> Stage:
        share = spread.sum_ns / e2e.sum_ns if e2e.sum_ns else None
        parts = [stage(part, chosen.spreads[part]) for part in inner if chosen.spreads[part].count]
        return Stage(measure.field, share, spread, tuple(_ranked(parts)))

    for measure in STAGES:
        if chosen.spreads[measure].count:
            yield stage(measure, chosen.spreads[measure], INNER if measure is Measure.INFERENCE else ())
    if e2e.count:
        yield stage(Measure.UNACCOUNTED, unaccounted)


def _ranked(stages: Iterable[Stage]) -> list[Stage]:
    return sorted(stages, key=lambda stage: -stage.spread.sum_ns)


def _if_any(spread: Spread) -> Spread | None:
    return spread if spread.count else None
