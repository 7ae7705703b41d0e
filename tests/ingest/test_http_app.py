"""The OTLP/HTTP receiver, by the rules of its conformance list."""

import asyncio
import gzip
import json
import socket
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path

import httpx2
import pytest
from builders import NOON_NS
from google.protobuf import json_format
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from receiving import MIB, SOON_S, BrokenReader, RecordingSink, http_on, receiver_on
from structlog.testing import capture_logs

from slo_exporter.clock import SECOND_NS
from slo_exporter.daemon.http_server import HttpServer
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.ingest.otlp.http_app import OtlpHttpApp
from slo_exporter.ingest.otlp.receiver import Receiver

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]

PATH = "/v1/traces"
PROTOBUF = {"content-type": "application/x-protobuf"}
IN_JSON = {"content-type": "application/json"}
GZIP = PROTOBUF | {"content-encoding": "gzip"}
INVALID = Path(__file__).parent / "cases/otlp_invalid"
HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"


@asynccontextmanager
async def client(
    receiver: Receiver, max_bytes: int = 16 * MIB, *, body_timeout_s: float = SOON_S
) -> AsyncIterator[httpx2.AsyncClient]:
    """Serve *receiver* and make a client for it."""
    async with (
        http_on(receiver, max_bytes, body_timeout_s=body_timeout_s) as port,
        httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=SOON_S, trust_env=False) as http,
    ):
        yield http


@asynccontextmanager
async def raw(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Open a socket, for what no client would send."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(SOON_S):
            yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Read one response from a socket: status, headers, body."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


def with_length(body: bytes) -> bytes:
    """Write a whole request."""
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def test_a_valid_export_is_answered_h01(span: SpanOf, export_body: BodyOf) -> None:
    """200 with an ExportTraceServiceResponse; nothing tells who serves."""
    sink = RecordingSink()
    with receiver_on(sink) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=export_body(span()), headers=PROTOBUF)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == "application/x-protobuf"
    assert "server" not in response.headers
    assert len(sink.exports) == 1


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
async def test_the_sdk_exports_h01_h08_c06(compression: Compression) -> None:
    """The real Python exporter succeeds, plain and gzip."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    spans = [tracer.start_span("work", start_time=NOON_NS - 2 * SECOND_NS) for _ in range(100)]
    for one in spans:
        one.end(NOON_NS - SECOND_NS)
    with receiver_on(RecordingSink()) as receiver:
        async with http_on(receiver) as port:
            endpoint = f"http://127.0.0.1:{port}{PATH}"
            exporter = OTLPSpanExporter(endpoint=endpoint, compression=compression, timeout=SOON_S)
            assert await asyncio.to_thread(exporter.export, spans) == SpanExportResult.SUCCESS
            exporter.shutdown()
    assert receiver.counts.spans.total() == 100


async def test_refused_spans_come_back_as_partial_success_c04(span: SpanOf, export_body: BodyOf) -> None:
    """200 all the same: the client must not send them again."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=export_body(span(span_id=bytes(8))), headers=PROTOBUF)
    assert response.status_code == 200
    assert ExportTraceServiceResponse.FromString(response.content).partial_success.rejected_spans == 1


@pytest.mark.parametrize("media_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
async def test_json_is_answered_in_json_h02_h03(media_type: str) -> None:
    """The same export as in protobuf; its parameters do not matter."""
    sink = RecordingSink()
    with receiver_on(sink) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=json_body(), headers={"content-type": media_type})
    assert (response.status_code, response.content) == (200, b"{}")
    assert response.headers["content-type"] == "application/json"
    assert sink.exports[0].results["unmatched"] == 1
    assert receiver.counts.exports == {("http", "accepted"): 1}


def json_body(*spans: dict[str, object]) -> bytes:
    """Write an export of *spans* over a valid one each, or of one."""
    valid = {"traceId": "1" * 32, "spanId": "2" * 16, "endTimeUnixNano": str(NOON_NS - SECOND_NS)}
    written = [valid | one for one in spans or ({},)]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": written}]}]}).encode()


async def test_refused_spans_come_back_as_partial_success_in_json_c04() -> None:
    """A 64-bit integer is a string in JSON."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            body = json_body({}, {"spanId": "0" * 16}, {"traceId": "abc"})
            response = await http.post(PATH, content=body, headers=IN_JSON)
    partial = response.json()["partialSuccess"]
    assert (response.status_code, partial["rejectedSpans"]) == (200, "2")
    assert partial["errorMessage"].startswith("refused 2 of 3 spans: 1 bad_trace_id")
    assert receiver.counts.refused_spans == {("zero_span_id",): 1, ("bad_trace_id",): 1}


async def test_unusual_spelling_is_accepted_counted_and_told_c05() -> None:
    """No span is rejected, and the operator of the exporter hears what is odd."""
    go_style = [{"key": "k", "value": {"Value": {"StringValue": "x"}}}]
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            body = json_body({"trace_id": "1" * 32, "attributes": go_style}, {"startTimeUnixNano": NOON_NS})
            response = await http.post(PATH, content=body, headers=IN_JSON)
    told = "accepted with a doubt: 1 go_style_value, 1 negative_duration, 1 snake_case"
    assert response.json() == {"partialSuccess": {"errorMessage": told}}
    assert receiver.counts.flagged_spans == {("go_style_value",): 1, ("negative_duration",): 1, ("snake_case",): 1}


async def test_an_empty_body_is_protobuf_and_no_json_c02() -> None:
    """Nothing is an export of nothing in protobuf only."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            answers = [await http.post(PATH, content=b"", headers=headers) for headers in (PROTOBUF, IN_JSON)]
    assert [answer.status_code for answer in answers] == [200, 400]


async def test_gzip_json_is_read_h08() -> None:
    """The receipt is of what was decompressed."""
    sink, body = RecordingSink(), json_body()
    with receiver_on(sink) as receiver:
        async with client(receiver) as http:
            headers = IN_JSON | {"content-encoding": "gzip"}
            response = await http.post(PATH, content=gzip.compress(body), headers=headers)
    assert response.status_code == 200
    assert sink.exports[0].digest == blake2b(body, digest_size=16).digest()


async def test_malformed_json_is_answered_in_json_h07() -> None:
    """400 with a google.rpc.Status that says what and where."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=json_body({"traceId": "7xnr1Uz8=="}), headers=IN_JSON)
    status = json_format.Parse(response.content, Status())
    assert (response.status_code, response.headers["content-type"]) == (400, "application/json")
    assert status.code == code_pb2.INVALID_ARGUMENT
    where = "resource_spans[0].scope_spans[0].spans[0].traceId"
    assert status.message == f"{where}: ids are hex in OTLP/JSON: 32 and 16 digits"


EXPECTED = json.loads((INVALID / "EXPECTED.json").read_text())
STATUS_OF = {
    "deep_nesting.json": 400,
    "truncated.json": 400,
    "enum_string.json": 200,
    "array_top_level.json": 400,
    "bad_int64.json": 400,
    "zero_trace_id.json": 200,
    "pre_0_15_instrumentation_library.json": 200,
    "null_lists.json": 200,
    "base64_ids.json": 400,
    "empty_body.json": 400,
}
"""What each case is answered: the choice of ours where EXPECTED.json leaves one."""


@pytest.mark.parametrize("name", EXPECTED)
async def test_the_cases_of_odd_json_are_answered_as_expected(name: str) -> None:
    """An error is a Status in JSON; a refused span is told."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=(INVALID / name).read_bytes(), headers=IN_JSON)
    assert response.status_code == STATUS_OF[name]
    assert str(STATUS_OF[name]) in EXPECTED[name]["http"]
    if response.status_code == 400:
        assert response.json()["code"] == code_pb2.INVALID_ARGUMENT
    if name == "zero_trace_id.json":
        assert response.json()["partialSuccess"]["rejectedSpans"] == "1"
    if name.startswith("pre_0_15"):
        assert receiver.counts.flagged_spans == {("legacy_library_spans",): 1}


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_other_content_types_are_unsupported_h04(media_type: str) -> None:
    """415 says which types are read."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=b"x", headers={"content-type": media_type} if media_type else {})
    assert response.status_code == 415
    assert response.headers["accept"] == "application/x-protobuf, application/json"
    assert "accept-encoding" not in response.headers


@pytest.mark.parametrize("media_type", ["application/x-protobuf; charset=utf-8", "Application/X-Protobuf ;v=1"])
async def test_parameters_and_case_of_the_type_do_not_matter_h04(media_type: str) -> None:
    """Clients write it in many ways."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=b"", headers={"content-type": media_type})
    assert response.status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "DELETE", "OPTIONS"])
async def test_other_methods_are_not_allowed_h05(method: str) -> None:
    """405 names the one that is."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.request(method, PATH)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert receiver.counts.exports == {("http", "unsupported"): 1}


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/", "the endpoint lacks its path"),
        ("/v1/metrics", "only traces are taken here"),
        ("/v1/logs", "only traces are taken here"),
        ("/otlp/v1/traces", "nothing is served at this path"),
        ("/%C3%A4/%ff", "nothing is served at this path"),
    ],
)
async def test_unknown_paths_are_told_the_right_one_h06(path: str, hint: str) -> None:
    """404 with help, as a Status to a protobuf client."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(path, content=b"", headers=PROTOBUF)
    status = Status.FromString(response.content)
    assert (response.status_code, status.code) == (404, code_pb2.NOT_FOUND)
    assert hint in status.message
    assert PATH in status.message
    assert receiver.counts.exports == {("http", "unsupported"): 1}


async def test_a_missing_path_is_logged_once_h18() -> None:
    """Clients hide the answer, so the operator hears it from us: once."""
    with receiver_on(RecordingSink()) as receiver, capture_logs() as logs:
        async with client(receiver) as http:
            for _ in range(3):
                await http.post("/", content=b"", headers=PROTOBUF)
    assert [line["event"] for line in logs] == ["otlp_http_path_missing"]


async def test_a_malformed_body_is_answered_in_the_requests_encoding_h07() -> None:
    """400 with a google.rpc.Status in protobuf, code INVALID_ARGUMENT."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=b"\xff\xff", headers=PROTOBUF)
    status = Status.FromString(response.content)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/x-protobuf"
    assert status.code == code_pb2.INVALID_ARGUMENT
    assert status.details[0].type_url.endswith("google.rpc.BadRequest")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip", "identity", "Identity", ""])
async def test_gzip_and_identity_in_any_case_h08(encoding: str, span: SpanOf, export_body: BodyOf) -> None:
    """Content codings are case-insensitive."""
    sink, body = RecordingSink(), export_body(span())
    sent = gzip.compress(body) if "gzip" in encoding.lower() else body
    with receiver_on(sink) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=sent, headers=PROTOBUF | {"content-encoding": encoding})
    assert response.status_code == 200
    assert sink.exports[0].digest == blake2b(body, digest_size=16).digest()


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip"])
async def test_other_encodings_are_unsupported_h09(encoding: str) -> None:
    """415 names the one that is read."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=b"x", headers=PROTOBUF | {"content-encoding": encoding})
    assert response.status_code == 415
    assert response.headers["accept-encoding"] == "gzip"
    assert encoding in Status.FromString(response.content).message


@pytest.mark.parametrize(
    "body", [b"plain", gzip.compress(b"text")[:-3], gzip.compress(b"") + b"x"], ids=["no gzip", "truncated", "trailing"]
)
async def test_damaged_gzip_is_malformed_h10(body: bytes) -> None:
    """400: sending it again is no use."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=body, headers=GZIP)
    assert response.status_code == 400
    assert "gzip" in Status.FromString(response.content).message


async def test_gzip_members_are_one_body_h10(span: SpanOf, export_body: BodyOf) -> None:
    """Nothing is cut off silently."""
    sink, body = RecordingSink(), export_body(span(), span())
    with receiver_on(sink) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=gzip.compress(body[:9]) + gzip.compress(body[9:]), headers=GZIP)
    assert response.status_code == 200
    assert sink.exports[0].digest == blake2b(body, digest_size=16).digest()


async def test_the_limit_is_exact_h11(span: SpanOf, export_body: BodyOf) -> None:
    """A body of the limit passes, one more byte is too large."""
    body = export_body(span())
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver, len(body)) as http:
            fitting = await http.post(PATH, content=body, headers=PROTOBUF)
            larger = await http.post(PATH, content=body + b"\0", headers=PROTOBUF)
    assert (fitting.status_code, larger.status_code) == (200, 413)
    assert Status.FromString(larger.content).code == code_pb2.RESOURCE_EXHAUSTED
    assert "retry-after" not in larger.headers


async def test_a_declared_size_over_the_limit_is_refused_before_the_body_h11() -> None:
    """413 comes while the client still waits to send; the connection then serves the next request."""
    with receiver_on(RecordingSink()) as receiver:
        async with http_on(receiver, MIB) as port, raw(port) as (reader, writer):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % (MIB + 1))
            status, _, _ = await answer(reader)
            assert status == 413
            writer.write(bytes(MIB + 1) + with_length(b""))
            status, _, _ = await answer(reader)
            assert status == 200


async def test_a_chunked_body_is_cut_at_the_limit_h11() -> None:
    """A body that never says its size is counted while it is read."""
    chunk = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    with receiver_on(RecordingSink()) as receiver:
        async with http_on(receiver, MIB) as port, raw(port) as (reader, writer):
            writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 17)
            status, _, _ = await answer(reader)
        assert receiver.in_flight.held == 0
    assert status == 413
    assert receiver.counts.exports == {("http", "too_large"): 1}


async def test_a_length_that_lies_short_is_no_second_request_h11() -> None:
    """Bytes beyond the declared length are neither body nor request: 400 and closed."""
    with receiver_on(RecordingSink()) as receiver:
        async with http_on(receiver) as port, raw(port) as (reader, writer):
            writer.write(HEAD + b"Content-Length: 0\r\n\r\n\xff\xff\r\n\r\n")
            status, headers, _ = await answer(reader)
            assert await reader.read() == b""
    assert (status, headers["connection"]) == (400, "close")


async def test_a_bomb_over_http_is_too_large_h12() -> None:
    """The process grows by about the limit and answers 413."""
    packer = zlib.compressobj(wbits=31)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(256)) + packer.flush()
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver, 4 * MIB) as http:
            tracemalloc.start()
            try:
                response = await http.post(PATH, content=bomb, headers=GZIP)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert response.status_code == 413
    assert peak < 8 * MIB


async def test_a_refused_export_is_to_be_repeated_h13(span: SpanOf, export_body: BodyOf) -> None:
    """503 with whole seconds, at least one."""
    sink = RecordingSink(RefusedError("database", 1.2))
    with receiver_on(sink) as receiver:
        async with client(receiver) as http:
            later = await http.post(PATH, content=export_body(span()), headers=PROTOBUF)
            sink.error = RefusedError("draining", 0.01)
            soon = await http.post(PATH, content=export_body(span()), headers=PROTOBUF)
    assert (later.status_code, soon.status_code) == (503, 503)
    assert (later.headers["retry-after"], soon.headers["retry-after"]) == ("2", "1")
    assert Status.FromString(later.content).code == code_pb2.UNAVAILABLE
    assert receiver.counts.refused_exports == {("http", "database"): 1, ("http", "draining"): 1}


async def test_overload_is_refused_while_the_body_is_read_h13() -> None:
    """Bodies being read take room too."""
    with receiver_on(RecordingSink(), in_flight_bytes=100) as receiver:
        async with client(receiver) as http:
            response = await http.post(PATH, content=bytes(101), headers=PROTOBUF)
    assert response.status_code == 503
    assert receiver.counts.refused_exports == {("http", "overloaded"): 1}
    assert receiver.in_flight.held == 0


async def test_a_bug_is_500_and_kills_nothing_h14(span: SpanOf, export_body: BodyOf) -> None:
    """The client learns no detail; the log says it once."""
    with receiver_on(RecordingSink(), reader=BrokenReader()) as receiver, capture_logs() as logs:
        async with client(receiver) as http:
            responses = [await http.post(PATH, content=export_body(span()), headers=PROTOBUF) for _ in range(2)]
    assert [response.status_code for response in responses] == [500, 500]
    assert b"bytes at" not in responses[0].content
    assert receiver.counts.exports == {("http", "failed"): 2}
    assert len(logs) == 1


async def test_pipelined_exports_are_answered_in_order_h15(span: SpanOf, export_body: BodyOf) -> None:
    """Three requests in one write, three answers on the same connection."""
    sink = RecordingSink()
    with receiver_on(sink) as receiver:
        async with http_on(receiver) as port, raw(port) as (reader, writer):
            writer.write(with_length(export_body(span())) + with_length(b"\xff") + with_length(export_body(span())))
            statuses = [(await answer(reader))[0] for _ in range(3)]
    assert statuses == [200, 400, 200]
    assert len(sink.exports) == 2


async def test_a_late_body_is_given_up_h15() -> None:
    """408, and the connection is closed."""
    with receiver_on(RecordingSink()) as receiver:
        async with http_on(receiver, body_timeout_s=0.2) as port, raw(port) as (reader, writer):
            writer.write(HEAD + b"Content-Length: 100\r\n\r\nabc")
            status, headers, _ = await answer(reader)
            assert await reader.read() == b""
        assert receiver.in_flight.held == 0
    assert (status, headers["connection"]) == (408, "close")
    assert receiver.counts.exports == {("http", "timeout"): 1}


async def test_a_client_that_leaves_is_quiet_h15(caplog: pytest.LogCaptureFixture) -> None:
    """Its bytes are released, and nothing is logged or counted."""
    with receiver_on(RecordingSink()) as receiver:
        async with http_on(receiver) as port:
            async with raw(port) as (_, writer):
                writer.write(HEAD + b"Content-Length: 100\r\n\r\nabc")
                await until(lambda: receiver.in_flight.held == 3)
            await until(lambda: receiver.in_flight.held == 0)
    assert not receiver.counts.exports
    assert not caplog.records


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    async with asyncio.timeout(SOON_S):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("media_type", [b"application/x-protobuf", b"application/json"])
async def test_a_client_may_ask_before_it_sends_h17(media_type: bytes) -> None:
    """100 Continue comes for what will be read, and not for what will not."""
    head = HEAD.replace(b"application/x-protobuf", media_type) + b"Expect: 100-continue\r\n"
    with receiver_on(RecordingSink()) as receiver:
        async with http_on(receiver, MIB) as port, raw(port) as (reader, writer):
            writer.write(head + b"Content-Length: 1\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"\xff" + head + b"Content-Length: 9999999\r\n\r\n")
            assert [(await answer(reader))[0] for _ in range(2)] == [400, 413]


async def test_exports_are_received_in_parallel_c14(span: SpanOf, export_body: BodyOf) -> None:
    """One that waits for its commit holds up no other connection."""
    sink = RecordingSink(gated=True)
    with receiver_on(sink) as receiver:
        async with client(receiver) as http, asyncio.TaskGroup() as group:
            posts = [
                group.create_task(http.post(PATH, content=export_body(span()), headers=PROTOBUF)) for _ in range(20)
            ]
            await sink.entered(20)
            sink.gate.set()
    assert {post.result().status_code for post in posts} == {200}


async def test_stopping_finishes_what_is_under_way_c15(span: SpanOf, export_body: BodyOf) -> None:
    """An export inside gets its answer; the next finds the door closed."""
    sink = RecordingSink(gated=True)
    with receiver_on(sink) as receiver:
        server = HttpServer(OtlpHttpApp(receiver, MIB), "127.0.0.1", 0)
        port = await server.start()
        async with raw(port) as (reader, writer):
            writer.write(with_length(export_body(span())))
            await sink.entered()
            stopping = asyncio.create_task(server.stop(SOON_S))
            asyncio.get_running_loop().call_later(0.2, sink.gate.set)
            status, headers, _ = await answer(reader)
            await stopping
    assert refuses(port)
    assert (status, headers["connection"]) == (200, "close")
    assert len(sink.exports) == 1


def refuses(port: int) -> bool:
    """Try to connect."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_errors_are_json_to_everyone_else() -> None:
    """A person with curl can read why."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as http:
            response = await http.get(PATH)
    status = json_format.Parse(response.content, Status())
    assert status.code == code_pb2.UNIMPLEMENTED
    assert "POST" in status.message
