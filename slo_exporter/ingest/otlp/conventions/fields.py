"""
The number fields of requests, each from the first source that has a value.

In order of precedence: an attribute of the request span, its parts, what is
derived from other fields. ``e2e`` comes from an attribute, else from the span.
"""

from collections.abc import Mapping, MutableMapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Source
from slo_exporter.ingest.otlp.conventions.numbers import counts, durations, known_only, numbers, span_durations
from slo_exporter.ingest.otlp.conventions.parts import Parts, time_in_parts
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.quantity import UNIT_NS
from slo_exporter.sli.records import FIELDS, MISSING, Ints, Kind

NO_PARTS: Final[Parts] = MappingProxyType({})


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
    filling = _Filling(told)
    filling.from_attributes(spans, convention.fields)
    for field, spans_of_field in parts.items():
        filling.fill(field, time_in_parts(spans, spans_of_field), Provenance.PART)
    filling.fill("e2e", span_durations(spans), Provenance.SPAN)
    for derived in convention.derived:
        filling.derive(derived, spans, convention.sequences)
    return filling.fields


class _Filling:
    """Fields on their way to being full."""

    def __init__(self, told: Provenances | None) -> None:
        self.fields: dict[str, Ints] = {}
        self._told = told

    def fill(self, field: str, column: Ints, source: Provenance | NDArray[np.uint8]) -> None:
        """Take the values of *column* where the field has none yet."""
        before = self.fields.get(field)
        self.fields[field] = column if before is None else np.where(before == MISSING, column, before)
        if self._told is not None:
            known = self._told.get(field, np.zeros(len(column), dtype=np.uint8))
            self._told[field] = np.where((known == 0) & (column != MISSING), source, known).astype(np.uint8)

    def from_attributes(self, spans: SpanBatch, sources: Mapping[str, Source]) -> None:
        """All durations at once, one row a key: a step of numpy costs the same for one and for ten."""
        rows = len(spans)
        timed = [
            (field, key, source)
            for field, source in sources.items()
            if FIELDS[field] is Kind.DURATION
            for key in _present(source, spans)
        ]
        if timed:
            values = np.stack([numbers(spans.attributes.get(key), rows) for _, key, _ in timed])
            units = np.array([[UNIT_NS[source.unit]] for _, _, source in timed])
            no_zero = np.array([[source.zero_is_missing] for _, _, source in timed])
            columns = durations(values, units)
            columns = np.where(no_zero & (columns == 0), MISSING, columns)
            for (field, _, _), column in zip(timed, columns, strict=True):
                self.fill(field, column, Provenance.ATTRIBUTE)
        for field, source in sources.items():
            if FIELDS[field] is Kind.COUNT:
                for key in _present(source, spans):
                    self.fill(field, counts(numbers(spans.attributes.get(key), rows)), Provenance.ATTRIBUTE)

    def derive(self, derived: Derived, spans: SpanBatch, sequences: str) -> None:
        """Fill a field from others."""
        column = self._sum(derived)
        if derived.per_gap:
            tokens = self.fields["completion_tokens"]
            column = _per_gap(column, tokens, _sequences(spans, sequences))
        self.fill(derived.field, column, self._source(derived))

    def _sum(self, derived: Derived) -> Ints:
        columns = [self.fields[name] for name in (*derived.plus, *derived.minus)]
        if len(columns) == 1:
            return columns[0]
        signs = [1] * len(derived.plus) + [-1] * len(derived.minus)
        known = np.logical_and.reduce([column != MISSING for column in columns])
        total = np.sum([sign * np.where(known, column, 0) for sign, column in zip(signs, columns, strict=True)], axis=0)
        return known_only(known & (total >= 0), total)

    def _source(self, derived: Derived) -> Provenance | NDArray[np.uint8]:
        """A field that is another one under a second name comes from where that comes from."""
        is_name = not derived.minus and not derived.per_gap and len(derived.plus) == 1
        return self._told[derived.plus[0]] if is_name and self._told is not None else Provenance.DERIVED


def _present(source: Source, spans: SpanBatch) -> tuple[str, ...]:
    """The keys to read: the first one whether or not it is there, so that the field has a column."""
    return (source.key, *(key for key in source.also if key in spans.attributes))


def _sequences(spans: SpanBatch, key: str) -> Ints | int:
    """How many sequences share the tokens of each request."""
    column = spans.attributes.get(key)
    return 1 if column is None else np.maximum(counts(numbers(column, len(spans))), 1)


def _per_gap(total: Ints, tokens: Ints, sequences: Ints | int) -> Ints:
    """
    Total / (tokens / sequences − 1), exactly, half to even.

    In whole numbers total × sequences / (tokens − sequences). At two tokens a
    sequence or more the divisor is no less than *sequences*: nothing overflows.
    """
    known = (total != MISSING) & (tokens >= 2 * sequences)
    gaps = np.where(known, tokens - sequences, 1)
    quotient, rest = np.divmod(np.where(known, total, 0), gaps)
    if not isinstance(sequences, int):
        more, rest = np.divmod(rest * sequences, gaps)
        quotient = quotient * sequences + more
    up = (2 * rest > gaps) | ((2 * rest == gaps) & (quotient % 2 == 1))
    return known_only(known, quotient + up)
