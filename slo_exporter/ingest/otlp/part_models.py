"""The model of requests that name none, by their parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from slo_exporter.ingest.otlp.conventions.convention import Convention, Part
from slo_exporter.ingest.otlp.conventions.fields import Provenance, Provenances
from slo_exporter.ingest.otlp.conventions.records import Declared, model_of
from slo_exporter.ingest.otlp.conventions.texts import first_known
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Ints, RequestBatch
from slo_exporter.sli.texts import Texts


def named_by_parts(
    spans: SpanBatch,
    convention: Convention,
    parts: Sequence[tuple[Part, Ints]],
    requests_above: Callable[[], Ints],
    declared: Declared,
) -> Texts | None:
    """
    Per span the model that the first of its *parts* names; None where no part names any.

    Args:
        spans: of one export, or of several.
        convention: whose parts.
        parts: what claims which rows.
        requests_above: per span the request that it is a part of; not asked where no part names a model.
        declared: what the operator says.
    """
    telling = [rows for part, rows in parts if part.tells_model]
    if not telling:
        return None
    rows = np.sort(np.concatenate(telling))
    names = model_of(spans.take(rows), convention, declared)
    owners = requests_above()[rows]
    known = np.flatnonzero((names.codes >= 0) & (owners >= 0))[::-1]  # of several writes to one place the last stays
    codes = np.full(len(spans), -1, dtype=np.int32)
    codes[owners[known]] = names.codes[known]
    return Texts(names.values, codes) if known.size else None


def with_models(batch: RequestBatch, by_parts: Sequence[Texts], told: Provenances | None) -> RequestBatch:
    """The requests, those without a model with the first that parts name; *told*: see `fields_of`."""
    if not by_parts:
        return batch
    model = first_known([batch.model, *by_parts])
    if told is not None:
        told["model"] = np.where((batch.model.codes < 0) & (model.codes >= 0), Provenance.PART, told["model"])
    return replace(batch, model=model)
