"""The compiled decoder on one export in every spelling: each field is repeated, cut, grouped or written longer."""

import random
from collections.abc import Callable
from itertools import product
from typing import Final

import pytest
from compiled_decoder import assert_never_wrong, assert_right
from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from otlp_exports import LISTS, Exports
from wire_format import BYTES, FIXED32, FIXED64, GROUP, VARINT, borders, every_piece, field, replaced
from wire_writer import WireWriter, nested

from slo_exporter.ingest.otlp.spans import EXCEPTION_TYPE, STATUS_DESCRIPTION

pytestmark = pytest.mark.timeout(600)  # where no cache holds the decoder, the first test waits for the compiler

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


@pytest.mark.parametrize("number", [17, 18, 31, 100, 2**21, 2**29 - 1])
@pytest.mark.parametrize("wire", [VARINT, FIXED64, BYTES, FIXED32])
def test_unknown_fields_are_no_reason_to_decline(number: int, wire: int, span: SpanOf, export_body: BodyOf) -> None:
    """Anywhere: a newer SDK may write them into any message."""
    body = export_body(span({"k": "v", "nobody.asks": 1}, status={"message": "m"}))
    newer = field(
        number, wire, {VARINT: b"\xff\x7f", FIXED64: b"\xff" * 8, BYTES: b"\xff\xfe", FIXED32: b"\xff" * 4}[wire]
    )
    for piece, around in every_piece(body):
        assert_right(replaced(body, piece.start, piece.start, newer, around))


def test_a_group_anywhere_is_declined_or_equal(span: SpanOf, export_body: BodyOf) -> None:
    """Whether it ends or not."""
    body = export_body(span({"k": "v", "nobody.asks": 1}, status={"message": "m"}))
    for group in (field(1, GROUP, b"\x08\x01"), field(99, GROUP, field(7, GROUP, b"")), b"\x0b", b"\x0c", b"\x0b\x14"):
        for piece, around in every_piece(body):
            assert_never_wrong(replaced(body, piece.start, piece.start, group, around))


@pytest.fixture
def full(span: SpanOf, export_body: BodyOf) -> bytes:
    """Build an export with every kind of field that is looked at."""
    one = span({"k": "v", "model": 2**60, "key": True, "nobody.asks": 0.5}, kind=6, error=True)
    words = one.attributes.add(key="list").value.array_value.values
    words.add(string_value="stop")
    words.add(string_value="é")
    one.status.message = "aborted"
    one.dropped_events_count = 2
    event = one.events.add(name="exception", time_unix_nano=7)
    event.attributes.add(key="exception.type").value.string_value = "Timeout"
    return export_body(one, span(kind=5), resource={"service.name": "chat", "k": "r"})


def test_any_field_twice_is_declined_or_equal(full: bytes) -> None:
    """With what it says, and with nothing, before or after."""
    for piece, around in every_piece(full):
        again = full[piece.start : piece.end]
        empty = field(piece.number, piece.wire, bytes({VARINT: 1, FIXED64: 8, BYTES: 0, FIXED32: 4}[piece.wire]))
        for more in (again, empty):
            assert_never_wrong(replaced(full, piece.start, piece.start, more, around))
            assert_never_wrong(replaced(full, piece.end, piece.end, more, around))


def test_any_message_in_two_pieces_is_declined_or_equal(full: bytes) -> None:
    """Cut between any two of its fields."""
    for piece, around in every_piece(full):
        if piece.known is not None and piece.known.inner is not None:
            for cut in borders(full, piece.value_at, piece.end):
                halves = (full[piece.value_at : cut], full[cut : piece.end])
                for order in (halves, halves[::-1]):
                    written = b"".join(field(piece.number, BYTES, half) for half in order)
                    assert_never_wrong(replaced(full, piece.start, piece.end, written, around))


@pytest.mark.parametrize("more", [1, 2, 4, 5, 9])
def test_any_longer_varint_is_declined_or_equal(more: int, full: bytes) -> None:
    """Tags, lengths and numbers, by bytes that add nothing."""
    for piece, around in every_piece(full):
        ends = [piece.length_at, *[piece.value_at] * (piece.wire == BYTES), *[piece.end] * (piece.wire == VARINT)]
        for end in ends:
            longer = bytes([full[end - 1] | 128]) + b"\x80" * (more - 1) + b"\0"
            assert_never_wrong(replaced(full, end - 1, end, longer, around))


@pytest.mark.parametrize("last", [b"\0", b"\x01", b"\x02", b"\x7f", b"\x81\0", b"\xff\x01"])
def test_any_varint_of_ten_bytes_is_declined_or_equal(last: bytes, full: bytes) -> None:
    """And of eleven: enums, counts, bools, integers, and fields that nobody knows."""
    for piece, around in every_piece(full):
        if piece.wire == VARINT:
            assert_never_wrong(replaced(full, piece.value_at, piece.end, b"\xff" * 9 + last, around))
        assert_never_wrong(replaced(full, piece.start, piece.start, field(99, VARINT, b"\xff" * 9 + last), around))


_WORD: Final = AnyValue(string_value="a")
VALUES: Final = (
    *(_WORD, AnyValue(int_value=7), AnyValue(bool_value=False), AnyValue(), AnyValue(bytes_value=b"b")),
    *(AnyValue(array_value=ArrayValue(values=[_WORD] * size)) for size in (0, 1, 64, 65)),
    AnyValue(array_value=ArrayValue(values=[_WORD, AnyValue(int_value=7)])),
    AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="a" * 4094)])),
)
"""Readable ones, those that are no value, and lists of both kinds."""


@pytest.mark.parametrize("key", [LISTS[0], "k", EXCEPTION_TYPE, STATUS_DESCRIPTION])
def test_which_of_several_values_stands(key: str, span: SpanOf, export_body: BodyOf) -> None:
    """The last that is one; and where none is, what the span says elsewhere."""
    event = Span.Event(name="exception")
    event.attributes.add(key=EXCEPTION_TYPE).value.string_value = "Timeout"
    for first, second in product(VALUES, VALUES):
        one = span({key: first}, status={"message": "aborted"}, events=[event])
        assert_never_wrong(export_body(one))
        one.attributes.add(key=key, value=second)
        assert_never_wrong(export_body(one, one))


@pytest.mark.parametrize("depth", [1, 10, 20, 23, 24, 25, 46, 47, 48, 49, 50, 51, 99, 100, 101, 5000])
@pytest.mark.parametrize("key", ["nobody.asks", "k", LISTS[0]])
def test_values_of_any_depth_are_declined_or_equal(depth: int, key: str, span: SpanOf, export_body: BodyOf) -> None:
    """Around the depths at which either decoder stops."""
    body = export_body(span({key: "v"}))
    inside = nested(depth)
    [(piece, around)] = [found for found in every_piece(body) if found[0].known.name == "value" and len(found[1]) == 4]
    assert_never_wrong(replaced(body, piece.value_at, piece.end, inside, (*around, piece)))


NO_UTF8: Final = (
    *(b"\xff", b"\x80", b"\xc0\x80", b"\xc1\xbf", b"\xf5\x80\x80\x80"),
    *(b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80"),
    *(b"\xc3", b"\xe2\x82", b"\xf0\x9f\x92", b"\xe2\x28\xa1", b"\xf0\x9f\x92\x28"),
)
"""Each row of the table of what is well formed, missed by one."""


@pytest.mark.parametrize("padding", [0, 1, 6, 7, 8, 9, 15, 16, 30])
def test_a_text_that_is_not_utf8_is_declined_wherever_it_is(padding: int) -> None:
    """Also where nobody asks for it: the authority reads it."""
    body = WireWriter(random.Random(1)).message(Exports(random.Random(13), is_plain=True).export())
    assert_right(body)
    for piece, around in every_piece(body):
        if piece.known is not None and piece.known.kind == FieldDescriptor.TYPE_STRING:
            for wrong in NO_UTF8:
                text = b"a" * padding + wrong + b"a" * (padding % 7)
                damaged = replaced(body, piece.value_at, piece.end, text, (*around, piece))
                assert not assert_never_wrong(damaged).accepted


@pytest.mark.parametrize("padding", [0, 1, 7, 8, 9])
def test_characters_at_the_borders_of_utf8_are_not_declined(padding: int, span: SpanOf, export_body: BodyOf) -> None:
    """The first and last of each length, and those beside the surrogates."""
    borders = "\0\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"
    spans = [span({"k": "a" * padding + letter + "a" * (padding % 3)}, name=letter) for letter in borders]
    assert_right(export_body(*spans))
