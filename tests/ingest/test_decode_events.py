"""Events, lists, why a span failed, and whose refused spans are: the same from protobuf and from JSON."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from builders import NOON_NS
from hypothesis import given
from hypothesis import strategies as st
from json_writer import JsonWriter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from otlp_messages import LATENESS_NS, assert_equal

from slo_exporter.ingest.otlp.columns import LIST_CHARACTERS, LIST_ELEMENTS, list_text
from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.decode_json import decode_json
from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import EXCEPTION_TYPE, STATUS_DESCRIPTION, SpanBatch, ValueKind
from slo_exporter.sli.records import MISSING

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]

END = NOON_NS - 1
ASKED = Keys(
    span=frozenset({"k", "plain", STATUS_DESCRIPTION, EXCEPTION_TYPE}),
    resource=frozenset({"k"}),
    events=frozenset({"first", "second"}),
    lists=frozenset({"k", "unasked"}),
)


def read(body: bytes, keys: Keys = ASKED) -> tuple[SpanBatch, Refusals]:
    """Decode a protobuf body as of noon, and see to it that JSON says the same."""
    spans, refusals = decode(body, keys, now_ns=NOON_NS, lateness_ns=LATENESS_NS)
    written = JsonWriter().export(ExportTraceServiceRequest.FromString(body))
    of_json, refusals_of_json, _ = decode_json(written, keys, now_ns=NOON_NS, lateness_ns=LATENESS_NS)
    assert_equal(of_json, spans)
    assert refusals_of_json == refusals
    return spans, refusals


def read_json(keys: Keys = ASKED, /, **fields: Any) -> tuple[SpanBatch, Refusals, dict[str, int]]:
    """Decode a JSON span; keywords are its fields."""
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "endTimeUnixNano": str(END)} | fields
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    spans, refusals, flags = decode_json(body, keys, now_ns=NOON_NS, lateness_ns=LATENESS_NS)
    return spans, refusals, dict(flags)


def event(name: str, time_ns: int = END, **attributes: AnyValue) -> Span.Event:
    """Build an event; in names of attributes ``__`` stands for a dot."""
    pairs = [KeyValue(key=key.replace("__", "."), value=value) for key, value in attributes.items()]
    return Span.Event(name=name, time_unix_nano=time_ns, attributes=pairs)


def text(value: str) -> AnyValue:
    """Build a text."""
    return AnyValue(string_value=value)


def texts(*elements: str) -> AnyValue:
    """Build an array of texts."""
    return AnyValue(array_value=ArrayValue(values=map(text, elements)))


def text_at(spans: SpanBatch, key: str) -> str | None:
    """Read the text that the first span has under a key."""
    column = spans.attributes.get(key)
    return None if column is None else column.words().at(0)


def test_the_earliest_event_of_a_name_counts(span: SpanOf, export_body: BodyOf) -> None:
    """Events need not come in their order; a name that nobody asked for has no column."""
    one = span(events=[event("first", 30), event("first", 10), event("first", 20), event("other", 5)])
    spans, _ = read(export_body(span(), one))
    assert {name: times.tolist() for name, times in spans.events.items()} == {"first": [MISSING, 10]}


def test_each_name_has_times_of_its_own(span: SpanOf, export_body: BodyOf) -> None:
    """A column per asked-for name that occurs, a row per span."""
    body = export_body(span(events=[event("first", 1), event("second", 2)]), span(events=[event("second", 3)]))
    spans, _ = read(body)
    assert spans.events["first"].tolist() == [1, MISSING]
    assert spans.events["second"].tolist() == [2, 3]


def test_an_event_without_a_time_is_no_value(span: SpanOf, export_body: BodyOf) -> None:
    """0 is no time: it neither counts nor hides a later event."""
    spans, _ = read(export_body(span(events=[event("first", 0), event("second", 0), event("first", 7)])))
    assert {name: times.tolist() for name, times in spans.events.items()} == {"first": [7]}


def test_the_time_of_an_event_fits_an_int64(span: SpanOf, export_body: BodyOf) -> None:
    """As starts do: what lies beyond becomes the last instant."""
    spans, _ = read(export_body(span(events=[event("first", 2**64 - 1)])))
    assert spans.events["first"].tolist() == [2**63 - 1]


def test_of_forty_thousand_events_the_first_counts(span: SpanOf, export_body: BodyOf) -> None:
    """They are looked at one after the other and not kept."""
    spans, _ = read(export_body(span(events=[event("first", time_ns) for time_ns in range(40_000, 0, -1)])))
    assert spans.events["first"].tolist() == [1]


def test_events_of_refused_spans_leave_nothing_behind(span: SpanOf, export_body: BodyOf) -> None:
    """Neither their times nor their loss."""
    refused = span(end_time_unix_nano=1, events=[event("first", 5)], dropped_events_count=1)
    spans, refusals = read(export_body(refused, span()))
    assert (dict(spans.events), spans.lost_events) == ({}, None)
    assert refusals.count == 1


@given(st.lists(st.lists(st.tuples(st.sampled_from(["first", "second"]), st.integers(0, 9))), max_size=4))
def test_first_times_are_those_of_a_plain_minimum(rows: list[list[tuple[str, int]]]) -> None:
    """Whatever the events of a batch, each span has the least time above 0 of each name."""
    export = ExportTraceServiceRequest()
    scope = export.resource_spans.add().scope_spans.add()
    for told in rows:
        span = scope.spans.add(trace_id=b"\1" * 16, span_id=b"\1" * 8, end_time_unix_nano=END)
        span.events.extend(event(name, time) for name, time in told)
    spans, _ = read(export.SerializeToString())
    for name in ("first", "second"):
        least = [min((time for told, time in events if told == name and time), default=MISSING) for events in rows]
        expected = least if set(least) - {MISSING} else None
        assert (spans.events[name].tolist() if name in spans.events else None) == expected


def test_spans_that_lost_events_are_marked(span: SpanOf, export_body: BodyOf) -> None:
    """Those alone whose count is above 0."""
    spans, _ = read(export_body(span(), span(dropped_events_count=3)))
    assert spans.lost_events is not None
    assert spans.lost_events.tolist() == [False, True]
    assert read(export_body(span(dropped_events_count=0)))[0].lost_events is None


def test_a_status_message_is_a_pseudo_attribute(span: SpanOf, export_body: BodyOf) -> None:
    """Under the specification's name for formats without a status; an empty one is no value."""
    spans, _ = read(export_body(span(status=Status(message="Request aborted")), span()))
    assert spans.attributes[STATUS_DESCRIPTION].kind.tolist() == [ValueKind.TEXT, ValueKind.ABSENT]
    assert text_at(spans, "otel.status_description") == "Request aborted"


def test_pseudo_attributes_are_filled_when_asked_for_alone(span: SpanOf, export_body: BodyOf) -> None:
    """Otherwise they leave no trace."""
    one = span(status=Status(message="m"), events=[event("exception", exception__type=text("E"))])
    assert read(export_body(one), Keys(span=frozenset({"k"})))[0].attributes == {}


@pytest.mark.parametrize("key", [STATUS_DESCRIPTION, EXCEPTION_TYPE])
def test_a_real_attribute_wins_over_a_pseudo_one(span: SpanOf, export_body: BodyOf, key: str) -> None:
    """A readable one; the other keys are as they would be."""
    events = [event("exception", exception__type=text("pseudo"))]
    real = span({key: "real"}, status=Status(message="pseudo"), events=events)
    unreadable = span({key: AnyValue(bytes_value=b"real")}, status=Status(message="pseudo"), events=events)
    assert text_at(read(export_body(real))[0], key) == "real"
    assert text_at(read(export_body(unreadable))[0], key) == "pseudo"


def test_the_last_exception_names_its_type(span: SpanOf, export_body: BodyOf) -> None:
    """By its place in the span; other events are no exceptions."""
    told = [event("exception", 9, exception__type=text("A")), event("exception", 1, exception__type=text("B"))]
    spans, _ = read(export_body(span(events=[*told, event("first", 10, exception__type=text("C"))])))
    assert text_at(spans, "exception.type") == "B"


@pytest.mark.parametrize("value", [AnyValue(), AnyValue(int_value=1), texts("A")], ids=["empty", "number", "array"])
def test_a_type_that_is_no_text_is_no_value(span: SpanOf, export_body: BodyOf, value: AnyValue) -> None:
    """Nor does an earlier exception stand in."""
    told = [event("exception", exception__type=text("A")), event("exception", exception__type=value)]
    assert EXCEPTION_TYPE not in read(export_body(span(events=told)))[0].attributes


def test_of_repeated_types_the_last_text_wins(span: SpanOf, export_body: BodyOf) -> None:
    """As of any attribute."""
    told = event("exception", exception__type=text("A"))
    told.attributes.add(key=EXCEPTION_TYPE).value.string_value = "B"
    told.attributes.add(key=EXCEPTION_TYPE).value.bytes_value = b"C"
    assert text_at(read(export_body(span(events=[told])))[0], EXCEPTION_TYPE) == "B"


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        (["stop"], '["stop"]'),
        (["stop", "length"], '["stop","length"]'),
        ([], "[]"),
        (['é"\n\x00😀\\'], '["é\\"\\n\\u0000😀\\\\"]'),
        (["a"] * LIST_ELEMENTS, json.dumps(["a"] * LIST_ELEMENTS, separators=(",", ":"))),
        (["a"] * (LIST_ELEMENTS + 1), None),
        (["a" * (LIST_CHARACTERS - 4)], f'["{"a" * (LIST_CHARACTERS - 4)}"]'),
        (["a" * (LIST_CHARACTERS - 3)], None),
        (["\n" * (LIST_CHARACTERS // 2)], None),
    ],
    ids=["one", "two", "none", "escapes", "most", "too many", "longest", "too long", "too long when escaped"],
)
def test_a_list_of_texts_is_read_as_json(
    span: SpanOf, export_body: BodyOf, elements: list[str], expected: str | None
) -> None:
    """Compact, with its characters as they are, and bounded."""
    assert text_at(read(export_body(span({"k": texts(*elements)})))[0], "k") == expected


@pytest.mark.parametrize(
    "element",
    [AnyValue(), AnyValue(int_value=1), AnyValue(bytes_value=b"a"), texts("a")],
    ids=["empty", "number", "bytes", "array"],
)
def test_an_array_with_anything_else_is_no_value(span: SpanOf, export_body: BodyOf, element: AnyValue) -> None:
    """One element that is no text is enough."""
    mixed = AnyValue(array_value=ArrayValue(values=[text("a"), element]))
    assert "k" not in read(export_body(span({"k": mixed})))[0].attributes


def test_lists_are_read_where_asked_for_alone(span: SpanOf, export_body: BodyOf) -> None:
    """On spans, under keys that are asked for both ways."""
    spans, _ = read(export_body(span({"plain": texts("a"), "unasked": texts("a")}), resource={"k": texts("a")}))
    assert (spans.attributes, spans.resource) == ({}, {})


def test_a_list_is_a_value_among_repeated_ones(span: SpanOf, export_body: BodyOf) -> None:
    """The last readable one wins, whatever it is."""
    one = span({"k": 1})
    one.attributes.add(key="k").value.CopyFrom(texts("a"))
    one.attributes.add(key="k").value.array_value.values.add(int_value=1)
    assert text_at(read(export_body(one))[0], "k") == '["a"]'


@given(st.lists(st.text(max_size=80), max_size=LIST_ELEMENTS + 2))
def test_a_list_is_what_json_says(elements: list[str]) -> None:
    """Python's own writer is the authority, within the bounds."""
    written = json.dumps(elements, ensure_ascii=False, separators=(",", ":"))
    fits = len(elements) <= LIST_ELEMENTS and len(written) <= LIST_CHARACTERS
    assert list_text(elements) == (written if fits else None)


def test_refusals_are_counted_by_service(span: SpanOf, export_body: BodyOf) -> None:
    """Resources of one name are one service; one without a name is unknown."""
    late = [span(end_time_unix_nano=1), span(end_time_unix_nano=1)]
    body = b"".join(
        [
            export_body(*late, span(), resource={"service.name": "a"}),
            export_body(span(), resource={"service.name": "fine"}),
            export_body(span(trace_id=bytes(16)), late[0], resource={"service.name": "b"}),
            export_body(late[0], resource={"service.name": "a"}),
            export_body(late[0], resource={"host": "h"}),
        ]
    )
    _, refusals = read(body)
    assert refusals.by_reason == {"too_old": 5, "zero_trace_id": 1}
    assert refusals.by_service == {
        ("a", "too_old"): 3,
        ("b", "zero_trace_id"): 1,
        ("b", "too_old"): 1,
        ("unknown_service", "too_old"): 1,
    }


def test_an_export_without_refusals_names_no_service(span: SpanOf, export_body: BodyOf) -> None:
    """Nothing is counted as 0."""
    assert read(export_body(span()))[1].by_service == {}


def test_json_takes_events_in_snake_case() -> None:
    """Of spans, of events and of their values; told as anywhere."""
    kind = {"key": "exception.type", "value": {"string_value": "E"}}
    events = [{"name": "first", "time_unix_nano": 5}, {"name": "exception", "attributes": [kind]}]
    spans, _, flags = read_json(events=events, dropped_events_count=1, status={"message": "m"})
    assert spans.events["first"].tolist() == [5]
    assert spans.lost_events is not None
    assert (text_at(spans, EXCEPTION_TYPE), text_at(spans, STATUS_DESCRIPTION)) == ("E", "m")
    assert flags == {"snake_case": 1}


def test_of_two_spellings_of_an_events_time_the_right_one_counts() -> None:
    """In either order, and unless it is null."""
    for written in ({"timeUnixNano": 5, "time_unix_nano": 3}, {"time_unix_nano": 3, "timeUnixNano": 5}):
        assert read_json(events=[{"name": "first", **written}])[0].events["first"].tolist() == [5]
    nulled = {"name": "first", "timeUnixNano": None, "time_unix_nano": 3}
    assert read_json(events=[nulled])[0].events["first"].tolist() == [3]


def test_json_takes_lists_in_snake_case() -> None:
    """Arrays and what they hold."""
    pair = {"key": "k", "value": {"array_value": {"values": [{"string_value": "a"}]}}}
    assert text_at(read_json(attributes=[pair])[0], "k") == '["a"]'


@pytest.mark.parametrize("field", ["events", "droppedEventsCount", "status"])
def test_null_is_as_good_as_absent(field: str) -> None:
    """No events, none lost, no status."""
    spans, refusals, _ = read_json(**{field: None})
    assert (refusals.count, dict(spans.events), spans.lost_events, dict(spans.attributes)) == (0, {}, None, {})


def test_null_within_events_is_no_event() -> None:
    """A null event, name, time, or list of attributes says nothing."""
    events = [None, {"name": None, "timeUnixNano": 4}, {"name": "first", "timeUnixNano": None}]
    spans, refusals, _ = read_json(events=[*events, {"name": "exception", "attributes": None}])
    assert (refusals.count, dict(spans.events), dict(spans.attributes)) == (0, {}, {})


@pytest.mark.parametrize("attributes", [5, {}, [5], [{"key": 5}], [{"value": {"stringValue": 5}}]], ids=str)
@pytest.mark.parametrize("keys", [ASKED, Keys()], ids=["asked", "unasked"])
def test_odd_attributes_of_an_event_are_no_value(attributes: object, keys: Keys) -> None:
    """They refuse no body: whether it is well formed must not depend on what is asked for."""
    spans, refusals, _ = read_json(keys, events=[{"name": "exception", "attributes": attributes}])
    assert (len(spans), refusals.count, dict(spans.attributes)) == (1, 0, {})


@pytest.mark.parametrize("values", [5, {}, [5], [None], [{"stringValue": 5}], [{"stringValue": "a", "intValue": 1}]])
@pytest.mark.parametrize("keys", [ASKED, Keys()], ids=["asked", "unasked"])
def test_odd_arrays_are_no_value(values: object, keys: Keys) -> None:
    """Nor do they."""
    spans, refusals, _ = read_json(keys, attributes=[{"key": "k", "value": {"arrayValue": {"values": values}}}])
    assert (len(spans), refusals.count, dict(spans.attributes)) == (1, 0, {})
