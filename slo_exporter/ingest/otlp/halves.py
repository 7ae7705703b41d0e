"""
A request in two halves: one engine prefills, another one goes on and decodes.

What the second half measures begins with its own start; the request began with
the first.

Source: the engines' own clocks: ttft = decode.start + decode.ttft − prefill.start.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import NOT_PREFILL, PREFILL
from slo_exporter.ingest.otlp.conventions.fields import Provenance, Provenances
from slo_exporter.sli.records import MISSING, Ints, Mask, RequestBatch, Words

_OF_FIRST: Final = ("queue", "preprocess", "prefill")
"""Stages that the first half went through."""
_OF_EITHER: Final = ("prompt_tokens", "cached_tokens")
OF_FIRST_HALF: Final = frozenset((*_OF_FIRST, *_OF_EITHER))
"""What a first half tells of the whole request."""
_EARLIEST_NS: Final = -1_000_000_000
_LATEST_NS: Final = 60_000_000_000
"""The second half starts so long before the first one ended, its clock being off, or so long after it."""


def certain(prefill: NDArray[np.uint8]) -> Mask:
    """Rows that are certainly first halves."""
    is_first: Mask = prefill == PREFILL
    return is_first


def halves(batch: RequestBatch, prefill: NDArray[np.uint8]) -> tuple[Ints, Ints]:
    """
    Rows that are first halves, and the second half of each; several of both where ``n > 1``.

    They share a request id; or, where one is certainly a first half, they are
    the only ones of their trace.
    """
    first = np.flatnonzero(prefill != NOT_PREFILL)
    if not first.size:
        return first, first
    by_id = [*_by_id(batch, prefill, first)]
    found = np.array(sorted([*by_id, *_by_trace(batch, prefill, by_id)]), dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _by_id(batch: RequestBatch, prefill: NDArray[np.uint8], first: Ints) -> Iterator[tuple[int, int]]:
    """Each first half with the second half nearest to it, and with those that share the request of that one."""
    second = defaultdict[int, list[int]](list)
    for row in np.flatnonzero((prefill == NOT_PREFILL) & (batch.pair_key != 0)).tolist():
        second[int(batch.pair_key[row])].append(row)
    for row in first.tolist():
        near = [other for other in second.get(int(batch.pair_key[row]), ()) if _go_together(batch, row, other)]
        if near:
            nearest = min(near, key=lambda other: int(batch.start_ns[other]))
            key = int(batch.request_key[nearest])
            shared = [other for other in near if key and int(batch.request_key[other]) == key]
            yield from ((row, other) for other in shared or [nearest])


def _go_together(batch: RequestBatch, first: int, second: int) -> bool:
    tokens = batch.number("prompt_tokens")
    is_same = tokens[first] == tokens[second] or MISSING in (tokens[first], tokens[second])
    gap_ns = int(batch.start_ns[second]) - int(batch.end_ns[first])
    is_later = batch.start_ns[second] >= batch.start_ns[first] + _EARLIEST_NS
    return bool(is_same and is_later and gap_ns <= _LATEST_NS and batch.view[first] == batch.view[second])


def _by_trace(
    batch: RequestBatch, prefill: NDArray[np.uint8], pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    left = np.ones(len(batch), dtype=np.bool_)
    left[[row for pair in pairs for row in pair]] = False
    first = np.flatnonzero(certain(prefill) & left)
    if not first.size:
        return
    # A second half is of the same framework: it is one that may be a half at all.
    frameworks = {batch.framework.at(row) for row in first.tolist()}
    second = np.flatnonzero((prefill == NOT_PREFILL) & left & batch.framework.among({f for f in frameworks if f}))
    firsts, seconds = _alone(batch.trace_id, first), _alone(batch.trace_id, second)
    for trace in firsts.keys() & seconds.keys():
        if batch.framework.at(firsts[trace]) == batch.framework.at(seconds[trace]):
            yield firsts[trace], seconds[trace]


def _alone(trace_id: Words, rows: Ints) -> dict[tuple[int, int], int]:
    """The rows that are the only ones of their trace, by trace."""
    found = defaultdict[tuple[int, int], list[int]](list)
    for row in rows.tolist():
        found[int(trace_id[row, 0]), int(trace_id[row, 1])].append(row)
    return {trace: of_trace[0] for trace, of_trace in found.items() if len(of_trace) == 1}


def with_prefill(batch: RequestBatch, first: Ints, second: Ints, told: Provenances | None) -> RequestBatch:
    """The batch in which each second half tells of the whole request."""
    fields = {name: column.copy() for name, column in batch.fields.items()}
    start = batch.start_ns.copy()
    start[second] = np.minimum(start[first], start[second])
    waited = batch.start_ns[second] - start[second]

    def put(name: str, column: Ints, source: Provenance) -> None:
        fields.setdefault(name, np.full(len(batch), MISSING, dtype=np.int64))
        is_new = (column != MISSING) & (column != fields[name][second])
        fields[name][second] = np.where(column == MISSING, fields[name][second], column)
        if told is not None and is_new.any():
            told.setdefault(name, np.zeros(len(batch), dtype=np.uint8))[second[is_new]] = source

    for name in _OF_FIRST:
        put(name, batch.number(name)[first], Provenance.PART)
    for name in _OF_EITHER:
        put(name, np.maximum(batch.number(name)[first], batch.number(name)[second]), Provenance.PART)
    for name in ("ttft", "e2e"):
        own = batch.number(name)[second]
        put(name, np.where(own == MISSING, MISSING, own + waited), Provenance.DERIVED)
    prefill, decode = fields.get("prefill"), fields.get("decode")
    if prefill is not None and decode is not None:
        known = (prefill[second] != MISSING) & (decode[second] != MISSING)
        put("inference", np.where(known, prefill[second] + decode[second], MISSING), Provenance.DERIVED)
    return replace(batch, start_ns=start, fields=fields)
