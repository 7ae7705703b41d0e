"""From what a walk collected to the columns of a `SpanBatch`."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from json.encoder import encode_basestring
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.spans import Attribute, ValueKind
from slo_exporter.sli.records import MISSING, UNKNOWN_SERVICE, Ints, Mask, Words
from slo_exporter.sli.texts import Texts, missing_texts, texts_of

Value = float | str
"""A readable value: int and bool are kinds of float here."""
Cells = dict[int, Value]
"""A sparse column: row → value."""
Times = dict[int, int]
"""A sparse column of nanoseconds since the epoch, unsigned 64-bit."""

LIST_ELEMENTS: Final = 64
"""A longer list of texts is no value; engines send one finish reason a sequence."""
LIST_CHARACTERS: Final = 4096
"""Nor is a list whose JSON text is longer than this."""

_KIND_OF: Final[Mapping[type, int]] = {
    float: ValueKind.NUMBER.value,
    int: ValueKind.NUMBER.value,
    str: ValueKind.TEXT.value,
    bool: ValueKind.BOOL.value,
}
"""Plain ints: numpy takes them a third faster."""
_INEXACT: Final = 2.0**53
"""From here on a double does not hold every int."""
_INT64_MAX: Final = np.uint64(2**63 - 1)


def list_text(texts: Sequence[str]) -> str | None:
    """
    Write a list of texts as compact JSON, ``["stop","length"]``.

    None over `LIST_ELEMENTS` or `LIST_CHARACTERS`.
    """
    if len(texts) > LIST_ELEMENTS or sum(map(len, texts)) > LIST_CHARACTERS:
        return None
    written = f"[{','.join(map(encode_basestring, texts))}]"
    return written if len(written) <= LIST_CHARACTERS else None


def words_of(ids: Iterable[bytes]) -> Words:
    """Each 8 bytes of the ids, big-endian, as a number."""
    return np.frombuffer(b"".join(ids), dtype=">u8").astype(np.uint64)


def enums_of(numbers: Sequence[int], known: range, otherwise: int) -> NDArray[np.uint8]:
    """Enum numbers, those outside *known* replaced."""
    column = np.array(numbers, dtype=np.int64)
    return np.where((column >= known.start) & (column < known.stop), column, otherwise).astype(np.uint8)


def nanoseconds_of(times: Sequence[int]) -> Ints:
    """Unsigned 64-bit times; those beyond int64 become its last."""
    return np.minimum(np.array(times, dtype=np.uint64), _INT64_MAX).astype(np.int64)


def times_of(sparse: Mapping[str, Times], rows: int) -> dict[str, Ints]:
    """The column of each name that has a time; `MISSING` where a row has none."""
    return {
        name: _spread(times, rows, nanoseconds_of(list(times.values())), MISSING)
        for name, times in sparse.items()
        if times
    }


def mask_of(marked: Sequence[int], rows: int) -> Mask | None:
    """True in the *marked* rows; None where there is none."""
    if not marked:
        return None
    mask = np.zeros(rows, dtype=np.bool_)
    mask[marked] = True
    return mask


def attributes_of(sparse: Mapping[str, Cells], rows: int) -> dict[str, Attribute]:
    """The column of each key that has a value."""
    return {key: _column(cells, rows) for key, cells in sparse.items() if cells}


def _column(cells: Cells, rows: int) -> Attribute:
    types = set(map(type, cells.values()))
    if types == {str}:
        words = texts_of([str(text) for text in cells.values()])
        texts = Texts(words.values, _spread(cells, rows, words.codes, -1))
        return Attribute(_kind(cells, rows, ValueKind.TEXT), np.full(rows, np.nan), texts)
    if types <= {float, int}:
        numbers = np.fromiter(cells.values(), dtype=np.float64, count=len(cells))
        if types == {float} or np.abs(numbers).max() < _INEXACT:
            number = _spread(cells, rows, numbers, np.nan)
            return Attribute(_kind(cells, rows, ValueKind.NUMBER), number, missing_texts(rows))
    return _mixed(cells, rows)


def _kind(cells: Cells, rows: int, kind: ValueKind) -> NDArray[np.uint8]:
    return _spread(cells, rows, np.full(len(cells), kind, dtype=np.uint8), ValueKind.ABSENT)


def _spread(cells: Mapping[int, Any], rows: int, values: NDArray[Any], missing: float) -> NDArray[Any]:
    """*values*, one per cell, as a column: cells stand in the order of their rows."""
    if len(cells) == rows:
        return values
    column = np.full(rows, missing, dtype=values.dtype)
    column[np.fromiter(cells, dtype=np.int64, count=len(cells))] = values
    return column


def _mixed(cells: Cells, rows: int) -> Attribute:
    """A column of large ints, or of several types."""
    at = np.fromiter(cells, dtype=np.int64, count=len(cells))
    values = list(cells.values())
    kinds = np.fromiter(map(_KIND_OF.__getitem__, map(type, values)), dtype=np.uint8, count=len(values))
    is_text = kinds == ValueKind.TEXT
    number = np.full(rows, np.nan)
    number[at[~is_text]] = list(compress(values, (~is_text).tolist())) if is_text.any() else values
    texts = dict(zip(at[is_text].tolist(), compress(values, is_text.tolist()), strict=True))
    inexact = np.flatnonzero(np.abs(number) >= _INEXACT).tolist()
    texts.update((row, str(cells[row])) for row in inexact if isinstance(cells[row], int))
    return Attribute(_spread(cells, rows, kinds, 0), number, _sparse_texts(texts, rows))


def _sparse_texts(texts: Mapping[int, Value], rows: int) -> Texts:
    if not texts:
        return missing_texts(rows)
    words = texts_of([str(text) for text in texts.values()])
    codes = np.full(rows, -1, dtype=np.int32)
    codes[list(texts)] = words.codes
    return Texts(words.values, codes)


def services_of(column: Attribute | None, resources: int) -> Texts:
    """A service name per resource."""
    named = missing_texts(resources) if column is None else column.words()
    return texts_of([named.at(row) or UNKNOWN_SERVICE for row in range(resources)])
