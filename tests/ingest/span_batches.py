"""What makes two decoded exports equal: every column to the last bit, and every refusal."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch
from slo_exporter.sli.texts import Texts

Decoded = tuple[SpanBatch, Refusals]
"""What a decoder gives."""

_ARRAYS = ("trace_id", "span_id", "parent_id", "start_ns", "end_ns", "kind", "status", "lost_events")
_TEXTS = ("name", "scope", "service")
_ATTRIBUTES = ("attributes", "resource")


def differences(found: Decoded, wanted: Decoded) -> list[str]:
    """
    Say in what *found* differs from *wanted*, a line each; nothing where it does not.

    Types of columns, the order of distinct texts, signs of zero and absent keys
    all count; only which NaN stands for "no number" does not, nor do keys have
    an order.
    """
    (spans, refusals), (its_spans, its_refusals) = found, wanted
    told = [*_of_spans(spans, its_spans)] if type(spans) is SpanBatch else [f"no SpanBatch: {spans!r}"]
    return [*told, *_of_refusals(refusals, its_refusals)]


def _of_spans(found: SpanBatch, wanted: SpanBatch) -> Iterator[str]:
    for name in _ARRAYS:
        yield from _of_arrays(name, getattr(found, name), getattr(wanted, name))
    for name in _TEXTS:
        yield from _of_texts(name, getattr(found, name), getattr(wanted, name))
    for name in _ATTRIBUTES:
        yield from _of_attributes(name, getattr(found, name), getattr(wanted, name))
    yield from _of_keys("events", found.events, wanted.events)
    for name in found.events.keys() & wanted.events.keys():
        yield from _of_arrays(f"events[{name!r}]", found.events[name], wanted.events[name])


def _of_attributes(place: str, found: Mapping[str, Attribute], wanted: Mapping[str, Attribute]) -> Iterator[str]:
    yield from _of_keys(place, found, wanted)
    for key in sorted(found.keys() & wanted.keys()):
        one, other = found[key], wanted[key]
        yield from _of_arrays(f"{place}[{key!r}].kind", one.kind, other.kind)
        yield from _of_arrays(f"{place}[{key!r}].number", one.number, other.number)
        yield from _of_texts(f"{place}[{key!r}].text", one.text, other.text)


def _of_keys(place: str, found: Mapping[str, object], wanted: Mapping[str, object]) -> Iterator[str]:
    if found.keys() != wanted.keys():
        yield f"{place} has also {sorted(found.keys() - wanted.keys())}, lacks {sorted(wanted.keys() - found.keys())}"


def _of_texts(place: str, found: Texts, wanted: Texts) -> Iterator[str]:
    yield from _of_arrays(f"{place}.codes", found.codes, wanted.codes)
    if found.values != wanted.values or {type(found.values), *map(type, found.values)} - {tuple, str}:
        yield f"{place}.values is {_short(found.values)} instead of {_short(wanted.values)}"


def _of_arrays(place: str, found: NDArray[np.generic] | None, wanted: NDArray[np.generic] | None) -> Iterator[str]:
    if found is None or wanted is None:
        if found is not wanted:
            yield f"{place} is {_short(found)} instead of {_short(wanted)}"
    elif type(found) is not np.ndarray or (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        yield f"{place} is {_shape(found)} instead of {_shape(wanted)}"
    elif found.tobytes() != wanted.tobytes():
        yield from _of_values(place, found, wanted)


def _of_values(place: str, found: NDArray[np.generic], wanted: NDArray[np.generic]) -> Iterator[str]:
    is_same = found == wanted
    if wanted.dtype.kind == "f":
        is_same = is_same & (np.signbit(found) == np.signbit(wanted)) | (np.isnan(found) & np.isnan(wanted))
    rows = np.flatnonzero(~is_same.reshape(len(wanted), -1).all(axis=1))
    if rows.size:
        row = int(rows[0])
        yield f"{place}[{row}] is {found[row]!r} instead of {wanted[row]!r}, {rows.size} of {len(wanted)} rows differ"


def _of_refusals(found: Refusals, wanted: Refusals) -> Iterator[str]:
    # A number of numpy equals one of Python and is written otherwise.
    if found != wanted or _types(found) != _types(wanted):
        yield f"refusals are {found!r} instead of {wanted!r}"
    elif found.message() != wanted.message():
        yield f"refusals are told as {found.message()!r} instead of {wanted.message()!r}"


def _types(refusals: Refusals) -> set[type]:
    counts = (refusals.total, refusals.lateness_ns, *refusals.by_reason.values(), *refusals.by_service.values())
    return {type(refusals), *map(type, counts), *map(type, refusals.by_reason), *map(type, refusals.locations.values())}


def _shape(column: object) -> str:
    return f"{type(column).__name__} {getattr(column, 'dtype', '')}{getattr(column, 'shape', '')}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
