"""
One call, told of by an HTTP server and by an engine beside or below it, that failed.

Engines do not always know how a request ended; the server's answer says it. Both
may have the same caller for a parent, or the engine stands below the server.
"""

from dataclasses import replace

import numpy as np

from slo_exporter.ingest.otlp.conventions.parts import requests_above
from slo_exporter.ingest.otlp.conventions.texts import hash64
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Ints, Layer, Mask, Outcome, RequestBatch, Words
from slo_exporter.sli.seen import mix

_ENGINES = (Layer.ENGINE, Layer.PREFILL, Layer.FRONT)


def with_answers(spans: SpanBatch, spans_of: Ints, batch: RequestBatch, stands: Mask) -> RequestBatch:
    """
    The batch in which an engine's row tells of the failure that its server answered.

    The server's row names it: where the engine's row counts, that one does for SLOs
    that select on HTTP alone. An HTTP request for which an engine served several
    requests is one of its own.

    Args:
        spans: of one export, or of several.
        spans_of: which of them each row is.
        batch: the rows.
        stands: those that are requests so far.
    """
    servers = np.flatnonzero(stands & (batch.layer == Layer.HTTP) & (batch.outcome != Outcome.OK))
    if not servers.size:
        return batch
    engines = np.flatnonzero(stands & np.isin(batch.layer, _ENGINES))
    if not engines.size:
        return batch
    of_engine = _below(spans, spans_of, engines, servers)
    of_engine = np.where(of_engine < 0, _beside(spans, spans_of, batch, engines, servers), of_engine)
    is_same = hash64(batch.service)[of_engine] == hash64(batch.service)[engines]
    is_same &= batch.view[of_engine] == batch.view[engines]
    overlaps = (batch.start_ns[engines] <= batch.end_ns[of_engine]) & (
        batch.start_ns[of_engine] <= batch.end_ns[engines]
    )
    found = (of_engine >= 0) & is_same & overlaps
    found[found] = _is_alone(batch, engines[found], of_engine[found])
    return _answered(batch, engines[found], of_engine[found])


def _below(spans: SpanBatch, spans_of: Ints, engines: Ints, servers: Ints) -> Ints:
    """Per engine's row the server's row above it, or -1."""
    place = np.full(len(spans) + 1, -1)
    place[spans_of[servers]] = servers
    above = requests_above(spans, spans_of[servers])[spans_of[engines]]
    return np.where(above >= 0, place[above], -1)


def _beside(spans: SpanBatch, spans_of: Ints, batch: RequestBatch, engines: Ints, servers: Ints) -> Ints:
    """Per engine's row the server's row with the same parent, or -1."""
    parents = spans.parent_id[spans_of]
    servers = servers[parents[servers] != 0]
    if not servers.size:
        return np.full(len(engines), -1)
    traces = spans.apart(spans.trace_id[:, 0])[spans_of], spans.trace_id[spans_of, 1]
    calls = _call(batch, servers, parents, *traces)
    order = np.argsort(calls, kind="stable")
    wanted = _call(batch, engines, parents, *traces)
    at = order[np.minimum(np.searchsorted(calls, wanted, sorter=order), len(calls) - 1)]
    return np.where(calls[at] == wanted, servers[at], -1)


def _call(batch: RequestBatch, rows: Ints, parents: Words, *traces: Words) -> Words:
    """Of each of *rows* a hash of trace, service and caller."""
    return mix(*(words[rows] for words in traces), hash64(batch.service)[rows], parents[rows])


def _is_alone(batch: RequestBatch, engines: Ints, servers: Ints) -> Mask:
    """Engines' rows whose server answered no other request than this one."""
    ids = _ids(batch, engines)
    distinct = np.unique(np.stack([servers.astype(np.uint64), ids]), axis=1)
    answered, requests = np.unique(distinct[0], return_counts=True)
    alone: Mask = np.isin(servers, answered[requests == 1].astype(np.int64))
    return alone


def _ids(batch: RequestBatch, engines: Ints) -> Words:
    return np.where(batch.request_key[engines] == 0, batch.fingerprint[engines], batch.request_key[engines])


def _answered(batch: RequestBatch, engines: Ints, servers: Ints) -> RequestBatch:
    outcome, pair_key = batch.outcome.copy(), batch.pair_key.copy()
    knows_nothing = np.isin(outcome[engines], (Outcome.OK, Outcome.INCOMPLETE))
    outcome[engines[knows_nothing]] = outcome[servers[knows_nothing]]
    pair_key[servers] = _ids(batch, engines)
    return replace(batch, outcome=outcome, pair_key=pair_key)
