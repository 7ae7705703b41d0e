"""
What the parts of a request add up to: the time that at least one of them was under way.

A part need not be a child of its request: it belongs to the nearest one above
it, as far as the spans between them came in the same export.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from slo_exporter.ingest.otlp.conventions.fill import Fill, Measured
from slo_exporter.ingest.otlp.conventions.numbers import LONGEST_NS, known_only
from slo_exporter.ingest.otlp.conventions.places import first_places
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import MISSING, Ints, Mask, Words
from slo_exporter.sli.seen import mix

Parts: TypeAlias = Sequence[tuple[Fill, SpanBatch]]
"""What fills which field: part spans of one export, each as a child of its request."""

WALLED = -2
"""Instead of a request: none is asked for, since something between the two repeats another."""


def requests_above(spans: SpanBatch, requests: Ints, walls: Ints | None = None) -> Ints:
    """
    Per span of an export the row of the nearest of *requests*, rows too, above it; -1 where there is none.

    Below one of *walls*, and in it, it is `WALLED`. Every span points at its parent
    and every request at itself; each round doubles how far all of them point, so
    neither a long chain nor a circle costs more.
    """
    nowhere = len(spans)
    stops = np.zeros(nowhere + 1, dtype=np.bool_)
    stops[requests] = True
    if walls is not None:
        stops[walls] = True
    parent = _parents(spans, stops[:nowhere])
    above = np.append(np.where(parent < 0, nowhere, parent), nowhere)
    points_at = np.where(stops, np.arange(nowhere + 1), above)
    for _ in range(nowhere.bit_length()):
        further = points_at[points_at]
        if np.array_equal(further, points_at):
            break
        points_at = further
    nearest = points_at[above[:nowhere]]
    owner = np.where(stops[nearest], nearest, -1)
    if walls is not None:
        is_wall = np.zeros(nowhere + 1, dtype=np.bool_)
        is_wall[walls] = True
        owner[is_wall[owner] & (owner >= 0) | is_wall[:nowhere]] = WALLED
    return owner


def _parents(spans: SpanBatch, stops: Mask) -> Ints:
    """Per span the row of its parent, -1 where that is not here; spans that stop come before others of their id."""
    rows = np.append(np.flatnonzero(stops), np.flatnonzero(~stops))
    children = np.flatnonzero(spans.parent_id)
    parent = np.full(len(spans), -1)
    if children.size:
        wanted = identity(spans, spans.parent_id)[children]
        place = first_places(identity(spans, spans.span_id)[rows], wanted)
        parent[children] = np.where(place < 0, -1, rows[place])
    return parent


def as_children(spans: SpanBatch, parts: Ints, above: Ints) -> SpanBatch:
    """The spans at the rows *parts*, as if each were a child of the request *above* it, see `requests_above`."""
    owners = above[parts]
    found = parts[owners >= 0]
    return replace(spans.take(found), parent_id=spans.span_id[owners[owners >= 0]])


def filling(spans: SpanBatch, fill: Fill, parts: Ints, above: Ints) -> SpanBatch:
    """The spans at the rows *parts* that fill something, each as a child of its request, over its interval."""
    owned = parts[above[parts] >= 0]
    start, end = fill.interval(spans, owned)
    return replace(as_children(spans, owned, above), start_ns=start, end_ns=end)


def measured(spans: SpanBatch, fill: Fill, parts: SpanBatch) -> Ints:
    """What *fill* tells of each of *spans*, requests, from its children among *parts*; `MISSING` where nothing."""
    if fill.measured is Measured.TIME:
        return time_in_parts(spans, parts)
    parts = parts.take(parts.start_ns <= parts.end_ns)
    owners, column = identity(spans, spans.span_id), np.full(len(spans), MISSING, dtype=np.int64)
    if not len(parts):
        return column
    is_first = fill.measured is Measured.UNTIL_FIRST
    parents = identity(parts, parts.parent_id)
    order = np.argsort(parents, kind="stable")
    distinct, heads, sizes = np.unique(parents[order], return_index=True, return_counts=True)
    instants = (
        np.minimum.reduceat(parts.start_ns[order], heads)
        if is_first
        else np.maximum.reduceat(parts.end_ns[order], heads)
    )
    at = np.minimum(np.searchsorted(distinct, owners), len(distinct) - 1)
    times = instants[at] - spans.start_ns
    known = (distinct[at] == owners) & (sizes[at] >= fill.at_least) & (times >= 0) & (times < LONGEST_NS)
    return known_only(known, times)


def time_in_parts(spans: SpanBatch, parts: SpanBatch) -> Ints:
    """
    Per request the union of the intervals of its children among *parts*.

    Missing where it has none. A part that ends before it starts fills nothing,
    and one whose parent is no row of *spans* has nobody to fill.
    """
    parts = parts.take(parts.start_ns <= parts.end_ns)
    owners = identity(spans, spans.span_id)
    if not len(parts):
        return np.full(len(owners), MISSING, dtype=np.int64)
    parents, times = _unions(identity(parts, parts.parent_id), parts.start_ns, parts.end_ns)
    at = np.minimum(np.searchsorted(parents, owners), len(parents) - 1)
    return known_only((parents[at] == owners) & (times[at] < LONGEST_NS), times[at])


def identity(spans: SpanBatch, span_id: Words) -> Words:
    """A 64-bit hash of the trace of each span and of *span_id*, its own or its parent's."""
    return mix(spans.apart(spans.trace_id[:, 0]), spans.trace_id[:, 1], span_id)


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


def orphaned(parts: SpanBatch) -> tuple[Ints, Ints]:
    """
    Parts whose request is elsewhere, those under one parent together.

    Returns:
        The first row of each group, ascending, and the union of its intervals, at least one.
    """
    rows = np.flatnonzero(parts.start_ns <= parts.end_ns)
    if not rows.size:
        return rows, rows
    parts = parts.take(rows)
    owners = identity(parts, parts.parent_id)
    _, times = _unions(owners, parts.start_ns, parts.end_ns)
    first = rows[np.unique(owners, return_index=True)[1]]
    order = np.argsort(first)
    return first[order], times[order]
