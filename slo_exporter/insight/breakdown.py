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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slo_exporter.insight.cells import Cells
from slo_exporter.insight.figures import Breakdown, Figures, Flag, Group, Question, Spread, Stage
from slo_exporter.insight.observations import INNER, ORIGINS, STAGES, Measure
from slo_exporter.insight.stages import Reading
from slo_exporter.insight.tallies import LEFT_OUT, Sets, Tally, requests_in, tallies
from slo_exporter.sli.records import View

MOST_GROUPS: Final = 100
"""Most groups of one answer: those with the most requests."""
_BY_SPECIFICITY: Final = (View.SERVER, View.GATEWAY, View.CLIENT)


def breakdown(reading: Reading, question: Question) -> Breakdown:
    """Answer *question* from what was read for it; about 20 ns a cell."""
    sets = Sets.of(reading.labels, question)
    with_parts = question.model is None
    by_view = tallies(reading.cells, sets.of_views(with_parts=with_parts), len(View), ORIGINS)
    view = question.view if question.view is not None else _first_withrequests_in(by_view)
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


def _first_withrequests_in(by_view: Sequence[Tally]) -> View:
    return next((view for view in _BY_SPECIFICITY if by_view[view].count(Measure.E2E)), View.SERVER)


def _groups(cells: Cells, sets: Sets, question: Question) -> tuple[tuple[Group, ...], bool]:
    """The groups with the most requests, and whether there are more."""
    if not question.by or not len(sets.codes):
        return (), False
    table, labels = sets.of_groups(question)
    requests = requests_in(cells, table, len(labels))
    # Those of equal size stay in the order of their labels.
    order = np.argsort(-requests, kind="stable")[: np.count_nonzero(requests)]
    shown = order[:MOST_GROUPS]
    rank = np.full(len(labels) + 1, LEFT_OUT, dtype=np.int64)
    rank[shown] = np.arange(len(shown))
    # The last entry answers for what is left out.
    of_groups = tallies(cells, rank[table], len(shown), ORIGINS if question.takes_parts else 1)
    groups = (Group(labels[at], _figures(tally)) for at, tally in zip(shown.tolist(), of_groups, strict=True))
    return tuple(groups), len(order) > len(shown)


@dataclass(slots=True)
class _Chosen:
    """The distribution that stands for each stage, and which of them came apart from the requests."""

    spreads: dict[Measure, Spread] = field(default_factory=dict)
    apart: set[Measure] = field(default_factory=set)

    @classmethod
    def of(cls, tally: Tally) -> "_Chosen":
        chosen = cls()
        for measure in (*STAGES, *INNER):
            chosen._choose(tally, measure)
        chosen._sum_inference(tally)
        return chosen

    def _choose(self, tally: Tally, measure: Measure) -> None:
        own, parts = tally.count(measure), tally.count(measure, 1)
        if parts and tally.fits(own + parts):
            self.apart.add(measure)
            self.spreads[measure] = tally.added(measure)
            return
        if parts and parts >= own:
            self.apart.add(measure)
        self.spreads[measure] = tally.spread(measure, int(measure in self.apart))

    def _sum_inference(self, tally: Tally) -> None:
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


def _figures(tally: Tally) -> Figures:
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


def _unaccounted(tally: Tally, chosen: _Chosen, left_ns: float) -> Spread:
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
