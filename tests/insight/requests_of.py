"""Requests and parts as the tests of insight speak of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slo_exporter.insight.breakdown import breakdown
from slo_exporter.insight.figures import Breakdown, Question
from slo_exporter.insight.stages import StageBook
from slo_exporter.sli.records import FIELDS, MISSING, NO_STAGE_TIMES, RequestBatch, StageTimes, View
from slo_exporter.sli.texts import texts_of

MS = 10**6
SECOND_NS = 10**9
NOON_NS = 1_796_040_000 * SECOND_NS
"""2026-11-30 12:00:00 UTC: what tests call now."""
SOON_NS = NOON_NS - 90 * SECOND_NS
"""When requests end, unless they say otherwise."""
EXAMPLE = {"e2e": 120, "queue": 15, "preprocess": 5, "inference": 90, "postprocess": 10}
"""The usual example: 120 ms, all accounted for."""

Record = Mapping[str, Any]
"""Milliseconds by duration and numbers by count; service, model, view, end_ns and shadowed too."""


def batch_of(records: Sequence[Record]) -> RequestBatch:
    """One row a record; what it does not name is missing."""
    rows = len(records)
    end = np.array([record.get("end_ns", SOON_NS) for record in records], dtype=np.int64)
    keys = np.zeros(rows, dtype=np.uint64)
    named = {name for record in records for name in record if name in FIELDS}
    return RequestBatch(
        start_ns=end,
        end_ns=end,
        trace_id=np.zeros((rows, 2), dtype=np.uint64),
        span_id=keys,
        fingerprint=keys,
        request_key=keys,
        pair_key=keys,
        view=np.array([record.get("view", View.SERVER) for record in records], dtype=np.uint8),
        outcome=np.zeros(rows, dtype=np.uint8),
        layer=np.zeros(rows, dtype=np.uint8),
        shadowed=np.array([record.get("shadowed", False) for record in records], dtype=np.bool_),
        service=texts_of([record.get("service", "chat") for record in records]),
        model=texts_of([record.get("model", "m") for record in records]),
        framework=texts_of([None] * rows),
        fields={name: np.array([_number(record, name) for record in records], dtype=np.int64) for name in named},
    )


def _number(record: Record, name: str) -> int:
    if record.get(name) is None:
        return MISSING
    return round(record[name] * MS) if not name.endswith("_tokens") else int(record[name])


def parts_of(times: Sequence[tuple[str, float]], *, end_ns: int = SOON_NS, service: str = "chat") -> StageTimes:
    """Stages and their milliseconds, of requests in other exports."""
    rows = len(times)
    return StageTimes(
        end_ns=np.full(rows, end_ns, dtype=np.int64),
        duration_ns=np.array([round(milliseconds * MS) for _, milliseconds in times], dtype=np.int64),
        view=np.zeros(rows, dtype=np.uint8),
        service=texts_of([service] * rows),
        stage=texts_of([stage for stage, _ in times]),
    )


def book_of(*batches: Sequence[Record], parts: StageTimes = NO_STAGE_TIMES) -> StageBook:
    """A book that began a day ago and heard of these, one commit each."""
    book = StageBook(NOON_NS - 86_400 * SECOND_NS)
    for records in batches:
        book.add(batch_of(records), NO_STAGE_TIMES)
    book.add(batch_of([]), parts)
    return book


def asked(book: StageBook, *, window_s: int = 3600, now_ns: int = NOON_NS, **question: Any) -> Breakdown:
    """Ask about the chat service, or another."""
    full = Question(**{"service": "chat", "window_s": window_s, **question})
    return breakdown(book.read(full.service, window_s, now_ns), full)
