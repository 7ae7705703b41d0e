"""
One request, told of by spans of several layers that came in one export.

A gateway above an engine, the worker that prefilled beside the one that went
on, a client's library inside another: of the request spans of one view one
stands, and the others fill what it does not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import NOT_PREFILL, PREFILL, Inner
from slo_exporter.ingest.otlp.conventions.fields import Provenance, Provenances, derive
from slo_exporter.ingest.otlp.conventions.parts import requests_above
from slo_exporter.ingest.otlp.conventions.texts import hash64
from slo_exporter.ingest.otlp.halves import OF_FIRST_HALF, certain, halves, nearest, with_prefill
from slo_exporter.ingest.otlp.nesting import NOBODY, Every, may_nest, outermost
from slo_exporter.ingest.otlp.roles import Shown, all_roles, shown
from slo_exporter.ingest.otlp.siblings import with_answers
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.admission import FRONT_OF, Role, Roles
from slo_exporter.sli.joining import combined_values, shared_out, worst_outcomes
from slo_exporter.sli.records import MISSING, Ints, Layer, Mask, Outcome, RequestBatch
from slo_exporter.sli.texts import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapsed:
    """Which rows stand."""

    batch: RequestBatch
    """Every row, those that stand with what the others told."""
    owner: Ints
    """Per row the one that it belongs to, itself if it stands, or `NOBODY`."""
    shows: Shown
    """What this shows of services."""
    exports: Ints | None
    """The export of each row, see `SpanBatch.exports`."""
    is_flat: bool = False
    """Every row stands, one export after the other."""

    @property
    def roles(self) -> Roles:
        """The same, of one export."""
        return all_roles(self.shows)

    @property
    def stands(self) -> Mask:
        """The rows that are requests."""
        stands: Mask = self.owner == np.arange(len(self.owner))
        return stands

    @property
    def standing(self) -> Ints:
        """The same by number, one export after the other."""
        rows = np.flatnonzero(self.stands)
        return rows if self.exports is None else rows[np.argsort(self.exports[rows], kind="stable")]


def collapse(spans: SpanBatch, every: Every, told: Provenances | None = None) -> Collapsed:
    """
    Let one row of each request stand.

    Args:
        spans: of one export, or of several.
        every: their request spans.
        told: where each number comes from, by field; changed in place.
    """
    if _is_flat(every):
        return Collapsed(
            batch=every.batch, owner=np.arange(len(every.rows)), shows=Shown(), exports=every.exports, is_flat=True
        )
    every = replace(every, prefill=_prefill_below(spans, every))
    batch, owner = every.batch, np.arange(len(every.rows))
    shows = Shown()
    first, second = halves(every.batch, every.prefill, every.exports)
    if first.size:
        batch = with_prefill(batch, *nearest(batch, first, second), told)
        owner[first] = second
        shows |= _prefillers(every, first, second)
    if len(owner) > 1 and may_nest(every.conventions):
        outer, depth = outermost(spans, every)
        depth[first] = 0  # its other half has what it tells
        batch = _filled(every, batch, outer, depth, told)
        owner = outer[owner]
        shows |= _behind(every, outer)
    batch = _derived_late(spans, every, batch, told)
    is_alone = owner == np.arange(len(owner))
    owner[is_alone & (~every.says("counts") | certain(every.prefill))] = NOBODY
    batch = with_answers(spans, every.rows, batch, owner == np.arange(len(owner)))
    return Collapsed(batch=batch, owner=owner, shows=shows, exports=every.exports)


def _is_flat(every: Every) -> bool:
    """Whether all are of one convention that says no more of a request than a span: most exports are."""
    of_all = every.conventions[0]
    says_more = of_all.derives_late or not of_all.counts or of_all.layer is Layer.HTTP
    return len(every.conventions) == 1 and not says_more and not np.count_nonzero(every.prefill != NOT_PREFILL)


def _prefill_below(spans: SpanBatch, every: Every) -> NDArray[np.uint8]:
    """`Convention.prefill`: the engine of a worker that only prefills does just that."""
    workers = np.flatnonzero(certain(every.prefill))
    if not workers.size:
        return every.prefill
    is_engine = every.says("counts") & every.batch.is_engine
    is_below = requests_above(spans, every.rows[workers])[every.rows] >= 0
    return np.where(is_engine & is_below, np.uint8(PREFILL), every.prefill)


def _prefillers(every: Every, first: Ints, second: Ints) -> Shown:
    """Services that only prefilled; of one that does both, nothing is learnt."""
    service = every.batch.service
    apart = hash64(service)[first] != hash64(service)[second]
    return shown(service, every.exports, first[apart & ~certain(every.prefill)[first]], Role.PREFILL)


def _behind(every: Every, outer: Ints) -> Shown:
    """Services of engines that a row of another stands in front of."""
    shows = Shown()
    is_behind = (every.batch.layer[outer] == Layer.FRONT) & every.batch.is_engine
    for view, role in FRONT_OF.items():
        rows = np.flatnonzero(is_behind & (every.batch.view == view))
        shows |= shown(every.batch.service, every.exports, rows, role)
    return shows


def _filled(every: Every, batch: RequestBatch, outer: Ints, depth: Ints, told: Provenances | None) -> RequestBatch:
    """The batch with what outer rows do not know from those below them, the nearest first."""
    fields = {name: column.copy() for name, column in batch.fields.items()}
    _forget(every, fields, outer, depth)
    model, request_key, outcome = batch.model.codes.copy(), batch.request_key.copy(), batch.outcome.copy()
    for level in range(1, int(depth.max(initial=0)) + 1):
        answers, later = _answers(every, batch, outer, depth == level)
        rows = np.flatnonzero(answers)
        rows = rows[np.argsort(outer[rows], kind="stable")]
        owners, heads = np.unique(outer[rows], return_index=True)
        is_half = certain(every.prefill)[rows]
        for name, column in fields.items():
            tells = column[rows] if name in OF_FIRST_HALF else np.where(is_half, MISSING, column[rows])
            if name == "ttft":
                tells = np.where(tells == MISSING, MISSING, tells + later[rows])
            if name == "completion_tokens":
                tells = shared_out(tells, outer[rows], batch.request_key[rows])
            known = combined_values(name, tells, heads)
            is_new = (column[owners] == MISSING) & (known != MISSING)
            column[owners[is_new]] = known[is_new]
            if told is not None and is_new.any():
                told.setdefault(name, np.zeros(len(outer), dtype=np.uint8))[owners[is_new]] = Provenance.PART
        _first_known(request_key, rows, outer, 0)
        was_unknown = model < 0
        _first_known(model, rows, outer, -1)
        if told is not None:
            told["model"][was_unknown & (model >= 0)] = Provenance.PART
    _ask_inner(every, outcome, outer, depth)
    return replace(
        batch, fields=fields, model=Texts(batch.model.values, model), request_key=request_key, outcome=outcome
    )


def _forget(every: Every, fields: Mapping[str, Ints], outer: Ints, depth: Ints) -> None:
    """Leave to inner rows what they tell and an outer row tells less well."""
    for number, convention in enumerate(every.conventions):
        for name in convention.inner_first & fields.keys():
            column = fields[name]
            told_of = np.unique(outer[(depth > 0) & (column != MISSING)])
            column[told_of[every.of[told_of] == number]] = MISSING


def _answers(every: Every, batch: RequestBatch, outer: Ints, rows: Mask) -> tuple[Mask, Ints]:
    """
    Of inner *rows* of one depth those whose figures are the request's, and how much later than the first they began.

    Where the last one says how it ended, it is also the one that answered, of each
    framework, with what shares its request id; first halves tell what they tell.
    """
    later = np.zeros(len(outer), dtype=np.int64)
    is_last = np.array([convention.inner is Inner.LAST for convention in every.conventions])[every.of]
    tried = np.flatnonzero(rows & is_last[outer] & ~certain(every.prefill))
    if not tried.size:
        return rows, later
    framework = hash64(batch.framework)
    order = tried[np.lexsort((batch.fingerprint[tried], batch.end_ns[tried], framework[tried], outer[tried]))]
    opens = np.ones(len(order), dtype=np.bool_)
    opens[1:] = (outer[order[1:]] != outer[order[:-1]]) | (framework[order[1:]] != framework[order[:-1]])
    heads, group = np.flatnonzero(opens), np.cumsum(opens) - 1
    last = order[np.append(heads[1:], len(order)) - 1][group]
    later[order] = batch.start_ns[order] - np.minimum.reduceat(batch.start_ns[order], heads)[group]
    answers, key = rows.copy(), batch.request_key
    answers[order] = (order == last) | ((key[order] != 0) & (key[order] == key[last]))
    return answers, later


def _first_known(column: NDArray[np.generic], rows: Ints, outer: Ints, nothing: int) -> None:
    """Where an outer row has nothing, what the first of *rows* below it has."""
    known = rows[column[rows] != nothing][::-1]  # of several writes to one place the last stays
    wanting = known[column[outer[known]] == nothing]
    column[outer[wanting]] = column[wanting]


def _ask_inner(every: Every, outcome: NDArray[np.uint8], outer: Ints, depth: Ints) -> None:
    """
    How the inner rows ended, where the outer one has nothing bad to say and asks them.

    A first half ends as soon as another engine goes on: that is no end of the request.
    """
    for kind in (Inner.LAST, Inner.WORST):
        asks = np.array([convention.inner is kind for convention in every.conventions])[every.of]
        rows = np.flatnonzero((depth > 0) & asks[outer] & (outcome[outer] == Outcome.OK) & ~certain(every.prefill))
        if not rows.size:
            continue
        rows = rows[np.lexsort((every.batch.end_ns[rows], outer[rows]))]
        owners, heads, sizes = np.unique(outer[rows], return_index=True, return_counts=True)
        last = outcome[rows[heads + sizes - 1]]
        outcome[owners] = last if kind is Inner.LAST else worst_outcomes(outcome[rows], heads)


def _derived_late(spans: SpanBatch, every: Every, batch: RequestBatch, told: Provenances | None) -> RequestBatch:
    """The batch with what follows from fields that only now are full."""
    fields = dict(batch.fields)
    for number, convention in enumerate(every.conventions):
        rows = np.flatnonzero(every.of == number)
        if convention.derives_late and convention.derived and rows.size:
            derive(fields, convention, spans.take(every.rows[rows]), rows, told)
    return replace(batch, fields=fields)
