"""
From the request spans of one convention to records, one row each.

The same for every framework: what differs stands in its `Convention`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.fields import Provenance, Provenances, fields_of
from slo_exporter.ingest.otlp.conventions.parts import Parts
from slo_exporter.ingest.otlp.conventions.texts import (
    canonical,
    first_known,
    hash64,
    ids64,
    mapped,
    text_of,
    unquoted,
)
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import RequestBatch, View, Words
from slo_exporter.sli.seen import mix
from slo_exporter.sli.texts import Texts, missing_texts

_APART: Final = np.array([[hash(f"word {number}")] for number in range(3)]).view(np.uint64)
"""
A word for each of the three that a span's ids are, one a row.

It is Python's own hash, salted per process: nobody outside can aim at two spans that look alike.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the operator says about requests."""

    selector_keys: frozenset[str] = frozenset()
    """Attribute keys that the selectors of SLOs name."""
    models: Mapping[str, str] = field(default_factory=dict)
    """service.name → model, where neither span nor resource names one."""
    ignore_routes: tuple[str, ...] = ()
    """HTTP routes that are probes; ``*`` at the end: any rest."""
    model_keys: tuple[str, ...] = ()
    """More keys of the model, on the span and then on the resource, after those that a framework writes."""
    asked_model_first: bool = False
    """What was asked for names the model before what answered."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Name of a model, or its beginning and ``*`` → the name to count it under."""
    conventions: tuple[Convention, ...] = ()
    """The operator's own, see `registry.with_own`."""


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
        parts: the part spans of the same export, and what they fill.
        told: filled with where each number comes from, see `fields_of`.
    """
    rows = len(spans)
    ids = ids64(spans.pieces(convention.request_id), rows)
    model = model_of(spans, convention, declared)
    if told is not None:
        told["model"] = np.where(model.codes < 0, 0, Provenance.ATTRIBUTE).astype(np.uint8)
    return RequestBatch(
        # A negative interval would overlap nothing, not even itself.
        start_ns=np.minimum(spans.start_ns, spans.end_ns),
        end_ns=spans.end_ns,
        trace_id=spans.trace_id,
        span_id=spans.span_id,
        fingerprint=_fingerprint(spans),
        request_key=_where_known(ids, ids ^ _owners(spans.service, convention.view)),
        # Of plain ints: numpy is slow to take an enum.
        view=np.full(rows, convention.view.value, dtype=np.uint8),
        outcome=convention.outcome(spans),
        layer=np.full(rows, convention.layer.value, dtype=np.uint8),
        pair_key=_pair_key(spans, convention, ids),
        shadowed=np.zeros(rows, dtype=np.bool_),
        service=spans.service,
        model=model,
        framework=Texts((convention.framework,), np.zeros(rows, dtype=np.int32)),
        fields=fields_of(spans, convention, parts, told),
        attributes={key: _attribute(spans, key) for key in declared.selector_keys},
    )


def model_of(spans: SpanBatch, convention: Convention, declared: Declared) -> Texts:
    """The model that each span names, or else its resource."""
    keys = tuple(sorted(convention.models, key=_is_answer)) if declared.asked_model_first else convention.models
    sources = (spans.attributes, spans.resource)
    present = [(key, source[key]) for source in sources for key in (*keys, *declared.model_keys) if key in source]
    texts = [
        unquoted(text_of(column, len(spans))) if key in convention.json_texts else text_of(column, len(spans))
        for key, column in present
    ]
    return first_known([missing_texts(len(spans)), *texts])


def named_by_service(batch: RequestBatch, declared: Declared) -> RequestBatch:
    """The requests with the model that the operator gave their service, where none is known, under its alias."""
    model = batch.model
    if declared.models:
        model = first_known([model, mapped(batch.service, declared.models.get)])
    if declared.aliases:
        model = mapped(model, lambda name: alias_of(name, declared.aliases))
    return batch if model is batch.model else replace(batch, model=model)


def _is_answer(key: str) -> bool:
    return ".response." in key


def alias_of(model: str, aliases: Mapping[str, str]) -> str:
    """The name to count *model* under: its own alias, else that of its longest beginning, else itself."""
    if model in aliases:
        return aliases[model]
    beginnings = (name for name in aliases if name.endswith("*") and model.startswith(name[:-1]))
    longest = max(beginnings, key=len, default="")
    return aliases[longest] if longest else model


def _attribute(spans: SpanBatch, key: str) -> Texts:
    sources = (spans.attributes, spans.resource)
    return first_known([canonical(source.get(key), len(spans)) for source in sources])


def _fingerprint(spans: SpanBatch) -> Words:
    """Hash of the ids, the kind and the service of each span, never 0."""
    words = np.empty((3, len(spans)), dtype=np.uint64)
    words[:2], words[2] = spans.trace_id.T, spans.span_id
    words ^= _APART
    fingerprint: Words = np.bitwise_xor.reduce(mix(words))  # the three at once, since a step costs more than a word
    fingerprint ^= hash64(spans.service)
    fingerprint ^= spans.kind
    return np.maximum(fingerprint, np.uint64(1), out=fingerprint)


def _owners(services: Texts, view: View) -> Words:
    """Hash of the service of each row with the view; Python runs once a service."""
    hashes = [hash((service, view.value)) for service in (*services.values, None)]
    return np.array(hashes).view(np.uint64).take(services.codes)


def _where_known(ids: Words, keys: Words) -> Words:
    """The keys, 0 where there is no id."""
    return keys if np.count_nonzero(ids) == len(ids) else np.where(ids == 0, np.uint64(0), keys)


def _pair_key(spans: SpanBatch, convention: Convention, ids: Words) -> Words:
    """Hash of what the halves of a request share, of engines alone."""
    if convention.prefill is None:
        return np.zeros(len(spans), dtype=np.uint64)
    if convention.pair_id:
        shared = hash64(mapped(text_of(spans.attributes.get(convention.pair_id), len(spans)), _of_pair))
        return _where_known(shared, mix(shared))
    # Cheaper than mixing: the ids are hashes already.
    return _where_known(ids, ids ^ spans.trace_id[:, 0] ^ spans.trace_id[:, 1])


def _of_pair(shared: str) -> str | None:
    """An id of a pair; Python's word for none is none."""
    return None if shared == "None" else shared
