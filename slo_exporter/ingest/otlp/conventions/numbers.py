"""
Attributes to whole nanoseconds and counts, a column at a time.

A number is a NUMBER, or a TEXT that reads as one; what is not finite, not
whole where it must be, negative or absurdly large is missing.
"""

import re
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Source
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch, ValueKind
from slo_exporter.sli.condition import UNIT_NS
from slo_exporter.sli.records import FIELDS, MISSING, Ints, Kind, Mask

LONGEST_NS: Final = 10**18
"""Durations of 1e9 s and more are missing: 32 years is a broken clock."""
MOST: Final = 10**8
"""Counts above are missing: no request has so many tokens."""

Floats = NDArray[np.float64]
_NUMERIC: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""Read in one way only: a long text costs its length."""


def fields_of(spans: SpanBatch, convention: Convention) -> dict[str, Ints]:
    """Every number field that *convention* knows, `MISSING` where unknown."""
    fields = _durations_of(spans, {n: s for n, s in convention.fields.items() if FIELDS[n] is Kind.DURATION})
    for name, source in convention.fields.items():
        if FIELDS[name] is Kind.COUNT:
            fields[name] = counts(numbers(spans.attributes.get(source.key), len(spans)))
    fields["e2e"] = _filled(fields.get("e2e"), span_durations(spans))
    for derived in convention.derived:
        fields[derived.field] = _filled(fields.get(derived.field), _derive(fields, derived))
    return fields


def _durations_of(spans: SpanBatch, sources: Mapping[str, Source]) -> dict[str, Ints]:
    """All durations at once, one row a field: a step of numpy costs the same for one and for ten."""
    if not sources:
        return {}
    values = np.stack([numbers(spans.attributes.get(source.key), len(spans)) for source in sources.values()])
    units = np.array([[UNIT_NS[source.unit]] for source in sources.values()])
    no_zero = np.array([[source.zero_is_missing] for source in sources.values()])
    columns = durations(values, units)
    return dict(zip(sources, np.where(no_zero & (columns == 0), MISSING, columns), strict=True))


def span_durations(spans: SpanBatch) -> Ints:
    """End − start; missing where negative."""
    duration = spans.end_ns - spans.start_ns
    return _where((duration >= 0) & (duration < LONGEST_NS), duration)


def numbers(attribute: Attribute | None, rows: int) -> Floats:
    """The numbers of a column, NaN where there is none."""
    if attribute is None:
        return np.full(rows, np.nan)
    is_number = attribute.kind == ValueKind.NUMBER
    if is_number.all():
        return attribute.number
    values = np.where(is_number, attribute.number, np.nan)
    in_text = np.flatnonzero(attribute.kind == ValueKind.TEXT)
    if in_text.size:
        parsed = np.array([_parsed(text) for text in attribute.text.values])
        values[in_text] = parsed[attribute.text.codes[in_text]]
    return values


def _parsed(text: str) -> float:
    return float(text) if _NUMERIC.fullmatch(text) else np.nan


def durations(values: Floats, unit_ns: int | Ints) -> Ints:
    """Whole nanoseconds, half to even."""
    with np.errstate(over="ignore"):
        nanoseconds = np.rint(values * unit_ns)
    return _whole((values >= 0) & (nanoseconds < LONGEST_NS), nanoseconds)


def counts(values: Floats) -> Ints:
    """Counts as they are."""
    return _whole((values >= 0) & (values <= MOST) & (values == np.floor(values)), values)


def _derive(fields: Mapping[str, Ints], derived: Derived) -> Ints:
    columns = [fields[name] for name in (*derived.plus, *derived.minus)]
    signs = [1] * len(derived.plus) + [-1] * len(derived.minus)
    known = np.logical_and.reduce([column != MISSING for column in columns])
    total = np.sum([sign * np.where(known, column, 0) for sign, column in zip(signs, columns, strict=True)], axis=0)
    total = _where(known & (total >= 0), total)
    return _per_gap(total, fields["completion_tokens"]) if derived.per_gap else total


def _per_gap(total: Ints, tokens: Ints) -> Ints:
    """Total / (tokens − 1), exactly, half to even."""
    known = (total != MISSING) & (tokens > 1)
    gaps = np.where(known, tokens - 1, 1)
    quotient, rest = np.divmod(np.where(known, total, 0), gaps)
    up = (2 * rest > gaps) | ((2 * rest == gaps) & (quotient % 2 == 1))
    return _where(known, quotient + up)


def _filled(column: Ints | None, otherwise: Ints) -> Ints:
    return otherwise if column is None else np.where(column == MISSING, otherwise, column)


def _whole(known: Mask, values: Floats) -> Ints:
    return _where(known, np.where(known, values, 0).astype(np.int64))


def _where(known: Mask, column: Ints) -> Ints:
    return np.where(known, column, MISSING)
