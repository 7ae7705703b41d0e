"""
Reading protobuf's wire format: bounded, minimal, declining.

Positions are indices into `Wire.body`; `DECLINED` in the place of one says that the bytes
are wrong, or right in a way that is not read here.

Source: protobuf, "Encoding"; The Unicode Standard, table 3-7 "Well-Formed UTF-8 Byte Sequences".
"""

import numpy as np

from slo_exporter.ingest.otlp.compiled.arrays import Wire
from slo_exporter.ingest.otlp.compiled.jit import bounded, hot, inner, part
from slo_exporter.ingest.otlp.compiled.shapes import DECLINED, FIXED32, FIXED64, LENGTH, UNKNOWN, VARINT, Check, as_long

_LONGEST_VARINT = 10
_LONGEST_TAG = 5
_LARGEST_TAG = 2**32 - 1
_LARGEST_SMALL = 2**31 - 1
_NOT_ASCII = np.uint64(0x8080_8080_8080_8080)
_TEXT, _SMALL, _BOOL, _REFUSE, _MESSAGE = (
    int(Check.TEXT),
    int(Check.SMALL),
    int(Check.BOOL),
    int(Check.REFUSE),
    int(Check.MESSAGE),
)


@hot
def varint(wire: Wire, at: int, end: int) -> tuple[int, int]:
    """Give the 64 bits of a varint, as they are in an int64, and the position behind it."""
    if at >= end:
        return 0, DECLINED
    first = as_long(wire.body[at])
    if first < 128:
        return first, at + 1
    second = as_long(wire.body[at + 1]) if at + 1 < end else 0
    if 0 < second < 128:
        return first & 127 | second << 7, at + 2
    return _longer_varint(wire, at, end)


@inner
def _longer_varint(wire: Wire, at: int, end: int) -> tuple[int, int]:
    value = as_long(0)
    for index in range(min(_LONGEST_VARINT, end - at)):
        byte = as_long(wire.body[at + index])
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            # A last byte of 0 says nothing; of the tenth there is room for one bit.
            if byte == 0 or (index == _LONGEST_VARINT - 1 and byte > 1):
                return 0, DECLINED
            return value, at + index + 1
    return 0, DECLINED


@hot
def length(wire: Wire, at: int, end: int) -> tuple[int, int]:
    """Give the size of a length-delimited payload that ends by *end*, and where it starts."""
    size, start = varint(wire, at, end)
    if start < 0 or size < 0 or size > end - start:
        return 0, DECLINED
    return size, start


@hot
def tag(wire: Wire, at: int, end: int) -> tuple[int, int]:
    """Give a tag, field number and wire type in one, and the position behind it."""
    value, after = varint(wire, at, end)
    if after < 0 or after - at > _LONGEST_TAG or value > _LARGEST_TAG or value < 8:
        return 0, DECLINED
    return value, after


@part
def payload(wire: Wire, wire_type: int, at: int, end: int) -> tuple[int, int, int]:
    """Give the value, or the size, of what follows a tag, where it starts, and the position behind it."""
    if wire_type == LENGTH:
        size, start = length(wire, at, end)
        return size, start, DECLINED if start < 0 else start + size
    if wire_type == VARINT:
        value, after = varint(wire, at, end)
        return value, at, after
    if wire_type == FIXED64 and end - at >= 8:
        return as_long(wire.words[at]), at, at + 8
    if wire_type == FIXED32 and end - at >= 4:
        return 0, at, at + 4
    return 0, at, DECLINED


@bounded
def _is_ascii(wire: Wire, at: int, size: int) -> bool:
    """Say whether a text of at least 8 bytes is well formed without a second look."""
    last = size - 8
    if last < 0 or at < 0 or at >= wire.words.shape[0] - last:
        return False
    letters = wire.words[np.uint64(at + last)]
    for step in range(0, last, 8):
        letters |= wire.words[np.uint64(at + step)]
    return letters & _NOT_ASCII == 0


@inner
def is_utf8(wire: Wire, at: int, size: int) -> bool:
    """Say whether a text is well formed: without surrogates, over-long forms and what is beyond U+10FFFF."""
    if _is_ascii(wire, at, size):
        return True
    end = at + size
    while at < end:
        at = at + 1 if wire.body[at] < 128 else _behind_character(wire, at, end)
        if at < 0:
            return False
    return True


@inner
def _behind_character(wire: Wire, at: int, end: int) -> int:
    """Give the position behind a character of several bytes."""
    first = as_long(wire.body[at])
    if first < 0xC2 or first > 0xF4:
        return DECLINED
    size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if size > end - at:
        return DECLINED
    second = as_long(wire.body[at + 1])
    least = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
    most = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
    if second < least or second > most:
        return DECLINED
    for index in range(2, size):
        if wire.body[at + index] & 0xC0 != 0x80:
            return DECLINED
    return at + size


@part
def code_of(wire: Wire, message: int, number: int) -> int:
    """Give the code of a field, see `..shapes`."""
    return wire.shapes[message, number] if number < wire.shapes.shape[1] else UNKNOWN


@part
def is_sound(wire: Wire, code: int, wire_type: int, value: int, at: int) -> bool:
    """Say whether the content of a field fits its code, but for what is in a message."""
    if code == UNKNOWN:
        return True
    check = code >> 3
    if code & 7 != wire_type or check == _REFUSE:
        return False
    if check == _TEXT:
        return is_utf8(wire, at, value)
    if check == _SMALL:
        return 0 <= value <= _LARGEST_SMALL
    return check != _BOOL or value == 0 or value == 1


@inner
def is_valid(wire: Wire, message: int, at: int, end: int) -> bool:
    """Say whether a message and all messages within it are well formed; no to what is nested too deeply."""
    depth = 0
    while True:
        while at == end:
            if depth == 0:
                return True
            depth -= 1
            end, message = wire.stack[depth, 0], wire.stack[depth, 1]
        mark, at = tag(wire, at, end)
        if at < 0:
            return False
        code = code_of(wire, message, mark >> 3)
        value, start, after = payload(wire, mark & 7, at, end)
        if after < 0 or not is_sound(wire, code, mark & 7, value, start):
            return False
        at = after
        if code >> 3 >= _MESSAGE:
            if depth >= wire.stack.shape[0]:
                return False
            wire.stack[depth, 0], wire.stack[depth, 1] = end, message
            depth += 1
            at, end, message = start, after, (code >> 3) - _MESSAGE


@hot
def field(wire: Wire, message: int, at: int, end: int, base: int) -> tuple[int, int]:
    """
    Read one field of a message, with all that is in it, into `Wire.fields`.

    From ``base + 2 * number`` on stand a value, or start and size. Gives the field number,
    0 where the message has no such field, and the position behind it.
    """
    mark, at = tag(wire, at, end)
    if at < 0:
        return 0, DECLINED
    number = mark >> 3
    code = code_of(wire, message, number)
    value, start, after = payload(wire, mark & 7, at, end)
    if after < 0 or not is_sound(wire, code, mark & 7, value, start):
        return 0, DECLINED
    if code == UNKNOWN:
        return 0, after
    if code >> 3 >= _MESSAGE and not is_valid(wire, (code >> 3) - _MESSAGE, start, after):
        return 0, DECLINED
    wire.fields[base + 2 * number] = start if code & 7 == LENGTH else value
    wire.fields[base + 2 * number + 1] = value
    return number, after


@inner
def any_field(wire: Wire, message: int, at: int, end: int, base: int) -> tuple[int, int]:
    """Do what `field` does, where it is not done for every span."""
    return field(wire, message, at, end, base)


@inner
def fields(wire: Wire, message: int, at: int, end: int, base: int) -> bool:
    """Read all fields of a message, the last of each number, into `Wire.fields`; what is missing is 0."""
    for index in range(base, base + 2 * wire.shapes.shape[1]):
        wire.fields[index] = 0
    while at < end:
        _, at = any_field(wire, message, at, end, base)
        if at < 0:
            return False
    return True
