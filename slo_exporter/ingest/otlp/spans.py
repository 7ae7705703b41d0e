"""
A decoded export in columns: one row a span.

Only asked-for attribute keys have a column; all others were skipped unread.
Row i of every column is the same span.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.records import Ints, Mask, Rows, Words
from slo_exporter.sli.texts import Texts, concat_texts

MOST_TOGETHER: Final = 64
"""Exports that may stand in one batch."""
_APART: Final = np.array([hash(f"export {number}") for number in range(MOST_TOGETHER)]).astype(np.uint64)
"""
A word for each of them. It is Python's own hash, salted per process: no trace id
of one export is, but by a chance of 2^-64, that of another under these.
"""

STATUS_DESCRIPTION: Final = "otel.status_description"
"""
Stands for the status message of a span; a span without one has no value.

Source: the OpenTelemetry specification, "Transformation to non-OTLP formats": the
attribute of exporters to formats that have no such field.
"""
EXCEPTION_TYPE: Final = "exception.type"
"""
Stands for the attribute of that name of the last event named `EXCEPTION`, if it is text.

Source: OpenTelemetry semantic conventions, "Exceptions on spans".
"""
EXCEPTION: Final = "exception"
"""Name of the event that records an exception."""


class ValueKind(IntEnum):
    """Type of an attribute's value; arrays, maps and bytes count as absent."""

    ABSENT = 0
    NUMBER = 1
    TEXT = 2
    BOOL = 3


@dataclass(frozen=True, slots=True)
class Attribute:
    """The values of one attribute key."""

    kind: NDArray[np.uint8]
    """`ValueKind` per row."""
    number: NDArray[np.float64]
    """Value of NUMBER (int or double) and BOOL (0 or 1); NaN elsewhere."""
    text: Texts
    """Value of TEXT; the decimal digits of an int that a double cannot hold; missing elsewhere."""

    def words(self) -> Texts:
        """The values of TEXT alone."""
        if self.is_all(ValueKind.TEXT):
            return self.text
        return Texts(self.text.values, np.where(self.kind == ValueKind.TEXT.value, self.text.codes, np.int32(-1)))

    def is_all(self, kind: ValueKind) -> bool:
        """Whether every value is of *kind*: as of most columns, which is told fastest of the bytes as they lie."""
        return self.kind.tobytes() == bytes((kind,)) * len(self.kind)

    def take(self, rows: Rows) -> "Attribute":
        """The same column for some rows, or with rows repeated."""
        return Attribute(self.kind[rows], self.number[rows], self.text.take(rows))


class Columns(Mapping[str, Attribute]):
    """
    Attributes by key, each made when it is first asked for: of most spans a few are ever read.

    Args:
        keys: in order; *make* is asked for these alone.
        make: makes the column of a key.
        pieces: gives the pieces that it is made of; None: there are none.
    """

    def __init__(
        self,
        keys: Iterable[str],
        make: Callable[[str], Attribute],
        pieces: Callable[[str], Sequence[Attribute]] | None = None,
    ) -> None:
        self._made = dict[str, Attribute | None].fromkeys(keys)
        self._make = make
        self._pieces = pieces

    def pieces(self, key: str) -> Sequence[Attribute]:
        """Give the column of one key in pieces, one after the other."""
        return (self[key],) if self._pieces is None else self._pieces(key)

    def __getitem__(self, key: str) -> Attribute:
        """Give the column of one key."""
        made = self._made[key]
        if made is None:
            made = self._made[key] = self._make(key)
        return made

    def __contains__(self, key: object) -> bool:
        """Whether any row has a value; no column is made for that."""
        return key in self._made

    def __iter__(self) -> Iterator[str]:
        """Give the keys."""
        return iter(self._made)

    def __len__(self) -> int:
        """How many keys."""
        return len(self._made)


def _some_rows(columns: Mapping[str, Attribute], rows: Rows) -> Columns:
    return Columns(columns, lambda key: columns[key].take(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBatch:
    """The spans that were accepted of one export, or of several that stand together."""

    trace_id: Words
    """Shape (n, 2): the 16 bytes as two big-endian words."""
    span_id: Words
    parent_id: Words
    """0 = a root; no valid span id is 0."""
    start_ns: Ints
    end_ns: Ints
    kind: NDArray[np.uint8]
    """OTLP SpanKind; UNSPECIFIED became INTERNAL (C12)."""
    status: NDArray[np.uint8]
    """OTLP StatusCode: 0 unset, 1 ok, 2 error."""
    name: Texts
    scope: Texts
    service: Texts
    """``service.name``; ``unknown_service`` where the resource has none."""
    attributes: Mapping[str, Attribute]
    """Span attributes by key; an asked-for key without a value has no entry."""
    resource: Mapping[str, Attribute]
    """Resource attributes, repeated per span."""
    events: Mapping[str, Ints] = field(default_factory=dict)
    """By asked-for name when the span's first event of that name was, `MISSING` without one."""
    lost_events: Mask | None = None
    """Spans that say that events of theirs were dropped; None where none does."""
    exports: Ints | None = None
    """Which export each span is of, ascending from 0 and below `MOST_TOGETHER`; None where all are of one."""

    def apart(self, words: Words) -> Words:
        """The *words*, one a span, so that those of two exports differ: spans of two have nothing in common."""
        return words if self.exports is None else words ^ _APART[self.exports]

    def pieces(self, key: str) -> Sequence[Attribute]:
        """
        The column of the span attribute *key* in pieces, one after the other; none where it has no entry.

        Each is of one of the exports that stand together. What is read once, and row by row, need not be put together.
        """
        if key not in self.attributes:
            return ()
        return self.attributes.pieces(key) if isinstance(self.attributes, Columns) else (self.attributes[key],)

    def __len__(self) -> int:
        """How many spans."""
        return len(self.end_ns)

    def take(self, rows: Rows) -> "SpanBatch":
        """The same columns for some spans."""
        return SpanBatch(
            trace_id=self.trace_id[rows],
            span_id=self.span_id[rows],
            parent_id=self.parent_id[rows],
            start_ns=self.start_ns[rows],
            end_ns=self.end_ns[rows],
            kind=self.kind[rows],
            status=self.status[rows],
            name=self.name.take(rows),
            scope=self.scope.take(rows),
            service=self.service.take(rows),
            attributes=_some_rows(self.attributes, rows),
            resource=_some_rows(self.resource, rows),
            events={name: times[rows] for name, times in self.events.items()},
            lost_events=None if self.lost_events is None else self.lost_events[rows],
            exports=None if self.exports is None else self.exports[rows],
        )


def concat_spans(batches: Sequence[SpanBatch]) -> SpanBatch:
    """Spans of the same exports one after the other, at least one batch, without attributes and events."""
    if len(batches) == 1:
        return batches[0]
    exports = [b.exports for b in batches if b.exports is not None]
    return SpanBatch(
        trace_id=np.concatenate([b.trace_id for b in batches]),
        span_id=np.concatenate([b.span_id for b in batches]),
        parent_id=np.concatenate([b.parent_id for b in batches]),
        start_ns=np.concatenate([b.start_ns for b in batches]),
        end_ns=np.concatenate([b.end_ns for b in batches]),
        kind=np.concatenate([b.kind for b in batches]),
        status=np.concatenate([b.status for b in batches]),
        name=concat_texts([b.name for b in batches]),
        scope=concat_texts([b.scope for b in batches]),
        service=concat_texts([b.service for b in batches]),
        attributes={},
        resource={},
        exports=np.concatenate(exports) if exports else None,
    )
