"""
One call, told of by an HTTP server and an engine beside or below it, that failed.

An engine that writes a span whatever becomes of a request may not know how it
ended; the server's answer says it. Both may have the same caller for a parent.
"""

import numpy as np

from slo_exporter.ingest.otlp.conventions.texts import hash64
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Ints, Layer, Mask, Outcome, RequestBatch, Words
from slo_exporter.sli.seen import mix


def answered(spans: SpanBatch, spans_of: Ints, batch: RequestBatch, stands: Mask) -> tuple[Ints, Ints]:
    """
    Rows of engines that are incomplete, and for each the HTTP row of the same call that failed.

    Args:
        spans: of one export.
        spans_of: which of them each row is.
        batch: the rows.
        stands: those that are requests so far.
    """
    engines = np.flatnonzero(stands & (batch.layer == Layer.ENGINE) & (batch.outcome == Outcome.INCOMPLETE))
    servers = np.flatnonzero(stands & (batch.layer == Layer.HTTP) & (batch.outcome != Outcome.OK))
    if not engines.size or not servers.size:
        return engines[:0], engines[:0]
    parents, itself = spans.parent_id[spans_of], batch.span_id
    of_caller = servers[parents[servers] != 0]
    rows = np.concatenate([servers, of_caller])
    calls = np.concatenate([_call(batch, servers, itself), _call(batch, of_caller, parents)])
    order = np.argsort(calls, kind="stable")
    wanted = _call(batch, engines, parents)
    at = order[np.minimum(np.searchsorted(calls, wanted, sorter=order), len(calls) - 1)]
    overlaps = (batch.start_ns[engines] <= batch.end_ns[rows[at]]) & (batch.start_ns[rows[at]] <= batch.end_ns[engines])
    found = (calls[at] == wanted) & overlaps
    return engines[found], rows[at][found]


def _call(batch: RequestBatch, rows: Ints, span_id: Words) -> Words:
    """Of each of *rows* a hash of trace, service and the span that it is a call of."""
    trace_id = batch.trace_id[rows]
    return mix(trace_id[:, 0], trace_id[:, 1], hash64(batch.service)[rows], span_id[rows])
