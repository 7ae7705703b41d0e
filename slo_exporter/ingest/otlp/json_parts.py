"""
The parts of an OTLP/JSON export, as the JSON library is to read them.

A field that is not named here is skipped without being built, and so is what a
map or bytes hold. What an array holds and the attributes of an event stay text:
read where somebody asks for them, no value where they are odd. A part of a list
stays text until its turn comes, so no two spans exist at once. A key that stands
twice has its last value, and null is as good as absent.

A field of several words has two spellings, ``traceId`` and ``trace_id``: the
specification has the first alone, but some exporters write the second (J07).

Source: the OTLP specification, "JSON Protobuf Encoding"; opentelemetry-proto,
trace/v1/trace.proto, resource/v1/resource.proto, common/v1/common.proto.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from msgspec import DecodeError, Raw, Struct, ValidationError, field
from msgspec.json import Decoder

from slo_exporter.ingest.otlp.columns import LIST_ELEMENTS, list_text
from slo_exporter.ingest.otlp.errors import MalformedError
from slo_exporter.ingest.otlp.json_values import Number

Fields = dict[str, Any]
"""A part: the fields that are there, by name."""
NULL: Final = Raw(b"null")
"""Stands for text that is not there."""

GO_STYLE: Final = "Value"
"""``{"Value": {"StringValue": …}}`` is how Go's own JSON writes a value; it says nothing here (J14)."""

_SNAKE: Final = re.compile("(?<=[a-z])(?=[A-Z])")


def _part(**kinds: Any) -> Any:
    """Declare a part: the type of each field's value, in both spellings of its name."""
    both = kinds | {_SNAKE.sub("_", name).lower(): kind for name, kind in kinds.items() if name != GO_STYLE}
    return TypedDict("Part", both, total=False)  # type: ignore[operator] # mypy wants the names written out


class Unread(Struct, gc=False):
    """An object whose fields nobody wants."""


class Scope(Struct, gc=False):
    """InstrumentationScope."""

    name: str | None = None


class Status(Struct, gc=False):
    """Status."""

    code: Number = None
    message: str | None = None


class Array(Struct, gc=False):
    """ArrayValue, unread."""

    values: Raw = NULL


_VALUE: Final = _part(
    stringValue=str | None,
    boolValue=bool | None,
    intValue=Number,
    doubleValue=float | str | None,
    bytesValue=str | None,
    arrayValue=Array | None,
    kvlistValue=Unread | None,
    Value=Raw,
)


class Pair(Struct, gc=False):
    """KeyValue."""

    key: str | None = None
    value: _VALUE | None = None  # type: ignore[valid-type] # made by _part


class Event(Struct, gc=False):
    """
    Span.Event.

    A span may have a million, so they are no dicts: of two spellings of the time,
    the right one counts.
    """

    name: str | None = None
    time: Number = field(default=None, name="timeUnixNano")
    snake_time: Number = field(default=None, name="time_unix_nano")
    attributes: Raw = NULL


class Resource(Struct, gc=False):
    """Resource."""

    attributes: list[Pair | None] | None = None


_EXPORT: Final = _part(resourceSpans=list[Raw] | None)
_RESOURCE_SPANS: Final = _part(resource=Raw, scopeSpans=list[Raw] | None, instrumentationLibrarySpans=Raw)
_SCOPE_SPANS: Final = _part(scope=Raw, spans=list[Raw] | None)
_SPAN: Final = _part(
    traceId=str | None,
    spanId=str | None,
    parentSpanId=str | None,
    name=str | None,
    kind=Number,
    startTimeUnixNano=Number,
    endTimeUnixNano=Number,
    status=Status | None,
    attributes=list[Pair | None] | None,
    events=list[Event | None] | None,
    droppedEventsCount=Number,
)

CAMEL: Final[Mapping[str, str]] = {
    _SNAKE.sub("_", name).lower(): name
    for part in (_EXPORT, _RESOURCE_SPANS, _SCOPE_SPANS, _SPAN, _VALUE)
    for name in part.__annotations__
    if _SNAKE.search(name)
}
"""The right spelling of a field by its other one."""

EXPORT: Final[Decoder[Fields]] = Decoder(_EXPORT)
RESOURCE_SPANS: Final[Decoder[Fields | None]] = Decoder(_RESOURCE_SPANS | None)
SCOPE_SPANS: Final[Decoder[Fields | None]] = Decoder(_SCOPE_SPANS | None)
SPAN: Final[Decoder[Fields | None]] = Decoder(_SPAN | None)
RESOURCE: Final[Decoder[Resource | None]] = Decoder(Resource | None)
SCOPE: Final[Decoder[Scope | None]] = Decoder(Scope | None)

_PAIRS: Final[Decoder[list[Pair | None] | None]] = Decoder(list[Pair | None] | None)
_ELEMENTS: Final[Decoder[list[Raw] | None]] = Decoder(list[Raw] | None)
_ELEMENT: Final[Decoder[Fields | None]] = Decoder(_VALUE | None)


def read_body(body: bytes) -> Fields:
    """
    Read an ExportTraceServiceRequest; all of its text is JSON then.

    Raises:
        MalformedError: it is no JSON, no object, or its list of resources is none.
    """
    try:
        return EXPORT.decode(body)
    except DecodeError as error:
        raise MalformedError(f"the body of {len(body)} bytes is no ExportTraceServiceRequest: {error}") from None


def read_part(decoder: Decoder[Any], text: Raw, place: str) -> Any:
    """
    Read a part that stands at *place*.

    Raises:
        MalformedError: a field of it is of another type.
    """
    try:
        return decoder.decode(text)
    except ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        raise MalformedError(f"{place}{path.rstrip('`')}: {what}") from None


def size_of(text: Raw) -> int:
    """Bytes of a part."""
    return len(memoryview(text))


def is_there(text: Raw) -> bool:
    """Whether a part is not null."""
    return bytes(memoryview(text)[:5]) != b"null"


def read_texts(value: Fields) -> str | None:
    """Write a value that is an array of texts as JSON; None when it is anything else, or odd in any way."""
    array = _only("arrayValue", value)
    if array is None:
        return None
    try:
        elements = _ELEMENTS.decode(array.values) or []
        if len(elements) > LIST_ELEMENTS:
            return None
        texts = [_text(_ELEMENT.decode(element)) for element in elements]
    except ValidationError:
        return None
    known = [text for text in texts if text is not None]
    return list_text(known) if len(known) == len(texts) else None


def read_attribute(attributes: Raw, key: str) -> str | None:
    """Read the last text that *attributes* have under *key*; None when there is none, or they are no attributes."""
    try:
        pairs = _PAIRS.decode(attributes) or []
    except ValidationError:
        return None
    texts = [_text(pair.value) for pair in pairs if pair is not None and pair.key == key]
    return next((text for text in reversed(texts) if text is not None), None)


def _text(value: Fields | None) -> str | None:
    return _only("stringValue", value) if value else None


def _only(member: str, value: Fields) -> Any:
    """The *member* of a value; None when it is not there, or not alone."""
    spelled = {CAMEL.get(name, name): content for name, content in value.items() if name != GO_STYLE}
    there = [name for name, content in spelled.items() if content is not None]
    return spelled[member] if there == [member] else None
