"""
A request in two halves: one engine prefills, another one goes on and decodes.

What the second half measures begins with its own start; the request began with
the first.

Source: the engines' own clocks: ttft = decode.start + decode.ttft − prefill.start.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import NOT_PREFILL, PREFILL
from slo_exporter.ingest.otlp.conventions.fields import Provenance, Provenances
from slo_exporter.ingest.otlp.conventions.texts import hash64
from slo_exporter.sli.halves import AT_ONCE_NS, EARLIEST_NS
from slo_exporter.sli.records import MISSING, Ints, Mask, RequestBatch

_OF_FIRST: Final = ("queue", "preprocess", "prefill")
"""Stages that the first half went through."""
_OF_EITHER: Final = ("prompt_tokens", "cached_tokens")
OF_FIRST_HALF: Final = frozenset((*_OF_FIRST, *_OF_EITHER))
"""What a first half tells of the whole request."""
_LATEST_NS: Final = 60_000_000_000
"""It starts so long after the end of what is certainly a first half; at once after what may be one."""
_MOST_LOOKED_AT: Final = 64
"""Rows with one id that are looked at for each first half: one, or the children of ``n > 1``."""


def certain(prefill: NDArray[np.uint8]) -> Mask:
    """Rows that are certainly first halves."""
    is_first: Mask = prefill == PREFILL
    return is_first


def halves(batch: RequestBatch, prefill: NDArray[np.uint8], exports: Ints | None = None) -> tuple[Ints, Ints]:
    """
    Rows that are first halves, and the second half of each; several of both where ``n > 1``.

    They share a request id; or, where one is certainly a first half, they are
    the only ones of their trace. Both are of one framework, with the same prompt,
    and the second one follows at once.

    Args:
        batch: of one export, or of several.
        prefill: `Convention.prefill` of each row.
        exports: then the export of each row: both halves are of one.
    """
    first = np.flatnonzero(prefill != NOT_PREFILL)
    if not first.size:
        return first, first
    pairs = _Pairs(batch, prefill, np.zeros(len(batch), dtype=np.int64) if exports is None else exports)
    by_id = [*pairs.by_id(first)]
    found = np.array(sorted([*by_id, *pairs.by_trace(by_id)]), dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


class _Pairs:
    """Finds the second halves of first ones."""

    def __init__(self, batch: RequestBatch, prefill: NDArray[np.uint8], exports: Ints) -> None:
        self._batch, self._prefill, self._exports = batch, prefill, exports
        self._framework = hash64(batch.framework)
        self._tokens = batch.number("prompt_tokens")

    def by_id(self, first: Ints) -> Iterator[tuple[int, int]]:
        """Each first half with the second half nearest to it, and with those that share the request of that one."""
        start, key = self._batch.start_ns, self._batch.pair_key
        first = first[key[first] != 0]
        first = first[np.argsort(start[first], kind="stable")]
        second = np.flatnonzero(np.isin(key, key[first]) & ~certain(self._prefill) & self._batch.is_engine)
        of_key = defaultdict[tuple[int, int], list[int]](list)
        for row in second[np.argsort(start[second], kind="stable")].tolist():
            of_key[int(self._exports[row]), int(key[row])].append(row)
        starts = {one: [int(start[row]) for row in rows] for one, rows in of_key.items()}
        taken = set[int]()
        for row in first.tolist():
            one = int(self._exports[row]), int(key[row])
            if row in taken or one not in of_key:
                continue
            at = bisect_left(starts[one], int(start[row]) - EARLIEST_NS)
            near = [other for other in of_key[one][at : at + _MOST_LOOKED_AT] if self._go_together(row, other)]
            near = [other for other in near if self._prefill[other] == NOT_PREFILL] or near
            if near:
                request = int(self._batch.request_key[near[0]])
                shared = [other for other in near if request and int(self._batch.request_key[other]) == request]
                taken.update(shared or near[:1])
                yield from ((row, other) for other in shared or near[:1])

    def by_trace(self, pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Those that are alone in their trace."""
        left = np.ones(len(self._batch), dtype=np.bool_)
        left[[row for pair in pairs for row in pair]] = False
        first = np.flatnonzero(certain(self._prefill) & left)
        if not first.size:
            return
        is_alike = np.isin(self._framework, self._framework[first])
        is_second = ~certain(self._prefill) & left & self._batch.is_engine & is_alike
        firsts, seconds = self._alone(first), self._alone(np.flatnonzero(is_second))
        for trace in firsts.keys() & seconds.keys():
            if self._go_together(firsts[trace], seconds[trace]):
                yield firsts[trace], seconds[trace]

    def _alone(self, rows: Ints) -> dict[tuple[int, ...], int]:
        """The rows that are the only ones of their export, trace and framework, by all three."""
        found = defaultdict[tuple[int, ...], list[int]](list)
        for row in rows.tolist():
            trace = self._batch.trace_id[row].tolist()
            found[int(self._exports[row]), *trace, int(self._framework[row])].append(row)
        return {trace: of_trace[0] for trace, of_trace in found.items() if len(of_trace) == 1}

    def _go_together(self, first: int, second: int) -> bool:
        batch, tokens = self._batch, self._tokens
        if first == second or self._framework[first] != self._framework[second]:
            return False
        is_same = tokens[first] == tokens[second] or MISSING in (tokens[first], tokens[second])
        latest = _LATEST_NS if self._prefill[first] == PREFILL else AT_ONCE_NS
        is_later = batch.start_ns[second] >= batch.start_ns[first] - EARLIEST_NS
        is_near = batch.start_ns[second] <= batch.end_ns[first] + latest
        # Two that look alike are children of one request, unless the one follows the other.
        is_after = self._prefill[second] == NOT_PREFILL or batch.start_ns[second] >= batch.end_ns[first]
        return bool(is_same and is_later and is_near and is_after and batch.view[first] == batch.view[second])


def nearest(batch: RequestBatch, first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Of several first halves of one request, such as a second try, the one that began last."""
    order = np.lexsort((batch.fingerprint[first], batch.start_ns[first], second))
    first, second = first[order], second[order]
    is_last = np.append(second[1:] != second[:-1], True)[: len(second)]
    return first[is_last], second[is_last]


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
