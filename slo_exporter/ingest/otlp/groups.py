"""
Exports that are understood together, and each of them again.

A step of numpy costs the same for one export and for ten. So their spans stand
one after the other in one batch, each with the number of its export, and what is
found of them is cut at the same places. Nothing of one touches another: see
`SpanBatch.apart`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from slo_exporter.ingest.otlp.spans import MOST_TOGETHER, Attribute, Columns, SpanBatch, ValueKind
from slo_exporter.sli.records import MISSING, NO_STAGE_TIMES, Ints, Mask, RequestBatch, StageTimes, concat_stages
from slo_exporter.sli.texts import Texts, concat_texts, missing_texts

MOST_ROWS = 16_384
"""Spans of a group: more of them at once gain nothing, and what one export holds keeps the whole group alive."""

Doubtful: TypeAlias = Counter[tuple[int, str, str]]
"""What is doubtful, by (export, service, reason)."""


class Homeless(NamedTuple):
    """Time in stages of requests that are in other exports, and the export of each; None where all are of one."""

    stages: StageTimes
    exports: Ints | None


_Rows = TypeVar("_Rows", RequestBatch, StageTimes)


def in_groups(sizes: Sequence[int]) -> Iterator[slice]:
    """Cut exports of *sizes* spans, in order, into groups of at most `MOST_ROWS` spans: a larger one is alone."""
    start = rows = 0
    for at, size in enumerate(sizes):
        if at > start and (rows + size > MOST_ROWS or at - start == MOST_TOGETHER):
            yield slice(start, at)
            start, rows = at, 0
        rows += size
    if sizes:
        yield slice(start, len(sizes))


def together(batches: Sequence[SpanBatch]) -> SpanBatch:
    """The spans of several exports, at least one, one after the other; a key or an event of one is a column of all."""
    if len(batches) == 1:
        return batches[0]
    sizes = [len(b) for b in batches]
    return SpanBatch(
        trace_id=np.concatenate([b.trace_id for b in batches]),
        span_id=np.concatenate([b.span_id for b in batches]),
        parent_id=np.concatenate([b.parent_id for b in batches]),
        start_ns=np.concatenate([b.start_ns for b in batches]),
        end_ns=np.concatenate([b.end_ns for b in batches]),
        kind=np.concatenate([b.kind for b in batches]),
        status=np.concatenate([b.status for b in batches]),
        name=_distinct([b.name for b in batches]),
        scope=_distinct([b.scope for b in batches]),
        service=_distinct([b.service for b in batches]),
        attributes=_columns([b.attributes for b in batches], sizes),
        resource=_columns([b.resource for b in batches], sizes),
        events=_events(batches),
        lost_events=_lost_events(batches),
        exports=np.repeat(np.arange(len(batches)), sizes),
    )


def counts(exports: Ints | None, rows: Ints | Mask, number: int) -> Ints:
    """How many of some rows, each once, are of each of *number* exports; *exports*: of every row, None for one."""
    many = np.count_nonzero(rows) if rows.dtype == np.bool_ else len(rows)
    if exports is None:
        return np.array([many])
    if not many:
        return np.zeros(number, dtype=np.int64)
    return np.bincount(exports if many == len(exports) else exports[rows], minlength=number)


def apiece(rows: _Rows, exports: Ints | None, number: int) -> list[_Rows]:
    """The rows of each of *number* exports; *exports*: of every row, ascending, None where there is one."""
    if exports is None:
        return [rows]
    bounds = np.searchsorted(exports, np.arange(number + 1)).tolist()
    return [rows.take(slice(*bounds[at : at + 2])) for at in range(number)]


def homeless_apiece(found: Sequence[Homeless], number: int) -> list[StageTimes]:
    """What was found of each of *number* exports, in order."""
    found = [each for each in found if len(each.stages)]
    if not found:
        return [NO_STAGE_TIMES] * number
    stages = concat_stages([each.stages for each in found])
    known = [each.exports for each in found if each.exports is not None]
    if not known:
        return [stages] * number
    exports = np.concatenate(known)
    order = np.argsort(exports, kind="stable")
    return apiece(stages.take(order), exports[order], number)


def doubts_apiece(doubtful: Sequence[Doubtful], number: int) -> list[Counter[tuple[str, str]]]:
    """What is doubtful about each of *number* exports, by (service, reason)."""
    doubts = [Counter[tuple[str, str]]() for _ in range(number)]
    for counted in doubtful:
        for (export, service, reason), count in counted.items():
            doubts[export][service, reason] += count
    return doubts


def by_value(texts: Texts, exports: Ints | None, rows: Ints | Mask) -> Iterator[tuple[int, int, int]]:
    """Count *rows* by export and text: each export, the index of the text and how many rows have it."""
    width, codes = len(texts.values) + 1, texts.codes
    if rows.dtype != np.bool_ or np.count_nonzero(rows) < len(rows):
        codes, exports = codes[rows], None if exports is None else exports[rows]
    keys = codes + 1 if exports is None else exports * width + (codes + 1)
    found = np.bincount(keys)
    for key in found.nonzero()[0].tolist():
        export, code = divmod(key, width)
        if code:
            yield export, code - 1, int(found[key])


def _distinct(columns: Sequence[Texts]) -> Texts:
    """One column after the other, each text once: of a few that all exports have."""
    if all(column.values == columns[0].values for column in columns):
        return Texts(columns[0].values, np.concatenate([column.codes for column in columns]))
    places: dict[str, int] = {}
    codes = []
    for column in columns:
        place = [places.setdefault(text, len(places)) for text in column.values]
        codes.append(np.array([*place, -1], dtype=np.int32)[column.codes])
    return Texts(tuple(places), np.concatenate(codes))


def _columns(mappings: Sequence[Mapping[str, Attribute]], sizes: Sequence[int]) -> Columns:
    no_texts = missing_texts(sum(sizes))

    def pieces(key: str) -> Sequence[Attribute]:
        known = (mapping.get(key) for mapping in mappings)
        return [_absent(rows) if one is None else one for one, rows in zip(known, sizes, strict=True)]

    return Columns((key for mapping in mappings for key in mapping), lambda key: _column(pieces(key), no_texts), pieces)


def _column(columns: Sequence[Attribute], no_texts: Texts) -> Attribute:
    kind = np.concatenate([column.kind for column in columns])
    number = np.concatenate([column.number for column in columns])
    texts = [column.text for column in columns]
    return Attribute(kind, number, concat_texts(texts) if any(text.values for text in texts) else no_texts)


def _absent(rows: int) -> Attribute:
    kind = np.full(rows, ValueKind.ABSENT, dtype=np.uint8)
    return Attribute(kind, np.full(rows, np.nan), missing_texts(rows))


def _events(batches: Sequence[SpanBatch]) -> dict[str, Ints]:
    names = dict.fromkeys(name for batch in batches for name in batch.events)
    return {
        name: np.concatenate(
            [b.events[name] if name in b.events else np.full(len(b), MISSING, dtype=np.int64) for b in batches]
        )
        for name in names
    }


def _lost_events(batches: Sequence[SpanBatch]) -> Mask | None:
    if all(batch.lost_events is None for batch in batches):
        return None
    return np.concatenate(
        [np.zeros(len(b), dtype=np.bool_) if b.lost_events is None else b.lost_events for b in batches]
    )
