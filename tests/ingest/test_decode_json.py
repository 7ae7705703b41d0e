"""OTLP/JSON, by the rules of the conformance list: what is read, refused, malformed or flagged."""

import json
import re
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import NOON_NS

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.decode_json import GO_STYLE_VALUE, LEGACY_SPANS, SNAKE_CASE, decode_json
from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError
from slo_exporter.ingest.otlp.refusals import LARGEST_PART, Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.ingest.otlp.walk import MOST_PARTS

Flags = Mapping[str, int]
Json = dict[str, Any]

END = NOON_NS - SECOND_NS
WHERE = r"^resource_spans\[0\]\.scope_spans\[0\]\.spans\[0\]\."
MIB = 1024 * 1024


def span(**fields: Any) -> Json:
    """Write a valid span; keywords override."""
    valid = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "name": "work", "endTimeUnixNano": str(END)}
    return valid | fields


def with_value(value: Any, key: str = "k") -> Json:
    """Write a span with one attribute."""
    return span(attributes=[{"key": key, "value": value}])


def export(*spans: Any) -> bytes:
    """Write the body of an export of one resource and scope."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def read(body: bytes | str) -> tuple[SpanBatch, Refusals, Flags]:
    """Decode a body as of noon; ``k`` is asked for."""
    keys = Keys(span=frozenset({"k"}), resource=frozenset({"k"}))
    return read_for(keys, body)


def read_for(keys: Keys, body: bytes | str) -> tuple[SpanBatch, Refusals, Flags]:
    """Decode a body as of noon."""
    text = body.encode() if isinstance(body, str) else body
    return decode_json(text, keys, now_ns=NOON_NS, lateness_ns=600 * SECOND_NS)


def read_value(value: Any) -> tuple[ValueKind, float, str | None] | None:
    """Kind, number and text of the one attribute; None when it is absent."""
    column = read(export(with_value(value)))[0].attributes.get("k")
    return column and (ValueKind(column.kind[0]), column.number[0], column.text.at(0))


def number(value: float) -> tuple[ValueKind, float, None]:
    """What a number that a double holds reads as."""
    return ValueKind.NUMBER, value, None


def test_columns_hold_what_the_span_says() -> None:
    """As from protobuf: ids are words, times nanoseconds, texts codes."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "chat"}}]}
    one = span(kind=2, startTimeUnixNano=str(END - 5), parentSpanId="0" * 15 + "2", status={"code": 2})
    scope_spans = {"scope": {"name": "engine"}, "spans": [one]}
    spans, refusals, flags = read(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]}))
    assert (spans.trace_id.tolist(), spans.span_id.tolist(), spans.parent_id.tolist()) == ([[0, 1]], [1], [2])
    assert (spans.start_ns.tolist(), spans.end_ns.tolist()) == ([END - 5], [END])
    assert (spans.kind.tolist(), spans.status.tolist()) == ([2], [2])
    assert (spans.name.at(0), spans.scope.at(0), spans.service.at(0)) == ("work", "engine", "chat")
    assert (refusals.total, refusals.count, flags) == (1, 0, {})


def test_ids_are_hex_of_any_case_j01() -> None:
    """A digit is a digit."""
    spans, _, _ = read(export(span(traceId="abCDef" + "0" * 26, spanId="ABcdEF0000000000")))
    assert spans.trace_id.tolist() == [[0xABCDEF << 40, 0]]
    assert spans.span_id.tolist() == [0xABCDEF << 40]


@pytest.mark.parametrize("field", ["traceId", "spanId", "parentSpanId"])
@pytest.mark.parametrize("text", ["7xnr1Uz8XoLlGou3amj1Jg==", "1UyOGjBa5qQ=", "00 00", "0x12", "é"])
def test_ids_that_are_no_hex_are_malformed_j02(field: str, text: str) -> None:
    """Base64 is never stored under an id of its own; the text says what is right."""
    with pytest.raises(MalformedError, match=f"{WHERE}{field}: ids are hex in OTLP/JSON: 32 and 16 digits$"):
        read(export(span(**{field: text})))


@pytest.mark.parametrize(
    ("field", "text", "reason"),
    [
        ("traceId", "", "bad_trace_id"),
        ("traceId", "ab" * 8, "bad_trace_id"),
        ("traceId", "0" * 31, "bad_trace_id"),
        ("traceId", "0" * 32, "zero_trace_id"),
        ("spanId", "abc", "bad_span_id"),
        ("spanId", "1" * 15, "bad_span_id"),
        ("spanId", "0" * 16, "zero_span_id"),
        ("parentSpanId", "ab", "bad_parent_id"),
    ],
)
def test_ids_of_a_wrong_length_refuse_their_span_j03(field: str, text: str, reason: str) -> None:
    """The others of the batch are kept."""
    spans, refusals, _ = read(export(span(), span(**{field: text}), span()))
    assert len(spans) == 2
    assert refusals.by_reason == {reason: 1}
    assert refusals.locations == {reason: ("resource_spans[0].scope_spans[0].spans[1]",)}


@pytest.mark.parametrize("text", ['"{}"', "{}", "{}.0", "{}e0", '"{}.0"', '"{}E+0"', '"0{}"'])
def test_integers_are_strings_or_numbers_j04(text: str) -> None:
    """Also with a fraction or an exponent, when they are whole."""
    body = export(span(endTimeUnixNano="MARK")).decode().replace('"MARK"', text.format(END))
    assert read(body)[0].end_ns.tolist() == [END]


def test_a_64_bit_integer_keeps_every_digit_j04() -> None:
    """Also those that a double lacks."""
    for value in ("1152921504606846977", 1152921504606846977):
        assert read_value({"intValue": value}) == (ValueKind.NUMBER, 2.0**60, "1152921504606846977")


@pytest.mark.parametrize("text", ["1e3", '"1e3"', "1000", '"10000E-1"', "1000.000"])
def test_an_exponent_is_fine_where_the_value_is_whole_j04(text: str) -> None:
    """A thousand, however it is written."""
    assert read_value(json.loads(f'{{"intValue":{text}}}')) == number(1000)


@pytest.mark.parametrize("text", ["1.5", '"1.5"', '"one"', '""', '" 1"', '"1_0"', '"٣"', "1e-3", '"NaN"', '"0x1"'])
def test_what_is_no_integer_is_malformed_j04(text: str) -> None:
    """It is not rounded."""
    with pytest.raises(MalformedError, match=rf"{WHERE}attributes\[0\]\.value\.intValue: the value is no integer"):
        read(export(with_value(json.loads(f'{{"intValue":{text}}}'), "unread")))


@pytest.mark.parametrize("kind", [2, 2.0, "2", "SPAN_KIND_SERVER"], ids=repr)
def test_an_enum_is_a_number_or_a_name_j05(kind: object) -> None:
    """The specification has numbers only."""
    status = "STATUS_CODE_ERROR" if isinstance(kind, str) else 2
    spans, _, flags = read(export(span(kind=kind, status={"code": status})))
    assert (spans.kind.tolist(), spans.status.tolist(), flags) == ([2], [2], {})


@pytest.mark.parametrize(("field", "value"), [("kind", "SERVER"), ("kind", 2**31), ("kind", 1.5)])
def test_an_unknown_enum_name_is_malformed_j05(field: str, value: object) -> None:
    """A number that we do not know is another matter, see C10."""
    with pytest.raises(MalformedError, match=f"{WHERE}{field}: "):
        read(export(span(**{field: value})))


def test_unknown_numbers_of_enums_are_tolerated_c10() -> None:
    """A newer sender is understood as far as we know its words."""
    spans, _, _ = read(export(span(kind=17, status={"code": 9}), span(kind=0), span(kind=-1)))
    assert (spans.kind.tolist(), spans.status.tolist()) == ([1, 1, 1], [0, 0, 0])


def test_unknown_fields_are_ignored_j06() -> None:
    """On every layer, whatever they hold."""
    newer = {"newer": [[{"a": ']}"\\'}], 1e999, {"traceId": 5}]}
    body = json.dumps(
        {
            "resourceSpans": [{"scopeSpans": [{"scope": {**newer}, "spans": [span(**newer)], **newer}], **newer}],
            **newer,
        }
    ).replace("Infinity", "1e999")
    spans, refusals, flags = read(body)
    assert (len(spans), refusals.count, flags) == (1, 0, {})


@pytest.mark.parametrize("name", ["instrumentationLibrarySpans", "instrumentation_library_spans"])
def test_library_spans_are_ignored_and_told_j06(name: str) -> None:
    """The field of before OTLP 0.19, once per resource that has it."""
    _, refusals, flags = read(json.dumps({"resourceSpans": [{name: [{"spans": [span()]}]}, {name: []}, {name: None}]}))
    assert refusals.total == 0
    assert flags["legacy_library_spans"] == 2


def test_snake_case_is_read_and_told_once_j07() -> None:
    """On every layer, beside fields in the right spelling too."""
    one = {"trace_id": "0" * 31 + "1", "span_id": "1" * 16, "parent_span_id": "2" * 16, "end_time_unix_nano": str(END)}
    one |= {"start_time_unix_nano": "7", "attributes": [{"key": "k", "value": {"int_value": "5"}}]}
    spans, _, flags = read(json.dumps({"resource_spans": [{"scope_spans": [{"spans": [one, one | span()]}]}]}))
    assert (spans.start_ns.tolist(), spans.end_ns.tolist()) == ([7, 7], [END, END])
    assert spans.attributes["k"].number.tolist() == [5, 5]
    assert flags == {"snake_case": 1}


def test_of_two_spellings_the_last_wins_j07_j09() -> None:
    """They are one field."""
    body = export(span()).decode().replace('"spanId"', '"spanId":"2222222222222222","span_id"')
    assert read(body)[0].span_id.tolist() == [1]


NULLS = ["traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "status", "attributes"]


@pytest.mark.parametrize("field", NULLS)
def test_null_is_as_good_as_absent_j08(field: str) -> None:
    """The span reads as if the field were not there."""
    absent = {name: value for name, value in span().items() if name != field}
    nulled, left_out = read(export(span(**{field: None}))), read(export(absent))
    assert nulled[1] == left_out[1]
    assert nulled[0].name.values == left_out[0].name.values


@pytest.mark.parametrize(
    "body",
    [
        '{"resourceSpans":null}',
        '{"resourceSpans":[null]}',
        '{"resourceSpans":[{"resource":null,"scopeSpans":null}]}',
        '{"resourceSpans":[{"resource":{"attributes":null},"scopeSpans":[null,{"scope":null,"spans":null}]}]}',
        '{"resourceSpans":[{"resource":{"attributes":[null,{"key":null,"value":null}]},"scopeSpans":[{"spans":[null]}]}]}',
    ],
)
def test_null_parts_hold_no_span_j08(body: str) -> None:
    """Nor are they a fault."""
    spans, refusals, flags = read(body)
    assert (len(spans), refusals.total, flags) == (0, 0, {})


def test_a_span_after_a_null_keeps_its_place_j08() -> None:
    """Positions are those of the list."""
    _, refusals, _ = read(export(None, span(endTimeUnixNano="0")))
    assert refusals.locations == {"no_end_time": ("resource_spans[0].scope_spans[0].spans[1]",)}


def test_of_duplicate_keys_the_last_wins_j09() -> None:
    """On any layer; null too."""
    twice = export(span()).decode().replace('"name"', '"name":"first","name"')
    lists = twice.replace('{"resourceSpans"', '{"resourceSpans":[{},{}],"resourceSpans"')
    spans, refusals, _ = read(lists)
    assert (spans.name.at(0), refusals.total) == ("work", 1)
    assert read('{"resourceSpans":[{}],"resourceSpans":null}')[1].total == 0


@pytest.mark.parametrize(("text", "value"), [("NaN", np.nan), ("Infinity", np.inf), ("-Infinity", -np.inf)])
def test_not_finite_doubles_are_strings_j10(text: str, value: float) -> None:
    """Their names are the only texts that are no digits."""
    cell = read_value({"doubleValue": text})
    assert cell is not None
    assert np.array_equal(cell[1], value, equal_nan=True)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "nan", "1e999", "01", "+1", ".5", "0x1"])
@pytest.mark.parametrize("key", ["k", "unread"])
def test_bare_words_are_no_numbers_j10(text: str, key: str) -> None:
    """400, also where nobody asks for the key."""
    with pytest.raises(MalformedError):
        read(export(with_value({"doubleValue": 5}, key)).decode().replace('"doubleValue": 5', f'"doubleValue": {text}'))


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "-1e999", "one", "", " 1", "1_0", "1" * 5000])
def test_texts_that_are_no_doubles_are_malformed_j10(text: str) -> None:
    """Python would take some of them."""
    with pytest.raises(MalformedError, match=rf"{WHERE}attributes\[0\]\.value\.doubleValue: the text is no number"):
        read(export(with_value({"doubleValue": text}, "unread")))


@pytest.mark.parametrize(("value", "expected"), [(0.5, 0.5), (3, 3.0), ("-0.5e1", -5.0), (2**63, 2.0**63)], ids=repr)
def test_doubles_are_numbers_or_texts(value: object, expected: float) -> None:
    """A whole one may be written as an integer."""
    assert read_value({"doubleValue": value}) == number(expected)


def nested(levels: int, where: str) -> str:
    """An export with so many levels in all, most of them in an unknown field or a value."""
    field = '"newer":' if where == "field" else '"attributes":[{"value":{"arrayValue":{"values":'
    outer = 7 if where == "field" else 11
    inner = "[" * (levels - outer) + "]" * (levels - outer)
    close = "" if where == "field" else "}}}]"
    return f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{field}{inner}{close}}}]}}]}}]}}'


@pytest.mark.parametrize("where", ["field", "value"])
def test_a_hundred_levels_are_read_and_one_more_is_not_j11(where: str) -> None:
    """Exactly, in what is skipped as well."""
    assert read(nested(100, where))[1].total == 1
    with pytest.raises(MalformedError, match="nest over 100 deep"):
        read(nested(101, where))


@pytest.mark.parametrize("body", ["[" * MIB, '{"a":' * 100_000, "[" * 50_000 + "]" * 50_000, '["' * 1000 + "[" * 1000])
def test_no_depth_is_a_crash_j11(body: str) -> None:
    """Not even one that never ends."""
    with pytest.raises(MalformedError):
        read(body)


def test_a_byte_order_mark_is_malformed_j12() -> None:
    """RFC 8259 forbids to send one."""
    with pytest.raises(MalformedError, match="byte order mark"):
        read(b"\xef\xbb\xbf{}")


@pytest.mark.parametrize("body", ["[]", "null", "1", '"{}"', "true", "", " ", "{", "{}x", "{}{}", "{},"])
def test_a_body_is_one_object_j13(body: str) -> None:
    """Nothing before it, nothing after it."""
    with pytest.raises(MalformedError, match=f"the body of {len(body)} bytes is no ExportTraceServiceRequest: "):
        read(body)


def test_an_empty_object_has_no_spans() -> None:
    """It is a valid export of nothing."""
    spans, refusals, flags = read(" { } ")
    assert (len(spans), refusals.total, flags) == (0, 0, {})


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"bytesValue": "AAA="},
        {"arrayValue": {"values": [{"intValue": 1}]}},
        {"arrayValue": {"values": [{"stringValue": "a"}]}},
        {"arrayValue": {}},
        {"kvlistValue": {"values": [{"key": "a"}]}},
        {"newer": 1},
    ],
    ids=str,
)
def test_other_values_are_absent_j14(value: Json) -> None:
    """No value, bytes, arrays, maps, and kinds that we do not know."""
    assert read_value(value) is None


@pytest.mark.parametrize("name", ["stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "string_value"])
def test_a_member_that_is_null_is_absent_j14(name: str) -> None:
    """So another one may stand beside it."""
    assert read_value({name: None}) is None
    assert read_value({name: None, "boolValue": True}) == (ValueKind.BOOL, 1.0, None)


def test_go_style_values_are_ignored_and_told_j14() -> None:
    """Each of them, on spans and on resources."""
    value = {"Value": {"StringValue": "x"}}
    spans, _, flags = read(export(with_value(value), with_value(value, "unread"), with_value({**value, "intValue": 1})))
    assert spans.attributes["k"].kind.tolist() == [ValueKind.ABSENT, ValueKind.ABSENT, ValueKind.NUMBER]
    assert flags == {"go_style_value": 3}


@pytest.mark.parametrize("key", ["k", "unread"])
@pytest.mark.parametrize(
    "value",
    [{"stringValue": "a", "intValue": 1}, {"int_value": 1, "boolValue": True}, {"arrayValue": {}, "boolValue": False}],
)
def test_two_members_of_a_value_are_malformed_j15(key: str, value: Json) -> None:
    """Nobody knows which was meant."""
    with pytest.raises(MalformedError, match=rf"{WHERE}attributes\[0\]\.value\.\w+: the value has a \w+ already"):
        read(export(with_value(value, key)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("startTimeUnixNano", -1),
        ("startTimeUnixNano", "-1"),
        ("endTimeUnixNano", 2**64),
        ("endTimeUnixNano", str(2**64)),
        ("endTimeUnixNano", 1e30),
    ],
    ids=repr,
)
def test_times_are_unsigned_and_of_64_bits_j16(field: str, value: object) -> None:
    """The field is named."""
    with pytest.raises(MalformedError, match=f"{WHERE}{field}: the integer is not between 0 and {2**64 - 1}"):
        read(export(span(**{field: value})))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, str(2**63), 1e300, "9" * 40], ids=repr)
def test_integers_have_64_bits_j16(value: object) -> None:
    """One more is not wrapped."""
    with pytest.raises(MalformedError, match=r"value\.intValue: the integer is not between"):
        read(export(with_value({"intValue": value}, "unread")))


def test_the_largest_times_are_read_j16() -> None:
    """As from protobuf."""
    spans, refusals, _ = read(export(span(startTimeUnixNano=2**64 - 1), span(endTimeUnixNano=str(2**64 - 1))))
    assert spans.start_ns.tolist() == [2**63 - 1]
    assert refusals.by_reason == {"in_future": 1}


@pytest.mark.parametrize("field", ["name", "newer"])
@pytest.mark.parametrize("text", [b"\xff", b"\xed\xa0\x80", b"\xc3", b"\\ud800", b"\\udc00", b"\\ud800\\u0041", b"\\q"])
def test_texts_are_unicode_j17(field: str, text: bytes) -> None:
    """Also where nobody reads them; surrogates come in pairs."""
    with pytest.raises(MalformedError, match=r"byte|truncated"):
        read(export(span(**{field: "MARK"})).replace(b"MARK", text))


def test_escaped_text_is_read_j17() -> None:
    """A pair of surrogates is one character."""
    body = export(span(name="MARK")).replace(b"MARK", rb"\ud83d\ude00\u00e9\n\"\\")
    assert read(body)[0].name.at(0) == '😀é\n"\\'


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"name": 1}, "name: Expected `str"),
        ({"traceId": 1}, "traceId: Expected `str"),
        ({"kind": True}, "kind: Expected `int"),
        ({"status": 2}, "status: Expected `object"),
        ({"status": {"code": []}}, "status.code: Expected `int"),
        ({"status": {"message": 1}}, "status.message: Expected `str"),
        ({"events": {}}, "events: Expected `array"),
        ({"events": [{}, 1]}, r"events\[1\]: Expected `object"),
        ({"events": [{"name": 1}]}, r"events\[0\].name: Expected `str"),
        ({"events": [{"timeUnixNano": []}]}, r"events\[0\].timeUnixNano: Expected `int"),
        ({"events": [{}, {"timeUnixNano": "x"}]}, r"events\[1\].timeUnixNano: the value is no integer"),
        ({"events": [{"time_unix_nano": -1}]}, r"events\[0\].timeUnixNano: the integer is not between"),
        ({"droppedEventsCount": 2**32}, "droppedEventsCount: the integer is not between 0 and 4294967295"),
        ({"attributes": {}}, "attributes: Expected `array"),
        ({"attributes": [1]}, r"attributes\[0\]: Expected `object"),
        ({"attributes": [{"key": 1}]}, r"attributes\[0\].key: Expected `str"),
        ({"attributes": [{}, {"value": "a"}]}, r"attributes\[1\].value: Expected `object"),
        ({"attributes": [{"value": {"stringValue": 1}}]}, r"attributes\[0\].value.stringValue: Expected `str"),
        ({"attributes": [{"value": {"boolValue": "true"}}]}, r"attributes\[0\].value.boolValue: Expected `bool"),
        ({"attributes": [{"value": {"arrayValue": []}}]}, r"attributes\[0\].value.arrayValue: Expected `object"),
    ],
)
def test_a_value_of_a_wrong_type_is_named_with_its_place(fields: Json, where: str) -> None:
    """Whoever wrote the exporter finds it."""
    with pytest.raises(MalformedError, match=WHERE + where):
        read(export(span(**fields)))


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ('{"resourceSpans":{}}', "is no ExportTraceServiceRequest: Expected `array"),
        ('{"resourceSpans":[1]}', r"^resource_spans\[0\]: Expected `object"),
        ('{"resourceSpans":[{},{"scopeSpans":{}}]}', r"^resource_spans\[1\].scopeSpans: Expected `array"),
        ('{"resourceSpans":[{"resource":[]}]}', r"^resource_spans\[0\].resource: Expected `object"),
        ('{"resourceSpans":[{"scopeSpans":[{"scope":1}]}]}', r"^resource_spans\[0\].scope_spans\[0\].scope: Expected"),
        (
            '{"resourceSpans":[{"resource":{"attributes":[{"value":{"intValue":"x"}}]}}]}',
            r"^resource_spans\[0\].resource.attributes\[0\].value.intValue: the value is no integer",
        ),
    ],
)
def test_a_fault_above_the_spans_is_named_with_its_place(body: str, where: str) -> None:
    """In resources and scopes as well."""
    with pytest.raises(MalformedError, match=where):
        read(body)


def test_a_refused_span_has_to_be_well_formed_all_the_same() -> None:
    """Whether a body is malformed must not depend on our clock."""
    with pytest.raises(MalformedError, match=r"attributes\[0\]"):
        read(export(span(endTimeUnixNano="1", attributes=[{"key": "k", "value": {"intValue": "x"}}])))


def test_the_last_readable_value_of_a_repeated_key_wins() -> None:
    """As from protobuf; a refused span leaves nothing behind."""
    values: list[Json] = [{"intValue": 1}, {"stringValue": "two"}, {"bytesValue": "AA=="}, {}]
    pairs = [{"key": "k", "value": value} for value in values]
    spans, _, _ = read(export(span(attributes=pairs, endTimeUnixNano="1"), span(), span(attributes=pairs)))
    assert spans.attributes["k"].kind.tolist() == [ValueKind.ABSENT, ValueKind.TEXT]
    assert spans.attributes["k"].text.at(1) == "two"


def test_a_span_over_the_limit_is_refused_by_itself() -> None:
    """By the length of its text."""
    spans, refusals, _ = read(export(span(), span(newer="x" * LARGEST_PART), span()))
    assert len(spans) == 2
    assert refusals.locations == {"too_large": ("resource_spans[0].scope_spans[0].spans[1]",)}


@pytest.mark.parametrize(
    "body",
    ['{"resourceSpans":[{"resource":{"a":"MARK"}}]}', '{"resourceSpans":[{"scopeSpans":[{"scope":{"a":"MARK"}}]}]}'],
)
def test_a_resource_or_scope_over_the_limit_is_too_large(body: str) -> None:
    """Without it nobody knows whose the spans are."""
    with pytest.raises(TooLargeError, match="a resource or scope is over 4194304 bytes"):
        read(body.replace("MARK", "x" * LARGEST_PART))


PARTS = {
    "resources": '{{"resourceSpans":[{}]}}',
    "scopes": '{{"resourceSpans":[{{"scopeSpans":[{}]}}]}}',
    "spans": '{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}',
    "others": '{{"newer":[{}]}}',
}


@pytest.mark.parametrize("part", ["{}", "[]", "0", "null", '""'])
@pytest.mark.parametrize("layer", PARTS)
def test_parts_are_bounded_in_number(layer: str, part: str) -> None:
    """Before one object is made of any of them."""
    body = PARTS[layer].format(",".join([part] * (MOST_PARTS + 2))).encode()
    peak = peak_of(body, TooLargeError)
    assert peak < 4 * len(body) + MIB


HOSTILE = {
    "arrays": '"newer":[' + "[]," * 300_000 + "[]]",
    "pairs": '"attributes":[' + "{}," * 300_000 + "{}]",
    "nulls": '"attributes":[' + "null," * 200_000 + "null]",
    "values": '"attributes":[' + '{"value":{}},' * 80_000 + "{}]",
    "keys": '"attributes":[' + '{"key":"k"},' * 80_000 + "{}]",
    "events": '"events":[' + "{}," * 300_000 + "{}]",
    "elements of a list": '"attributes":[{"key":"k","value":{"arrayValue":{"values":[' + "{}," * 300_000 + "{}]}}}]",
    "attributes of an event": '"events":[{"name":"exception","attributes":[' + "{}," * 300_000 + "{}]}]",
    "elements": '"attributes":[{"value":{"arrayValue":{"values":[' + "{}," * 300_000 + "{}]}}}]",
    "fields": '"newer":{' + '"":0,' * 200_000 + '"":0}',
    "quotes": '"newer":[' + '"[",' * 250_000 + '""]',
    "escapes": '"newer":"' + r"\"\\" * 250_000 + '"',
    "emoji": '"name":"' + "a" * 1_000_000 + '😀"',
}


@pytest.mark.parametrize("shape", HOSTILE)
def test_memory_is_bounded_by_the_body_whatever_its_shape(shape: str) -> None:
    """A span of a megabyte takes a small multiple of itself."""
    body = export(span(zz=1)).decode().replace('"zz": 1', HOSTILE[shape]).encode()
    assert peak_of(body, None) < 24 * len(body)


def test_every_flag_is_on_the_page() -> None:
    """docs/reference/spans.md explains each word that a client is told."""
    page = (Path(__file__).parents[2] / "docs/reference/spans.md").read_text()
    table = page.partition("| flag | once for each |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [SNAKE_CASE, LEGACY_SPANS, GO_STYLE_VALUE]


ALL = Keys(span=frozenset({"k", "exception.type"}), events=frozenset({"first"}), lists=frozenset({"k"}))


def peak_of(body: bytes, expected: type[Exception] | None) -> int:
    """Bytes that decoding takes at most, besides the body."""
    tracemalloc.start()
    try:
        if expected is None:
            read_for(ALL, body)
        else:
            with pytest.raises(expected):
                read(body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
