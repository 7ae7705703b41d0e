"""Exports of every framework to recognise, and what makes two recognitions of one equal."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from builders import NOON_NS
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_messages import LATENESS_NS, messages

from slo_exporter.ingest.otlp.decode import decode
from slo_exporter.ingest.otlp.documents import documents_of
from slo_exporter.ingest.otlp.groups import together
from slo_exporter.ingest.otlp.recognition import Recognised, Recognition
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch, ValueKind
from slo_exporter.sli.records import FIELDS, RequestBatch, StageTimes
from slo_exporter.sli.texts import Texts, texts_of

CASES = Path(__file__).parent / "cases"
Exports = Sequence[tuple[SpanBatch, int]]


@cache
def of_every_framework(recognition: Recognition) -> tuple[SpanBatch, ...]:
    """The spans of every export of the case files."""
    files = sorted(CASES.glob("*.json"))
    batches = [document.decode(recognition.keys)[0] for file in files for document in documents_of(file.read_bytes())]
    return tuple(batch for batch in batches if len(batch))


@st.composite
def exports(draw: st.DrawFn, recognition: Recognition) -> Exports:
    """
    Draw some exports that have spans in common, parents elsewhere and columns of their own.

    Each is some rows of what one or two exports of the case files hold, in their
    order or in another, or any message.
    """
    pool = of_every_framework(recognition)
    few = [pool[at] for at in draw(st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=3))]
    return [(_one(draw, few, recognition), NOON_NS + draw(st.integers(-3, 3)) * 10**9) for _ in range(draw(_NUMBERS))]


_NUMBERS = st.integers(2, 6)


def _one(draw: st.DrawFn, few: Sequence[SpanBatch], recognition: Recognition) -> SpanBatch:
    how = draw(st.integers(0, 9))
    if how == 0:
        return spans_of(draw(messages), recognition)
    batches = draw(st.lists(st.sampled_from(few), min_size=1, max_size=2))
    whole = replace(together(batches), exports=None)
    if how < 4:
        return as_decoded(whole)
    rows = st.lists(st.integers(0, len(whole) - 1), max_size=40)
    return as_decoded(whole.take(np.array(draw(rows if how == 4 else rows.map(sorted)), dtype=np.int64)))


def spans_of(message: ExportTraceServiceRequest, recognition: Recognition) -> SpanBatch:
    """The spans that are accepted."""
    body = message.SerializeToString()
    return decode(body, recognition.keys, now_ns=NOON_NS, lateness_ns=LATENESS_NS)[0]


def as_decoded(spans: SpanBatch) -> SpanBatch:
    """The spans as a decoder gives them: no column and no text that no row has."""
    return replace(
        spans,
        **{name: _used(getattr(spans, name)) for name in ("name", "scope", "service")},
        attributes=dict(_used_columns(spans.attributes)),
        resource=dict(_used_columns(spans.resource)),
        events={name: times for name, times in spans.events.items() if (times >= 0).any()},
        lost_events=spans.lost_events if spans.lost_events is not None and spans.lost_events.any() else None,
    )


def _used(texts: Texts) -> Texts:
    return texts_of([texts.at(row) for row in range(len(texts.codes))])


def _used_columns(columns: Mapping[str, Attribute]) -> Iterator[tuple[str, Attribute]]:
    for key, column in columns.items():
        if (column.kind != ValueKind.ABSENT).any():
            yield key, replace(column, text=_used(column.text))


def said(recognised: Recognised) -> dict[str, object]:
    """All that anybody can see of it."""
    return {
        "requests": requests_said(recognised.requests),
        "roles": recognised.roles,
        "results": dict(recognised.results),
        "flags": dict(recognised.flags),
        "stages": stages_said(recognised.stages),
        "doubts": dict(recognised.doubts),
    }


def requests_said(batch: RequestBatch) -> dict[str, list[object]]:
    """Every column, row by row; a column that is not there is missing in each."""
    names = "start_ns end_ns trace_id span_id fingerprint request_key view outcome layer pair_key shadowed"
    columns = {name: getattr(batch, name).tolist() for name in names.split()}
    texts = {"service": batch.service, "model": batch.model, "framework": batch.framework, **batch.attributes}
    return {
        **columns,
        **{name: batch.number(name).tolist() for name in FIELDS},
        **{name: [column.at(row) for row in range(len(batch))] for name, column in texts.items()},
        "types": [re.sub(r"\W", "", str(getattr(batch, name).dtype)) for name in names.split()],
    }


def stages_said(times: StageTimes) -> list[tuple[object, ...]]:
    """Every row, in order."""
    return [
        (end, duration, view, times.service.at(row), times.stage.at(row))
        for row, (end, duration, view) in enumerate(
            zip(times.end_ns.tolist(), times.duration_ns.tolist(), times.view.tolist(), strict=True)
        )
    ]
