"""A writer of OTLP/JSON for tests, in every spelling that a reader must take."""

import json
import math
import random
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

T = TypeVar("T")
Field = tuple[str, str]
"""Name and JSON text."""

_UNKNOWN = (
    '"droppedLinksCount":0',
    '"links":[{"traceId":"x"}]',
    '"newer":{"kind":[[1,"]"]]}',
    '"flags":257',
    '"":null',
)
_BLANKS = ("", " ", "\n\t ")


class JsonWriter:
    """
    Writes exports; without *chance* as the specification says, with it as it falls.

    Args:
        chance: chooses between spellings.
    """

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance

    def export(self, message: ExportTraceServiceRequest) -> bytes:
        """Write a whole body."""
        return self._object([self._list("resourceSpans", message.resource_spans, self._resource_spans)]).encode()

    def _resource_spans(self, message: ResourceSpans) -> str:
        scopes = self._list("scopeSpans", message.scope_spans, self._scope_spans)
        return self._object([("resource", self._resource(message.resource)), scopes])

    def _resource(self, message: Resource) -> str:
        return self._object([self._list("attributes", message.attributes, self._pair)])

    def _scope_spans(self, message: ScopeSpans) -> str:
        scope = self._object([("name", self._text(message.scope.name))])
        return self._object([("scope", scope), self._list("spans", message.spans, self._span)])

    def _span(self, message: Span) -> str:
        status = self._object(
            [
                ("code", self._enum(message.status.code, Status.StatusCode.items())),
                ("message", self._text(message.status.message)),
            ]
        )
        return self._object(
            [
                ("traceId", self._id(message.trace_id)),
                ("spanId", self._id(message.span_id)),
                ("parentSpanId", self._id(message.parent_span_id)),
                ("name", self._text(message.name)),
                ("kind", self._enum(message.kind, Span.SpanKind.items())),
                ("startTimeUnixNano", self._integer(message.start_time_unix_nano)),
                ("endTimeUnixNano", self._integer(message.end_time_unix_nano)),
                ("status", status),
                self._list("attributes", message.attributes, self._pair),
                self._list("events", message.events, self._event),
                ("droppedEventsCount", self._integer(message.dropped_events_count)),
            ]
        )

    def _event(self, message: Span.Event) -> str:
        return self._object(
            [
                ("name", self._text(message.name)),
                ("timeUnixNano", self._integer(message.time_unix_nano)),
                self._list("attributes", message.attributes, self._pair),
            ]
        )

    def _pair(self, message: KeyValue) -> str:
        return self._object([("key", self._text(message.key)), ("value", self._value(message.value))])

    def _value(self, message: AnyValue) -> str:
        which = message.WhichOneof("value")
        if which is None:
            return self._one_of("{}", "null", '{"stringValue":null}')
        name = re.sub("_(.)", lambda found: found[1].upper(), which)
        texts = {
            "string_value": lambda: self._text(message.string_value),
            "bool_value": lambda: json.dumps(message.bool_value),
            "int_value": lambda: self._integer(message.int_value),
            "double_value": lambda: self._double(message.double_value),
            "bytes_value": lambda: json.dumps(b64encode(message.bytes_value).decode()),
            "array_value": lambda: self._array(message.array_value),
        }
        return self._object([(name, texts[which]())])

    def _array(self, message: ArrayValue) -> str:
        written = self._object([self._list("values", message.values, self._value)])
        return written if message.values else self._one_of(written, "{}")

    def _text(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self._one_of(False, True))

    def _id(self, identity: bytes) -> str:
        digits = identity.hex()
        return json.dumps(self._one_of(digits, digits.upper(), digits.title()))

    def _enum(self, number: int, names: Sequence[tuple[str, int]]) -> str:
        named = [f'"{name}"' for name, value in names if value == number]
        return self._one_of(str(number), f"{number}.0", *named)

    def _integer(self, number: int) -> str:
        spelled = [f'"{number}"', str(number)]
        if abs(number) < 2**53:
            spelled += [f"{number}.0", f"{number}e0", f'"{number}.00"', f'"{number * 10}E-1"']
        return self._one_of(*spelled)

    def _double(self, number: float) -> str:
        if math.isfinite(number):
            return self._one_of(repr(number), f'"{number!r}"')
        return '"NaN"' if math.isnan(number) else f'"{"-" if number < 0 else ""}Infinity"'

    def _list(self, name: str, parts: Sequence[T], write: Callable[[T], str]) -> Field:
        written = [write(part) for part in parts]
        return name, f"[{self._comma().join(written)}]" if written else self._one_of("[]", "null")

    def _object(self, fields: list[Field]) -> str:
        members = [self._member(name, text) for name, text in fields]
        if self._chance:
            members += self._chance.sample(_UNKNOWN, self._chance.choice([0, 0, 0, 1, 2]))
            self._chance.shuffle(members)
        return f"{{{self._comma().join(members)}}}"

    def _member(self, name: str, text: str) -> str:
        snake = re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", name)
        spelled = self._one_of(name, name, name, snake)
        member = f'"{spelled}"{self._one_of(*_BLANKS)}:{self._one_of(*_BLANKS)}{text}'
        return self._one_of(member, member, f'"{spelled}":null,{member}')

    def _comma(self) -> str:
        return self._one_of(*(f"{blank}," for blank in _BLANKS))

    def _one_of(self, *choices: T) -> T:
        """Choose; the first is what the specification says."""
        return self._chance.choice(choices) if self._chance else choices[0]
