"""
From the spans of one export to its requests.

Each span is claimed by the first convention that matches it. What it then is:
a request, a part of one, a probe, or unmatched.

A `Recognition` has no state: any number of threads may use it at once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp import doubts
from slo_exporter.ingest.otlp.claims import Claim, Claimants, of_rows
from slo_exporter.ingest.otlp.conventions.convention import MAY_BE_PREFILL, NOT_PREFILL, Convention
from slo_exporter.ingest.otlp.conventions.fields import Provenances
from slo_exporter.ingest.otlp.conventions.records import Declared, named_by_service, records_of
from slo_exporter.ingest.otlp.layers import Collapsed, collapse
from slo_exporter.ingest.otlp.nesting import NOBODY, Every
from slo_exporter.ingest.otlp.part_models import named_by_parts, with_models
from slo_exporter.ingest.otlp.part_times import told_by_parts
from slo_exporter.ingest.otlp.roles import roles_shown
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.admission import Roles
from slo_exporter.sli.joining import join, without_repeats
from slo_exporter.sli.records import (
    NO_STAGE_TIMES,
    Ints,
    Layer,
    Mask,
    RequestBatch,
    StageTimes,
    Texts,
    concat,
    concat_stages,
    stages_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The request spans of an export with what their parts tell, and what nobody was told."""

    every: Every
    stages: StageTimes
    """Of parts whose request is elsewhere."""
    doubts: Counter[tuple[str, str]]
    """About parts, by (service, reason)."""


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
    Recognises the requests of an export.

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
        self._generative = doubts.generative(self.conventions)
        self._engine_scopes = tuple(scope for convention in self.conventions for scope in convention.engine_scopes)

    def recognise_all(self, exports: Sequence[tuple[SpanBatch, int]]) -> list[Recognised]:
        """What the spans of each export are, and when it came; each as `recognise` says of it alone."""
        return [self.recognise(spans, now_ns) for spans, now_ns in exports]

    def recognise(self, spans: SpanBatch, now_ns: int) -> Recognised:
        """Say what *spans*, those of one export that came at *now_ns*, are."""
        claims, unmatched = self.claims(spans)
        told = self.told(spans, claims)
        collapsed = collapse(spans, told.every)
        standing = self.standing(collapsed)
        requests = join(without_repeats(standing))
        # Whatever else is a request span is a part of one that stands, here or elsewhere.
        others = len(collapsed.owner) - len(requests)
        results = {
            "request": len(requests),
            "part": others + sum(len(rows) for claim in claims for _, rows in claim.parts),
            "probe": sum(len(claim.probes) for claim in claims),
            "unmatched": int(np.count_nonzero(unmatched)),
        }
        homeless = collapsed.owner == NOBODY
        of_others = stages_of(collapsed.batch.take(homeless)) if homeless.any() else NO_STAGE_TIMES
        return Recognised(
            requests=requests,
            roles=self.roles(spans, claims) | collapsed.roles,
            results=results,
            flags=_flags(spans),
            stages=concat_stages([told.stages, of_others]),
            doubts=(
                told.doubts
                + doubts.of_spans(spans, unmatched, now_ns)
                + doubts.of_layers(spans, told.every, collapsed)
                + doubts.of_requests(requests, self._generative)
            ),
        )

    def told(self, spans: SpanBatch, claims: Sequence[Claim], provenances: Provenances | None = None) -> Told:
        """
        The claimed request spans, a row each.

        Args:
            spans: of one export.
            claims: of the conventions, at least one.
            provenances: filled with where their numbers come from, per row.
        """
        batches, stages, prefill = list[RequestBatch](), list[StageTimes](), list[NDArray[np.uint8]]()
        of_claims, odd = list[tuple[int, Provenances]](), Counter[tuple[str, str]]()
        for claim in claims:
            parts = told_by_parts(spans, claim.convention, claim.parts, partial(claim.above, spans))
            own: Provenances | None = None if provenances is None else {}
            rows = of_rows(spans, claim.requests)
            batches.append(records_of(rows, claim.convention, self._declared, parts.fills, own))
            prefill.append(_prefill(rows, claim.convention))
            of_claims.append((len(rows), own or {}))
            stages += parts.homeless
            odd += parts.doubts
        if provenances is not None:
            provenances.update(_side_by_side(of_claims))
        request_rows = np.concatenate([claim.requests for claim in claims])
        batch = with_models(concat(batches), self._models_of_parts(spans, claims, request_rows), provenances)
        every = Every(
            batch=_maybe_prefill(batch, np.concatenate(prefill)),
            rows=request_rows,
            conventions=tuple(claim.convention for claim in claims),
            of=np.repeat(np.arange(len(claims)), [len(claim.requests) for claim in claims]),
            prefill=np.concatenate(prefill),
            unclaimed=_unclaimed(spans, claims),
        )
        return Told(every=every, stages=concat_stages(stages), doubts=odd)

    def _models_of_parts(self, spans: SpanBatch, claims: Sequence[Claim], rows: Ints) -> Sequence[Texts]:
        """What the parts of each claim that name a model call it, per request."""
        named = (
            named_by_parts(spans, claim.convention, claim.parts, partial(claim.above, spans), self._declared)
            for claim in claims
        )
        return [names.take(rows) for names in named if names is not None]

    def standing(self, collapsed: Collapsed) -> RequestBatch:
        """The rows that stand, with a model where the operator named one."""
        stands = collapsed.stands
        batch = collapsed.batch if stands.all() else collapsed.batch.take(stands)
        return named_by_service(batch, self._declared)

    def roles(self, spans: SpanBatch, claims: Sequence[Claim]) -> Roles:
        """What the spans show of the services they are of."""
        return roles_shown(spans, claims, self._engine_scopes)


def _unclaimed(spans: SpanBatch, claims: Sequence[Claim]) -> Mask:
    unclaimed = np.ones(len(spans), dtype=np.bool_)
    for claim in claims:
        for rows in (claim.requests, claim.probes, *(rows for _, rows in claim.parts)):
            unclaimed[rows] = False
    return unclaimed


def _prefill(spans: SpanBatch, convention: Convention) -> NDArray[np.uint8]:
    if convention.prefill is None:
        return np.full(len(spans), NOT_PREFILL, dtype=np.uint8)
    return convention.prefill(spans)


def _maybe_prefill(batch: RequestBatch, prefill: NDArray[np.uint8]) -> RequestBatch:
    """The batch with those marked that may be first halves of requests."""
    is_maybe = (prefill == MAY_BE_PREFILL) & (batch.layer == Layer.ENGINE)
    return replace(batch, layer=np.where(is_maybe, np.uint8(Layer.PREFILL), batch.layer)) if is_maybe.any() else batch


def _side_by_side(of_claims: Sequence[tuple[int, Provenances]]) -> Provenances:
    """Where numbers come from, of several claims one after the other."""
    names = sorted({name for _, own in of_claims for name in own})
    return {
        name: np.concatenate([own.get(name, np.zeros(rows, dtype=np.uint8)) for rows, own in of_claims])
        for name in names
    }


def _flags(spans: SpanBatch) -> dict[str, int]:
    negative = int(np.count_nonzero(spans.start_ns > spans.end_ns))
    return {"negative_duration": negative} if negative else {}
