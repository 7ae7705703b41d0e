"""
One request is one record: what several spans of one export say of it.

Within one service and view, spans with the same request id whose intervals
overlap are one request: the children of ``n > 1``. A reused id that does not
overlap is another request (docs/laws.md, "One record per view"). A server's
children each made tokens of their own; on the side of a client or a gateway two
spans of one request are two layers that tell of the same tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.records import MISSING, Ints, Mask, RequestBatch, View, Words


@dataclass(frozen=True, slots=True)
class _Rule:
    """How the values of several spans become one; *neutral* changes nothing."""

    combine: np.ufunc
    neutral: int


_LEAST: Final = _Rule(np.minimum, int(np.iinfo(np.int64).max))
_MOST: Final = _Rule(np.maximum, MISSING)
_SUM: Final = _Rule(np.add, 0)

_SEVERITY: Final = np.array([0, 5, 4, 3, 2, 1], dtype=np.uint8)
"""By `Outcome`: error is the worst, then as they stand, and ok the best. Its own inverse."""

_RULES: Final[Mapping[str, _Rule]] = {
    "queue": _LEAST,
    "preprocess": _LEAST,
    "prefill": _LEAST,
    "ttft": _LEAST,
    "e2e": _MOST,
    "decode": _MOST,
    "inference": _MOST,
    "postprocess": _MOST,
    "inter_token": _MOST,
    "prompt_tokens": _MOST,
    "cached_tokens": _MOST,
    "completion_tokens": _SUM,
    "step": _MOST,
    "data_wait": _MOST,
    "samples": _SUM,
}


def without_repeats(batch: RequestBatch) -> RequestBatch:
    """The batch with each span once, first wins."""
    first = first_rows(batch)
    return batch if len(first) == len(batch) else batch.take(first)


def first_rows(batch: RequestBatch, exports: Ints | None = None) -> Ints:
    """The rows whose span stands nowhere before them, ascending; *exports*: see `requests_of`."""
    marks = batch.fingerprint
    if not _repeated(marks).size:
        return np.arange(len(batch))
    of = np.zeros(len(batch), dtype=np.int64) if exports is None else exports
    order = np.lexsort((marks, of))  # of equal ones the first row stays first
    again = (marks[order[1:]] == marks[order[:-1]]) & (of[order[1:]] == of[order[:-1]])
    return np.sort(order[np.append(True, ~again)])


def join(batch: RequestBatch) -> RequestBatch:
    """The batch with one row per request."""
    return joined(batch, *requests_of(batch))


def joined(batch: RequestBatch, order: Ints, heads: Ints) -> RequestBatch:
    """The batch with one row per request, which `requests_of` says."""
    if len(heads) == len(batch):
        return batch
    first = batch.take(order[heads])
    shares = first.view == View.SERVER
    return replace(
        first,
        end_ns=np.maximum.reduceat(batch.end_ns[order], heads),
        outcome=worst_outcomes(batch.outcome[order], heads),
        fields={name: _joined(name, column[order], heads, shares) for name, column in batch.fields.items()},
    )


def requests_of(batch: RequestBatch, exports: Ints | None = None) -> tuple[Ints, Ints]:
    """
    Which rows are one request.

    Args:
        batch: of one export, or of several, one after the other.
        exports: then the export of each row, ascending: rows of two are two requests.

    Returns:
        The rows, those of one request side by side, the earliest first; and
        where in them each request begins. An export in which nothing joins keeps its order.
    """
    rows = np.arange(len(batch))
    if not _repeated(batch.request_key).any():
        return rows, rows
    of = np.zeros(len(batch), dtype=np.int64) if exports is None else exports
    order = np.lexsort((batch.start_ns, batch.request_key, of))
    opens = _opens(batch, order, of)
    joins = np.zeros(int(of[-1]) + 1, dtype=np.bool_)
    joins[of[~opens]] = True
    return np.where(joins[of], order, rows), np.flatnonzero(opens)


def _repeated(keys: Words) -> Words:
    """The keys that several rows have; no test of it costs less than to sort."""
    keys = np.sort(keys)
    repeated: Words = keys[1:][keys[1:] == keys[:-1]]
    return repeated


def _opens(batch: RequestBatch, order: Ints, of: Ints) -> Mask:
    """Rows, in *order*, that begin a request: another export or id, or no overlap with it so far."""
    keys, start, end = batch.request_key[order], batch.start_ns[order], batch.end_ns[order]
    opens = np.ones(len(order), dtype=np.bool_)
    reached = head_start = 0
    for row in np.flatnonzero((keys[1:] == keys[:-1]) & (keys[1:] != 0) & (of[1:] == of[:-1])) + 1:
        if opens[row - 1]:
            reached, head_start = int(end[row - 1]), int(start[row - 1])
        opens[row] = not (start[row] < reached or start[row] == head_start)
        reached = max(reached, int(end[row]))
    return opens


def combined_values(name: str, column: Ints, heads: Ints) -> Ints:
    """One field of requests from spans that tell of the same tokens; *heads*: where each request begins."""
    rule = _RULES[name]
    return _combined(_MOST if rule is _SUM else rule, column, heads)


def shared_out(column: Ints, owners: Ints, request_key: Words) -> Ints:
    """
    Tokens of rows, those of one owner that share a request id summed: each made tokens of its own.

    Every one of them then has the sum.
    """
    order = np.lexsort((request_key, owners))
    owner, key = owners[order], request_key[order]
    opens = np.ones(len(order), dtype=np.bool_)
    opens[1:] = (owner[1:] != owner[:-1]) | (key[1:] != key[:-1]) | (key[1:] == 0)
    sums = _combined(_SUM, column[order], np.flatnonzero(opens))
    shared = np.empty_like(column)
    shared[order] = sums[np.cumsum(opens) - 1]
    return shared


def worst_outcomes(outcome: NDArray[np.uint8], heads: Ints) -> NDArray[np.uint8]:
    """The worst `Outcome` of each request; *heads*: where each begins."""
    worst: NDArray[np.uint8] = _SEVERITY[np.maximum.reduceat(_SEVERITY[outcome], heads)]
    return worst


def _joined(name: str, column: Ints, heads: Ints, shares: Mask) -> Ints:
    """One field of each request; *shares*: its spans made tokens, or samples, each."""
    rule = _RULES[name]
    combined = _combined(rule, column, heads)
    return combined if rule is not _SUM or shares.all() else np.where(shares, combined, _combined(_MOST, column, heads))


def _combined(rule: _Rule, column: Ints, heads: Ints) -> Ints:
    """Combine the known values of each request; `MISSING` where none is known."""
    unknown = column == MISSING
    combined = rule.combine.reduceat(np.where(unknown, rule.neutral, column), heads)
    return np.where(np.logical_and.reduceat(unknown, heads), MISSING, combined)
