"""Any export as a message, by chance: from what SDKs write to what nobody should."""

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final

from both_decoders import LATENESS_NS, NOW_NS
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, EntityRef, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from slo_exporter.ingest.otlp.claims import Claimants
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.refusals import FUTURE_NS
from slo_exporter.ingest.otlp.spans import EXCEPTION, EXCEPTION_TYPE, STATUS_DESCRIPTION

LISTS: Final = ("finish_reasons", "list")
WANTED: Final = ("k", "key", "model", "max.tokens", "service.name", *LISTS)
DAEMONS: Final = Claimants(Declared(selector_keys=frozenset({"k", "key"}))).keys
"""What a daemon asks for."""
KEYS: Final = (
    Keys(
        span=frozenset({*WANTED, STATUS_DESCRIPTION, EXCEPTION_TYPE, ""}),
        resource=frozenset({"k", "service.name", "model", ""}),
        events=frozenset({"first", "second", EXCEPTION, ""}),
        lists=frozenset({*LISTS, EXCEPTION_TYPE, STATUS_DESCRIPTION, "of.nobody"}),
    ),
    Keys(),
    Keys(span=frozenset({"k", "model", STATUS_DESCRIPTION}), events=frozenset({"first"})),
    Keys(span=frozenset({EXCEPTION_TYPE, "list"}), resource=frozenset({"key"}), lists=frozenset({"list"})),
    DAEMONS,
)
"""What may be asked for: much, nothing, a little."""

NEAR_MISSES: Final = ("k\0", "kez", "modem", "nodel", "models", "service.namf", "exception.typf", "finish_reasont", "é")
"""Keys that nobody asks for; of a length, a beginning or an end with those that somebody does."""
ALIKE: Final = tuple("abcdefghijklmnopqrstuvwx"[:size] + last for size in (6, 7, 8, 15, 16, 23) for last in "yz")
"""Texts that differ in their last byte, around the borders of words."""
_TEXTS: Final = (
    *ALIKE,
    "",
    "a",
    "a\0",
    "\0",
    "é",
    "日本語",
    "𝄞",
    "007",
    "9007199254740993",
    '"\\\n',
    "x" * 127,
    "x" * 128,
)
_INTEGERS: Final = (0, 1, -1, 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1, 2**63 - 1, -(2**63))
_DOUBLES: Final = (0.0, -0.0, 0.5, 2.0**53, -(2.0**60), 1e300, float("inf"), float("nan"), 5e-324)
_EVENTS: Final = ("first", "second", EXCEPTION, EXCEPTION, "other", "exceptiom", "")
_OLDEST_NS, _NEWEST_NS = NOW_NS - LATENESS_NS, NOW_NS + FUTURE_NS
_TIMES: Final = (0, 1, _OLDEST_NS - 1, _OLDEST_NS, _NEWEST_NS, _NEWEST_NS + 1, 2**63 - 1, 2**63, 2**64 - 1)
_ENUMS: Final = (0, 1, 2, 3, 4, 5, 6, 256, 257, 2**31 - 1)
_ODD_ENUMS: Final = (*_ENUMS, -1, -(2**31))
_COUNTS: Final = (0, 0, 0, 1, 127, 2**31 - 1)
_ODD_COUNTS: Final = (*_COUNTS, 2**31, 2**32 - 1)
_STATES: Final = ("", "", "vendor=1", "é")
_ODD_IDS: Final = (b"", bytes(8), bytes(16), b"\1" * 7, b"\1" * 9, b"\1" * 15, b"\1" * 17, b"\1" * 24)

_READABLE: Final[Sequence[Callable[[random.Random], AnyValue]]] = (
    lambda chance: AnyValue(string_value=a_text(chance)),
    lambda chance: AnyValue(string_value=a_text(chance)),
    lambda chance: AnyValue(bool_value=chance.random() < 0.5),
    lambda chance: AnyValue(int_value=chance.choice([*_INTEGERS, chance.randint(-300, 5000)])),
    lambda chance: AnyValue(double_value=chance.choice([*_DOUBLES, chance.random()])),
)
_OTHERS: Final[Sequence[Callable[[random.Random], AnyValue]]] = (
    lambda _: AnyValue(),
    lambda chance: AnyValue(bytes_value=chance.randbytes(chance.randint(0, 9))),
    lambda chance: AnyValue(string_value_strindex=chance.randint(0, 5)),
    lambda chance: AnyValue(array_value=ArrayValue(values=[a_value(chance) for _ in range(chance.randint(0, 3))])),
    lambda chance: AnyValue(kvlist_value=KeyValueList(values=some_attributes(chance, 2, is_plain=False))),
    lambda chance: AnyValue(array_value=ArrayValue(values=[a_list(chance)])),
)


def a_text(chance: random.Random) -> str:
    """One of a few, or one of very many."""
    return chance.choice([*_TEXTS, f"id-{chance.getrandbits(40):x}", "é" * chance.randint(0, 99)])


def a_value(chance: random.Random) -> AnyValue:
    """Any value."""
    return chance.choice([*_READABLE, a_list, *_OTHERS])(chance)


def a_list(chance: random.Random) -> AnyValue:
    """A list of texts, around the borders of what is read."""
    words = [a_text(chance) for _ in range(chance.choice([0, 1, 1, 2, 3, 64, 65]))]
    return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=word) for word in words]))


def _plain_value(chance: random.Random, key: str) -> AnyValue:
    """What an SDK writes: nothing nested under a key that is asked for, but a short list where lists are read."""
    if key in NEAR_MISSES:
        return a_value(chance)
    if key in LISTS and chance.random() < 0.5:
        words = [chance.choice(("stop", "length", "é")) for _ in range(chance.randint(0, 5))]
        return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=word) for word in words]))
    return chance.choice(_READABLE)(chance)


def some_attributes(chance: random.Random, most: int, *, is_plain: bool) -> list[KeyValue]:
    """Attributes with keys that are wanted, nearly wanted, and twice there."""
    out = list[KeyValue]()
    for _ in range(chance.randint(0, most)):
        key = chance.choice([*WANTED, *NEAR_MISSES, STATUS_DESCRIPTION, EXCEPTION_TYPE, "gen_ai.request.model", ""])
        # Which one of two stands is not known before the list is read: the compiled decoder may decline that.
        if is_plain and key in LISTS and any(pair.key == key for pair in out):
            continue
        value = _plain_value(chance, key) if is_plain else a_value(chance)
        pair = KeyValue(key=key) if not is_plain and chance.random() < 0.05 else KeyValue(key=key, value=value)
        if not is_plain and chance.random() < 0.05:
            pair.key_strindex = chance.randint(0, 3)
        out.append(pair)
    return out


class Exports:
    """
    Makes exports.

    Args:
        chance: chooses.
        is_plain: only what SDKs write, though it may be refused.
    """

    def __init__(self, chance: random.Random, *, is_plain: bool) -> None:
        self._chance = chance
        self._is_plain = is_plain

    def export(self) -> ExportTraceServiceRequest:
        """Make a whole one."""
        return ExportTraceServiceRequest(resource_spans=self._some(self._resource_spans, 3))

    def _resource_spans(self) -> ResourceSpans:
        out = ResourceSpans(scope_spans=self._some(self._scope_spans, 3), schema_url=self._chance.choice(_STATES))
        if self._chance.random() < 0.8:
            out.resource.attributes.extend(self._attributes(3))
            out.resource.attributes.add(key="service.name").value.string_value = a_text(self._chance)
        if self._chance.random() < 0.2:
            out.resource.entity_refs.append(EntityRef(type="é", id_keys=[a_text(self._chance)]))
        return out

    def _scope_spans(self) -> ScopeSpans:
        out = ScopeSpans(spans=self._some(self._span, 4), schema_url=self._chance.choice(_STATES))
        if self._chance.random() < 0.8:
            out.scope.name = a_text(self._chance)
            out.scope.attributes.extend(self._attributes(1))
        return out

    def _span(self) -> Span:
        chance = self._chance
        enums, counts = (_ENUMS, _COUNTS) if self._is_plain else (_ODD_ENUMS, _ODD_COUNTS)
        span = Span(
            trace_id=chance.randbytes(16),
            span_id=chance.randbytes(8),
            parent_span_id=chance.choice((b"", bytes(8), chance.randbytes(8))),
            trace_state=chance.choice(_STATES),
            flags=chance.choice(_ODD_COUNTS),
            name=a_text(chance),
            kind=chance.choice(enums),
            start_time_unix_nano=chance.choice([*_TIMES, NOW_NS - 5]),
            end_time_unix_nano=chance.randint(_OLDEST_NS, _NEWEST_NS),
            attributes=self._attributes(8),
            events=self._some(self._event, 3),
            links=self._some(self._link, 1),
            dropped_events_count=chance.choice(counts),
            dropped_links_count=chance.choice(counts),
        )
        if chance.random() < 0.7:
            span.status.CopyFrom(Status(code=chance.choice(enums), message=chance.choice(["", a_text(chance)])))
        if chance.random() < 0.3:
            name = chance.choice(["trace_id", "span_id", "parent_span_id", "end_time_unix_nano"])
            setattr(span, name, chance.choice(_TIMES if name.startswith("end") else _ODD_IDS))
        return span

    def _event(self) -> Span.Event:
        chance = self._chance
        pairs = self._attributes(2)
        if chance.random() < 0.5:
            pairs.append(KeyValue(key=EXCEPTION_TYPE, value=AnyValue(string_value=a_text(chance))))
        time_ns = chance.choice([*_TIMES, 1, 2, 3])
        return Span.Event(name=chance.choice(_EVENTS), time_unix_nano=time_ns, attributes=pairs)

    def _link(self) -> Span.Link:
        return Span.Link(trace_id=b"\1" * 16, trace_state="é", attributes=self._attributes(1), flags=7)

    def _attributes(self, most: int) -> list[KeyValue]:
        return some_attributes(self._chance, most, is_plain=self._is_plain)

    def _some(self, make: Callable[[], object], most: int) -> list:
        return [make() for _ in range(self._chance.randint(0, most))]


_CELLS: Final[Sequence[Callable[[random.Random], AnyValue]]] = (
    *_READABLE,
    lambda _: AnyValue(string_value="always"),
    lambda chance: AnyValue(string_value=f"chatcmpl-{chance.getrandbits(64):016x}"),
    lambda chance: AnyValue(int_value=chance.randint(-5, 5000)),
    lambda chance: AnyValue(double_value=chance.random()),
    lambda chance: AnyValue(double_value=float(chance.randint(0, 9))),
    lambda chance: AnyValue(double_value=struct.unpack("<d", chance.randbytes(8))[0]),
)
"""What a column may hold, by row."""


def table(chance: random.Random) -> ExportTraceServiceRequest:
    """
    Up to 700 good spans whose attributes are columns of one kind each, or mixtures.

    A column may lack rows, and may be there twice.
    """
    columns = [
        (chance.choice([*WANTED, *NEAR_MISSES]), chance.sample(_CELLS, chance.choice([1, 1, 2, 3])), chance.random())
        for _ in range(chance.randint(0, 9))
    ]
    export = ExportTraceServiceRequest()
    for number in range(chance.randint(1, 3)):
        resource_spans = export.resource_spans.add()
        resource_spans.resource.attributes.add(key="service.name").value.string_value = f"service {number % 2}"
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = chance.choice(ALIKE)
        for _ in range(chance.choice([1, 2, 30, 230])):
            span = scope_spans.spans.add(trace_id=chance.randbytes(16), span_id=chance.randbytes(8), name="work")
            span.end_time_unix_nano = chance.randint(_OLDEST_NS, _NEWEST_NS)
            for key, cells, share in columns:
                if share > 0.5 or chance.random() < share:
                    span.attributes.add(key=key, value=chance.choice(cells)(chance))
    return export
