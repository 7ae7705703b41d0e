"""Bytes compared and hashed eight at a time, and texts told apart."""

import numpy as np

from slo_exporter.ingest.otlp.compiled.arrays import TEXT_SHIFT, Dense, Wire
from slo_exporter.ingest.otlp.compiled.jit import bounded, hot, inner, part
from slo_exporter.ingest.otlp.compiled.shapes import DECLINED, as_long

WORD = 8
_ONE = np.uint64(1)
_FOLD = np.uint64(32)
_SIZE = 2**TEXT_SHIFT - 1
_MOST_PROBES = 512
"""Of a table that is at most half full."""

NO_TEXT = -1
"""A text that the body does not hold; the only one that is negative."""


@hot
def short_word(wire: Wire, at: int, size: int) -> np.uint64:
    """Give *size* bytes, at most 8, as a little-endian word."""
    if at + WORD <= wire.size:
        word = wire.words[at]
        return word if size == WORD else word & ((_ONE << np.uint64(WORD * size)) - _ONE)
    word = np.uint64(0)
    for index in range(size):
        word |= np.uint64(wire.body[at + index]) << np.uint64(WORD * index)
    return word


@bounded
def same_bytes(wire: Wire, left: int, right: int, size: int) -> bool:
    """Say whether *size* bytes, at least 8, are the same; those that the body does not have are not."""
    last = size - WORD
    limit = wire.words.shape[0] - last
    if last < 0 or left < 0 or right < 0 or left >= limit or right >= limit:
        return False
    if wire.words[np.uint64(left + last)] != wire.words[np.uint64(right + last)]:
        return False
    for step in range(0, last, WORD):
        if wire.words[np.uint64(left + step)] != wire.words[np.uint64(right + step)]:
            return False
    return True


@hot
def are_equal(wire: Wire, one: int, other: int) -> bool:
    """Say whether two texts of the body are the same."""
    size, left, right = one & _SIZE, one >> TEXT_SHIFT, other >> TEXT_SHIFT
    if other & _SIZE != size:
        return False
    if size < WORD:
        return short_word(wire, left, size) == short_word(wire, right, size)
    return same_bytes(wire, left, right, size)


@part
def hash_of(wire: Wire, text: int, slot: int, seed: np.uint64) -> np.uint64:
    """Hash a text of a slot."""
    size, at = text & _SIZE, text >> TEXT_SHIFT
    value = (np.uint64(size) << _FOLD | np.uint64(slot)) * seed
    for step in range(0, size - WORD, WORD):
        value = ((value ^ value >> _FOLD) ^ wire.words[at + step]) * seed
    word = short_word(wire, at, size) if size < WORD else wire.words[at + size - WORD]
    value = ((value ^ value >> _FOLD) ^ word) * seed
    return value ^ value >> _FOLD


@hot
def code_of_text(wire: Wire, dense: Dense, slot: int, text: int) -> int:
    """Give the code of a text in its slot: how many others came there before it did; or `DECLINED`."""
    newest = dense.slots[slot, 1]
    if newest >= 0 and text >= 0 and dense.texts[newest] >= 0 and are_equal(wire, text, dense.texts[newest]):
        return dense.of[newest, 1]
    return _code_of_other_text(wire, dense, slot, text)


@inner
def _code_of_other_text(wire: Wire, dense: Dense, slot: int, text: int) -> int:
    mask = dense.table.shape[0] - 1
    value = hash_of(wire, text, slot, dense.seed) if text >= 0 else dense.seed
    place = as_long(value) & mask
    for _ in range(_MOST_PROBES):
        index = as_long(dense.table[place]) - 1
        if index < 0:
            return _new_text(dense, slot, text, value, place)
        if dense.hashes[index] == value and dense.of[index, 0] == slot and _is(wire, text, dense.texts[index]):
            dense.slots[slot, 1] = index
            return dense.of[index, 1]
        place = (place + 1) & mask
    return DECLINED


@part
def _is(wire: Wire, text: int, known: int) -> bool:
    if text < 0 or known < 0:
        return text == known
    return are_equal(wire, text, known)


@part
def _new_text(dense: Dense, slot: int, text: int, value: np.uint64, place: int) -> int:
    total = dense.slots.shape[0] - 1
    index = dense.slots[total, 0]
    if index >= dense.texts.shape[0]:
        return DECLINED
    code = dense.slots[slot, 0]
    dense.table[place] = index + 1
    dense.hashes[index], dense.texts[index] = value, text
    dense.of[index, 0], dense.of[index, 1] = slot, code
    dense.slots[slot, 0] = code + 1
    dense.slots[total, 0] = index + 1
    dense.slots[slot, 1] = index
    return code
