"""
Which fields the messages have: a table out of the installed library's own descriptors.

A row a message type, a column a field number, and in each cell a code: in its low three
bits the wire type, above them a `Check`, or, from `Check.MESSAGE` on, which message it holds.

Source: protobuf, "Encoding"; opentelemetry-proto, trace/v1/trace.proto.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, cast

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

as_long: Final = cast("Callable[[Any], int]", np.int64)
"""What makes an int64 of a number; where it runs in Python, another kind of int."""

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types; 3 and 4 are groups, which nothing here knows."""

UNKNOWN = -1
"""Of a field number that the message does not have."""
DECLINED = -1
"""Of a position, a kind, a code: the authority has to decide."""


class Check(IntEnum):
    """What is checked of a field's content."""

    NONE = 0
    SMALL = 1
    """A number of 31 bits: larger ones are cut, each type in its own way."""
    BOOL = 2
    TEXT = 3
    """UTF-8."""
    REFUSE = 4
    """A field of a kind that is not read here."""
    MESSAGE = 5
    """This and above: a message, `MESSAGE` + its row."""


EXPORT, LAYER, RESOURCE, SCOPE, SPAN, STATUS, EVENT, PAIR, VALUE, ARRAY = map(as_long, range(10))
"""
Rows of the table. As int64: of a plain int that is passed on, numba compiles a function once more.

`LAYER` is ResourceSpans and ScopeSpans, which are alike; what is in them and in an
`EXPORT` is bytes here, as in `..envelope`.
"""

_D: Final = FieldDescriptor
_SCALARS: Final[Mapping[int, tuple[Check, int]]] = {
    _D.TYPE_INT64: (Check.NONE, VARINT),
    _D.TYPE_UINT64: (Check.NONE, VARINT),
    _D.TYPE_INT32: (Check.SMALL, VARINT),
    _D.TYPE_UINT32: (Check.SMALL, VARINT),
    _D.TYPE_ENUM: (Check.SMALL, VARINT),
    _D.TYPE_BOOL: (Check.BOOL, VARINT),
    _D.TYPE_FIXED64: (Check.NONE, FIXED64),
    _D.TYPE_SFIXED64: (Check.NONE, FIXED64),
    _D.TYPE_DOUBLE: (Check.NONE, FIXED64),
    _D.TYPE_FIXED32: (Check.NONE, FIXED32),
    _D.TYPE_SFIXED32: (Check.NONE, FIXED32),
    _D.TYPE_FLOAT: (Check.NONE, FIXED32),
    _D.TYPE_BYTES: (Check.NONE, LENGTH),
    _D.TYPE_STRING: (Check.TEXT, LENGTH),
}
_BYTES: Final = _SCALARS[_D.TYPE_BYTES]

_READ: Final[Mapping[Descriptor, Mapping[str, tuple[int, int]]]] = {
    ResourceSpans.DESCRIPTOR: {"resource": (1, _D.TYPE_MESSAGE), "scope_spans": (2, _D.TYPE_MESSAGE)},
    ScopeSpans.DESCRIPTOR: {"scope": (1, _D.TYPE_MESSAGE), "spans": (2, _D.TYPE_MESSAGE)},
    Resource.DESCRIPTOR: {"attributes": (1, _D.TYPE_MESSAGE)},
    InstrumentationScope.DESCRIPTOR: {"name": (1, _D.TYPE_STRING)},
    Span.DESCRIPTOR: {
        "trace_id": (1, _D.TYPE_BYTES),
        "span_id": (2, _D.TYPE_BYTES),
        "parent_span_id": (4, _D.TYPE_BYTES),
        "name": (5, _D.TYPE_STRING),
        "kind": (6, _D.TYPE_ENUM),
        "start_time_unix_nano": (7, _D.TYPE_FIXED64),
        "end_time_unix_nano": (8, _D.TYPE_FIXED64),
        "attributes": (9, _D.TYPE_MESSAGE),
        "events": (11, _D.TYPE_MESSAGE),
        "dropped_events_count": (12, _D.TYPE_UINT32),
        "status": (15, _D.TYPE_MESSAGE),
    },
    Status.DESCRIPTOR: {"message": (2, _D.TYPE_STRING), "code": (3, _D.TYPE_ENUM)},
    Span.Event.DESCRIPTOR: {
        "time_unix_nano": (1, _D.TYPE_FIXED64),
        "name": (2, _D.TYPE_STRING),
        "attributes": (3, _D.TYPE_MESSAGE),
    },
    KeyValue.DESCRIPTOR: {"key": (1, _D.TYPE_STRING), "value": (2, _D.TYPE_MESSAGE)},
    AnyValue.DESCRIPTOR: {
        "string_value": (1, _D.TYPE_STRING),
        "bool_value": (2, _D.TYPE_BOOL),
        "int_value": (3, _D.TYPE_INT64),
        "double_value": (4, _D.TYPE_DOUBLE),
        "array_value": (5, _D.TYPE_MESSAGE),
    },
    ArrayValue.DESCRIPTOR: {"values": (1, _D.TYPE_MESSAGE)},
}
"""The fields whose numbers the kernel knows by itself."""

_ROWS: Final = (Resource, InstrumentationScope, Span, Status, Span.Event, KeyValue, AnyValue, ArrayValue)
"""From `RESOURCE` on."""


class UnknownShapesError(Exception):
    """The installed descriptors are not those that the kernel was written for."""


def shapes() -> NDArray[np.int64]:
    """
    Make the table, shape (message types, field numbers).

    Raises:
        UnknownShapesError: a field that the kernel reads is another one.
    """
    _assert_read_fields()
    rows = list(_reachable([message.DESCRIPTOR for message in _ROWS]))
    width = 1 + max(field.number for row in rows for field in row.fields)
    table = np.full((RESOURCE + len(rows), width), UNKNOWN, dtype=np.int64)
    table[EXPORT, 1] = table[LAYER, 1] = table[LAYER, 2] = _code(*_BYTES)
    table[LAYER, 3] = _code(Check.TEXT, LENGTH)
    for index, row in enumerate(rows, RESOURCE):
        for field in row.fields:
            table[index, field.number] = _code_of(field, rows)
    return table


def _assert_read_fields() -> None:
    for message, fields in _READ.items():
        for name, shape in fields.items():
            field: Any = message.fields_by_name.get(name)
            if field is None or (field.number, field.type) != shape:
                raise UnknownShapesError(f"{message.full_name} has no {name} as field {shape[0]}")


def _reachable(messages: list[Descriptor]) -> Iterator[Descriptor]:
    """Give *messages*, then those within them, each once."""
    for message in messages:
        yield message
        for field in message.fields:
            inner = field.message_type
            if inner is not None and inner not in messages:
                messages.append(inner)


def _code_of(field: Any, rows: list[Descriptor]) -> int:
    if field.type == _D.TYPE_MESSAGE:
        return _code(Check.MESSAGE + RESOURCE + rows.index(field.message_type), LENGTH)
    if field.is_repeated and field.type not in (_D.TYPE_STRING, _D.TYPE_BYTES):
        return _code(Check.REFUSE, VARINT)
    check, wire_type = _SCALARS.get(field.type, (Check.REFUSE, VARINT))
    return _code(check, wire_type)


def _code(check: int, wire_type: int) -> int:
    return int(check) << 3 | wire_type
