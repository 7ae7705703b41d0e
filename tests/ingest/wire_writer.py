"""A writer of protobuf for tests: the same message in every spelling that the wire allows, and in some it does not."""

import random
import struct
from collections.abc import Callable, Mapping
from typing import Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from wire_format import BYTES, FIXED32, FIXED64, GROUP, VARINT, field, varint

SPELLINGS: Final = ("shuffled", "unknown", "merged", "twice", "defaults", "oneof", "long", "groups", "other_wire")
"""What a valid body may do: fields in any order, fields nobody knows, a message in pieces, ..."""
FAULTS: Final = ("not_utf8", "stray", "deep")
"""What makes a body malformed, mostly: a text that is none, bytes between fields, messages within too many."""

_ODDS: Final = 0.2
_LARGEST_FIELD: Final = 2**29 - 1
_UNKNOWN_NUMBERS: Final = (9, 17, 18, 99, 2047, 2048, 2**21, _LARGEST_FIELD)
_NUMBERS: Final = (0, 1, 2, 5, 127, 128, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_STRAYS: Final = (b"\x00", b"\x02\x00", b"\x0c", b"\x07", b"\x16", b"\x0b", b"\x80", b"\x0a\x7f", b"\xff" * 11, b"\x7b")
"""Field 0, a group that never began or never ends, wire types 6 and 7, what is cut off."""
_NO_UTF8: Final = (b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82", b"\x80")
"""A wrong byte, a surrogate, a NUL in two bytes, beyond Unicode, a cut, a rest."""
_MEMBERS: Final = (
    field(1, BYTES, b"other"),
    field(1, BYTES, b""),
    field(2, VARINT, b"\x01"),
    field(3, VARINT, varint(2**64 - 7)),
    field(4, FIXED64, struct.pack("<d", 0.25)),
    field(5, BYTES, field(1, BYTES, field(1, BYTES, b"stop"))),
    field(6, BYTES, b""),
    field(7, BYTES, b"\xff"),
    field(8, VARINT, b"\x05"),
)
"""Each member of AnyValue.value."""

_SCALARS: Final[Mapping[int, Callable[[int | float], bytes]]] = {
    FieldDescriptor.TYPE_DOUBLE: lambda value: struct.pack("<d", value),
    FieldDescriptor.TYPE_FIXED64: lambda value: struct.pack("<Q", value),
    FieldDescriptor.TYPE_FIXED32: lambda value: struct.pack("<I", value),
}


def nested(depth: int) -> bytes:
    """Write the value of an AnyValue: so many arrays within one another."""
    value = b""
    for _ in range(depth):
        value = field(5, BYTES, field(1, BYTES, value))
    return value


class WireWriter:
    """
    Writes messages; without any spelling as the library does.

    Args:
        chance: chooses where and which.
        spellings: of `SPELLINGS` and `FAULTS` those that it may use, each at one place in five.
    """

    def __init__(self, chance: random.Random, spellings: frozenset[str] = frozenset()) -> None:
        self._chance = chance
        self._spellings = spellings

    def message(self, message: Message) -> bytes:
        """Write the fields of a message."""
        return b"".join(self._fields(message))

    def _fields(self, message: Message) -> list[bytes]:
        out = list[bytes]()
        for described, value in message.ListFields():
            for one in value if described.is_repeated else [value]:
                out += self._field(described, one)
        out += self._further(message)
        if "shuffled" in self._spellings:
            self._chance.shuffle(out)
        return self._with_others(out, message)

    def _field(self, described: FieldDescriptor, value: object) -> list[bytes]:
        if not isinstance(value, Message):
            return self._scalar(described, value)
        inner = self._fields(value)
        at = self._chance.randint(0, len(inner)) if not described.is_repeated and self._may("merged") else len(inner)
        halves = [inner[:at], inner[at:]] if at < len(inner) else [inner]
        return [self._packed(described.number, BYTES, b"".join(half)) for half in halves]

    def _scalar(self, described: FieldDescriptor, value: object) -> list[bytes]:
        wire, content = self._content(described, value)
        written = self._packed(described.number, wire, content)
        return [self._another(described), written] if self._may("twice") else [written]

    def _content(self, described: FieldDescriptor, value: object) -> tuple[int, bytes]:
        if described.type == FieldDescriptor.TYPE_STRING:
            text = str(value).encode()
            return BYTES, text + self._chance.choice(_NO_UTF8) if self._may("not_utf8", 0.02) else text
        if isinstance(value, bytes):
            return BYTES, value
        if described.type in _SCALARS:
            content = _SCALARS[described.type](value)
            return {4: FIXED32, 8: FIXED64}[len(content)], content
        return VARINT, self._number(int(value) % 2**64)

    def _number(self, number: int) -> bytes:
        return varint(number, self._longer(10 - len(varint(number))))

    def _another(self, described: FieldDescriptor) -> bytes:
        """Some other value of the field."""
        if described.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            return field(described.number, BYTES, self._chance.choice([b"", b"k", b"\1" * 8, b"\2" * 16]))
        if described.type in _SCALARS:
            content = _SCALARS[described.type](self._chance.choice([0, 1, 2**31]))
            return field(described.number, {4: FIXED32, 8: FIXED64}[len(content)], content)
        return field(described.number, VARINT, varint(self._chance.choice(_NUMBERS)))

    def _further(self, message: Message) -> list[bytes]:
        """Fields that the message knows, but does not have."""
        out = list[bytes]()
        for described in message.DESCRIPTOR.fields:
            if not described.is_repeated and described.message_type is None and described.containing_oneof is None:
                out += [self._packed(described.number, *_empty(described))] * self._may_lack(message, described)
        if message.DESCRIPTOR.name == "AnyValue" and self._may("oneof"):
            out.append(self._chance.choice(_MEMBERS))
        if message.DESCRIPTOR.name == "AnyValue" and self._may("deep", 0.02):
            out.append(nested(self._chance.randint(1, 60)))
        return out

    def _may_lack(self, message: Message, described: FieldDescriptor) -> bool:
        return self._may("defaults", 0.1) and not getattr(message, described.name)

    def _with_others(self, out: list[bytes], message: Message) -> list[bytes]:
        """Put in between what the message does not know."""
        known = [described.number for described in message.DESCRIPTOR.fields]
        others = [
            ("unknown", lambda: self._unknown(self._chance.choice([n for n in _UNKNOWN_NUMBERS if n not in known]))),
            ("groups", lambda: self._group(self._chance.choice([*known, *_UNKNOWN_NUMBERS]))),
            ("other_wire", lambda: self._wrong(message)),
            ("stray", lambda: self._chance.choice(_STRAYS)),
        ]
        for spelling, other in others:
            if self._may(spelling, 0.01 if spelling == "stray" else _ODDS):
                out.insert(self._chance.randint(0, len(out)), other())
        return out

    def _unknown(self, number: int) -> bytes:
        return self._packed(number, *self._chance.choice(_VALUES))

    def _group(self, number: int) -> bytes:
        inside = self._group(number + 1 & _LARGEST_FIELD or 1) if self._chance.random() < 0.3 else b""
        return field(number, GROUP, inside + self._unknown(3))

    def _wrong(self, message: Message) -> bytes:
        """A field that the message knows, in another wire type."""
        described = self._chance.choice(message.DESCRIPTOR.fields)
        right = _empty(described)[0]
        wire, content = self._chance.choice([value for value in _VALUES if value[0] != right])
        return self._packed(described.number, wire, content)

    def _packed(self, number: int, wire: int, content: bytes) -> bytes:
        most = 5 - max(len(varint(number << 3)), len(varint(len(content))))
        return field(number, wire, content, self._longer(most))

    def _longer(self, most: int) -> int:
        return self._chance.randint(1, most) if most > 0 and self._may("long", 0.05) else 0

    def _may(self, spelling: str, odds: float = _ODDS) -> bool:
        return spelling in self._spellings and self._chance.random() < odds


_VALUES: Final = (
    (VARINT, b"\x00"),
    (VARINT, b"\xff" * 9 + b"\x01"),
    (FIXED64, b"\xff" * 8),
    (FIXED32, b"\x0a\x01\x61\x00"),
    (BYTES, b""),
    (BYTES, b"\xff\x0a\x7f"),
    (BYTES, b"\x0a\x02\x08\x01" * 40),
)
"""Wire types and values."""


def _empty(described: FieldDescriptor) -> tuple[int, bytes]:
    """Wire type and default of a field."""
    if described.type in _SCALARS:
        content = _SCALARS[described.type](0)
        return {4: FIXED32, 8: FIXED64}[len(content)], content
    is_long = described.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE)
    return (BYTES, b"") if is_long else (VARINT, b"\x00")
