"""The compiled decoder against the authority: the same to the last bit, or declined; and never declined for nothing."""

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

import pytest
from both_decoders import LATENESS_NS, NOW_NS, judge
from compiled_decoder import assert_never_wrong, assert_right, the_decoder
from fuzz_seeds import case_names, exports_of, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from otlp_exports import DAEMONS, KEYS, LISTS, WANTED, a_value, table
from otlp_wire import bodies, faulty_bodies, keys, plain_bodies, tables
from span_batches import Decoded, differences
from trying import examples
from wire_format import BYTES, field

from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.refusals import FUTURE_NS, LARGEST_PART
from slo_exporter.ingest.otlp.walk import MOST_PARTS

ASKED: Final = KEYS[0]
pytestmark = pytest.mark.timeout(600)  # where no cache holds the decoder, the first test waits for the compiler

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


def decoded(body: bytes, asked: Keys = ASKED) -> Decoded | None:
    """Decode with the compiled decoder alone."""
    return the_decoder().decode(body, asked, now_ns=NOW_NS, lateness_ns=LATENESS_NS)


@settings(max_examples=examples(1000))
@given(bodies, keys)
def test_a_valid_body_is_declined_or_equal(body: bytes, asked: Keys) -> None:
    """However it is spelled: order, repetition, pieces, what nobody knows, what is longer than it has to be."""
    assert_never_wrong(body, asked)


@settings(max_examples=examples(1000))
@given(faulty_bodies, keys)
def test_a_faulty_body_is_declined_or_equal(body: bytes, asked: Keys) -> None:
    """What the authority refuses is declined, wherever in the body the fault is."""
    assert_never_wrong(body, asked)


@settings(max_examples=examples(500))
@given(plain_bodies, keys)
def test_what_sdks_write_is_not_declined(body: bytes, asked: Keys) -> None:
    """Fields in any order, unknown ones, nested values of other keys, lists, events, messages, refused spans."""
    assert_right(body, asked)


@settings(max_examples=examples(100))
@given(tables, keys)
def test_columns_of_many_rows_are_equal(body: bytes, asked: Keys) -> None:
    """Of one type or mixed, with texts that are all the same or all distinct, whole or with rows missing."""
    assert_right(body, asked)


@given(st.binary(max_size=200))
def test_random_bytes_are_declined_or_equal(body: bytes) -> None:
    """Nothing comes out that the authority does not say."""
    assert_never_wrong(body)


@settings(max_examples=examples(300))
@given(plain_bodies, st.data())
def test_a_cut_body_is_declined_or_equal(body: bytes, data: st.DataObject) -> None:
    """Wherever it ends."""
    assert_never_wrong(body[: data.draw(st.integers(0, len(body)))])


def test_a_body_cut_at_any_byte_is_declined_or_equal() -> None:
    """Each of them, of one export that has everything."""
    body = next(body for body in seeds() if len(body) > 1000)
    for end in range(len(body)):
        assert_never_wrong(body[:end])


@pytest.mark.parametrize("name", case_names())
@pytest.mark.parametrize("asked", [DAEMONS, ASKED], ids=["daemon", "little"])
def test_recorded_exports_are_equal_and_not_declined(name: str, asked: Keys) -> None:
    """What real frameworks sent, judged when it came."""
    for export in exports_of(name):
        ends = [
            span.end_time_unix_nano
            for resource_spans in export.resource_spans
            for scope_spans in resource_spans.scope_spans
            for span in scope_spans.spans
        ]
        assert_right(export.SerializeToString(), asked, max(ends))


def of_values(*values: AnyValue, key: str = "k") -> list[KeyValue]:
    """Attributes of one key."""
    return [KeyValue(key=key, value=value) for value in values]


TEXT, TRUTH = AnyValue(string_value="é"), AnyValue(bool_value=True)
HALF, HUGE = AnyValue(double_value=0.5), AnyValue(int_value=2**53 + 1)
UNASKED: Final = of_values(*(a_value(random.Random(seed)) for seed in range(50)), key="nobody.asks")
WORDS = AnyValue()
WORDS.array_value.values.extend([TEXT, AnyValue(string_value='"\n')])

ORDINARY: Final[Mapping[str, Sequence[Span]]] = {
    "nothing": [Span()],
    "no attributes": [Span(name="work")],
    "each type": [Span(attributes=of_values(value)) for value in (TEXT, TRUTH, HALF, HUGE)],
    "a key twice": [Span(attributes=of_values(TEXT, HALF, TRUTH, HUGE, TEXT))],
    "a key without a value at the end": [Span(attributes=of_values(TEXT, AnyValue()))],
    "a key without a value at all": [Span(attributes=of_values(AnyValue()))],
    "nested under a key that nobody asks for": [Span(attributes=UNASKED)],
    "a list of texts": [Span(attributes=of_values(WORDS, key=LISTS[0]))],
    "an empty list": [Span(attributes=of_values(AnyValue(array_value={}), key=LISTS[0]))],
    "a list, then a text": [Span(attributes=of_values(WORDS, TEXT, key=LISTS[0]))],
    "events": [Span(events=[Span.Event(name=name, time_unix_nano=at) for name in ("first", "x") for at in (7, 5, 0)])],
    "an exception": [Span(events=[Span.Event(name="exception", attributes=of_values(TEXT, key="exception.type"))])],
    "two exceptions, the last without a type": [
        Span(
            events=[
                Span.Event(name="exception", attributes=of_values(TEXT, key="exception.type")),
                Span.Event(name="exception", attributes=of_values(HALF, key="exception.type")),
            ]
        )
    ],
    "an exception beside an attribute": [
        Span(
            attributes=of_values(HALF, key="exception.type"),
            events=[Span.Event(name="exception", attributes=of_values(TEXT, key="exception.type"))],
        )
    ],
    "a status message": [Span(status={"message": "aborted", "code": 2}), Span(status={"code": 1}), Span()],
    "events lost": [Span(dropped_events_count=3), Span()],
    "links": [Span(links=[Span.Link(trace_id=b"\1" * 16, attributes=UNASKED)])],
    "kinds": [Span(kind=kind) for kind in range(7)],
    "refused ones among others": [Span(trace_id=b"short"), Span(), Span(span_id=bytes(8)), Span(end_time_unix_nano=9)],
    "none that is not refused": [Span(parent_span_id=b"long enough"), Span(trace_id=bytes(16))],
}
"""What any SDK may write."""


@pytest.mark.parametrize("what", ORDINARY)
def test_ordinary_spans_are_not_declined(what: str, span: SpanOf, export_body: BodyOf) -> None:
    """In one export and in one each."""
    whole = []
    for sketch in ORDINARY[what]:
        one = span()
        one.MergeFrom(sketch)
        whole.append(one)
    assert_right(export_body(*whole))
    for one in whole:
        assert_right(export_body(one), DAEMONS)


@pytest.mark.parametrize("edge_ns", [-LATENESS_NS, FUTURE_NS])
def test_ends_at_the_borders_are_judged_alike(edge_ns: int, span: SpanOf, export_body: BodyOf) -> None:
    """To the nanosecond."""
    spans = [span(end_time_unix_nano=NOW_NS + edge_ns + more) for more in (-1, 0, 1)]
    assert_right(export_body(*spans))


@pytest.mark.parametrize("now_ns", [0, 1, LATENESS_NS, 2**62, 2**63 - 1, 2**63, 2**64])
def test_any_now_is_judged_alike(now_ns: int, span: SpanOf, export_body: BodyOf) -> None:
    """A clock may say anything."""
    spans = [span(end_time_unix_nano=end) for end in (1, LATENESS_NS, 2**62, 2**63 - 1, 2**63, 2**64 - 1)]
    assert_never_wrong(export_body(*spans), now_ns=now_ns)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_large_parts_are_declined_or_equal(more: int, span: SpanOf, export_body: BodyOf) -> None:
    """A span over the limit is not even looked into; a resource over it refuses the export."""
    rest = LARGEST_PART - span({"k": ""}).ByteSize() - 10
    for size in range(rest, rest + 8):
        assert_never_wrong(export_body(span(), span({"k": "a" * (size + more)}), span()))
    damaged = export_body(span({"k": "a" * LARGEST_PART})).replace(b"aaaaaaaa", b"a\xffaaaaaa", 1)
    assert_never_wrong(damaged)
    assert_never_wrong(export_body(span(), resource={"service.name": "a" * (LARGEST_PART + more)}))
    assert_never_wrong(export_body(span(), scope="a" * (LARGEST_PART + more)))


@pytest.mark.parametrize("part", [b"\x0a\x00", b"\x12\x00", b"\x1a\x00", b"\x12\x02\x12\x00"])
def test_too_many_parts_are_declined(part: bytes) -> None:
    """Whether they are parts or only look like some: the authority counts bytes before it reads."""
    many = part * (MOST_PARTS + 1)
    for body in (many, field(1, BYTES, many), field(99, BYTES, many), field(1, BYTES, field(2, BYTES, many))):
        assert not assert_never_wrong(body).accepted


def test_as_many_parts_as_may_be_are_declined_or_equal() -> None:
    """And not one less."""
    for part in (b"\x0a\x00", b"\x12\x00"):
        many = part * (MOST_PARTS - 1)
        assert_never_wrong(field(1, BYTES, many))


def test_keys_are_not_mistaken_for_others(span: SpanOf, export_body: BodyOf) -> None:
    """Each body is read for the keys that come with it, though the same decoder read others before."""
    body = export_body(span({key: key for key in WANTED}), resource={"k": "of the resource"})
    for key in (*WANTED, *WANTED):
        assert_right(body, Keys(span=frozenset({key})))
        assert_right(body, Keys(resource=frozenset({key, "service.name"})))


def test_what_was_decoded_stays_as_it_is() -> None:
    """Columns do not change when the next body is read, nor when the bytes are gone."""
    found = []
    for seed in range(40):
        body = bytearray(table(random.Random(seed)).SerializeToString())
        found.append((decoded(bytes(body)), seed))
        body[:] = bytes(len(body))
    for result, seed in found:
        body = table(random.Random(seed)).SerializeToString()
        wanted = decode(body, ASKED, now_ns=NOW_NS, lateness_ns=LATENESS_NS)
        assert result is not None
        assert differences(result, wanted) == []


def test_threads_decode_at_once() -> None:
    """One decoder for all of them."""
    made = [table(random.Random(seed)).SerializeToString() for seed in range(24)]
    with ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda body: judge(the_decoder().decode, body, ASKED), made * 4))
    assert {(verdict.accepted, verdict.difference) for verdict in verdicts} == {(True, "")}


def test_two_bodies_in_one_are_equal() -> None:
    """Protobuf merges them."""
    found = seeds()
    for one, other in pairwise(found):
        assert_never_wrong(one + other)


def test_no_spans_are_no_reason_to_decline() -> None:
    """Nothing, resources without scopes, scopes without spans."""
    empty = ExportTraceServiceRequest()
    for _ in range(3):
        empty.resource_spans.add().scope_spans.add()
    for body in (b"", b"\x0a\x00", b"\x0a\x02\x12\x00", empty.SerializeToString()):
        assert_right(body)
        assert_right(body, Keys())
