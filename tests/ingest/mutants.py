"""
Bodies that went wrong: each number gives one, always the same.

A mutant is a seed after one to four changes. About half of the changes keep
the lengths around them right, so that what they did is looked at and not only
that something is wrong.
"""

import random
import struct
from bisect import bisect
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from mutant_values import DOUBLES, IDS, NEWCOMERS, NO_UTF8, NUMBERS, STRAYS, TEXTS, TIMES, VALUES
from wire_format import (
    BYTES,
    EXPORT,
    FIXED64,
    VARINT,
    Around,
    Piece,
    borders,
    field,
    piece_at,
    pieces,
    replaced,
    varint,
)

_LARGEST: Final = 64 * 1024
_DEEPER: Final = 0.92
"""How often a place is looked for inside of a message rather than in front of it."""
_ANY: Final = 0.15
"""How often any field beside others is taken; else larger ones more often, which are spans and not scopes."""


class Place(NamedTuple):
    """A field of a body, the fields beside it and the messages around it."""

    beside: Sequence[int]
    """Where each begins, and the last ends."""
    piece: Piece
    around: Around


Change = Callable[[bytes, random.Random, Sequence[bytes]], bytes]
"""Of a body, with chance and seeds to take from."""


def mutant(number: int, seeds: Sequence[bytes]) -> bytes:
    """Make the mutant of a number."""
    chance = random.Random(number)
    body = chance.choice(seeds)
    for _ in range(chance.choice((1, 1, 2, 2, 3, 4))):
        (change,) = chance.choices(_CHANGES, cum_weights=_WEIGHTS)
        body = change(body, chance, seeds)
    return body[:_LARGEST]


def a_place(body: bytes, chance: random.Random, deeper: float = _DEEPER) -> Place | None:
    """Find a place by chance, most often deep inside; None in a body without any."""
    start, end, shape, around, found = 0, len(body), EXPORT, Around(), None
    while True:
        beside = borders(body, start, end)
        if len(beside) < 2:
            return found
        at = chance.randrange(len(beside) - 1) if chance.random() < _ANY else _by_size(beside, chance)
        piece = piece_at(body, beside[at], beside[at + 1], shape)
        found = Place(beside, piece, around)
        if piece.known is None or piece.known.inner is None or chance.random() > deeper:
            return found
        start, end, shape, around = piece.value_at, piece.end, piece.known.inner, (*around, piece)


def _by_size(beside: Sequence[int], chance: random.Random) -> int:
    return bisect(beside, chance.randrange(beside[0], beside[-1])) - 1


def _at_a_place(change: Callable[[bytes, Place, random.Random], bytes]) -> Change:
    """Change a body where it has a place."""

    def changed(body: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
        place = a_place(body, chance)
        return body if place is None else change(body, place, chance)

    return changed


def _other_value(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Give a field another value that it may have."""
    piece = place.piece
    content = _content(body[piece.value_at : piece.end], piece, chance)
    return replaced(body, piece.value_at, piece.end, content, _around(place))


def _around(place: Place) -> Around:
    return (*place.around, place.piece) if place.piece.wire == BYTES else place.around


def _content(old: bytes, piece: Piece, chance: random.Random) -> bytes:
    if piece.wire == VARINT:
        return varint(chance.choice(NUMBERS))
    if piece.wire == FIXED64:
        is_double = piece.known is not None and piece.known.kind == FieldDescriptor.TYPE_DOUBLE
        return struct.pack("<d", chance.choice(DOUBLES)) if is_double else struct.pack("<Q", chance.choice(TIMES))
    if piece.wire != BYTES or (piece.known is not None and piece.known.inner is not None):
        return old
    if piece.known is not None and piece.known.kind == FieldDescriptor.TYPE_BYTES:
        return chance.choice(IDS)
    return chance.choice(TEXTS) if chance.random() < 0.93 else old + chance.choice(NO_UTF8)


def _retyped(body: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    """Give an attribute another value, of whatever type."""
    place = a_place(body, chance, deeper=1)
    around = Around() if place is None else place.around
    at = next((at for at, piece in enumerate(around) if piece.known is not None and piece.known.name == "value"), -1)
    if at < 0:
        return body
    value = around[at]
    return replaced(body, value.value_at, value.end, chance.choice(chance.choice(VALUES)), around[: at + 1])


def _text_changed(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Change one letter of a text, or one byte of a number."""
    piece = place.piece
    if piece.end <= piece.value_at or (piece.known is not None and piece.known.inner is not None):
        return body
    out = bytearray(body)
    at = chance.randrange(piece.value_at, piece.end)
    out[at] = out[at] & 128 | chance.randrange(128)
    return bytes(out)


def _without(body: bytes, place: Place, _: random.Random) -> bytes:
    return replaced(body, place.piece.start, place.piece.end, b"", place.around)


def _twice(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Repeat a field in the same message, before or after others."""
    at = chance.choice(place.beside)
    return replaced(body, at, at, body[place.piece.start : place.piece.end], place.around)


def _moved(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Put a field elsewhere, perhaps where no such field belongs."""
    taken = body[place.piece.start : place.piece.end]
    rest = _without(body, place, chance)
    target = a_place(rest, chance)
    return rest if target is None else replaced(rest, target.piece.start, target.piece.start, taken, target.around)


def _parted(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Bring a message in two pieces, or a text twice."""
    piece = place.piece
    if piece.wire != BYTES:
        return body
    inner = pieces(body, piece.value_at, piece.end, piece.known.inner or {}) if piece.known is not None else []
    cut = chance.choice(inner).start if inner else piece.end
    halves = (body[piece.value_at : cut], body[cut : piece.end])
    written = b"".join(field(piece.number, BYTES, half) for half in halves)
    return replaced(body, piece.start, piece.end, written, place.around)


def _with_newcomer(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Insert a field, known or not, right or wrong."""
    at = chance.choice((place.piece.start, place.beside[-1]))
    return replaced(body, at, at, chance.choice(NEWCOMERS), place.around)


def _stray(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Insert what is no field."""
    return replaced(body, place.piece.start, place.piece.start, chance.choice(STRAYS), place.around)


def _longer(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Write a tag, a length or a number with bytes that add nothing."""
    piece, longer = place.piece, chance.choice((1, 1, 2, 3, 4, 9))
    spans = [(piece.start, piece.length_at)]
    spans += [(piece.length_at, piece.value_at)] * (piece.wire == BYTES)
    spans += [(piece.value_at, piece.end)] * (piece.wire == VARINT)
    start, end = chance.choice(spans)
    old = body[start:end]
    written = old[:-1] + bytes([old[-1] | 128]) + b"\x80" * (longer - 1) + b"\0"
    return replaced(body, start, end, written, place.around)


def _other_tag(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Give a field another number or wire type."""
    piece = place.piece
    number, wire = piece.number, piece.wire
    if chance.random() < 0.3:
        wire = chance.randrange(8)
    else:
        number = chance.choice((*range(1, 18), 2047, 2**29 - 1))
    return replaced(body, piece.start, piece.length_at, varint(number << 3 | wire), place.around)


def _of_another(body: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Put a field of another seed in place of one, or beside it."""
    other = chance.choice(seeds)
    source, target = a_place(other, chance), a_place(body, chance)
    if source is None or target is None:
        return body
    end = target.piece.end if chance.random() < 0.5 else target.piece.start
    return replaced(body, target.piece.start, end, other[source.piece.start : source.piece.end], target.around)


def _other_length(body: bytes, place: Place, chance: random.Random) -> bytes:
    """Make a length wrong."""
    piece = place.piece
    if piece.wire != BYTES:
        return body
    length = max(0, piece.end - piece.value_at + chance.choice((-2, -1, 1, 2, 100, 2**31, 2**32, 2**63)))
    return body[: piece.length_at] + varint(length) + body[piece.value_at :]


def _bit_flipped(body: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    out = bytearray(body or b"\0")
    out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def _byte_replaced(body: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    out = bytearray(body or b"\0")
    out[chance.randrange(len(out))] = chance.randrange(256)
    return bytes(out)


def _cut(body: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    return body[: chance.randint(0, len(body))]


def _spliced(body: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    other = chance.choice(seeds)
    return body[: chance.randint(0, len(body))] + other[chance.randint(0, len(other)) :]


def _joined(body: bytes, chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Two exports behind one another are one."""
    return body + chance.choice(seeds)


def _chunk_moved(body: bytes, chance: random.Random, _: Sequence[bytes]) -> bytes:
    """Take some bytes away, or put them elsewhere, or leave them there too."""
    start = chance.randint(0, len(body))
    end = min(len(body), start + chance.randint(1, 40))
    rest = body if chance.random() < 0.4 else body[:start] + body[end:]
    at = chance.randint(0, len(rest))
    return rest if chance.random() < 0.3 else rest[:at] + body[start:end] + rest[at:]


_WEIGHTED: Final[Sequence[tuple[float, Change]]] = (
    (20, _at_a_place(_other_value)),
    (10, _retyped),
    (10, _at_a_place(_text_changed)),
    (5, _at_a_place(_without)),
    (7, _at_a_place(_twice)),
    (4, _at_a_place(_moved)),
    (5, _at_a_place(_parted)),
    (7, _at_a_place(_with_newcomer)),
    (3, _at_a_place(_longer)),
    (4, _at_a_place(_other_tag)),
    (6, _of_another),
    (3, _joined),
    (2, _at_a_place(_stray)),
    (3, _at_a_place(_other_length)),
    (7, _bit_flipped),
    (6, _byte_replaced),
    (2, _cut),
    (2, _spliced),
    (4, _chunk_moved),
)
_CHANGES: Final = [change for _, change in _WEIGHTED]
_WEIGHTS: Final = [sum(weight for weight, _ in _WEIGHTED[: at + 1]) for at in range(len(_WEIGHTED))]
