"""The cells of a book added up, by what is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.insight import histogram
from slo_exporter.insight.cells import Cells
from slo_exporter.insight.figures import PERCENTS, Dimension, Question, Spread
from slo_exporter.insight.histogram import BUCKETS
from slo_exporter.insight.labels import Labels, cut
from slo_exporter.insight.observations import (
    BUCKET_BITS,
    GROUPS_PER_SET,
    MEASURE_BITS,
    ORIGINS,
    TOKEN_BUCKETS,
    Measure,
)
from slo_exporter.sli.records import Ints, View

Numbers: TypeAlias = NDArray[np.float64]

LEFT_OUT: Final = -1
"""In a table from groups to tallies: it belongs to none."""
_SLACK: Final = 100
"""A hundredth more stages than requests are still one a request: some requests are in another minute."""
_TOKENS: Final = len(TOKEN_BUCKETS)
_CELL_BITS: Final = MEASURE_BITS + BUCKET_BITS
_MEASURES: Final = len(Measure)
_MEASURE: Final = (1 << MEASURE_BITS) - 1
_CELL: Final = np.arange(1 << _CELL_BITS) // (1 << BUCKET_BITS) * BUCKETS + np.arange(1 << _CELL_BITS) % (
    1 << BUCKET_BITS
)
"""By measure and bucket as they stand in a key: its place where they are packed."""
_VIEWS: Final = tuple(view.name.lower() for view in View)


@dataclass(frozen=True, slots=True)
class Tally:
    """What was added up of some groups, for each origin that was asked for."""

    counts: Numbers
    """Shape (origins, measures, BUCKETS)."""
    sums_ns: Numbers
    """Shape (origins, measures)."""

    totals: Numbers
    """Shape (origins, measures): of all buckets."""

    def spread(self, measure: Measure, origin: int = 0) -> Spread:
        """The distribution of a measure, as one origin tells of it."""
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
        """How many observations of a measure there are."""
        return int(self.totals[origin, measure]) if origin < len(self.totals) else 0


@dataclass(frozen=True, slots=True)
class Sets:
    """Which groups of the book there are, and what each is of: one row a group, by its code."""

    codes: Ints
    models: tuple[str, ...]
    model: Ints
    view: Ints

    @classmethod
    def of(cls, labels: Mapping[Labels, int], question: Question) -> "Sets":
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
        table = np.full(int(self.codes.max(initial=-1)) + 2, LEFT_OUT, dtype=np.int64)
        table[self.codes[is_wanted]] = values[is_wanted]
        return table


def tallies(cells: Cells, table: Ints, size: int, origins: int) -> list[Tally]:
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
    return [Tally(*each) for each in every]


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


def requests_in(cells: Cells, table: Ints, size: int) -> Numbers:
    """How many requests each group has."""
    is_e2e = np.flatnonzero(cells.keys >> BUCKET_BITS & _MEASURE == Measure.E2E)
    at = np.take(table, cells.keys[is_e2e] >> _CELL_BITS, mode="clip")
    return _added(at, cells.counts[is_e2e], size)
