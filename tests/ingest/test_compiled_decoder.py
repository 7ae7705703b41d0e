"""What the compiled decoder has to read by itself, and what it leaves to the authority."""

import itertools
from collections.abc import Callable

import pytest
from both_decoders import LATENESS_NS
from builders import NOON_NS
from compiled_decoder import assert_right, the_decoder
from google.protobuf.descriptor import Descriptor
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from wire_format import BYTES, VARINT, field

from slo_exporter.ingest.otlp.compiled import shapes
from slo_exporter.ingest.otlp.compiled.shapes import UnknownShapesError
from slo_exporter.ingest.otlp.decode import Keys
from slo_exporter.ingest.otlp.spans import EXCEPTION_TYPE, STATUS_DESCRIPTION

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]

ASKED = Keys(
    span=frozenset({"k", "other", "", STATUS_DESCRIPTION, EXCEPTION_TYPE}),
    resource=frozenset({"k", "zone"}),
    events=frozenset({"first", ""}),
    lists=frozenset({"k"}),
)


def text(value: str) -> AnyValue:
    """Build a text."""
    return AnyValue(string_value=value)


def texts(*elements: str) -> AnyValue:
    """Build an array of texts."""
    return AnyValue(array_value=ArrayValue(values=map(text, elements)))


def is_declined(body: bytes, asked: Keys = ASKED) -> bool:
    """Say whether it is left to the authority."""
    return the_decoder().decode(body, asked, now_ns=NOON_NS, lateness_ns=LATENESS_NS) is None


@pytest.fixture
def assert_column(span: SpanOf, export_body: BodyOf) -> Callable[..., None]:
    """Decode spans that have these values under one key, None being no attribute."""

    def assert_read(*values: object) -> None:
        spans = [span({} if value is None else {"unread": 1, "k": value}) for value in values]
        assert_right(export_body(*spans), ASKED)

    return assert_read


@pytest.mark.parametrize(
    "values",
    [
        (0.5, -0.0, float("nan")),
        (1, None, -(2**53) + 1),
        (2**53, 1, None, 0.5, -(2**63)),
        (True, None, False),
        (True, 1, "a", None, 0.5),
        ("a", "b", None, "a", "", "b", "longer than a word of eight bytes", "longer than a word of eight byteS"),
        ("a\0b", "a", "\0"),
        ("ä", "ß", "€", "𝄞", "in the middle of a long text € of words"),
        (texts("stop"), None, texts("stop"), texts("length", "stop"), texts()),
        (texts("stop"), "stop", '["stop"]', 1),
        (texts("stop"), texts(*["x"] * 65), AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)]))),
        (AnyValue(), AnyValue(bytes_value=b"x"), AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="a")]))),
        (AnyValue(string_value_strindex=3), None),
    ],
    ids=repr,
)
def test_every_kind_of_value_is_read(values: tuple[object, ...], assert_column: Callable[..., None]) -> None:
    """Whatever stands beside it in its column."""
    assert_column(*values)


@pytest.mark.parametrize("values", [(1, "two"), ("two", 1), (1, b"three"), ("a", "b", "c"), (texts("a"), "b")])
def test_of_a_repeated_key_the_last_value_stands(values: tuple[object, ...], span: SpanOf, export_body: BodyOf) -> None:
    """The last that is one."""
    one = span()
    for value in values:
        made = span({"k": AnyValue(bytes_value=value) if isinstance(value, bytes) else value})
        one.attributes.extend(made.attributes)
    assert_right(export_body(span({"k": "b"}), one, span({"k": "b"})), ASKED)


def test_attributes_come_in_any_order(span: SpanOf, export_body: BodyOf) -> None:
    """What was learnt of one span is no truth about the next."""
    orders = [("k", "x", "other"), ("other", "k"), ("x", "k", "y", "other"), ("other", "x"), ("k", "x", "other")]
    values = [1, 0.5, "text", "texts", 300, True]
    spans = [
        span({key: values[(at + shift) % len(values)] for at, key in enumerate(order)})
        for shift in range(len(values))
        for order in orders
    ]
    assert_right(export_body(*spans), ASKED)


def test_fields_come_in_any_order(span: SpanOf, export_body: BodyOf) -> None:
    """Ids behind the attributes, the resource behind its spans."""
    whole = span({"k": "v"}, status=Status(message="why"))
    first = Span(attributes=whole.attributes, status=whole.status)
    rest = Span()
    rest.CopyFrom(whole)
    rest.ClearField("attributes")
    rest.ClearField("status")
    packed = first.SerializeToString() + rest.SerializeToString()
    scope = field(2, BYTES, packed) + field(1, BYTES, field(1, BYTES, b"late"))
    resource = export_body(resource={"zone": "z", "service.name": "a"})
    head = field(1, BYTES, field(1, BYTES, KeyValue(key="zone", value=text("z")).SerializeToString()))
    assert_right(field(1, BYTES, field(2, BYTES, scope) + head) + resource, ASKED)


def test_a_backlog_is_refused_and_not_declined(span: SpanOf, export_body: BodyOf) -> None:
    """Each span for its first reason, with its place and its service."""
    bad = [
        span({"k": "gone"}, end_time_unix_nano=1, dropped_events_count=1, events=[Span.Event(name="first")]),
        span(trace_id=b"", span_id=b""),
        span(trace_id=bytes(16)),
        span(span_id=b"\1"),
        span(span_id=bytes(8)),
        span(parent_span_id=b"\1"),
        span(end_time_unix_nano=0),
        span(end_time_unix_nano=2**64 - 1),
    ]
    body = export_body(*bad * 12, span({"k": "kept"}), *bad)
    assert_right(body + export_body(*bad, resource={"k": 1}) + export_body(span(), resource={"k": "b"}), ASKED)


def test_services_without_a_name_are_one(span: SpanOf, export_body: BodyOf) -> None:
    """With that which is called so."""
    names = ["unknown_service", "", 7, "chat", 2**60, texts("chat")]
    bodies = [export_body(span(), span(end_time_unix_nano=1), resource={"service.name": name}) for name in names]
    assert_right(b"".join(bodies), ASKED)


def test_status_and_events_stand_in(span: SpanOf, export_body: BodyOf) -> None:
    """For attributes that a span does not have itself."""
    kinds = [KeyValue(key=EXCEPTION_TYPE, value=text(name)) for name in ("A", "B")]
    failed = Span.Event(name="exception", attributes=[*kinds, KeyValue(key=EXCEPTION_TYPE)], time_unix_nano=3)
    spans = [
        span(status=Status(message="why", code=2), events=[failed, Span.Event(name="first", time_unix_nano=5)]),
        span({STATUS_DESCRIPTION: "mine", EXCEPTION_TYPE: "mine"}, status=Status(message="why"), events=[failed]),
        span(events=[failed, Span.Event(name="exception")], dropped_events_count=2),
        span(
            events=[Span.Event(name=name, time_unix_nano=at) for name, at in (("first", 9), ("", 2**63), ("first", 0))]
        ),
    ]
    assert_right(export_body(*spans), ASKED)
    assert_right(export_body(*spans), Keys(span=ASKED.span))
    assert_right(export_body(*spans), Keys())


@pytest.mark.parametrize(
    "pieces",
    [
        field(15, BYTES, b"\x18\x01") * 2,
        field(9, BYTES, field(1, BYTES, b"k") * 2),
        field(9, BYTES, field(2, BYTES, field(1, BYTES, b"v")) * 2),
        field(9, BYTES, field(1, BYTES, b"k") + field(2, BYTES, field(1, BYTES, b"v") + field(3, VARINT, b"\1"))),
        field(6, VARINT, b"\xff" * 9 + b"\1"),
        field(6, BYTES, b""),
        field(99, VARINT, b"\x80\x00"),
        field(3, BYTES, b"\xff"),
        b"\x00\x00",
    ],
    ids=["status", "key", "value", "oneof", "negative_kind", "wire_type", "long_varint", "text", "field_0"],
)
def test_what_is_unusual_is_declined(pieces: bytes, span: SpanOf) -> None:
    """What merges, is cut or is malformed: the authority knows."""
    packed = span().SerializeToString()
    for place in (packed + pieces, pieces + packed):
        assert is_declined(field(1, BYTES, field(2, BYTES, field(2, BYTES, place))))


def test_of_a_list_behind_another_value_the_authority_decides(span: SpanOf, export_body: BodyOf) -> None:
    """It may be none, and then the other value stands."""
    one = span({"k": "a"})
    one.attributes.extend(span({"k": texts("b")}).attributes)
    assert is_declined(export_body(one))


def test_a_small_body_is_read_to_its_end() -> None:
    """Smaller ones are padded, and what is behind them is not read."""
    whole = field(1, BYTES, field(2, BYTES, field(2, BYTES, field(5, BYTES, b"name"))))
    for end in range(len(whole) + 1):
        assert is_declined(whole[:end]) == (0 < end < len(whole))


def test_keys_may_change_from_body_to_body(span: SpanOf, export_body: BodyOf) -> None:
    """More sets of them than are remembered."""
    body = export_body(span({f"key {number}": number for number in range(20)}))
    for number in range(20):
        assert_right(body, Keys(span=frozenset({f"key {number}", "key 7"})))


def test_values_may_be_of_other_kinds_in_the_next_body(span: SpanOf, export_body: BodyOf) -> None:
    """What was planned for the kinds of one is not taken for another, and more plans are made than are remembered."""
    values = [None, 1, 0.5, "text", 2**60, texts("a")]
    for one, other, zone in itertools.product(values, repeat=3):
        attributes = {key: value for key, value in (("k", one), ("other", other)) if value is not None}
        body = export_body(span(attributes), span(), resource={} if zone is None else {"zone": zone})
        assert_right(body, ASKED)


@pytest.mark.parametrize(("resources", "scopes", "spans"), [(100, 1, 1), (1, 100, 1), (1, 1, 100), (70, 3, 0)])
def test_more_parts_than_usual_are_found(
    resources: int, scopes: int, spans: int, span: SpanOf, export_body: BodyOf
) -> None:
    """There is room for those that most bodies have; for more it is made when they are counted."""
    scope = field(2, BYTES, field(1, BYTES, field(1, BYTES, b"name")) + field(2, BYTES, b"") * spans)
    crowd = field(1, BYTES, scope * scopes) * resources
    assert_right(crowd + export_body(span({"k": 1}), resource={"zone": "z"}) + crowd, ASKED)


def test_of_two_heads_the_authority_decides(span: SpanOf) -> None:
    """Of a scope, and of a resource: pieces of one merge, wherever they stand."""
    spans = field(2, BYTES, span().SerializeToString())
    head = field(1, BYTES, b"")
    for scope in (head * 2 + spans, head + spans + head):
        assert is_declined(field(1, BYTES, field(2, BYTES, scope)))
    for resource in (head * 2 + field(2, BYTES, spans), head + field(2, BYTES, spans) + head):
        assert is_declined(field(1, BYTES, resource))


def test_texts_are_read_to_the_end_of_the_body(span: SpanOf, export_body: BodyOf) -> None:
    """And no further, however many words of eight bytes they have."""
    for size in range(1, 41):
        assert_right(export_body(span({"k": "q" * size}), span({"k": "p" * size})), ASKED)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 23])
def test_no_letter_of_a_text_goes_unseen(size: int, span: SpanOf, export_body: BodyOf) -> None:
    """A byte that is no UTF-8, at each place of a text, in the first span and in one that is alike."""
    for place in range(size):
        wrong, right = "q" * place + "#" + "q" * (size - place - 1), "q" * size
        for pair in ((wrong, right), (right, wrong)):
            body = export_body(*(span({"k": letters}) for letters in pair))
            assert is_declined(body.replace(b"#", b"\xff"))
            assert_right(body, ASKED)


def test_half_a_surrogate_pair_is_nobodys_key(span: SpanOf, export_body: BodyOf) -> None:
    """No message can hold it."""
    assert_right(export_body(span({"k": 1})), Keys(span=frozenset({"k", "\ud800"})))


def test_other_messages_than_those_known_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library whose fields have other numbers is left to itself."""
    read: dict[Descriptor, dict[str, tuple[int, int]]] = {Span.DESCRIPTOR: {"name": (6, 9)}}
    monkeypatch.setattr(shapes, "_READ", read)
    with pytest.raises(UnknownShapesError, match="has no name as field 6"):
        shapes.shapes()
