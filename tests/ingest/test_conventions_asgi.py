"""ASGI servers: what the spans of their messages tell, written by the real instrumentation and by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from receiving import READER

from slo_exporter.ingest.otlp.conventions.fields import Provenance
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.documents import Document
from slo_exporter.ingest.otlp.explain import explain
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli.records import MISSING, Outcome

INTERNAL, SERVER = 1, 2
MS = 1_000_000
EVENT = "asgi.event.type"
START, BODY, REQUEST = "http.response.start", "http.response.body", "http.request"
SCOPE = "opentelemetry.instrumentation.fastapi"
POST: Mapping[str, Any] = {
    "http.scheme": "http",
    "http.method": "POST",
    "http.target": "/generate",
    "http.route": "/generate",
    "http.status_code": 200,
}

Message = MutableMapping[str, Any]
App = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


def plain(*_: object) -> list[Message]:
    """The messages of a response that does not stream."""
    return [{"type": START, "status": 200, "headers": []}, {"type": BODY, "body": b"all"}]


def streamed(*_: object) -> list[Message]:
    """The messages of a response in three chunks and an end."""
    chunks: list[Message] = [{"type": BODY, "body": b"x", "more_body": True} for _ in range(3)]
    return [{"type": START, "status": 200, "headers": []}, *chunks, {"type": BODY, "body": b""}]


def spans_of(messages: Sequence[Message], scope_type: str = "http", *, breaks: bool = False) -> Sequence[ReadableSpan]:
    """The spans that the real instrumentation writes of a request that is answered with *messages*."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(resource=Resource({"service.name": "chat"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def app(_: object, receive: Callable[[], Awaitable[Message]], send: Callable[..., Awaitable[None]]) -> None:
        await receive()
        listening = asyncio.ensure_future(receive()) if breaks else None
        for message in messages:
            await send(message)
        if listening is not None:
            await asyncio.sleep(0)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            raise ConnectionResetError

    asyncio.run(_call(OpenTelemetryMiddleware(app, tracer_provider=provider), scope_type))
    return exporter.get_finished_spans()


async def _call(app: App, scope_type: str) -> None:
    asked = [{"type": REQUEST if scope_type == "http" else "websocket.receive", "body": b"", "text": "x"}]

    async def receive() -> Message:
        return asked.pop() if asked else await asyncio.Future[Message]()

    async def send(_: Message) -> None:
        return

    method = {"method": "POST"} if scope_type == "http" else {}
    scheme = "http" if scope_type == "http" else "ws"
    scope = {"type": scope_type, "path": "/generate", "headers": [], "scheme": scheme, "server": ("h", 80), **method}
    await asyncio.gather(app(scope, receive, send), return_exceptions=True)


def read(spans: Sequence[ReadableSpan]) -> Export:
    """Read real spans as soon as the last one ended."""
    now_ns = max(span.end_time or 0 for span in spans)
    return READER.read(encode_spans(spans).SerializeToString(), now_ns).export


def test_a_real_stream_tells_its_first_body() -> None:
    """From the start of the request to the start of the first body."""
    spans = spans_of(streamed())
    [server] = [span for span in spans if span.kind.name == "SERVER"]
    first = min(span.start_time or 0 for span in spans if (span.attributes or {}).get(EVENT) == BODY)
    export = read(spans)
    assert export.results == {"request": 1, "part": len(spans) - 1, "probe": 0, "unmatched": 0}
    assert export.requests.number("ttft").tolist() == [first - (server.start_time or 0)]
    assert export.requests.outcome.tolist() == [Outcome.OK]


def test_a_real_response_without_a_stream_has_no_ttft() -> None:
    """It has one body, which is all of it."""
    export = read(spans_of(plain()))
    assert (export.results["request"], export.requests.number("ttft").tolist()) == (1, [MISSING])


def test_a_real_stream_that_breaks_is_an_error() -> None:
    """Its 200 was sent; the receive that nobody answered has no type, and is a part all the same."""
    spans = spans_of(streamed()[:-1], breaks=True)
    untyped = [span.name for span in spans if span.kind.name == "INTERNAL" and EVENT not in (span.attributes or {})]
    export = read(spans)
    assert untyped == ["POST /generate http receive"]
    assert export.results == {"request": 1, "part": len(spans) - 1, "probe": 0, "unmatched": 0}
    assert export.requests.outcome.tolist() == [Outcome.ERROR]


def test_a_real_websocket_is_no_request() -> None:
    """It has no method, and its messages are parts."""
    sends: list[Message] = [{"type": "websocket.accept"}, {"type": "websocket.send", "text": "x"}]
    spans = spans_of(sends, "websocket")
    told = explain([Document(encode_spans(spans).SerializeToString(), is_json=False)], DECLARED)
    reasons = [ignored.reason for ignored in told.ignored if ignored.name == "HTTP /generate"]
    assert told.records == []
    assert read(spans).results == {"request": 0, "part": len(spans) - 1, "probe": 0, "unmatched": 1}
    assert reasons == ["no request of http: it has no http.method or http.request.method"]


DECLARED = Declared(selector_keys=frozenset(), models={}, ignore_routes=())


@pytest.fixture
def message(span: SpanOf) -> SpanOf:
    """Build the span of a message, so many ms after the start of its server's span."""

    def build(server: Span, kind: str | None, after_ms: int = 0, *, name: str = "POST /generate http send") -> Span:
        start = server.start_time_unix_nano + after_ms * MS
        return span(
            {} if kind is None else {EVENT: kind},
            name=name,
            kind=INTERNAL,
            trace_id=server.trace_id,
            parent_span_id=server.span_id,
            start_time_unix_nano=start,
            end_time_unix_nano=start + 1000,
        )

    return build


@pytest.fixture
def ttft_of(span: SpanOf, message: SpanOf, export_body: BodyOf, now_ns: int) -> Callable[..., int | None]:
    """Read a response whose start was sent so many ms after the request came, and its bodies then."""

    def reading(bodies: Sequence[int], *, start: int | None = 0, above: bool = True) -> int | None:
        server = span(POST, name="POST /generate")
        sends = [message(server, BODY, after) for after in bodies]
        if start is not None:
            sends.append(message(server, START, start))
        body = export_body(*sends, *([server] if above else []), scope=SCOPE)
        export = READER.read(body, now_ns).export
        assert len(export.stages) == 0
        if not above:
            return None
        [value] = export.requests.number("ttft").tolist()
        return None if value == MISSING else value

    return reading


@pytest.mark.parametrize(
    ("bodies", "start", "expected"),
    [
        ((20, 30), 10, 20),
        ((30, 20, 40), 10, 20),
        ((0, 20), 0, 0),
        ((20,), 10, None),
        ((), 10, None),
        ((700, 800), None, None),
        ((-5, 20), -6, None),
    ],
)
def test_the_first_of_several_bodies_ends_ttft(
    ttft_of: Callable[..., int | None], bodies: Sequence[int], start: int | None, expected: int | None
) -> None:
    """Where the start of the response is here too: what was sent before it left cannot be missing."""
    assert ttft_of(bodies, start=start) == (None if expected is None else expected * MS)


def test_messages_without_their_request_tell_nothing(ttft_of: Callable[..., int | None]) -> None:
    """They are no stages of a request elsewhere."""
    assert ttft_of((20, 30), above=False) is None


def test_each_response_has_its_own_first_body(span: SpanOf, message: SpanOf, export_body: BodyOf, now_ns: int) -> None:
    """One whose start is elsewhere does not borrow that of its neighbour."""
    here, elsewhere = span(POST), span(POST)
    sends = [message(here, START), *(message(here, BODY, after) for after in (20, 30))]
    sends += [message(elsewhere, BODY, after) for after in (700, 800)]
    export = READER.read(export_body(here, elsewhere, *sends, scope=SCOPE), now_ns).export
    assert export.requests.number("ttft").tolist() == [20 * MS, MISSING]


@pytest.mark.parametrize("suffix", ["http send", "http receive", "websocket send", "websocket receive"])
@pytest.mark.parametrize("scope", [SCOPE, "opentelemetry.instrumentation.asgi"])
def test_a_message_without_its_type_is_a_part(
    span: SpanOf, message: SpanOf, export_body: BodyOf, now_ns: int, suffix: str, scope: str
) -> None:
    """By its name in a scope of an instrumentation: it was cancelled before it came."""
    server = span(POST)
    lost = message(server, None, name=f"POST /generate {suffix}")
    results = READER.read(export_body(server, lost, scope=scope), now_ns).export.results
    other = READER.read(export_body(server, lost, scope="mine"), now_ns).export.results
    assert (results["part"], other["unmatched"]) == (1, 1)


def test_a_provenance_of_a_first_body_is_a_part(span: SpanOf, message: SpanOf, export_body: BodyOf) -> None:
    """And the bodies say what they fill, the start does not."""
    server = span(POST, name="POST /generate")
    sends = [message(server, START), message(server, BODY, 20), message(server, BODY, 30)]
    told = explain([Document(export_body(server, *sends, scope=SCOPE), is_json=False)], DECLARED)
    part = f"part of POST /generate {server.span_id.hex()}"
    assert told.records[0].provenance["ttft"] is Provenance.PART
    assert [ignored.reason for ignored in told.ignored] == [part, f"{part}, fills ttft", f"{part}, fills ttft"]


@pytest.mark.parametrize(
    ("route", "scope"),
    [
        ("/summarize", "opentelemetry.instrumentation.asgi"),
        ("/v1/models/{model_name}:predict", SCOPE),
    ],
    ids=["bentoml", "kserve"],
)
def test_a_model_server_on_asgi_is_http(
    span: SpanOf, message: SpanOf, export_body: BodyOf, now_ns: int, route: str, scope: str
) -> None:
    """With a failure beside what went well."""
    name = f"POST {route}"
    good = span({**POST, "http.route": route}, name=name)
    bad = span({**POST, "http.status_code": 500}, name=name, status=Status(code=Status.STATUS_CODE_ERROR))
    messages = [message(good, REQUEST, name=f"{name} http receive"), message(good, START), message(good, BODY)]
    export = READER.read(export_body(*messages, good, bad, scope=scope), now_ns).export
    assert export.results == {"request": 2, "part": 3, "probe": 0, "unmatched": 0}
    assert (export.requests.framework.at(0), export.requests.outcome.tolist()) == ("http", [Outcome.OK, Outcome.ERROR])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(bodies=st.lists(st.integers(0, 900), max_size=30), start=st.none() | st.just(0))
def test_ttft_is_the_first_body_of_a_whole_stream_or_nothing(
    ttft_of: Callable[..., int | None], bodies: Sequence[int], start: int | None
) -> None:
    """In any order."""
    is_stream = start is not None and len(bodies) > 1
    assert ttft_of(bodies, start=start) == (min(bodies) * MS if is_stream else None)
