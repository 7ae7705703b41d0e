"""From a body to its export: receipts, selectors, models, identities."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import READER

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.decoders import Decoded, Decoders
from slo_exporter.ingest.otlp.errors import MalformedError
from slo_exporter.ingest.otlp.reader import Body, Reader
from slo_exporter.sli.records import RequestBatch, View
from slo_exporter.sli.seen import Seen

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
HTTP: Mapping[str, Any] = {"http.request.method": "GET", "http.response.status_code": 200}


@pytest.fixture
def reader() -> Reader:
    """Read for a selector on two keys, with a model for one service."""
    return Reader(
        Declared(selector_keys=frozenset({"tier", "http.response.status_code"}), models={"chat": "llama"}),
        lateness_ns=600 * SECOND_NS,
    )


def test_an_export_carries_its_receipt(reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """The digest is of the whole body, the time the one it was judged at."""
    body = export_body(span(HTTP))
    export = reader.read(body, now_ns).export
    assert export.digest == blake2b(body, digest_size=16).digest()
    assert export.received_ns == now_ns


def test_the_empty_body_is_an_export_of_nothing(reader: Reader, now_ns: int) -> None:
    """It is valid protobuf, so it is acknowledged."""
    reading = reader.read(b"", now_ns)
    assert (len(reading.export.requests), reading.refusals.count, reading.flags) == (0, 0, {})
    assert set(reading.export.results.values()) == {0}


def test_a_malformed_body_is_an_error(reader: Reader, now_ns: int) -> None:
    """The receiver answers it; nothing of it counts."""
    with pytest.raises(MalformedError):
        reader.read(b"\xff\xff", now_ns)


def test_refused_spans_are_told_and_the_rest_counts(
    reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int
) -> None:
    """Every span is in one of the two."""
    reading = reader.read(export_body(span(HTTP), span(HTTP, end_time_unix_nano=0)), now_ns)
    assert (reading.export.results["request"], reading.refusals.by_reason) == (1, {"no_end_time": 1})


def test_c13_negative_durations_are_flagged(reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """Counted, and said so."""
    reading = reader.read(export_body(span(HTTP, start_time_unix_nano=now_ns), span(HTTP)), now_ns)
    assert reading.flags == {"negative_duration": 1}
    assert reading.export.results["request"] == 2


@pytest.mark.parametrize(
    ("on_span", "on_resource", "text"),
    [
        ("gold", "lead", "gold"),
        (None, "lead", "lead"),
        ("", "lead", ""),
        (True, None, "true"),
        (False, None, "false"),
        (200, None, "200"),
        (200.0, None, "200"),
        (0.5, None, "0.5"),
        (-7, None, "-7"),
        (2**53 - 1, None, "9007199254740991"),
        (2**53, None, "9007199254740992"),
        (2**53 + 1, None, "9007199254740993"),
        (-(2**53) - 1, None, "-9007199254740993"),
        (2**63 - 1, None, "9223372036854775807"),
        (-(2**63), None, "-9223372036854775808"),
        (2.0**60, None, "1152921504606846976"),
        (None, 2**60 + 1, "1152921504606846977"),
        (1e300, None, "1e+300"),
        (None, 3, "3"),
        (None, None, None),
    ],
)
def test_selectors_see_the_span_then_the_resource(
    reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int, *, on_span: Any, on_resource: Any, text: str
) -> None:
    """Every readable value has one text; an int has all its digits."""
    attributes = {**HTTP, **({} if on_span is None else {"tier": on_span})}
    resource = {"service.name": "chat", **({} if on_resource is None else {"tier": on_resource})}
    requests = reader.read(export_body(span(attributes), resource=resource), now_ns).export.requests
    assert requests.text("tier").at(0) == text
    assert requests.text("http.response.status_code").at(0) == "200"


@pytest.mark.parametrize(
    ("on_span", "resource", "model"),
    [
        ({"gen_ai.response.model": "a", "gen_ai.request.model": "b"}, {"service.name": "chat"}, "a"),
        ({"gen_ai.response.model": "", "gen_ai.request.model": "b"}, {"service.name": "chat"}, "b"),
        ({"gen_ai.request.model": "b"}, {"service.name": "chat", "gen_ai.response.model": "c"}, "b"),
        ({"gen_ai.request.model": 2**60 + 1}, {"service.name": "chat"}, "llama"),
        ({"gen_ai.request.model": 5}, {"service.name": "chat", "gen_ai.request.model": "c"}, "c"),
        ({}, {"service.name": "chat"}, "llama"),
        ({}, {"service.name": "other"}, None),
    ],
)
def test_the_model_comes_from_the_first_that_names_it(
    reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int, *, on_span: Any, resource: Any, model: str
) -> None:
    """Span, then resource, then the operator; else it is missing."""
    body = export_body(span({**HTTP, **on_span}), resource=resource)
    assert reader.read(body, now_ns).export.requests.model.at(0) == model


def fingerprints(requests: RequestBatch) -> list[int]:
    """The fingerprints, sorted."""
    return sorted(requests.fingerprint.tolist())


def test_a_span_is_the_same_span_to_every_reader(
    reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int
) -> None:
    """A new reader, after new settings, knows what the old one saw."""
    one, two = span(HTTP), span(HTTP)
    first = reader.read(export_body(one, two), now_ns).export.requests
    second = READER.read(export_body(two, one, scope="elsewhere"), now_ns).export.requests
    assert fingerprints(first) == fingerprints(second)


def test_kind_and_service_are_part_of_a_span(reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """Equal ids in two services are two spans."""
    shared = span(HTTP)
    bodies = [export_body(shared, resource={"service.name": name}) for name in ("a", "b")]
    requests = reader.read(b"".join(bodies), now_ns).export.requests
    assert len(set(fingerprints(requests))) == 2


def test_a_request_key_holds_service_and_id(reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """Equal ids of one service meet across exports, of two services they do not."""

    def key(service: str) -> np.uint64:
        request = span({"gen_ai.request.id": "r1"}, name="llm_request")
        body = export_body(request, resource={"service.name": service}, scope="vllm.tracing.otel")
        requests = reader.read(body, now_ns).export.requests
        assert requests.view.tolist() == [View.SERVER]
        return requests.request_key[0]

    assert key("a") == key("a") != key("b")


def test_a_retried_span_in_another_body_is_known(
    reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int
) -> None:
    """The memory of fingerprints recognises it."""
    seen, again = Seen(intervals=False), span(HTTP)
    seen.reserve(8, now_ns)
    new = []
    for body in (export_body(again), export_body(span(HTTP), again)):
        requests = reader.read(body, now_ns).export.requests
        new.append(int(seen.admit(requests.fingerprint, requests.start_ns, requests.end_ns).sum()))
    assert new == [1, 1]


def test_threads_may_share_a_reader(reader: Reader, span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """Each reading is of its own body."""
    bodies = [export_body(*(span(HTTP) for _ in range(size))) for size in range(1, 33)]
    with ThreadPoolExecutor(4) as pool:
        readings = list(pool.map(lambda body: reader.read(body, now_ns), bodies))
    assert [len(reading.export.requests) for reading in readings] == list(range(1, 33))


class Turn:
    """A turn that knows whether it is held."""

    is_held = False

    def __enter__(self) -> None:
        self.is_held = True

    def __exit__(self, *_: object) -> None:
        self.is_held = False


def test_what_takes_long_takes_nobodys_turn(span: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """JSON, and what the compiled decoder declines."""
    turn, held = Turn(), []

    class Declining(Decoders):
        def quickly(self, *_: object, **__: object) -> None:
            held.append(turn.is_held)

        def surely(self, *arguments: Any, **named: Any) -> Decoded:
            held.append(turn.is_held)
            return super().surely(*arguments, **named)

    reader = Reader(Declared(), lateness_ns=600 * SECOND_NS, decoders=Declining())
    [protobuf, json] = reader.read_all([Body(export_body(span()), now_ns), Body(b"{}", now_ns, "json")], turn)

    assert held == [True, False]
    assert [getattr(one, "decoder", None) for one in (protobuf, json)] == ["protobuf", "json"]
