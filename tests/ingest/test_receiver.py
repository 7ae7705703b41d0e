"""One export through a receiver: kept, counted, answered, whichever protocol brought it."""

import asyncio
import gc
import gzip
import json
import tracemalloc
from collections import Counter
from collections.abc import Callable

import pytest
from builders import NOON_NS
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import MIB, BrokenReader, RecordingSink, SlowReader, receiver_on
from structlog.testing import capture_logs

from slo_exporter.ingest.otlp.errors import FailedError, MalformedError, RefusedError, TooLargeError
from slo_exporter.ingest.otlp.in_flight import InFlight
from slo_exporter.ingest.otlp.refusals import REASONS

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


def told(answer: bytes) -> ExportTraceServiceResponse:
    """Parse an answer."""
    return ExportTraceServiceResponse.FromString(answer)


async def test_the_empty_request_succeeds_c02() -> None:
    """Nothing is a valid export of nothing."""
    with receiver_on(RecordingSink()) as receiver:
        assert await receiver.receive(b"", "grpc") == b""
    assert receiver.counts.exports == {("grpc", "accepted"): 1}


async def test_full_success_leaves_partial_success_unset_c03(span: SpanOf, export_body: BodyOf) -> None:
    """A client sees no partial success where there is none."""
    sink = RecordingSink()
    with receiver_on(sink) as receiver:
        answer = await receiver.receive(export_body(span(), span()), "grpc")
    assert not told(answer).HasField("partial_success")
    assert sink.exports[0].received_ns == NOON_NS
    assert receiver.counts.spans.total() == 2


async def test_refused_spans_are_told_and_the_rest_is_kept_c04(span: SpanOf, export_body: BodyOf) -> None:
    """One bad span costs itself only."""
    sink = RecordingSink()
    body = export_body(span(), span(trace_id=bytes(16)), span(end_time_unix_nano=0))
    with receiver_on(sink) as receiver:
        partial = told(await receiver.receive(body, "http")).partial_success
    assert partial.rejected_spans == 2
    assert partial.error_message.startswith("refused 2 of 3 spans")
    assert len(sink.exports) == 1
    assert receiver.counts.refused_spans == {("zero_trace_id",): 1, ("no_end_time",): 1}
    assert receiver.counts.exports == {("http", "accepted"): 1}


async def test_accepted_with_a_doubt_is_a_message_without_rejections_c05(span: SpanOf, export_body: BodyOf) -> None:
    """A span that ends before it starts is counted, and the client is told."""
    body = export_body(span(start_time_unix_nano=NOON_NS))
    with receiver_on(RecordingSink()) as receiver:
        partial = told(await receiver.receive(body, "grpc")).partial_success
    assert partial.rejected_spans == 0
    assert partial.error_message == "accepted with a doubt: 1 negative_duration"
    assert receiver.counts.flagged_spans == {("negative_duration",): 1}


async def test_identity_and_gzip_read_the_same_c06(span: SpanOf, export_body: BodyOf) -> None:
    """The digest is of what was decompressed, whatever travelled."""
    sink, body = RecordingSink(), export_body(span())
    with receiver_on(sink) as receiver:
        await receiver.receive(body, "http")
        await receiver.receive(gzip.compress(body), "http", gzip_limit=MIB)
    plain, unpacked = sink.exports
    assert plain.digest == unpacked.digest


async def test_the_limit_applies_after_decompression_c07() -> None:
    """A small body that becomes large is too large."""
    with receiver_on(RecordingSink()) as receiver, pytest.raises(TooLargeError):
        await receiver.receive(gzip.compress(bytes(MIB + 1)), "http", gzip_limit=MIB)
    assert receiver.counts.exports == {("http", "too_large"): 1}
    assert receiver.in_flight.held == 0


async def test_an_answer_stays_small_c08(span: SpanOf, export_body: BodyOf) -> None:
    """Many refused spans of many kinds make a short answer all the same."""
    faults = ({"trace_id": b"x"}, {"span_id": b"x"}, {"parent_span_id": b"x"}, {"end_time_unix_nano": 1})
    body = export_body(*(span(**fault) for fault in faults for _ in range(2000)))
    with receiver_on(RecordingSink()) as receiver:
        answer = await receiver.receive(body, "grpc")
    assert told(answer).partial_success.rejected_spans == 8000
    assert len(answer) < 1024 * len(REASONS) < 4 * MIB


async def test_a_repeated_body_is_the_same_export_c09(span: SpanOf, export_body: BodyOf) -> None:
    """The sink knows a retry by its digest, compressed or not."""
    sink, body, other = RecordingSink(), export_body(span()), export_body(span())
    with receiver_on(sink) as receiver:
        for _ in range(2):
            await receiver.receive(body, "grpc")
        await receiver.receive(gzip.compress(body), "http", gzip_limit=MIB)
        await receiver.receive(other, "grpc")
    assert Counter(Counter(export.digest for export in sink.exports).values()) == {3: 1, 1: 1}


async def test_a_repeated_body_hears_its_first_answer_c09(span: SpanOf, export_body: BodyOf) -> None:
    """Spans that were refused when the body first came are refused again, however they read now."""
    sink = RecordingSink()
    sink.refused_first = 2
    with receiver_on(sink) as receiver:
        answer = await receiver.receive(export_body(span(), span()), "grpc")
    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    assert partial.rejected_spans == 2
    assert "came before" in partial.error_message


async def test_an_export_in_json_is_answered_in_json() -> None:
    """With success, and with what its first answer said."""
    sink = RecordingSink()
    with receiver_on(sink) as receiver:
        first = await receiver.receive(b'{"resourceSpans":[]}', "http", "json")
        sink.refused_first = 2
        again = await receiver.receive(b'{"resourceSpans":[]}', "http", "json")
    assert first == b"{}"
    assert json.loads(again)["partialSuccess"]["rejectedSpans"] == "2"


async def test_exports_are_received_in_parallel_c14(span: SpanOf, export_body: BodyOf) -> None:
    """One that waits for its commit holds up no other."""
    sink = RecordingSink(gated=True)
    with receiver_on(sink) as receiver:
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(receiver.receive(export_body(span()), "grpc"))
            await sink.entered(20)
            assert receiver.counts.exports.total() == 0
            sink.gate.set()
    assert receiver.counts.exports == {("grpc", "accepted"): 20}


async def test_a_full_house_refuses_at_once_c14(span: SpanOf, export_body: BodyOf) -> None:
    """Over the bound the next export is refused, and room comes back with answers."""
    sink, body = RecordingSink(gated=True), export_body(span())
    with receiver_on(sink, in_flight_bytes=len(body)) as receiver:
        first = asyncio.create_task(receiver.receive(body, "grpc"))
        await sink.entered()
        with pytest.raises(RefusedError, match="overloaded"):
            await receiver.receive(body, "grpc")
        sink.gate.set()
        await first
        await receiver.receive(body, "grpc")
    assert receiver.counts.exports == {("grpc", "accepted"): 2, ("grpc", "refused"): 1}
    assert receiver.counts.refused_exports == {("grpc", "overloaded"): 1}
    assert receiver.in_flight.held == 0


async def test_decompressed_bytes_take_room_too_c14() -> None:
    """A small gzip body that becomes large is held by what it becomes."""
    with receiver_on(RecordingSink(), in_flight_bytes=MIB) as receiver, pytest.raises(RefusedError):
        await receiver.receive(gzip.compress(bytes(2 * MIB)), "http", gzip_limit=4 * MIB)
    assert receiver.in_flight.held == 0


async def test_decoding_leaves_the_event_loop_free_c16(span: SpanOf, export_body: BodyOf) -> None:
    """The loop runs while a worker decodes: only the loop can let it go on."""
    reader = SlowReader()
    with receiver_on(RecordingSink(), reader=reader) as receiver:
        answer = asyncio.create_task(receiver.receive(export_body(span()), "grpc"))
        asyncio.get_running_loop().call_soon(reader.go_on.set)
        assert await answer == b""


async def test_spans_count_only_once_they_are_kept(span: SpanOf, export_body: BodyOf) -> None:
    """A refused export leaves no trace in the span counters."""
    sink = RecordingSink(RefusedError("database", 7))
    body = export_body(span(), span(trace_id=b""), span(start_time_unix_nano=NOON_NS))
    with receiver_on(sink) as receiver, pytest.raises(RefusedError, match="database"):
        await receiver.receive(body, "grpc")
    counts = receiver.counts
    assert not counts.spans + counts.refused_spans + counts.flagged_spans
    assert counts.refused_exports == {("grpc", "database"): 1}


async def test_decoded_exports_are_counted_by_decoder(span: SpanOf, export_body: BodyOf) -> None:
    """Once they are kept; what nobody could decode is not among them."""
    with receiver_on(RecordingSink()) as receiver:
        await receiver.receive(export_body(span(), span(trace_id=b"")), "grpc")
        await receiver.receive(b'{"resourceSpans":[]}', "http", "json")
        with pytest.raises(MalformedError):
            await receiver.receive(b"\xff", "http")
    assert receiver.counts.decoded == {("protobuf",): 1, ("json",): 1}


async def test_malformed_bytes_are_counted() -> None:
    """Not protobuf is the client's fault and told so."""
    with receiver_on(RecordingSink()) as receiver, pytest.raises(MalformedError):
        await receiver.receive(b"\xff", "http")
    assert receiver.counts.exports == {("http", "malformed"): 1}
    assert receiver.in_flight.held == 0


async def test_a_bug_is_logged_once_per_kind() -> None:
    """Thousands of exports that meet a bug make one log line."""
    with receiver_on(RecordingSink(), reader=BrokenReader()) as receiver, capture_logs() as logs:
        for _ in range(3):
            with pytest.raises(FailedError, match="its log says more"):
                await receiver.receive(b"", "grpc")
    assert receiver.counts.exports == {("grpc", "failed"): 3}
    assert [(line["event"], line["kind"]) for line in logs] == [("otlp_export_failed", "LookupError")]


async def test_an_export_outlives_its_impatient_client(span: SpanOf, export_body: BodyOf) -> None:
    """When the client gives up, the export is kept and counted, and its bytes held until then."""
    sink = RecordingSink(gated=True)
    with receiver_on(sink) as receiver:
        answer = asyncio.create_task(receiver.receive(export_body(span()), "grpc"))
        await sink.entered()
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        assert receiver.in_flight.held
        sink.gate.set()
        await sink.settled()
    assert receiver.counts.exports == {("grpc", "accepted"): 1}
    assert receiver.in_flight.held == 0


def test_a_lease_gives_back_all_it_took() -> None:
    """Room is exact: the last byte fits, one more does not."""
    in_flight = InFlight(10)
    with in_flight.lease(4) as lease:
        lease.grow(6)
        assert (in_flight.held, in_flight.limit) == (10, 10)
        with pytest.raises(RefusedError):
            lease.grow(1)
        lease.grow(0)
    lease.close()
    assert in_flight.held == 0


async def test_a_refused_body_does_not_stay_in_memory() -> None:
    """Neither the error nor what led to it keeps the body, in pieces or whole."""
    body = gzip.compress(b"\x0a\x04\x12\x02\x78\x01" * 700_000)
    with receiver_on(RecordingSink()) as receiver:
        gc.disable()
        try:
            tracemalloc.start()
            for _ in range(3):
                with pytest.raises(TooLargeError):
                    await receiver.receive(body, "http", gzip_limit=16 * MIB)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert held < MIB
