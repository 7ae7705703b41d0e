"""Fingerprints of spans and keys of requests: equal where what they are of is equal, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.records import Declared, records_of
from slo_exporter.ingest.otlp.groups import together
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch, ValueKind
from slo_exporter.sli.records import RequestBatch, View
from slo_exporter.sli.texts import missing_texts, texts_of

SERVER = Convention(framework="test", requests=Match(), request_id="id")
CLIENT = replace(SERVER, view=View.CLIENT)

words = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
"""Few, so that they meet: ids that differ in one bit, or have changed places, are others."""
names = st.sampled_from(["a", "b", "c"])
Identity = tuple[int, int, int, int, str]
"""Both words of the trace id, the span id, the kind and the service."""
identities = st.tuples(words, words, words, st.integers(1, 5), names)


def spans_of(identities: Sequence[Identity], ids: Sequence[str | None]) -> SpanBatch:
    """Spans with these request ids."""
    rows = len(identities)
    high, low, span, kind, service = zip(*identities, strict=True)
    times, codes = np.zeros(rows, dtype=np.int64), texts_of(ids)
    kinds = np.where(codes.codes < 0, ValueKind.ABSENT, ValueKind.TEXT).astype(np.uint8)
    return SpanBatch(
        trace_id=np.array([high, low], dtype=np.uint64).T.copy(),
        span_id=np.array(span, dtype=np.uint64),
        parent_id=np.zeros(rows, dtype=np.uint64),
        start_ns=times,
        end_ns=times,
        kind=np.array(kind, dtype=np.uint8),
        status=np.zeros(rows, dtype=np.uint8),
        name=missing_texts(rows),
        scope=missing_texts(rows),
        service=texts_of(service),
        attributes={"id": Attribute(kinds, np.full(rows, np.nan), codes)},
        resource={},
    )


def read(spans: SpanBatch, convention: Convention = SERVER) -> RequestBatch:
    """What they tell."""
    return records_of(spans, convention, Declared(), ())


@given(st.lists(identities, min_size=1, max_size=20))
def test_a_fingerprint_is_of_ids_kind_and_service(spans: list[Identity]) -> None:
    """Two spans have the same one only where all of it is the same; it is never 0."""
    marks = read(spans_of(spans, [None] * len(spans))).fingerprint.tolist()
    assert (len(set(marks)), 0 in marks) == (len(set(spans)), False)
    assert len(set(zip(spans, marks, strict=True))) == len(set(spans))


@given(st.lists(st.tuples(names, st.none() | names | st.just(""), st.booleans()), min_size=1, max_size=20))
def test_a_request_key_is_of_service_view_and_id(requests: list[tuple[str, str | None, bool]]) -> None:
    """A service named as another's id is another one; without an id, or with an empty one, it is 0."""
    spans = [spans_of([(1, 2, 3, 1, service)], [request]) for service, request, _ in requests]
    views = [CLIENT if is_client else SERVER for _, _, is_client in requests]
    keys = [int(read(span, view).request_key[0]) for span, view in zip(spans, views, strict=True)]
    assert [key == 0 for key in keys] == [not request for _, request, _ in requests]
    named = {request: key for request, key in zip(requests, keys, strict=True) if key}
    assert len(set(named.values())) == len(named)
    assert all(named[request] == key for request, key in zip(requests, keys, strict=True) if key)


@given(st.lists(st.lists(st.tuples(identities, st.none() | names), min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_column_in_pieces_is_the_column(exports: list[list[tuple[Identity, str | None]]]) -> None:
    """Ids are read export by export, and are those of the exports together."""
    spans = together([spans_of(*zip(*export, strict=True)) for export in exports])
    whole = replace(spans, attributes=dict(spans.attributes))
    assert [len(spans.pieces("id")), len(whole.pieces("id")), spans.pieces("other")] == [len(exports), 1, ()]
    assert read(spans).request_key.tolist() == read(whole).request_key.tolist()
