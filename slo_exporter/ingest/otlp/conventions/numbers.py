"""
Attributes to whole nanoseconds and counts, a column at a time.

A number is a NUMBER, or a TEXT that reads as one; what is not finite, not
whole where it must be, negative or absurdly large is missing.
"""

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch, ValueKind
from slo_exporter.sli.records import MISSING, Ints, Mask

LONGEST_NS: Final = 10**18
"""Durations of 1e9 s and more are missing: 32 years is a broken clock."""
MOST: Final = 10**8
"""Counts above are missing: no request has so many tokens."""

Floats = NDArray[np.float64]
_NUMERIC: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""Read in one way only: a long text costs its length."""


def span_durations(spans: SpanBatch) -> Ints:
    """End − start; missing where negative."""
    duration = spans.end_ns - spans.start_ns
    return known_only((duration >= 0) & (duration < LONGEST_NS), duration)


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


def _whole(known: Mask, values: Floats) -> Ints:
    return known_only(known, np.where(known, values, 0).astype(np.int64))


def known_only(known: Mask, column: Ints) -> Ints:
    """The column where *known*, else `MISSING`."""
    return np.where(known, column, MISSING)
