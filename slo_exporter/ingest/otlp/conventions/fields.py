"""
The number fields of requests, each from the first source that has a value.

In order of precedence: an attribute of the request span, its parts, its events,
what is derived from other fields. ``e2e`` comes last from the span's own time.
Where an attribute tells less exactly what parts tell, `Convention.parts_first` names the field;
where it does so even than what is derived, `Convention.last` does.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import TEXT, Between, Convention, Derived, Source
from slo_exporter.ingest.otlp.conventions.numbers import (
    LONGEST_NS,
    Floats,
    counts,
    durations,
    known_only,
    members,
    nanoseconds_of_texts,
    numbers,
    span_durations,
)
from slo_exporter.ingest.otlp.conventions.parts import Parts, measured
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch
from slo_exporter.sli.quantity import UNIT_NS
from slo_exporter.sli.records import FIELDS, MISSING, Ints, Kind

NO_PARTS: Final[Parts] = ()
_TIMES: Final = frozenset(name for name, kind in FIELDS.items() if kind is Kind.DURATION)
"""Fields in nanoseconds; the others are counts."""
_MOST_AT_ONCE: Final = 32_768
"""Numbers in 256 KiB."""


class Provenance(IntEnum):
    """Where a value comes from."""

    ATTRIBUTE = 1
    PART = 2
    EVENT = 3
    DERIVED = 4
    SPAN = 5


Provenances = MutableMapping[str, NDArray[np.uint8]]
"""Per field and row a `Provenance`, 0 where the value is missing."""


def fields_of(
    spans: SpanBatch, convention: Convention, parts: Parts = NO_PARTS, told: Provenances | None = None
) -> dict[str, Ints]:
    """
    Every number field that *convention* knows, `MISSING` where unknown.

    Args:
        spans: one row a request.
        convention: how their framework writes.
        parts: the part spans of the same export, by the field that they fill.
        told: filled with where each value comes from; costs nothing when not asked for.
    """
    filling = _Filling(len(spans), told)
    for fill, of_parts in parts:
        if fill.field in convention.parts_first:
            filling.fill(fill.field, measured(spans, fill, of_parts), Provenance.PART)
    filling.from_attributes(spans, convention.sources)
    for fill, of_parts in parts:
        filling.fill(fill.field, measured(spans, fill, of_parts), Provenance.PART)
    for between in convention.betweens:
        filling.fill(between.field, _between(spans, between), Provenance.EVENT)
    if not filling.is_full("e2e"):
        filling.fill("e2e", span_durations(spans), Provenance.SPAN)
    if not convention.derives_late:
        _derive_all(filling, convention, spans)
    return filling.fields


def derive(
    fields: dict[str, Ints], convention: Convention, spans: SpanBatch, rows: Ints, told: Provenances | None
) -> None:
    """Fill at *rows* of *fields* what *convention* derives; *spans* are those of the rows."""
    size = len(next(iter(fields.values())))
    own = None if told is None else {name: column[rows] for name, column in told.items()}
    filling = _Filling(len(rows), own)
    filling.fields.update((name, column[rows]) for name, column in fields.items())
    _derive_all(filling, convention, spans)
    for name, column in filling.fields.items():
        fields.setdefault(name, np.full(size, MISSING, dtype=np.int64))[rows] = column
    if told is None:
        return
    for name, sources in (own or {}).items():
        told.setdefault(name, np.zeros(size, dtype=np.uint8))[rows] = sources


def _derive_all(filling: "_Filling", convention: Convention, spans: SpanBatch) -> None:
    """What follows from other fields, and what is believed only where nothing does."""
    sequences = _sequences(spans, convention.sequences)
    for derived in convention.derived:
        if not filling.is_full(derived.field):
            filling.derive(derived, sequences)
    if convention.last:
        filling.from_attributes(spans, tuple(convention.last.items()))


class _Read(NamedTuple):
    """An attribute that a field is read from."""

    field: str
    key: str
    source: Source


class _Filling:
    """Fields on their way to being full."""

    def __init__(self, rows: int, told: Provenances | None) -> None:
        self.fields: dict[str, Ints] = {}
        self._nothing = np.full(rows, MISSING, dtype=np.int64)
        self._told = told

    def is_full(self, field: str) -> bool:
        """Whether no row of the field wants a value."""
        column = self.fields.get(field)
        return column is not None and len(column) > 0 and int(column.min()) != MISSING

    def fill(self, field: str, column: Ints, source: Provenance | NDArray[np.uint8]) -> None:
        """Take the values of *column* where the field has none yet."""
        before = self.fields.get(field)
        self.fields[field] = column if before is None else np.where(before == MISSING, column, before)
        if self._told is not None:
            known = self._told.get(field, np.zeros(len(column), dtype=np.uint8))
            self._told[field] = np.where((known == 0) & (column != MISSING), source, known).astype(np.uint8)

    def from_attributes(self, spans: SpanBatch, sources: Sequence[tuple[str, Source]]) -> None:
        """Take the first value of the *sources* of each field."""
        read = [_Read(field, key, source) for field, source in sources for key in _present(source, spans)]
        timed = [each for each in read if each.field in _TIMES]
        counted = [each for each in read if each.field not in _TIMES]
        for some in (*_at_once(timed, len(spans)), *_at_once(counted, len(spans))):
            for (field, _, source), column in zip(some, _whole_numbers(spans, some), strict=True):
                known = known_only(column != 0, column) if source.zero_is_missing else column
                self.fill(field, known, Provenance.ATTRIBUTE)

    def derive(self, derived: Derived, sequences: Ints | int) -> None:
        """Fill a field from others."""
        column = self._sum(derived)
        if derived.per_gap:
            column = _per_gap(column, self._known("completion_tokens"), sequences)
        if derived.over:
            column = _quotient(column, self._known(derived.over))
        self.fill(derived.field, column, self._source(derived))

    def _known(self, field: str) -> Ints:
        return self.fields.get(field, self._nothing)

    def _sum(self, derived: Derived) -> Ints:
        first, *more = (self._known(name) for name in derived.plus)
        less = [self._known(name) for name in derived.minus]
        if not more and not less:
            return first
        # Where one is missing the sum may wrap around: it is not looked at.
        total = sum(more, first) if not less else sum(more, first) - sum(less[1:], less[0])
        # No number of a field is negative, and what is missing is.
        signs = total | first
        for column in (*more, *less):
            signs |= column
        return known_only(signs >= 0, total)

    def _source(self, derived: Derived) -> Provenance | NDArray[np.uint8]:
        """A field that is another one under a second name comes from where that comes from."""
        is_name = not derived.minus and not derived.per_gap and not derived.over and len(derived.plus) == 1
        if not is_name or self._told is None:
            return Provenance.DERIVED
        return self._told.get(derived.plus[0], np.zeros(len(self._nothing), dtype=np.uint8))


def _at_once(read: Sequence[_Read], rows: int) -> Iterator[Sequence[_Read]]:
    """
    As many as are read together.

    A step of numpy costs the same for one short column and for ten. Together large
    ones would leave the processor's cache.
    """
    size = max(1, _MOST_AT_ONCE // max(1, rows))
    return (read[at : at + size] for at in range(0, len(read), size))


def _whole_numbers(spans: SpanBatch, some: Sequence[_Read]) -> Ints:
    """What *some*, all of them durations or all counts, read, one row each."""
    pieces = [piece for each in some for piece in _values(spans, each.key, each.source)]
    values = np.concatenate(pieces).reshape(len(some), -1)
    if some[0].field not in _TIMES:
        return counts(values)
    units = [1 if each.source.unit == TEXT else UNIT_NS[each.source.unit] for each in some]
    return durations(values, units[0] if len(set(units)) == 1 else np.array(units)[:, np.newaxis])


def _present(source: Source, spans: SpanBatch) -> tuple[str, ...]:
    """The keys to read: the first one whether or not it is there, so that the field has a column."""
    return (source.key, *(key for key in source.also if key in spans.attributes))


def _values(spans: SpanBatch, key: str, source: Source) -> Sequence[Floats]:
    """The numbers of one key in pieces, in the unit of its source; nanoseconds where each text has its own."""
    pieces = [_numbers(attribute, source) for attribute in spans.pieces(key)]
    return pieces or [np.full(len(spans), np.nan)]


def _numbers(attribute: Attribute, source: Source) -> Floats:
    rows = len(attribute.kind)
    if source.member:
        return members(attribute, source.member, rows)
    return nanoseconds_of_texts(attribute, rows) if source.unit == TEXT else numbers(attribute, rows)


def _between(spans: SpanBatch, between: Between) -> Ints:
    """The time from one event to another; missing where one is, or before the other."""
    nowhere = np.full(len(spans), MISSING, dtype=np.int64)
    begins = spans.events.get(between.begins, nowhere) if between.begins else spans.start_ns
    ends = spans.events.get(between.ends, nowhere)
    known = (begins != MISSING) & (ends != MISSING) & (ends >= begins)
    if between.is_first and spans.lost_events is not None:
        known &= ~spans.lost_events
    times = np.where(known, ends - np.where(known, begins, 0), 0)
    return known_only(known & (times < LONGEST_NS), times)


def _sequences(spans: SpanBatch, key: str) -> Ints | int:
    """How many sequences share the tokens of each request."""
    column = spans.attributes.get(key)
    return 1 if column is None else np.maximum(counts(numbers(column, len(spans))), 1)


def _quotient(total: Ints, each: Ints) -> Ints:
    """How many of *each* make *total*, the nearest whole number."""
    known = (total != MISSING) & (each > 0)
    return known_only(known, np.rint(np.where(known, total, 0) / np.where(known, each, 1)).astype(np.int64))


def _per_gap(total: Ints, tokens: Ints, sequences: Ints | int) -> Ints:
    """
    Total / (tokens / sequences − 1), exactly, half to even.

    In whole numbers total × sequences / (tokens − sequences). At two tokens a
    sequence or more the divisor is no less than *sequences*: nothing overflows.
    """
    known = (tokens >= 2 * sequences) & (total != MISSING)
    gaps = known_only(known, tokens - sequences, 1)
    quotient, rest = np.divmod(known_only(known, total, 0), gaps)
    if not isinstance(sequences, int):
        more, rest = np.divmod(rest * sequences, gaps)
        quotient = quotient * sequences + more
    # More than half a gap; or half of one, if that makes the quotient even.
    up = 2 * rest + (quotient & 1) > gaps
    return known_only(known, quotient + up)
