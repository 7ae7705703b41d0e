"""Text columns: first known, canonical form, hashes. Python runs once a distinct value."""

import json
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from slo_exporter.ingest.otlp.spans import Attribute, ValueKind
from slo_exporter.sli.records import Words
from slo_exporter.sli.texts import Texts, missing_texts, texts_of

LONGEST_JSON: Final = 4096
"""Characters of a JSON text that is read: usage, or a name, is a few dozen."""
_LARGE: Final = 2**63


def text_of(attribute: Attribute | None, rows: int) -> Texts:
    """The text values of a column, the empty text being none."""
    if attribute is None:
        return missing_texts(rows)
    words = attribute.words()
    return mapped(words, lambda text: text or None) if "" in words.values else words


def said(attribute: Attribute | None, rows: int) -> Texts:
    """The texts of a column, and its numbers and booleans as `canonical` has them; the empty text is none."""
    if attribute is None or not _has_others(attribute):
        return text_of(attribute, rows)
    return mapped(canonical(attribute, rows), lambda text: text or None)


def _has_others(attribute: Attribute) -> bool:
    """Whether any value is a number or a boolean: most columns are texts alone."""
    if attribute.is_all(ValueKind.TEXT):
        return False
    others = (attribute.kind == ValueKind.NUMBER.value) | (attribute.kind == ValueKind.BOOL.value)
    return bool(others.any())


def mapped(texts: Texts, function: Callable[[str], str | None]) -> Texts:
    """*function* of every text; None is missing."""
    images = texts_of([function(text) for text in texts.values])
    return Texts(images.values, np.append(images.codes, np.int32(-1))[texts.codes])


def unquoted(texts: Texts) -> Texts:
    """The texts, and of each that is JSON text of a text that one."""
    return mapped(texts, _unquoted)


def _unquoted(text: str) -> str | None:
    if not text.startswith('"') or len(text) > LONGEST_JSON:
        return text
    try:
        inner = str(json.loads(text))
        inner.encode()  # JSON may escape half a surrogate pair, which no text is
    except ValueError:
        return text
    return inner or None


def first_known(columns: Sequence[Texts]) -> Texts:
    """Per row the text of the first column that has one; at least one column."""
    values, codes = columns[0].values, columns[0].codes
    for column in columns[1:]:
        if column.values:
            shifted = np.where(column.codes < 0, column.codes, column.codes + np.int32(len(values)))
            values, codes = values + column.values, np.where(codes < 0, shifted, codes)
    return Texts(values, codes)


def canonical(attribute: Attribute | None, rows: int) -> Texts:
    """The one text of every readable value, as selectors compare it; ints are exact."""
    if attribute is None:
        return missing_texts(rows)
    is_bool, is_number = attribute.kind == ValueKind.BOOL, attribute.kind == ValueKind.NUMBER
    bools = np.full(rows, -1, dtype=np.int32)
    bools[is_bool] = attribute.number[is_bool].astype(np.int32)
    numbers = np.full(rows, -1, dtype=np.int32)
    distinct, numbers[is_number] = np.unique(attribute.number[is_number], return_inverse=True)
    of_numbers = Texts(tuple(_number_text(number) for number in distinct.tolist()), numbers)
    return first_known([attribute.text, Texts(("false", "true"), bools), of_numbers])


def _number_text(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < _LARGE else repr(number)


def ids64(pieces: Sequence[Attribute], rows: int) -> Words:
    """`hash64` of what is `said` in a column of *rows*, in pieces one after the other, or none."""
    if not pieces:
        return np.zeros(rows, dtype=np.uint64)
    return np.concatenate([_ids64(piece) for piece in pieces])


def _ids64(attribute: Attribute) -> Words:
    # The empty text is no id, and 0 is the hash of it: no need to look for one.
    return hash64(canonical(attribute, len(attribute.kind)) if _has_others(attribute) else attribute.words())


def hash64(texts: Texts) -> Words:
    """
    A 64-bit hash per row; 0 where missing, and of the empty text.

    It is Python's own: salted per process, so that nobody outside can aim at a
    collision, and gone with the process like everything that remembers it.
    """
    hashes = np.fromiter(map(hash, (*texts.values, "")), dtype=np.int64, count=len(texts.values) + 1)
    return hashes.view(np.uint64).take(texts.codes)
