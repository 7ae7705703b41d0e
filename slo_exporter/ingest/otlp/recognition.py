"""
From the spans of exports to their requests.

Each span is claimed by the first convention that matches it. What it then is:
a request, a part of one, a probe, or unmatched.

A `Recognition` remembers nothing of exports: any number of threads may use it at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Lock
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from slo_exporter.ingest.otlp import doubts
from slo_exporter.ingest.otlp.claims import NO_ROWS, Claim, Claimants, end_to_end, of_rows
from slo_exporter.ingest.otlp.conventions.convention import MAY_BE_PREFILL, NOT_PREFILL, Convention
from slo_exporter.ingest.otlp.conventions.fields import Provenances
from slo_exporter.ingest.otlp.conventions.records import Declared, named_by_service, records_of
from slo_exporter.ingest.otlp.groups import (
    Doubtful,
    Homeless,
    apiece,
    doubts_apiece,
    homeless_apiece,
    in_groups,
    together,
)
from slo_exporter.ingest.otlp.layers import Collapsed, collapse
from slo_exporter.ingest.otlp.nesting import NOBODY, Every
from slo_exporter.ingest.otlp.part_models import named_by_parts, with_models
from slo_exporter.ingest.otlp.part_times import told_by_parts
from slo_exporter.ingest.otlp.roles import all_roles, roles_apiece, roles_shown
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.ingest.otlp.tallies import Tally, tallies
from slo_exporter.sli.admission import Roles
from slo_exporter.sli.joining import first_rows, joined, requests_of
from slo_exporter.sli.records import Ints, Layer, Mask, RequestBatch, StageTimes, concat, staged
from slo_exporter.sli.texts import Texts

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The request spans of exports with what their parts tell, and what nobody was told."""

    every: Every
    homeless: Sequence[Homeless]
    """Of parts whose request is elsewhere."""
    doubts: Doubtful
    """About parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """What the spans of one export are."""

    requests: RequestBatch
    """One row each."""
    roles: Roles
    """What its spans show of services."""
    results: Mapping[str, int]
    """How many spans became what, see `Export.results`."""
    flags: Mapping[str, int]
    """Spans with a fault, by fault: ``negative_duration``; never 0."""
    stages: StageTimes
    """Stages whose request is in another export."""
    doubts: Counter[tuple[str, str]]
    """What is doubtful, by (service, reason), see `Export.doubts`."""


class Recognition:
    """
    Recognises the requests of exports.

    Attributes:
        conventions: in order: the first that matches claims a span.
        keys: the attribute keys and event names that it needs.
        claims: see `Claimants.claims`.

    Args:
        declared: what the operator says about requests.
    """

    def __init__(self, declared: Declared) -> None:
        claimants = Claimants(declared)
        self.conventions, self.keys, self.claims = claimants.conventions, claimants.keys, claimants.claims
        self._declared = declared
        self._lock, self._bugs = Lock(), set[str]()
        self._generative = doubts.generative(self.conventions)
        self._engine_scopes = tuple(scope for convention in self.conventions for scope in convention.engine_scopes)

    def recognise_all(self, exports: Sequence[tuple[SpanBatch, int]]) -> list[Recognised]:
        """
        What the spans of each export are, and when it came; each as `recognise` says of it alone.

        Raises:
            Exception: whatever `recognise` raises of one of them.
        """
        found = list[Recognised]()
        for group in in_groups([len(spans) for spans, _ in exports]):
            found += self._recognised(exports[group])
        return found

    def recognise(self, spans: SpanBatch, now_ns: int) -> Recognised:
        """Say what *spans*, those of one export that came at *now_ns*, are."""
        [recognised] = self._of_group(spans, [now_ns])
        return recognised

    def _recognised(self, group: Sequence[tuple[SpanBatch, int]]) -> list[Recognised]:
        if len(group) > 1:
            try:
                return self._of_group(together([spans for spans, _ in group]), [now_ns for _, now_ns in group])
            except Exception as bug:  # noqa: BLE001 - what is odd about one export takes no other with it
                self._report(bug, len(group))
        return [self.recognise(spans, now_ns) for spans, now_ns in group]

    def _report(self, bug: Exception, exports: int) -> None:
        """Log a bug out of a group, once per kind; what is wrong with one of its exports that one says alone."""
        kind = type(bug).__name__
        with self._lock:
            is_new = kind not in self._bugs
            self._bugs.add(kind)
        if is_new:
            _log.error("recognition_bug", kind=kind, exports=exports, hint="each is recognised alone", exc_info=bug)

    def _of_group(self, spans: SpanBatch, now_ns: Sequence[int]) -> list[Recognised]:
        """Say what *spans* are, those of as many exports as there are *now_ns*; each is as it is alone."""
        number = len(now_ns)
        claims, unmatched = self.claims(spans)
        told = self.told(spans, claims, unmatched)
        collapsed = collapse(spans, told.every)
        requests, exports = self._requests(collapsed)
        negative = spans.start_ns > spans.end_ns
        doubtful = (
            told.doubts,
            doubts.of_spans(spans, negative, unmatched, now_ns),
            doubts.of_layers(spans, told.every, collapsed),
            doubts.of_requests(requests, exports, self._generative),
        )
        shows = roles_shown(spans, claims, self._engine_scopes) | collapsed.shows
        each = zip(
            apiece(requests, exports, number),
            roles_apiece(shows, number),
            homeless_apiece((*told.homeless, *_homeless(collapsed)), number),
            doubts_apiece(doubtful, number),
            tallies(spans, claims, (unmatched, negative), number),
            strict=True,
        )
        return [_said(*of_one) for of_one in each]

    def told(
        self, spans: SpanBatch, claims: Sequence[Claim], unmatched: Mask, provenances: Provenances | None = None
    ) -> Told:
        """
        The claimed request spans, a row each.

        Args:
            spans: of one export, or of several.
            claims: of the conventions, at least one.
            unmatched: spans that none claims.
            provenances: filled with where their numbers come from, per row.
        """
        batches, homeless, prefills = list[RequestBatch](), list[Homeless](), list[NDArray[np.uint8]]()
        of_claims, odd, exports = list[tuple[int, Provenances]](), Doubtful(), list[Ints]()
        above = [cache(partial(claim.above, spans)) for claim in claims]
        for claim, above_them in zip(claims, above, strict=True):
            parts = told_by_parts(spans, claim.convention, claim.parts, above_them)
            own: Provenances | None = None if provenances is None else {}
            rows = of_rows(spans, claim.requests)
            batches.append(records_of(rows, claim.convention, self._declared, parts.fills, own))
            prefills.append(_prefill(rows, claim.convention))
            of_claims.append((len(rows), own or {}))
            exports += [] if rows.exports is None else [rows.exports]
            homeless += parts.homeless
            odd += parts.doubts
        if provenances is not None:
            provenances.update(_side_by_side(of_claims))
        request_rows, prefill = end_to_end([claim.requests for claim in claims]), end_to_end(prefills)
        models = self._models_of_parts(spans, claims, above, request_rows)
        batch = with_models(concat(batches), models, provenances)
        every = Every(
            batch=_maybe_prefill(batch, prefill),
            rows=request_rows,
            conventions=tuple(claim.convention for claim in claims),
            of=end_to_end([np.full(len(claim.requests), number) for number, claim in enumerate(claims)]),
            prefill=prefill,
            unclaimed=unmatched,
            exports=end_to_end(exports) if exports else None,
        )
        return Told(every=every, homeless=homeless, doubts=odd)

    def _models_of_parts(
        self, spans: SpanBatch, claims: Sequence[Claim], above: Sequence[Callable[[], Ints]], rows: Ints
    ) -> Sequence[Texts]:
        """What the parts of each claim that name a model call it, per request."""
        named = (
            named_by_parts(spans, claim.convention, claim.parts, above_them, self._declared)
            for claim, above_them in zip(claims, above, strict=True)
        )
        return [names.take(rows) for names in named if names is not None]

    def standing(self, collapsed: Collapsed) -> RequestBatch:
        """The rows that stand, with a model where the operator named one."""
        batch = collapsed.batch
        if not collapsed.is_flat:
            rows = collapsed.standing
            is_every = len(rows) == len(batch) and bool((rows[1:] > rows[:-1]).all())
            batch = batch if is_every else batch.take(rows)
        return named_by_service(batch, self._declared)

    def roles(self, spans: SpanBatch, claims: Sequence[Claim]) -> Roles:
        """What the spans show of the services they are of."""
        return all_roles(roles_shown(spans, claims, self._engine_scopes))

    def _requests(self, collapsed: Collapsed) -> tuple[RequestBatch, Ints | None]:
        """What counts, each request once, one export after the other, and the export of each."""
        batch, exports = self.standing(collapsed), collapsed.exports
        if exports is not None and not collapsed.is_flat:
            exports = exports[collapsed.standing]
        first = first_rows(batch, exports)
        if len(first) < len(batch):
            batch, exports = batch.take(first), None if exports is None else exports[first]
        order, heads = requests_of(batch, exports)
        if exports is not None and len(heads) < len(batch):
            exports = exports[order[heads]]
        return joined(batch, order, heads), exports


def _prefill(spans: SpanBatch, convention: Convention) -> NDArray[np.uint8]:
    if convention.prefill is None:
        return np.full(len(spans), NOT_PREFILL, dtype=np.uint8)
    return convention.prefill(spans)


def _maybe_prefill(batch: RequestBatch, prefill: NDArray[np.uint8]) -> RequestBatch:
    """The batch with those marked that may be first halves of requests."""
    is_maybe = prefill == MAY_BE_PREFILL
    if not np.count_nonzero(is_maybe):
        return batch
    is_maybe &= batch.layer == Layer.ENGINE
    return replace(batch, layer=np.where(is_maybe, np.uint8(Layer.PREFILL), batch.layer))


def _side_by_side(of_claims: Sequence[tuple[int, Provenances]]) -> Provenances:
    """Where numbers come from, of several claims one after the other."""
    names = sorted({name for _, own in of_claims for name in own})
    return {
        name: np.concatenate([own.get(name, np.zeros(rows, dtype=np.uint8)) for rows, own in of_claims])
        for name in names
    }


def _homeless(collapsed: Collapsed) -> Iterator[Homeless]:
    """Time in stages of rows that are of requests in other exports."""
    nobodys = NO_ROWS if collapsed.is_flat else (collapsed.owner == NOBODY).nonzero()[0]
    if nobodys.size:
        stages, rows = staged(collapsed.batch.take(nobodys))
        yield Homeless(stages, None if collapsed.exports is None else collapsed.exports[nobodys[rows]])


def _said(
    requests: RequestBatch, roles: Roles, stages: StageTimes, doubts: Counter[tuple[str, str]], tally: Tally
) -> Recognised:
    return Recognised(
        requests=requests,
        roles=roles,
        # Whatever else is a request span is a part of one that stands, here or elsewhere.
        results={
            "request": len(requests),
            "part": tally.claimed - len(requests),
            "probe": tally.probes,
            "unmatched": tally.unmatched,
        },
        flags={"negative_duration": tally.negative} if tally.negative else {},
        stages=stages,
        doubts=doubts,
    )
