"""
The wire format of protobuf, as far as tests take it apart and put it together.

Source: protobuf, "Encoding"; the descriptors of opentelemetry-proto.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
"""Wire types."""

_WIRES: Final = {
    FieldDescriptor.TYPE_DOUBLE: FIXED64,
    FieldDescriptor.TYPE_FIXED64: FIXED64,
    FieldDescriptor.TYPE_FIXED32: FIXED32,
    FieldDescriptor.TYPE_STRING: BYTES,
    FieldDescriptor.TYPE_BYTES: BYTES,
    FieldDescriptor.TYPE_MESSAGE: BYTES,
}
"""The others are varints."""
_SIZES: Final = {FIXED64: 8, FIXED32: 4, GROUP: 0, END_GROUP: 0}


class Known(NamedTuple):
    """A field of a message that we know."""

    name: str
    number: int
    kind: int
    """`FieldDescriptor.TYPE_STRING` and so on."""
    wire: int
    inner: "Shape | None"
    """What is in it, of a message."""


Shape = dict[int, Known]
"""The fields of a message by number."""


def _shape(message: Descriptor, known: dict[str, Shape]) -> Shape:
    if message.full_name not in known:
        shape = known[message.full_name] = Shape()
        for field in message.fields:
            inner = _shape(field.message_type, known) if field.message_type else None
            wire = _WIRES.get(field.type, VARINT)
            shape[field.number] = Known(field.name, field.number, field.type, wire, inner)
    return known[message.full_name]


EXPORT: Final = _shape(ExportTraceServiceRequest.DESCRIPTOR, {})
"""ExportTraceServiceRequest."""


def varint(number: int, longer: int = 0) -> bytes:
    """Write a number of up to 64 bits; *longer* by so many bytes that add nothing."""
    out = bytearray()
    while number > 127 or longer > 0:
        longer -= number <= 127
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, wire: int, content: bytes, longer: int = 0) -> bytes:
    """Write a field; *content* is a value as it stands on the wire, of `BYTES` without its length."""
    length = varint(len(content), longer) if wire == BYTES else b""
    end = varint(number << 3 | END_GROUP) if wire == GROUP else b""
    return varint(number << 3 | wire, longer) + length + content + end


class Piece(NamedTuple):
    """A field that stands in a body."""

    start: int
    """Where its tag begins."""
    length_at: int
    """Where its tag ends, and its length begins if it has one."""
    value_at: int
    end: int
    number: int
    wire: int
    known: Known | None
    """None where such a message has no such field, or one of another wire type."""


Around = tuple[Piece, ...]
"""The messages that a place in a body is in, the outermost first."""


def borders(body: bytes, start: int, end: int) -> list[int]:
    """Where the fields of one message begin, and where the last of them ends that can be read."""
    found, at = [start], start
    while at < end:
        tag, at = body[at], at + 1
        if tag & 135 == BYTES and at < end and body[at] < 128:  # most are: a fuzzer spends its time here
            at += 1 + body[at]
        else:
            tag, at = _read(body, at - 1, end)
            at = _behind(body, at, end, tag & 7) if at else 0
        if not 0 < at <= end:
            break
        found.append(at)
    return found


def pieces(body: bytes, start: int, end: int, shape: Shape) -> list[Piece]:
    """Read the fields of one message, without those of messages in it; up to the first that cannot be read."""
    return [piece_at(body, one, other, shape) for one, other in pairwise(borders(body, start, end))]


def piece_at(body: bytes, start: int, end: int, shape: Shape) -> Piece:
    """Read the field between two borders."""
    tag, length_at = _read(body, start, end)
    number, wire = tag >> 3, tag & 7
    value_at = _read(body, length_at, end)[1] if wire == BYTES else length_at
    known = shape.get(number)
    is_known = known is not None and known.wire == wire
    return Piece(start, length_at, value_at, end, number, wire, known if is_known else None)


def _behind(body: bytes, at: int, end: int, wire: int) -> int:
    """Where the value ends that begins here, perhaps with its length; 0 where it cannot be read."""
    if wire == BYTES:
        length, value_at = _read(body, at, end)
        return value_at + length if value_at else 0
    if wire == VARINT:
        return _read(body, at, end)[1]
    # Tags that begin and end a group count as fields without a value.
    return at + _SIZES[wire] if wire in _SIZES else 0


def _read(body: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a varint: the number and where it ends; 0 where it does not end."""
    if at < end and body[at] < 128:
        return body[at], at + 1
    number = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
    return 0, 0


def every_piece(body: bytes) -> Iterator[tuple[Piece, Around]]:
    """All fields of an export, the outer ones before those in them."""
    waiting: list[tuple[int, int, Shape, Around]] = [(0, len(body), EXPORT, ())]
    while waiting:
        start, end, shape, around = waiting.pop(0)
        for piece in pieces(body, start, end, shape):
            yield piece, around
            if piece.known is not None and piece.known.inner is not None:
                waiting.append((piece.value_at, piece.end, piece.known.inner, (*around, piece)))


def replaced(body: bytes, start: int, end: int, content: bytes, around: Sequence[Piece]) -> bytes:
    """Put *content* where ``body[start:end]`` stands, and make the lengths of the messages around it right."""
    out = body[:start] + content + body[end:]
    grown = len(content) - (end - start)
    for piece in reversed(around):
        length = varint(max(0, piece.end - piece.value_at + grown))
        out = out[: piece.length_at] + length + out[piece.value_at :]
        grown += len(length) - (piece.value_at - piece.length_at)
    return out
