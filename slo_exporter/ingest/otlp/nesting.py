"""
Which request spans stand above which, and take them in.

Below a call of another program, an agent or a tool another request begins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.parts import requests_above
from slo_exporter.ingest.otlp.conventions.texts import hash64
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.sli.records import Ints, Layer, Mask, RequestBatch, View

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
NOBODY: Final = -1
"""Instead of the request that a span belongs to: it is in another export."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """The request spans of exports, whatever convention claims them, a row each."""

    batch: RequestBatch
    rows: Ints
    """Which spans."""
    conventions: Sequence[Convention]
    of: Ints
    """Which of the conventions."""
    prefill: NDArray[np.uint8]
    """`Convention.prefill`."""
    unclaimed: Mask
    """Of all spans those that no convention claims."""
    exports: Ints | None = None
    """The export of each row, see `SpanBatch.exports`."""

    def says(self, name: str) -> Mask:
        """Per row what its convention says of itself."""
        column: Mask = np.array([bool(getattr(convention, name)) for convention in self.conventions])[self.of]
        return column


def may_nest(conventions: Sequence[Convention]) -> bool:
    """Whether any request of theirs may stand above another one."""
    return any(c.nests or c.layer is Layer.FRONT or not c.counts for c in conventions)


def outermost(spans: SpanBatch, every: Every) -> tuple[Ints, Ints]:
    """Per row the outermost one of the same request, and how far above it stands; in a circle each for itself."""
    taken_in_by = _taken_in_by(spans, every)
    itself = np.arange(len(taken_in_by))
    outer, depth = itself, np.zeros(len(itself), dtype=np.int64)
    for _ in range(_DEEPEST):
        above = taken_in_by[outer]
        goes_on = above != outer
        if not goes_on.any():
            break
        depth += goes_on
        outer = above
    is_circle = taken_in_by[outer] != outer
    return np.where(is_circle, itself, outer), np.where(is_circle, 0, depth)


def _taken_in_by(spans: SpanBatch, every: Every) -> Ints:
    """Per row the nearest one above it that takes it in, else itself."""
    place = np.full(len(spans) + 1, NOBODY)
    place[every.rows] = np.arange(len(every.rows))
    above = requests_above(spans, every.rows, np.flatnonzero(_begins_another(spans, every)))[every.rows]
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
        goes_on = (
            ~taken & (every.batch.view[outer] == every.batch.view[open_rows]) & ~rule.arrives(outer, parent[outer])
        )
        candidate[open_rows] = np.where(goes_on, parent[outer], NOBODY)
    return owner


def _begins_another(spans: SpanBatch, every: Every) -> Mask:
    """Spans that nobody knows and below which another request begins: calls of other programs, agents and tools."""
    is_remote = np.isin(spans.kind, _REMOTE)
    acts = [
        spans.attributes[key].words().among(texts) if texts else spans.attributes[key].kind != ValueKind.ABSENT
        for key, texts in _ACTORS.items()
        if key in spans.attributes
    ]
    begins: Mask = every.unclaimed & np.logical_or.reduce([is_remote, *acts])
    return begins


class _Rule:
    """Whether rows take others in that stand below them."""

    def __init__(self, every: Every) -> None:
        batch = every.batch
        self._view, self._layer, self._service = batch.view, batch.layer, hash64(batch.service)
        self._framework = hash64(batch.framework)
        self._is_engine = batch.is_engine
        self._counts, self._nests = every.says("counts"), every.says("nests")

    def arrives(self, row: Ints, above: Ints) -> Mask:
        """Row by row: an HTTP request that another service sent, which is the one above it."""
        arrives: Mask = (self._layer[row] == Layer.HTTP) & (above >= 0) & (self._service[row] != self._service[above])
        return arrives

    def takes_in(self, outer: Ints, inner: Ints) -> Mask:
        """Row by row: the outer one takes the inner one in."""
        is_own_service = self._service[outer] == self._service[inner]
        is_its_http = (self._layer[inner] == Layer.HTTP) & is_own_service
        is_behind = self._is_engine[inner] & (is_own_service | (self._view[outer] == View.SERVER))
        in_front = (self._layer[outer] == Layer.FRONT) & (is_behind | is_its_http)
        of_its_own = ~self._counts[inner] & (self._framework[outer] == self._framework[inner])
        nested = self._nests[outer] & self._nests[inner] & is_own_service
        taken: Mask = (self._view[outer] == self._view[inner]) & (in_front | of_its_own | nested)
        return taken
