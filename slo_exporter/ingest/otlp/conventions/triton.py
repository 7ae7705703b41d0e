"""
Triton Inference Server: a request, below it the model that it asked for, below that its computation.

All are SERVER spans, and what counts stands in their events. The request's own
span begins after it was received and may end after it was sent, so that its
events are its time. Over gRPC the wait for a request to read is idle time, and
nothing tells how long receiving took. The model's span names model and request;
the models of an ensemble stand below the ensemble's own.

Source: src/tracer.cc, src/http_server.cc and src/grpc/infer_handler.cc of
triton-inference-server/server; docs/user_guide/trace.md.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import STATUS_ERROR, Between, Convention, Part
from slo_exporter.ingest.otlp.conventions.fill import Fill
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.parts import identity
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import MISSING, Ints, Layer, Mask, Outcome

_SCOPES: Final = frozenset({"triton-server"})
_MODEL: Final = "triton.model_name"
_QUEUED: Final = "QUEUE_START"
_COMPUTES: Final = ("COMPUTE_START", "COMPUTE_END")
_READ: Final = ("HTTP_RECV_START", "HTTP_RECV_END", "GRPC_WAITREAD_END")
_SENT: Final = ("HTTP_SEND_START", "HTTP_SEND_END", "GRPC_SEND_START", "GRPC_SEND_END")


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """An error by the status; cancelled where it was read and never sent, with every event at hand; else ok."""
    whole = np.ones(len(spans), dtype=np.bool_) if spans.lost_events is None else ~spans.lost_events
    cancelled = whole & _has_any(spans, _READ) & ~_has_any(spans, _SENT)
    conditions = [spans.status == STATUS_ERROR, cancelled]
    return np.select(conditions, [Outcome.ERROR, Outcome.CANCELLED], Outcome.OK).astype(np.uint8)


def _has_any(spans: SpanBatch, events: tuple[str, ...]) -> Mask:
    columns = [spans.events[name] for name in events if name in spans.events]
    has_any: Mask = np.logical_or.reduce([np.zeros(len(spans), dtype=np.bool_), *(c != MISSING for c in columns)])
    return has_any


def _computing(spans: SpanBatch, rows: Ints) -> tuple[Ints, Ints]:
    """From the event that begins a computation to the one that ends it, or else the span's own time."""
    own = (spans.start_ns[rows], spans.end_ns[rows])
    begins, ends = (
        np.where(_event(spans, name)[rows] == MISSING, fallback, _event(spans, name)[rows])
        for name, fallback in zip(_COMPUTES, own, strict=True)
    )
    return begins, ends


def _queueing(spans: SpanBatch, rows: Ints) -> tuple[Ints, Ints]:
    """From when the model above each computation queued it to its begin; an end before the start where unknown."""
    begins, _ = _computing(spans, rows)
    models = np.flatnonzero(_event(spans, _QUEUED) != MISSING)
    if not models.size:
        return begins, begins - 1
    ids = identity(spans, spans.span_id)[models]
    order = np.argsort(ids)
    above = identity(spans, spans.parent_id)[rows]
    at = order[np.minimum(np.searchsorted(ids, above, sorter=order), len(ids) - 1)]
    queued = _event(spans, _QUEUED)[models[at]]
    is_known = ids[at] == above
    return np.where(is_known, queued, begins), np.where(is_known, begins, begins - 1)


def _event(spans: SpanBatch, name: str) -> Ints:
    return spans.events.get(name, np.full(len(spans), MISSING, dtype=np.int64))


TRITON: Final = Convention(
    framework="triton",
    layer=Layer.ENGINE,
    requests=Match(scopes=_SCOPES, names=frozenset({"InferRequest"})),
    engine_scopes=tuple(_SCOPES),
    parts=(
        Part(
            match=Match(scopes=_SCOPES, names=frozenset({"compute"}), absent=(_MODEL,)),
            fills=(
                Fill("queue", interval=_queueing, events=(_QUEUED, *_COMPUTES)),
                Fill("inference", interval=_computing, events=_COMPUTES),
            ),
        ),
    ),
    betweens=(
        Between(field="e2e", begins="HTTP_RECV_START", ends="HTTP_SEND_END"),
        Between(field="e2e", begins="GRPC_WAITREAD_END", ends="GRPC_SEND_END"),
        Between(field="preprocess", begins="HTTP_RECV_START", ends="HTTP_RECV_END"),
        Between(field="postprocess", begins="HTTP_SEND_START", ends="HTTP_SEND_END"),
        Between(field="postprocess", begins="GRPC_SEND_START", ends="GRPC_SEND_END"),
    ),
    models=(_MODEL,),
    outcome=outcome,
)

TRITON_MODEL: Final = Convention(
    framework="triton",
    counts=False,
    requests=Match(scopes=_SCOPES, attributes=(_MODEL,)),
    models=(_MODEL,),
    request_id="triton.request_id",
)
