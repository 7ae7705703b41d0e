"""
From the request spans of one convention to records, one row each.

The same for every framework: what differs stands in its `Convention`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.fields import Provenances, fields_of
from slo_exporter.ingest.otlp.conventions.parts import Parts
from slo_exporter.ingest.otlp.conventions.texts import canonical, first_known, hash64, mapped, text_of
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import RequestBatch, Texts, Words
from slo_exporter.sli.seen import mix


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the operator says about requests."""

    selector_keys: frozenset[str]
    """Attribute keys that the selectors of SLOs name."""
    models: Mapping[str, str]
    """service.name → model, where neither span nor resource names one."""
    ignore_routes: tuple[str, ...]
    """HTTP routes that are probes; ``*`` at the end: any rest."""


def records_of(
    spans: SpanBatch,
    convention: Convention,
    declared: Declared,
    parts: Parts,
    told: Provenances | None = None,
) -> RequestBatch:
    """
    Say what *spans*, all of them requests of *convention*, tell.

    Args:
        spans: one row a request.
        convention: how their framework writes.
        declared: what the operator says.
        parts: the part spans of the same export, by the field that they fill.
        told: filled with where each number comes from, see `fields_of`.
    """
    rows = len(spans)
    service = hash64(spans.service)
    return RequestBatch(
        # A negative interval would overlap nothing, not even itself.
        start_ns=np.minimum(spans.start_ns, spans.end_ns),
        end_ns=spans.end_ns,
        trace_id=spans.trace_id,
        span_id=spans.span_id,
        fingerprint=_fingerprint(spans, service),
        request_key=_request_key(spans, convention, service),
        view=np.full(rows, convention.view, dtype=np.uint8),
        outcome=convention.outcome(spans),
        yields=np.full(rows, convention.yields, dtype=np.bool_),
        shadowed=np.zeros(rows, dtype=np.bool_),
        service=spans.service,
        model=_model(spans, convention, declared.models),
        framework=Texts((convention.framework,), np.zeros(rows, dtype=np.int32)),
        fields=fields_of(spans, convention, parts, told),
        attributes={key: _attribute(spans, key) for key in declared.selector_keys},
    )


def _model(spans: SpanBatch, convention: Convention, models: Mapping[str, str]) -> Texts:
    columns = [source.get(key) for source in (spans.attributes, spans.resource) for key in convention.models]
    of_service = mapped(spans.service, models.get)
    return first_known([*(text_of(column, len(spans)) for column in columns), of_service])


def _attribute(spans: SpanBatch, key: str) -> Texts:
    sources = (spans.attributes, spans.resource)
    return first_known([canonical(source.get(key), len(spans)) for source in sources])


def _fingerprint(spans: SpanBatch, service: Words) -> Words:
    owner = service ^ spans.kind.astype(np.uint64)
    return mix(owner, spans.trace_id[:, 0], spans.trace_id[:, 1], spans.span_id)


def _request_key(spans: SpanBatch, convention: Convention, service: Words) -> Words:
    """Hash of (service, view, request id), 0 where there is no id."""
    ids = text_of(spans.attributes.get(convention.request_id), len(spans))
    owner = service ^ np.uint64(convention.view)
    return np.where(ids.codes < 0, np.uint64(0), mix(owner, hash64(ids)))
