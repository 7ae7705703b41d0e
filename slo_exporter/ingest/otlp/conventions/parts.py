"""
What the parts of a request add up to: the time that at least one of them was under way.

A part need not be a child of its request: it belongs to the nearest one above
it, as far as the spans between them came in the same export.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from slo_exporter.ingest.otlp.conventions.numbers import LONGEST_NS, known_only
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import MISSING, Ints, Words
from slo_exporter.sli.seen import mix

Parts = Mapping[str, SpanBatch]
"""The part spans of one export, by the field that they fill, each as a child of its request."""


def requests_above(spans: SpanBatch, requests: Ints) -> Ints:
    """
    Per span of an export the row of the nearest of *requests*, rows too, above it; -1 where there is none.

    Every span points at its parent and every request at itself; each round doubles
    how far all of them point, so neither a long chain nor a circle costs more.
    """
    nowhere = len(spans)
    is_request = np.zeros(nowhere + 1, dtype=np.bool_)
    is_request[requests] = True
    order = np.argsort(~is_request[:nowhere], kind="stable")  # of spans that share an id a request comes first
    ids, first = np.unique(_identity(spans, spans.span_id)[order], return_index=True)
    parents = _identity(spans, spans.parent_id)
    at = np.minimum(np.searchsorted(ids, parents), len(ids) - 1)
    above = np.append(np.where(ids[at] == parents, order[first[at]], nowhere), nowhere)
    points_at = np.where(is_request, np.arange(nowhere + 1), above)
    for _ in range(nowhere.bit_length()):
        points_at = points_at[points_at]
    nearest = points_at[above[:nowhere]]
    return np.where(is_request[nearest], nearest, -1)


def as_children(spans: SpanBatch, parts: Ints, requests: Ints) -> SpanBatch:
    """The spans at the rows *parts*, as if each were a child of the one of *requests* above it."""
    above = requests_above(spans, requests)[parts]
    found = parts[above >= 0]
    return replace(spans.take(found), parent_id=spans.span_id[above[above >= 0]])


def time_in_parts(spans: SpanBatch, parts: SpanBatch) -> Ints:
    """
    Per request the union of the intervals of its children among *parts*.

    Missing where it has none. A part that ends before it starts fills nothing,
    and one whose parent is no row of *spans* has nobody to fill.
    """
    parts = parts.take(parts.start_ns <= parts.end_ns)
    owners = _identity(spans, spans.span_id)
    if not len(parts):
        return np.full(len(owners), MISSING, dtype=np.int64)
    parents, times = _unions(_identity(parts, parts.parent_id), parts.start_ns, parts.end_ns)
    at = np.minimum(np.searchsorted(parents, owners), len(parents) - 1)
    return known_only((parents[at] == owners) & (times[at] < LONGEST_NS), times[at])


def _identity(spans: SpanBatch, span_id: Words) -> Words:
    return mix(spans.trace_id[:, 0], spans.trace_id[:, 1], span_id)


def _unions(owners: Words, start: Ints, end: Ints) -> tuple[Words, Ints]:
    """
    Each owner, ascending, and the length of the union of its intervals.

    In order of their starts an interval adds what reaches beyond the furthest
    end so far. Ends are compared by their rank, so that one running maximum over
    owner × rows + rank is the furthest end of each owner.
    """
    order = np.lexsort((start, owners))
    owners, start, end = owners[order], start[order], end[order]
    distinct, heads, group = np.unique(owners, return_index=True, return_inverse=True)
    ends, rank = np.unique(end, return_inverse=True)
    furthest = ends[np.maximum.accumulate(group * len(end) + rank) % len(end)]
    reached = np.append(start[:1], furthest[:-1])
    reached[heads] = start[heads]
    added = np.maximum(end - np.maximum(start, reached), 0)
    return distinct, np.add.reduceat(added, heads)
