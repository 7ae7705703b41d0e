"""OTLP/JSON against protobuf: the same content, however it is spelled, gives the same columns."""

import json
import random
from collections.abc import Callable

import numpy as np
import pytest
from builders import NOON_NS
from hypothesis import given
from hypothesis import strategies as st
from json_writer import JsonWriter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from otlp_messages import EVENTS, KEYS, LATENESS_NS, PSEUDO_KEYS, assert_equal, good_spans, message, messages

from slo_exporter.ingest.otlp import json_shape
from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.decode_json import decode_json
from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError
from slo_exporter.ingest.otlp.json_shape import DEEPEST, check_shape

ASKED = Keys(
    span=frozenset(KEYS) - {"unread"} | frozenset(PSEUDO_KEYS),
    resource=frozenset({"k"}),
    events=frozenset(EVENTS),
    lists=frozenset({"k", *KEYS[::2]}),
)


def assert_same(export: ExportTraceServiceRequest, body: bytes) -> None:
    """Both encodings give the same columns and the same refusals."""
    spans, refusals = decode(export.SerializeToString(), ASKED, now_ns=NOON_NS, lateness_ns=LATENESS_NS)
    of_json, refusals_of_json, _ = decode_json(body, ASKED, now_ns=NOON_NS, lateness_ns=LATENESS_NS)
    assert_equal(of_json, spans)
    assert refusals_of_json == refusals


@given(messages)
def test_json_and_protobuf_are_the_same_export(export: ExportTraceServiceRequest) -> None:
    """Written as the specification says."""
    assert_same(export, JsonWriter().export(export))


@given(messages, st.randoms(use_true_random=False))
def test_spelling_makes_no_difference(export: ExportTraceServiceRequest, chance: random.Random) -> None:
    """Numbers, names, order, blanks, nulls, repeated keys, unknown fields: all as they fall."""
    assert_same(export, JsonWriter(chance).export(export))


@pytest.mark.parametrize("name", ["vllm.json", "vllm_0_32_0_cpu.json"])
def test_recorded_exports_read_the_same(otlp_case: Callable[[str], list[bytes]], name: str) -> None:
    """What a real vLLM sent."""
    for body in otlp_case(name):
        export = ExportTraceServiceRequest.FromString(body)
        ends = [span.end_time_unix_nano for span in export.resource_spans[0].scope_spans[0].spans]
        keys = Keys(span=ASKED.span, resource=frozenset({"vllm.process_kind"}))
        spans, refusals = decode(body, keys, now_ns=ends[0], lateness_ns=LATENESS_NS)
        written = JsonWriter().export(export)
        of_json, refusals_of_json, flags = decode_json(written, keys, now_ns=ends[0], lateness_ns=LATENESS_NS)
        assert_equal(of_json, spans)
        assert (refusals_of_json, flags) == (refusals, {})


@given(st.lists(good_spans, min_size=1, max_size=3), st.randoms(use_true_random=False), st.data())
def test_damaged_bodies_are_read_or_refused(group: list[Span], chance: random.Random, data: st.DataObject) -> None:
    """A cut, a changed or an added byte: a batch, or an error of the client's. What is no JSON is never read."""
    body = bytearray(JsonWriter(chance).export(message([group], [])))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3) | st.sampled_from(SPLINTERS))
    assert_read_or_refused(bytes(body[: data.draw(st.integers(0, len(body)) | st.just(len(body)))]))


@given(st.binary(max_size=60) | st.lists(st.sampled_from(b'{}[]",:\\ue1')).map(bytes))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """Nor does anything else come out."""
    assert_read_or_refused(body)


SPLINTERS = [b"{", b"}", b"[", b"]", b'"', b"\\", b"null", b"NaN", b"-1", b"1e999", b"\xed\xa0\x80", b'\\ud800"', b"[]"]


def assert_read_or_refused(body: bytes) -> None:
    """Python's own reader says what is JSON."""
    try:
        spans, _, _ = decode_json(body, ASKED, now_ns=NOON_NS, lateness_ns=LATENESS_NS)
    except (MalformedError, TooLargeError):
        return
    assert isinstance(json.loads(body.decode()), dict)
    assert spans.start_ns.dtype == np.int64


texts = st.lists(st.sampled_from(['"', "\\", "{", "]", "[", ",", "a", "é", "\n"])).map("".join)
documents = st.recursive(
    st.integers(0, 9) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
)


def depth_of(node: object) -> int:
    """How deep it nests, found by walking it."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(documents, st.integers(4, 12), st.booleans())
def test_the_deepest_body_is_found_exactly(document: object, piece: int, ascii_only: bool) -> None:  # noqa: FBT001 - drawn
    """A hundred levels pass and one more does not, whatever the strings look like and wherever a piece ends."""
    text = json.dumps(document, ensure_ascii=ascii_only)
    outer = DEEPEST - depth_of(document)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_shape, "_PIECE", piece)
        check_shape(("[" * outer + text + "]" * outer).encode())
        with pytest.raises(MalformedError, match="nest over 100 deep"):
            check_shape(("[" * (outer + 1) + text + "]" * (outer + 1)).encode())
