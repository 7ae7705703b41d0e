"""Attributes: a key, a value, and whether anybody asks for them."""

import numpy as np

from slo_exporter.ingest.otlp.compiled.arrays import (
    ABSENT,
    BOOL,
    DOUBLE,
    INT,
    LARGE_INT,
    LIST,
    TEXT,
    TEXT_SHIFT,
    Names,
    Wire,
)
from slo_exporter.ingest.otlp.compiled.jit import hot, inner, part
from slo_exporter.ingest.otlp.compiled.names import FIRST_FACTOR, HASH_SHIFT, LAST_FACTOR
from slo_exporter.ingest.otlp.compiled.shapes import DECLINED, PAIR, VALUE, as_long
from slo_exporter.ingest.otlp.compiled.texts import WORD, short_word
from slo_exporter.ingest.otlp.compiled.wire import any_field, is_utf8, length, varint

_KEY_TAG, _VALUE_TAG = 0x0A, 0x12
STRING_TAG, INT_TAG, DOUBLE_TAG = 0x0A, 0x18, 0x21
"""Of the values that nearly all are."""
_KEY, _VALUE = 1, 2
_STRING, _BOOL, _INT, _DOUBLE, _ARRAY = 1, 2, 3, 4, 5
_INEXACT = 2**53
_FIRST, _LAST, _SHIFT = np.uint64(FIRST_FACTOR), np.uint64(LAST_FACTOR), np.uint64(HASH_SHIFT)


@part
def pair(wire: Wire, at: int, end: int, base: int) -> tuple[int, int, int, int]:
    """
    Open a KeyValue: where its key starts and its size, where its value starts and ends.

    Neither is judged yet, but for what is unusual. A key at `DECLINED`: it is not read here.
    """
    if at < end and wire.body[at] == _KEY_TAG:
        key_size, key_at = length(wire, at + 1, end)
        behind = key_at + key_size
        if key_at >= 0 and behind < end and wire.body[behind] == _VALUE_TAG:
            value_size, value_at = length(wire, behind + 1, end)
            if value_at >= 0 and value_at + value_size == end:
                return key_at, key_size, value_at, end
    return _unusual_pair(wire, at, end, base)


@inner
def _unusual_pair(wire: Wire, at: int, end: int, base: int) -> tuple[int, int, int, int]:
    for index in range(base, base + 2 * wire.shapes.shape[1]):
        wire.fields[index] = 0
    keys, values = 0, 0
    while at < end:
        number, at = any_field(wire, PAIR, at, end, base)
        keys += number == _KEY
        values += number == _VALUE
        # Pieces of a value merge.
        if at < 0 or keys > 1 or values > 1:
            return DECLINED, 0, 0, 0
    key, value = base + 2 * _KEY, base + 2 * _VALUE
    value_at = wire.fields[value]
    return wire.fields[key], wire.fields[key + 1], value_at, value_at + wire.fields[value + 1]


@hot
def value_of(wire: Wire, at: int, end: int, base: int) -> tuple[int, int]:
    """Read an AnyValue, with all that is in it: the kind of its cell, or `DECLINED`, and the content."""
    if at == end:
        return ABSENT, 0
    mark = wire.body[at]
    if mark == STRING_TAG:
        size, start = length(wire, at + 1, end)
        if start + size == end and start > 0:
            return TEXT if is_utf8(wire, start, size) else DECLINED, start << TEXT_SHIFT | size
    elif mark == DOUBLE_TAG:
        if end - at == 1 + WORD:
            return DOUBLE, as_long(wire.words[at + 1])
    elif mark == INT_TAG:
        value, after = varint(wire, at + 1, end)
        if after == end:
            return kind_of_int(value), value
    return _unusual_value(wire, at, end, base)


@part
def kind_of_int(value: int) -> int:
    """Say whether a double holds it."""
    return INT if -_INEXACT < value < _INEXACT else LARGE_INT


@inner
def _unusual_value(wire: Wire, at: int, end: int, base: int) -> tuple[int, int]:
    known, which = 0, 0
    while at < end:
        number, at = any_field(wire, VALUE, at, end, base)
        if at < 0:
            return DECLINED, 0
        known += number > 0
        which = max(which, number)
    # Of several the last one stands, and pieces of one merge.
    if known > 1:
        return DECLINED, 0
    start, value = wire.fields[base + 2 * which], wire.fields[base + 2 * which + 1]
    if which == _STRING:
        return TEXT, start << TEXT_SHIFT | value
    if which == _ARRAY:
        return LIST, start << TEXT_SHIFT | value
    if which == _INT:
        return kind_of_int(value), value
    return BOOL if which == _BOOL else DOUBLE if which == _DOUBLE else ABSENT, value


@hot
def is_name(wire: Wire, names: Names, name: int, at: int, size: int) -> bool:
    """Say whether bytes are a name."""
    if names.sizes[name] != size:
        return False
    if size < WORD:
        return short_word(wire, at, size) == names.heads[name]
    if wire.words[at + size - WORD] != names.tails[name]:
        return False
    start = names.starts[name]
    for index in range(size >> 3):
        if wire.words[at + WORD * index] != names.letters[start + index]:
            return False
    return True


@inner
def name_of(wire: Wire, names: Names, kind: int, at: int, size: int) -> int:
    """Look bytes up in a set of names; -1 when they are none of them."""
    start, mask = names.sets[kind, 0], names.sets[kind, 1]
    head = short_word(wire, at, min(size, WORD))
    tail = head if size < WORD else wire.words[at + size - WORD]
    place = as_long((head * _FIRST ^ tail * _LAST) + np.uint64(size) >> _SHIFT) & mask
    for _ in range(mask + 1):
        name = names.places[start + place]
        if name < 0 or is_name(wire, names, name, at, size):
            return name
        place = (place + 1) & mask
    return -1
