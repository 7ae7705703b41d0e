"""The OTLP/gRPC receiver, by the rules of its conformance list."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import pytest
from builders import NOON_NS
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanKind
from receiving import MIB, SOON_S, BrokenReader, RecordingSink, grpc_on, receiver_on
from structlog.testing import capture_logs

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.errors import RefusedError
from slo_exporter.ingest.otlp.grpc_server import GrpcServer, Patience
from slo_exporter.ingest.otlp.receiver import Receiver

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
Export = Callable[..., grpc.aio.UnaryUnaryCall]

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@asynccontextmanager
async def client(receiver: Receiver, *, max_bytes: int = 16 * MIB, **options: int) -> AsyncIterator[Export]:
    """Serve *receiver* and call it with raw bytes; keywords are channel options."""
    settings = [(name.replace("__", "."), value) for name, value in options.items()]
    async with grpc_on(receiver, max_bytes) as address, grpc.aio.insecure_channel(address, options=settings) as channel:
        yield channel.unary_unary(METHOD)


async def error_of(call: grpc.aio.UnaryUnaryCall) -> grpc.aio.AioRpcError:
    """Wait for a call to fail."""
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value


def status_of(error: grpc.aio.AioRpcError) -> Status:
    """Read the details that an error carries."""
    return Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])


def sdk_spans(count: int) -> list[ReadableSpan]:
    """Make spans with the real SDK, ended a second ago."""
    tracer = TracerProvider(resource=Resource({"service.name": "chat"}), shutdown_on_exit=False).get_tracer("test")
    http = {"http.request.method": "POST", "http.route": "/chat", "http.response.status_code": 200}
    started = {"kind": SpanKind.SERVER, "attributes": http, "start_time": NOON_NS - 2 * SECOND_NS}
    spans = [tracer.start_span("POST /chat", **started) for _ in range(count)]
    for span in spans:
        span.end(NOON_NS - SECOND_NS)
    return spans


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104 - all interfaces is a case
async def test_the_address_is_the_configured_one_c01(host: str) -> None:
    """An address, a name and all interfaces are served alike."""
    with receiver_on(RecordingSink()) as receiver:
        server = GrpcServer(receiver, f"{host}:0", MIB)
        port = await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await channel.unary_unary(METHOD)(b"", timeout=SOON_S) == b""
        await server.stop(0)


async def test_a_valid_export_is_answered_empty_g01(span: SpanOf, export_body: BodyOf) -> None:
    """OK and no partial success."""
    sink = RecordingSink()
    with receiver_on(sink) as receiver:
        async with client(receiver) as export:
            assert await export(export_body(span())) == b""
    assert len(sink.exports) == 1


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_the_sdk_exports_g01_g02_c06(compression: grpc.Compression) -> None:
    """The real Python exporter succeeds, plain and gzip."""
    sink = RecordingSink()
    with receiver_on(sink) as receiver:
        async with grpc_on(receiver) as address:
            exporter = OTLPSpanExporter(endpoint=address, insecure=True, compression=compression, timeout=SOON_S)
            assert await asyncio.to_thread(exporter.export, sdk_spans(100)) == SpanExportResult.SUCCESS
            exporter.shutdown()
    assert receiver.counts.spans.total() == 100
    assert sink.exports[0].requests.service.at(0) == "chat"


async def test_refused_spans_come_back_as_partial_success_c04(span: SpanOf, export_body: BodyOf) -> None:
    """OK all the same: the client must not send them again."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as export:
            answer = ExportTraceServiceResponse.FromString(await export(export_body(span(span_id=bytes(8)))))
    assert answer.partial_success.rejected_spans == 1


async def test_an_unknown_compressor_is_unimplemented_g03() -> None:
    """Grpc core refuses what it cannot unpack, with a code that is not retried, and goes on."""
    with receiver_on(RecordingSink()) as receiver:
        async with grpc_on(receiver) as address:
            code = await grpc_message_status(address, encoding=b"snappy")
            async with grpc.aio.insecure_channel(address) as channel:
                assert await channel.unary_unary(METHOD)(b"") == b""
    # UNIMPLEMENTED for a codec that core knows but has switched off, else INTERNAL.
    assert int(code) in {12, 13}


async def grpc_message_status(address: str, encoding: bytes) -> bytes:
    """Send one compressed message over HTTP/2 by hand; return its grpc-status."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    headers = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", METHOD.encode()),
        (b":authority", address.encode()),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"grpc-encoding", encoding),
    ]
    # HPACK literals without indexing: no table is needed to write them.
    block = b"".join(b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in headers)
    frames = frame(4, 0, 0, b"") + frame(1, 4, 1, block) + frame(0, 1, 1, b"\1\0\0\0\3abc")
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frames)
    async with asyncio.timeout(SOON_S):
        while True:
            head = await reader.readexactly(9)
            payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] == 1 and b"grpc-status" in payload:
                writer.close()
                _, _, rest = payload.partition(b"grpc-status")
                return rest[1 : 1 + rest[0]]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Write one HTTP/2 frame."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


async def test_a_message_over_the_limit_is_dropped_g04() -> None:
    """RESOURCE_EXHAUSTED without RetryInfo: it would be as large the next time."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver, max_bytes=MIB) as export:
            error = await error_of(export(bytes(MIB + 1)))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "google.rpc.retryinfo-bin" not in dict(error.trailing_metadata())


async def test_a_gzip_bomb_is_dropped_g05() -> None:
    """The limit holds after decompression."""
    with receiver_on(RecordingSink()) as receiver:
        async with (
            grpc_on(receiver, MIB) as address,
            grpc.aio.insecure_channel(address, compression=grpc.Compression.Gzip) as channel,
        ):
            error = await error_of(channel.unary_unary(METHOD)(bytes(64 * MIB)))
    assert len(zlib.compress(bytes(64 * MIB))) < MIB
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert receiver.in_flight.held == 0


@pytest.mark.parametrize(
    "body", [b"\xff\xff", b"\x0a\x05abc", b"\x0a\x03\x1a\x01\xff"], ids=["no protobuf", "cut off", "no UTF-8"]
)
async def test_malformed_bytes_are_the_clients_fault_g06_g08_g13(body: bytes) -> None:
    """INVALID_ARGUMENT with BadRequest; without RetryInfo, however often it comes."""
    with receiver_on(RecordingSink()) as receiver:
        async with client(receiver) as export:
            error = await error_of(export(body))
            again = await error_of(export(body))
    status = status_of(error)
    detail = BadRequest()
    assert error.code() is again.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert status.details[0].Unpack(detail)
    assert "ExportTraceServiceRequest" in detail.field_violations[0].description
    assert "google.rpc.retryinfo-bin" not in dict(error.trailing_metadata())


async def test_a_refused_export_is_to_be_repeated_g07(span: SpanOf, export_body: BodyOf) -> None:
    """UNAVAILABLE says when, in both places where clients look."""
    with receiver_on(RecordingSink(RefusedError("database", 1.5))) as receiver:
        async with client(receiver) as export:
            error = await error_of(export(export_body(span())))
    from_status, from_metadata = RetryInfo(), RetryInfo()
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "database" in str(error.details())
    assert status_of(error).details[0].Unpack(from_status)
    from_metadata.ParseFromString(dict(error.trailing_metadata())["google.rpc.retryinfo-bin"])
    assert from_status == from_metadata
    assert from_status.retry_delay.ToMilliseconds() == 1500


async def test_overload_is_unavailable_g07(span: SpanOf, export_body: BodyOf) -> None:
    """Never RESOURCE_EXHAUSTED: clients drop on it."""
    with receiver_on(RecordingSink(), in_flight_bytes=10) as receiver:
        async with client(receiver) as export:
            error = await error_of(export(export_body(span())))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


async def test_the_sdk_repeats_a_refused_export_g07() -> None:
    """The real exporter comes again after the delay that it is told."""
    sink = RecordingSink(RefusedError("starting", 0.01))
    with receiver_on(sink) as receiver:
        async with grpc_on(receiver) as address:
            exporter = OTLPSpanExporter(endpoint=address, insecure=True, timeout=SOON_S)
            exporting = asyncio.create_task(asyncio.to_thread(exporter.export, sdk_spans(1)))
            await sink.entered(2)
            sink.error = None
            assert await exporting == SpanExportResult.SUCCESS
            exporter.shutdown()
    assert receiver.counts.exports["grpc", "accepted"] == 1


@pytest.mark.parametrize("signal", ["metrics.v1.MetricsService", "logs.v1.LogsService"])
async def test_other_signals_are_unimplemented_g09(signal: str) -> None:
    """Exporters switch off a signal that is not offered."""
    with receiver_on(RecordingSink()) as receiver:
        async with grpc_on(receiver) as address, grpc.aio.insecure_channel(address) as channel:
            method = channel.unary_unary(f"/opentelemetry.proto.collector.{signal}/Export")
            error = await error_of(method(b""))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_short_deadline_still_counts_the_export_g10(span: SpanOf, export_body: BodyOf) -> None:
    """The client sees DEADLINE_EXCEEDED; the export is kept, and its retry is a duplicate."""
    sink, body = RecordingSink(gated=True), export_body(span())
    with receiver_on(sink) as receiver:
        async with client(receiver) as export:
            error = await error_of(export(body, timeout=0.2))
            assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            sink.gate.set()
            assert await export(body) == b""
    first, second = sink.exports
    assert first.digest == second.digest
    assert receiver.in_flight.held == 0


async def test_many_streams_and_pings_are_welcome_g11(span: SpanOf, export_body: BodyOf) -> None:
    """A hundred exports at once on a channel that pings all the time."""
    sink = RecordingSink(gated=True)
    pings = {
        "grpc__keepalive_time_ms": 10,
        "grpc__keepalive_permit_without_calls": 1,
        "grpc__http2__max_pings_without_data": 0,
    }
    with receiver_on(sink) as receiver:
        async with client(receiver, **pings) as export:
            calls = [export(export_body(span()), timeout=SOON_S) for _ in range(100)]
            waiting = [asyncio.ensure_future(call.code()) for call in calls]
            await sink.entered(100)
            sink.gate.set()
            assert set(await asyncio.gather(*waiting)) == {grpc.StatusCode.OK}
    assert len(sink.exports) == 100


async def test_a_bug_is_internal_and_kills_nothing(span: SpanOf, export_body: BodyOf) -> None:
    """The client learns no detail; the next export is served."""
    with receiver_on(RecordingSink(), reader=BrokenReader()) as receiver, capture_logs() as logs:
        async with client(receiver) as export:
            errors = [await error_of(export(export_body(span()))) for _ in range(2)]
    assert {error.code() for error in errors} == {grpc.StatusCode.INTERNAL}
    assert "bytes at" not in str(errors[0].details())
    assert receiver.counts.exports == {("grpc", "failed"): 2}
    assert len(logs) == 1


async def test_stopping_finishes_what_is_under_way_c15(span: SpanOf, export_body: BodyOf) -> None:
    """An export inside gets its answer; the next finds the door closed."""
    sink = RecordingSink(gated=True)
    with receiver_on(sink) as receiver:
        server = GrpcServer(receiver, "127.0.0.1:0", MIB)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{await server.start()}") as channel:
            export = channel.unary_unary(METHOD)
            inside = export(export_body(span()))
            await sink.entered()
            stopping = asyncio.create_task(server.stop(SOON_S))
            late = await error_of(export(export_body(span()), timeout=SOON_S))
            sink.gate.set()
            assert await inside == b""
            await stopping
    # Clients repeat both; which one it is depends on when the news reach the channel.
    assert late.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert len(sink.exports) == 1


async def test_stopping_waits_no_longer_than_its_grace_c15(span: SpanOf, export_body: BodyOf) -> None:
    """An export that hangs does not hold up the end."""
    sink = RecordingSink(gated=True)
    with receiver_on(sink) as receiver:
        server = GrpcServer(receiver, "127.0.0.1:0", MIB)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{await server.start()}") as channel:
            inside = channel.unary_unary(METHOD)(export_body(span()))
            await sink.entered()
            await server.stop(0.1)
            assert (await error_of(inside)).code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}
        sink.gate.set()
        await sink.settled()


async def test_a_second_server_cannot_share_the_port() -> None:
    """The error names the address, and stopping what never started is fine."""
    with receiver_on(RecordingSink()) as receiver:
        async with grpc_on(receiver) as address:
            second = GrpcServer(receiver, address, MIB)
            with pytest.raises(OSError, match=f"cannot listen on {address}"):
                await second.start()
            await second.stop(0)
        await GrpcServer(receiver, "127.0.0.1:0", MIB).stop(0)


async def test_a_silent_connection_is_closed() -> None:
    """Whoever does not speak HTTP/2 in time is sent away."""
    with receiver_on(RecordingSink()) as receiver:
        server = GrpcServer(receiver, "127.0.0.1:0", MIB, Patience(handshake_s=0.2))
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        async with asyncio.timeout(SOON_S):
            while await reader.read(100):
                pass
        writer.close()
        await server.stop(0)


def literal(name: str, value: str) -> bytes:
    """A header of HTTP/2 that neither table knows (RFC 7541, 6.2.2)."""
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


async def test_a_message_that_never_becomes_whole_is_dropped_with_its_connection() -> None:
    """The age of a connection is the only bound that grpc has for it."""
    path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    names = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x", "content-type": "application/grpc"}
    headers = b"".join(literal(name, value) for name, value in names.items())
    half = b"\0" + (1000).to_bytes(4) + bytes(500)
    with receiver_on(RecordingSink()) as receiver:
        server = GrpcServer(receiver, "127.0.0.1:0", MIB, Patience(age_s=0.2, grace_s=0.2))
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.start())
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        writer.write(frame(1, 4, 1, headers) + frame(0, 0, 1, half))

        async with asyncio.timeout(SOON_S):
            await reader.read()

        writer.close()
        await server.stop(0)
    assert receiver.counts.exports.total() == 0
