"""
One request, told of by spans of several layers of one export.

A gateway above an engine, the worker that prefilled beside the one that went
on, a client's library inside another: of the request spans of one view one
stands, and the others fill what it does not know.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import PREFILL, Convention, Inner
from slo_exporter.ingest.otlp.conventions.fields import Provenance, Provenances, derive
from slo_exporter.ingest.otlp.conventions.parts import requests_above
from slo_exporter.ingest.otlp.conventions.texts import hash64
from slo_exporter.ingest.otlp.halves import OF_FIRST_HALF, certain, halves, with_prefill
from slo_exporter.ingest.otlp.siblings import with_answers
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.sli.admission import FRONT_OF, Role
from slo_exporter.sli.joining import combined_values, shared_out, worst_outcomes
from slo_exporter.sli.records import MISSING, Ints, Layer, Mask, Outcome, RequestBatch, Texts

LONGEST_SERVICE: Final = 255
"""Characters. A service is remembered for good, so what is no name is not learnt."""
_UNNAMED: Final = "unknown_service"
"""How SDKs, and we, call a service without a name; some add the name of a program."""
NOBODY: Final = -1
"""Instead of the request that a span belongs to: it is in another export."""
_REMOTE: Final = (2, 3, 4, 5)
"""OTLP SpanKind of what crosses from one program to another."""
_ACTORS: Final[Mapping[str, frozenset[str]]] = {
    # Of a span that asks no model it is an agent's or a tool's.
    "gen_ai.operation.name": frozenset(),
    "openinference.span.kind": frozenset({"AGENT", "TOOL"}),
    "mlflow.spanType": frozenset({"AGENT", "TOOL", '"AGENT"', '"TOOL"'}),
}
"""By key what says that a span is an agent's or a tool's; nothing: any value."""
_DEEPEST: Final = 64
"""Request spans above one another that are looked at; real ones are three or four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """The request spans of one export, whatever convention claims them, a row each."""

    batch: RequestBatch
    rows: Ints
    """Which spans."""
    conventions: Sequence[Convention]
    of: Ints
    """Which of the conventions."""
    prefill: NDArray[np.uint8]
    """`Convention.prefill`."""
    unclaimed: Mask
    """Spans of the export that no convention claims."""

    def says(self, name: str) -> Mask:
        """Per row what its convention says of itself."""
        column: Mask = np.array([bool(getattr(convention, name)) for convention in self.conventions])[self.of]
        return column


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapsed:
    """Which rows stand."""

    batch: RequestBatch
    """Every row, those that stand with what the others told."""
    owner: Ints
    """Per row the one that it belongs to, itself if it stands, or `NOBODY`."""
    roles: frozenset[tuple[str, Role]]
    """What this shows of services."""

    @property
    def stands(self) -> Mask:
        """The rows that are requests."""
        stands: Mask = self.owner == np.arange(len(self.owner))
        return stands


def collapse(spans: SpanBatch, every: Every, told: Provenances | None = None) -> Collapsed:
    """
    Let one row of each request stand.

    Args:
        spans: of one export.
        every: its request spans.
        told: where each number comes from, by field; changed in place.
    """
    every = replace(every, prefill=_prefill_below(spans, every))
    batch, owner = every.batch, np.arange(len(every.rows))
    roles: frozenset[tuple[str, Role]] = frozenset()
    first, second = halves(every.batch, every.prefill)
    if first.size:
        batch = with_prefill(batch, first, second, told)
        owner[first] = second
        roles |= _prefillers(every, first, second)
    if len(owner) > 1 and _may_nest(every.conventions):
        outer, depth = _outermost(spans, every)
        depth[first] = 0  # its other half has what it tells
        batch = _filled(every, batch, outer, depth, told)
        owner = outer[owner]
        roles |= _behind(every, outer)
    batch = _derived_late(spans, every, batch, told)
    batch = with_answers(spans, every.rows, batch, owner == np.arange(len(owner)))
    is_alone = owner == np.arange(len(owner))
    owner[is_alone & (~every.says("counts") | certain(every.prefill))] = NOBODY
    return Collapsed(batch=batch, owner=owner, roles=roles)


def _prefill_below(spans: SpanBatch, every: Every) -> NDArray[np.uint8]:
    """`Convention.prefill`: the engine of a worker that only prefills does just that."""
    workers = np.flatnonzero(certain(every.prefill))
    if not workers.size:
        return every.prefill
    is_engine = every.says("counts") & np.isin(every.batch.layer, (Layer.ENGINE, Layer.PREFILL))
    is_below = requests_above(spans, every.rows[workers])[every.rows] >= 0
    return np.where(is_engine & is_below, np.uint8(PREFILL), every.prefill)


def _prefillers(every: Every, first: Ints, second: Ints) -> frozenset[tuple[str, Role]]:
    """Services that only prefilled; of one that does both, nothing is learnt."""
    codes, service = every.batch.service.codes, every.batch.service
    apart = hash64(service)[first] != hash64(service)[second]
    return roles_of(service, np.unique(codes[first[apart & ~certain(every.prefill)[first]]]), Role.PREFILL)


def _behind(every: Every, outer: Ints) -> frozenset[tuple[str, Role]]:
    """Services of engines that a row of another stands in front of."""
    layer, roles = every.batch.layer, frozenset[tuple[str, Role]]()
    is_behind = (layer[outer] == Layer.FRONT) & np.isin(layer, (Layer.ENGINE, Layer.PREFILL))
    for view, role in FRONT_OF.items():
        codes = every.batch.service.codes[is_behind & (every.batch.view == view)]
        roles |= roles_of(every.batch.service, np.unique(codes), role)
    return roles


def roles_of(services: Texts, codes: Iterable[int], role: Role) -> frozenset[tuple[str, Role]]:
    """
    The role of each of some services; a name too long to be one is not learnt.

    Nor is it learnt of a service without a name that what it does is counted by
    another: everything else without a name would be hidden with it.
    """
    names = [services.values[code] for code in codes if code >= 0]
    is_for_all = role is Role.ENGINE
    return frozenset(
        (name, role) for name in names if len(name) <= LONGEST_SERVICE and (is_for_all or not name.startswith(_UNNAMED))
    )


def _may_nest(conventions: Sequence[Convention]) -> bool:
    return any(c.nests or c.layer is Layer.FRONT or not c.counts for c in conventions)


def _outermost(spans: SpanBatch, every: Every) -> tuple[Ints, Ints]:
    """Per row the outermost one of the same request, and how far above it stands; in a circle each for itself."""
    taken_in_by = _taken_in_by(spans, every)
    itself = np.arange(len(taken_in_by))
    outer, depth = itself, np.zeros(len(itself), dtype=np.int64)
    for _ in range(_DEEPEST):
        above = taken_in_by[outer]
        depth += above != outer
        outer = above
    is_circle = taken_in_by[outer] != outer
    return np.where(is_circle, itself, outer), np.where(is_circle, 0, depth)


def _taken_in_by(spans: SpanBatch, every: Every) -> Ints:
    """Per row the nearest one above it that takes it in, else itself."""
    place = np.full(len(spans) + 1, NOBODY)
    place[every.rows] = np.arange(len(every.rows))
    above = requests_above(spans, every.rows, np.flatnonzero(_parts_requests(spans, every)))[every.rows]
    parent = np.where(above >= 0, place[above], NOBODY)
    rule = _Rule(every)
    owner, candidate = np.arange(len(parent)), parent.copy()
    for _ in range(_DEEPEST):
        open_rows = np.flatnonzero(candidate >= 0)
        if not open_rows.size:
            break
        outer = candidate[open_rows]
        taken = rule.takes_in(outer, open_rows)
        owner[open_rows[taken]] = outer[taken]
        # What another view tells of is a call of its own, and so is whatever is below it.
        goes_on = ~taken & (every.batch.view[outer] == every.batch.view[open_rows])
        candidate[open_rows] = np.where(goes_on, parent[outer], NOBODY)
    return owner


def _parts_requests(spans: SpanBatch, every: Every) -> Mask:
    """Spans that nobody knows and below which another request begins: calls of others, and what agents and tools do."""
    is_remote = np.isin(spans.kind, _REMOTE)
    acts = [
        spans.attributes[key].words().among(texts) if texts else spans.attributes[key].kind != ValueKind.ABSENT
        for key, texts in _ACTORS.items()
        if key in spans.attributes
    ]
    parts: Mask = every.unclaimed & np.logical_or.reduce([is_remote, *acts])
    return parts


class _Rule:
    """Whether rows take others in that stand below them."""

    def __init__(self, every: Every) -> None:
        batch = every.batch
        self._view, self._layer, self._service = batch.view, batch.layer, hash64(batch.service)
        self._framework = hash64(batch.framework)
        self._counts, self._nests = every.says("counts"), every.says("nests")

    def takes_in(self, outer: Ints, inner: Ints) -> Mask:
        """Row by row: the outer one takes the inner one in."""
        is_own_service = self._service[outer] == self._service[inner]
        is_engine = np.isin(self._layer[inner], (Layer.ENGINE, Layer.PREFILL))
        is_its_http = (self._layer[inner] == Layer.HTTP) & is_own_service
        in_front = (self._layer[outer] == Layer.FRONT) & (is_engine | is_its_http)
        of_its_own = ~self._counts[inner] & (self._framework[outer] == self._framework[inner])
        nested = self._nests[outer] & self._nests[inner] & is_own_service
        taken: Mask = (self._view[outer] == self._view[inner]) & (in_front | of_its_own | nested)
        return taken


def _filled(every: Every, batch: RequestBatch, outer: Ints, depth: Ints, told: Provenances | None) -> RequestBatch:
    """The batch with what outer rows do not know from those below them, the nearest first."""
    fields = {name: column.copy() for name, column in batch.fields.items()}
    _forget(every, fields, outer, depth)
    model, request_key, outcome = batch.model.codes.copy(), batch.request_key.copy(), batch.outcome.copy()
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        rows = rows[np.argsort(outer[rows], kind="stable")]
        owners, heads = np.unique(outer[rows], return_index=True)
        is_half = certain(every.prefill)[rows]
        for name, column in fields.items():
            tells = column[rows] if name in OF_FIRST_HALF else np.where(is_half, MISSING, column[rows])
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
