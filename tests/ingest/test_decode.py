"""Bodies to columns: what is kept, what is refused, what is malformed."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.columns import Cells, attributes_of
from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError
from slo_exporter.ingest.otlp.refusals import LARGEST_PART, Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.ingest.otlp.walk import MOST_PARTS

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]

LATENESS_NS = 600 * SECOND_NS
NO_KEYS = Keys()
# Field 2000, length-delimited: what a newer sender may add to any message.
UNKNOWN_FIELD = b"\x82\x7d\x03new"


@pytest.fixture
def read(now_ns: int) -> Callable[..., tuple[SpanBatch, Refusals]]:
    """Decode a body as of now."""

    def decoded(body: bytes, *span_keys: str, resource: frozenset[str] = frozenset()) -> tuple[SpanBatch, Refusals]:
        keys = Keys(span=frozenset(span_keys), resource=resource)
        return decode(body, keys, now_ns=now_ns, lateness_ns=LATENESS_NS)

    return decoded


Read = Callable[..., tuple[SpanBatch, Refusals]]


def test_columns_hold_what_the_span_says(read: Read, span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """Ids become big-endian words, times nanoseconds, texts codes."""
    body = export_body(
        span(trace_id=b"\1" + bytes(14) + b"\2", span_id=bytes(7) + b"\3", error=True),
        scope="engine",
    )
    spans, refusals = read(body)
    assert refusals.count == 0
    assert spans.trace_id.tolist() == [[1 << 56, 2]]
    assert spans.span_id.tolist() == [3]
    assert (spans.start_ns.tolist(), spans.end_ns.tolist()) == ([now_ns - 2 * SECOND_NS], [now_ns - SECOND_NS])
    assert (spans.kind.tolist(), spans.status.tolist()) == ([2], [2])
    assert (spans.name.at(0), spans.scope.at(0), spans.service.at(0)) == ("work", "engine", "chat")


def test_an_empty_body_has_no_spans(read: Read) -> None:
    """Zero bytes are a valid export of nothing."""
    spans, refusals = read(b"")
    assert len(spans) == 0
    assert spans.trace_id.shape == (0, 2)
    assert (refusals.total, refusals.count, refusals.message()) == (0, 0, "")


def test_spans_keep_their_own_resource_and_scope(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """Resources and scopes are repeated per span, empty ones between included."""
    parts = [
        export_body(span(), span(), resource={"service.name": "a", "zone": "z1"}, scope="s1"),
        export_body(resource={"service.name": "none"}),
        export_body(span(), resource={"service.name": "b"}, scope="s2"),
    ]
    # Concatenated messages merge: their repeated fields follow one another.
    spans, _ = read(b"".join(parts), resource=frozenset({"zone"}))
    assert [spans.service.at(row) for row in range(3)] == ["a", "a", "b"]
    assert [spans.scope.at(row) for row in range(3)] == ["s1", "s1", "s2"]
    assert [spans.resource["zone"].text.at(row) for row in range(3)] == ["z1", "z1", None]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (0.5, (ValueKind.NUMBER, 0.5, None)),
        (3, (ValueKind.NUMBER, 3.0, None)),
        (2**53 - 1, (ValueKind.NUMBER, 2.0**53 - 1, None)),
        (2**60 + 1, (ValueKind.NUMBER, 2.0**60, "1152921504606846977")),
        (2.0**60, (ValueKind.NUMBER, 2.0**60, None)),
        ("0.5", (ValueKind.TEXT, np.nan, "0.5")),
        ("", (ValueKind.TEXT, np.nan, "")),
        (True, (ValueKind.BOOL, 1.0, None)),
        (False, (ValueKind.BOOL, 0.0, None)),
    ],
    ids=repr,
)
def test_readable_values_have_a_kind(
    read: Read, span: SpanOf, export_body: BodyOf, value: object, cell: tuple[object, float, str]
) -> None:
    """Int and double are numbers; text and bool are themselves; digits that a double lacks are kept."""
    spans, _ = read(export_body(span({"k": value}), span()), "k")
    column = spans.attributes["k"]
    kind, number, text = cell
    assert column.kind.tolist() == [kind, ValueKind.ABSENT]
    assert column.text.at(0) == text
    assert np.array_equal(column.number, [number, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    "value",
    [
        AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)])),
        AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="a")])),
        AnyValue(bytes_value=b"x"),
        AnyValue(),
    ],
    ids=["array", "map", "bytes", "empty"],
)
def test_other_values_are_absent(read: Read, span: SpanOf, export_body: BodyOf, value: AnyValue) -> None:
    """Arrays, maps, bytes and empty values have no column entry."""
    spans, _ = read(export_body(span({"k": value})), "k")
    assert spans.attributes == {}


def test_only_asked_for_keys_have_a_column(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """A key nobody asked for leaves no trace."""
    spans, _ = read(export_body(span({"k": 1, "gen_ai.prompt": "secret"}), resource={"host": "h"}), "k", "other")
    assert list(spans.attributes) == ["k"]
    assert spans.resource == {}


def test_the_last_readable_value_of_a_repeated_key_wins(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """Duplicate keys are no reason to refuse."""
    repeated = span({"k": 1})
    repeated.attributes.add(key="k").value.string_value = "two"
    repeated.attributes.add(key="k").value.bytes_value = b"three"
    spans, _ = read(export_body(repeated), "k")
    assert spans.attributes["k"].text.at(0) == "two"


@pytest.mark.parametrize(
    "resource", [{"host": "h"}, {"service.name": ""}, {"service.name": 7}, {"service.name": 2**60 + 1}]
)
def test_a_service_without_a_name_is_unknown(
    read: Read, span: SpanOf, export_body: BodyOf, resource: dict[str, object]
) -> None:
    """A service.name that is missing, empty or no text has a stand-in."""
    spans, _ = read(export_body(span(), resource=resource))
    assert spans.service.at(0) == "unknown_service"


def test_c10_unknown_fields_flags_and_enum_numbers_are_tolerated(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """A newer sender is understood as far as we know its words."""
    newer = span(kind=17, flags=0xFFFFFFFF)
    newer.status.code = 9
    newer.MergeFromString(UNKNOWN_FIELD)
    spans, refusals = read(export_body(newer) + UNKNOWN_FIELD)
    assert refusals.count == 0
    assert (spans.kind.tolist(), spans.status.tolist()) == ([Span.SPAN_KIND_INTERNAL], [0])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": b""}, "bad_trace_id"),
        ({"trace_id": b"\1" * 24}, "bad_trace_id"),
        ({"trace_id": bytes(16)}, "zero_trace_id"),
        ({"span_id": b"\1" * 7}, "bad_span_id"),
        ({"span_id": bytes(8)}, "zero_span_id"),
        ({"parent_span_id": b"\1" * 9}, "bad_parent_id"),
    ],
)
def test_c11_invalid_ids_are_refused(
    read: Read, span: SpanOf, export_body: BodyOf, fields: dict[str, bytes], reason: str
) -> None:
    """A bad id refuses its span; the others of the batch are kept."""
    spans, refusals = read(export_body(span(), span(**fields), span()))
    assert len(spans) == 2
    assert refusals.by_reason == {reason: 1}


def test_c11_a_64_bit_trace_id_and_no_parent_are_valid(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """Upper bytes may be zero (SGLang), and a root has no parent."""
    spans, refusals = read(export_body(span(trace_id=bytes(8) + b"\1" * 8, parent_span_id=b"")))
    assert refusals.count == 0
    assert len(spans) == 1


def test_c12_unspecified_kind_is_internal(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """Kind 0 is read as INTERNAL."""
    spans, _ = read(export_body(span(kind=Span.SPAN_KIND_UNSPECIFIED)))
    assert spans.kind.tolist() == [Span.SPAN_KIND_INTERNAL]


@pytest.mark.parametrize(
    ("offset_ns", "reason"),
    [
        (-LATENESS_NS, None),
        (-LATENESS_NS - 1, "too_old"),
        (60 * SECOND_NS, None),
        (60 * SECOND_NS + 1, "in_future"),
    ],
)
def test_c13_ends_outside_the_lateness_are_refused(
    read: Read, span: SpanOf, export_body: BodyOf, now_ns: int, offset_ns: int, reason: str | None
) -> None:
    """The bounds themselves are still accepted."""
    _, refusals = read(export_body(span(end_time_unix_nano=now_ns + offset_ns)))
    assert refusals.by_reason == ({reason: 1} if reason else {})


@pytest.mark.parametrize(("end", "reason"), [(0, "no_end_time"), (1, "too_old"), (2**64 - 1, "in_future")])
def test_c13_extreme_ends_are_refused(read: Read, span: SpanOf, export_body: BodyOf, end: int, reason: str) -> None:
    """Nothing overflows, and no end has a reason of its own."""
    _, refusals = read(export_body(span(end_time_unix_nano=end)))
    assert refusals.by_reason == {reason: 1}


@pytest.mark.parametrize("start", [2**63, 2**64 - 1])
def test_c13_an_end_before_the_start_is_kept(read: Read, span: SpanOf, export_body: BodyOf, start: int) -> None:
    """The largest fixed64 start lies after the end, as an int64."""
    spans, refusals = read(export_body(span(start_time_unix_nano=start)))
    assert refusals.count == 0
    assert spans.start_ns.tolist() == [2**63 - 1]


def test_the_message_says_how_many_which_and_why(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """Positions and fixed words; nothing of the spans' own text."""
    body = export_body(span(), span(trace_id=bytes(16), name="secret"), span(), span(end_time_unix_nano=5))
    _, refusals = read(body)
    assert refusals.message() == (
        "refused 2 of 4 spans: "
        "1 too_old (end is more than 10m old): resource_spans[0].scope_spans[0].spans[3]; "
        "1 zero_trace_id (trace id is all zero): resource_spans[0].scope_spans[0].spans[1]"
    )


def test_the_message_is_bounded(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """Ten positions a reason, the rest as a number."""
    _, refusals = read(export_body(*(span(end_time_unix_nano=0) for _ in range(500))))
    assert refusals.count == 500
    assert refusals.message().count(".spans[") == 10
    assert refusals.message().endswith(" and 490 more")


def test_lateness_that_is_no_whole_minute_is_told_in_seconds(now_ns: int, span: SpanOf, export_body: BodyOf) -> None:
    """90 s is 90s, not 1m."""
    _, refusals = decode(export_body(span(end_time_unix_nano=5)), NO_KEYS, now_ns=now_ns, lateness_ns=90 * SECOND_NS)
    assert "more than 90s old" in refusals.message()


def test_bytes_that_are_no_protobuf_are_malformed(read: Read) -> None:
    """The message says how long the body was."""
    with pytest.raises(MalformedError, match="body of 3 bytes is no ExportTraceServiceRequest"):
        read(b"\xff\xff\xff")


def test_text_that_is_no_utf8_is_malformed(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """Protobuf strings are UTF-8, also where nobody reads them."""
    body = export_body(span({"unread": "abcd"})).replace(b"abcd", b"\xff\xfe\xfd\xfc")
    with pytest.raises(MalformedError, match="UTF-8"):
        read(body)


def test_deep_nesting_is_malformed(read: Read) -> None:
    """Two hundred arrays in one another end in an error, not in a crash."""
    body = b""
    for number in [5, 1] * 200 + FIELD_NUMBERS_TO_A_VALUE:
        body = _field(number, body)
    with pytest.raises(MalformedError):
        read(body)


FIELD_NUMBERS_TO_A_VALUE = [2, 1, 1, 1]
"""KeyValue.value, Resource.attributes, ResourceSpans.resource, the request's resource_spans."""


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field of a message."""
    varint, rest = bytearray(), len(payload)
    while rest > 127:
        varint.append(rest & 127 | 128)
        rest >>= 7
    return bytes([number << 3 | 2, *varint, rest]) + payload


def test_a_resource_in_pieces_is_one(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """On the wire a message may come in parts, which merge."""
    parts = [export_body(resource={"zone": "z1"}), export_body(span(), resource={"service.name": "a"})]
    layers = [ExportTraceServiceRequest.FromString(part).resource_spans[0].SerializeToString() for part in parts]
    spans, _ = read(_field(1, b"".join(layers)), resource=frozenset({"zone"}))
    assert (spans.service.at(0), spans.resource["zone"].text.at(0)) == ("a", "z1")


def test_a_span_over_the_limit_is_refused_by_itself(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """What it would take in memory is not for us to find out."""
    large = span({"unread": "x" * LARGEST_PART})
    spans, refusals = read(export_body(span(), large, span()))
    assert len(spans) == 2
    assert refusals.by_reason == {"too_large": 1}
    assert "1 too_large (span is over 4194304 bytes): resource_spans[0].scope_spans[0].spans[1]" in refusals.message()


def test_a_resource_over_the_limit_is_too_large(read: Read, export_body: BodyOf) -> None:
    """Without it nobody knows whose the spans are."""
    with pytest.raises(TooLargeError, match="a resource or scope is over 4194304 bytes"):
        read(export_body(resource={"unread": "x" * LARGEST_PART}))


@pytest.mark.parametrize("path", [(), (1,), (1, 2)], ids=["resources", "scopes", "spans"])
def test_parts_that_hold_something_are_bounded_in_number(read: Read, path: tuple[int, ...]) -> None:
    """So are parts of four bytes, an unknown field in each."""
    number = 2 if path else 1
    body = bytes([number << 3 | 2, 2, 0x78, 1]) * (MOST_PARTS + 1)
    for outer in reversed(path):
        body = _field(outer, body)
    with pytest.raises(TooLargeError, match=f"over {MOST_PARTS} resources, scopes and spans"):
        read(body)


def test_empty_heads_are_bounded_in_number(read: Read) -> None:
    """A resource that comes in half a million empty pieces is not put together."""
    with pytest.raises(TooLargeError, match="empty parts"):
        read(_field(1, b"\x0a\x00" * (MOST_PARTS + 1)))


@pytest.mark.parametrize("path", [(), (1,), (1, 2)], ids=["resources", "scopes", "spans"])
def test_parts_are_bounded_in_number(read: Read, path: tuple[int, ...]) -> None:
    """Empty parts of two bytes each are not turned into objects."""
    number = 2 if path else 1
    body = bytes([number << 3 | 2, 0]) * (MOST_PARTS + 1)
    for outer in reversed(path):
        body = _field(outer, body)
    with pytest.raises(TooLargeError, match=f"over {MOST_PARTS} empty parts"):
        read(body)


@given(
    st.dictionaries(
        st.integers(0, 9),
        st.one_of(
            st.text(max_size=3),
            st.booleans(),
            st.floats(allow_nan=False),
            st.integers(-(2**63), 2**63 - 1),
            st.sampled_from([2**53, 2**53 + 1, -(2**60)]),
        ),
        min_size=1,
    ).map(lambda cells: dict(sorted(cells.items())))
)
def test_a_column_gives_every_value_back(cells: Cells) -> None:
    """Whatever types a key has, each row keeps its own value, exactly."""
    column = attributes_of({"k": cells}, 10)["k"]

    for row in range(10):
        value, kind = cells.get(row), column.kind[row]
        if value is None:
            assert kind == ValueKind.ABSENT
        elif isinstance(value, str):
            assert (kind, column.words().at(row)) == (ValueKind.TEXT, value)
        elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
            assert (kind, column.text.at(row)) == (ValueKind.NUMBER, str(value))
        else:
            assert (kind == ValueKind.BOOL, column.number[row]) == (isinstance(value, bool), value)


def test_of_a_hundred_thousand_values_of_one_key_the_last_wins(read: Read, span: SpanOf, export_body: BodyOf) -> None:
    """They are read one after the other and not kept."""
    many = span()
    for number in range(100_000):
        many.attributes.add(key="k").value.int_value = number
    spans, _ = read(export_body(many), "k")
    assert spans.attributes["k"].number.tolist() == [99_999]
