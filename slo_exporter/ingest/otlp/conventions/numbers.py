"""
Attributes to whole nanoseconds and counts, a column at a time.

A number is a NUMBER, or a TEXT that reads as one; what is not finite, not
whole where it must be, negative or absurdly large is missing.
"""

import json
import re
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.texts import LONGEST_JSON
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch, ValueKind
from slo_exporter.sli.quantity import UNIT_NS
from slo_exporter.sli.records import MISSING, Ints, Mask

LONGEST_NS: Final = 10**18
"""Durations of 1e9 s and more are missing: 32 years is a broken clock."""
MOST: Final = 10**8
"""Counts above are missing: no request has so many tokens."""

_LARGE: Final = 2.0**63
_NUMBER: Final = ValueKind.NUMBER.value
_TEXT: Final = ValueKind.TEXT.value
"""Plain ints: numpy takes them a third faster."""

Floats = NDArray[np.float64]
_NUMERIC: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""Read in one way only: a long text costs its length."""
_QUANTITY: Final = r"\d{1,19}(?:\.\d{1,19})?"
_DURATION: Final = re.compile(
    rf"{_QUANTITY}(?:ns|us|\u00b5s|\u03bcs|ms)|(?=\d)(?:{_QUANTITY}h)?(?:{_QUANTITY}m)?(?:{_QUANTITY}s)?", re.ASCII
)
"""
A duration as Rust's Debug and Go's String write one: below a second of a single unit, else ``1h2m3.5s``.

The micro sign and the Greek letter are both in use.
"""
_PIECES: Final = re.compile(rf"({_QUANTITY})(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)
_MICRO: Final = str.maketrans("\u00b5\u03bc", "uu")


def span_durations(spans: SpanBatch) -> Ints:
    """End − start; missing where negative."""
    duration = spans.end_ns - spans.start_ns
    return known_only((duration >= 0) & (duration < LONGEST_NS), duration)


def numbers(attribute: Attribute | None, rows: int) -> Floats:
    """The numbers of a column, NaN where there is none."""
    if attribute is None:
        return np.full(rows, np.nan)
    if attribute.is_all(ValueKind.NUMBER):
        return attribute.number
    values = np.where(attribute.kind == _NUMBER, attribute.number, np.nan)
    [in_text] = (attribute.kind == _TEXT).nonzero()
    if in_text.size:
        values[in_text] = _of_texts(attribute, _parsed)[in_text]
    return values


def nanoseconds_of_texts(attribute: Attribute | None, rows: int) -> Floats:
    """The nanoseconds of texts such as ``12.3ms``, NaN where there is none."""
    return np.full(rows, np.nan) if attribute is None else _of_texts(attribute, _parsed_duration)


def members(attribute: Attribute | None, member: str, rows: int) -> Floats:
    """The number *member* of JSON objects in texts, NaN where there is none."""
    if attribute is None:
        return np.full(rows, np.nan)
    return _of_texts(attribute, lambda text: _parsed_member(text, member))


def _of_texts(attribute: Attribute, parse: Callable[[str], float]) -> Floats:
    """*parse* of each text, once a distinct one; NaN elsewhere."""
    words = attribute.words()
    wanted = np.zeros(len(words.values) + 1, dtype=np.bool_)
    wanted[words.codes] = True
    parsed = [parse(text) if asked else np.nan for text, asked in zip(words.values, wanted.tolist(), strict=False)]
    return np.array([*parsed, np.nan])[words.codes]


def _parsed(text: str) -> float:
    return float(text) if _NUMERIC.fullmatch(text) else np.nan


def _parsed_duration(text: str) -> float:
    if not _DURATION.fullmatch(text):
        return np.nan
    return sum(float(number) * UNIT_NS[unit.translate(_MICRO)] for number, unit in _PIECES.findall(text))


def _parsed_member(text: str, member: str) -> float:
    if len(text) > LONGEST_JSON:
        return np.nan
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return np.nan
    value = document.get(member) if isinstance(document, dict) else None
    if isinstance(value, str):
        return _parsed(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return np.nan
    return float(value) if abs(value) < _LARGE else np.nan


def durations(values: Floats, unit_ns: int | Ints) -> Ints:
    """Whole nanoseconds, half to even."""
    with np.errstate(over="ignore"):
        nanoseconds = values * unit_ns
    np.rint(nanoseconds, out=nanoseconds)
    known = values >= 0
    known &= nanoseconds < LONGEST_NS
    return _whole(known, nanoseconds)


def counts(values: Floats) -> Ints:
    """Counts as they are."""
    known = values >= 0
    known &= values <= MOST
    known &= values == np.floor(values)
    return _whole(known, values)


def _whole(known: Mask, values: Floats) -> Ints:
    return (values if _is_all(known) else np.where(known, values, float(MISSING))).astype(np.int64)


def known_only(known: Mask, column: Ints, otherwise: int = MISSING) -> Ints:
    """The column where *known*, else *otherwise*; the same column where all is known."""
    return column if _is_all(known) else np.where(known, column, otherwise)


def _is_all(known: Mask) -> bool:
    """As most often; counted since that costs less than `all`."""
    return bool(np.count_nonzero(known) == known.size)
