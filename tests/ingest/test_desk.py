"""How exports share a reading: none waits for company, and none suffers from it."""

import asyncio
import gzip
import threading
from collections.abc import Callable, Sequence

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from receiving import MIB, READER, SOON_S, RecordingSink, receiver_on
from structlog.testing import capture_logs

from slo_exporter.ingest.otlp import desk
from slo_exporter.ingest.otlp.errors import ExportError, FailedError, MalformedError
from slo_exporter.ingest.otlp.reader import Body, Reading, Turn

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


class GroupReader:
    """Tells how many bodies it reads at once; waits at the first reading, or at each of a large body."""

    def __init__(self, *, waits_from_bytes: int = 0) -> None:
        self.groups: list[int] = []
        self.go_on = threading.Event()
        self._waits_from = waits_from_bytes
        self._entered = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def read_all(self, bodies: Sequence[Body], turn: Turn) -> list[Reading | ExportError]:
        """Read; a body that holds ``bug`` brings out one of ours."""
        self.groups.append(len(bodies))
        if any(len(body.plain) >= self._waits_from for body in bodies):
            self._loop.call_soon_threadsafe(self._entered.set)
            assert self.go_on.wait(SOON_S)
        if any(b"bug" in body.plain for body in bodies):
            raise LookupError
        return READER.read_all(bodies, turn)

    async def entered(self) -> None:
        """Wait until a reading waits."""
        async with asyncio.timeout(SOON_S):
            await self._entered.wait()


async def sent_behind_another(reader: GroupReader, sink: RecordingSink, bodies: Sequence[bytes]) -> list[object]:
    """Send bodies while a first one is being read; what each was answered, or the error."""
    with receiver_on(sink, reader=reader) as receiver:
        first = asyncio.create_task(receiver.receive(b"", "grpc"))
        await reader.entered()
        sending = [asyncio.create_task(receiver.receive(body, "grpc")) for body in bodies]
        await asyncio.sleep(0)
        reader.go_on.set()
        await first
        return await asyncio.gather(*sending, return_exceptions=True)


async def test_a_lone_export_is_read_at_once_and_those_that_wait_together(span: SpanOf, export_body: BodyOf) -> None:
    """Whatever came during a reading is the next group, in order."""
    reader, sink, bodies = GroupReader(), RecordingSink(), [export_body(span()) for _ in range(5)]
    answers = await sent_behind_another(reader, sink, bodies)
    assert reader.groups == [1, 5]
    assert answers == [b""] * 5
    digests = [READER.read(body, 0).export.digest for body in bodies]
    assert [export.digest for export in sink.exports[1:]] == digests


async def test_a_group_is_bounded() -> None:
    """The first of many does not wait for the last."""
    reader = GroupReader()
    await sent_behind_another(reader, RecordingSink(), [b""] * 150)
    assert reader.groups == [1, 64, 64, 22]


async def test_a_group_of_large_bodies_is_smaller() -> None:
    """Its bytes are bounded as well: 5 MiB, and what the last one has."""
    reader = GroupReader()
    await sent_behind_another(reader, RecordingSink(), [b"\xff" * (MIB - 1)] * 14)
    assert reader.groups == [1, 6, 6, 2]


async def test_a_malformed_body_fails_alone(span: SpanOf, export_body: BodyOf) -> None:
    """Its company is kept."""
    sink = RecordingSink()
    answers = await sent_behind_another(GroupReader(), sink, [export_body(span()), b"\xff", export_body(span())])
    assert [type(answer) for answer in answers] == [bytes, MalformedError, bytes]
    assert len(sink.exports) == 3


async def test_a_bug_that_one_body_brings_out_fails_that_alone() -> None:
    """The group is read again, one by one; the bug is told once."""
    reader = GroupReader()
    with capture_logs() as logs:
        answers = await sent_behind_another(reader, RecordingSink(), [b"", b"bug", b"", b"another bug"])
    assert [type(answer) for answer in answers] == [bytes, FailedError, bytes, FailedError]
    assert reader.groups == [1, 4, 1, 1, 1, 1]
    assert [line["event"] for line in logs] == ["otlp_export_failed"]


@pytest.mark.parametrize("is_gzip", [False, True], ids=["as it is", "only once decompressed"])
async def test_nobody_waits_for_a_large_body(span: SpanOf, export_body: BodyOf, *, is_gzip: bool) -> None:
    """It is read beside the others."""
    reader = GroupReader(waits_from_bytes=MIB)
    large = export_body(span(name="x" * MIB))
    with receiver_on(RecordingSink(), reader=reader) as receiver:
        body = gzip.compress(large) if is_gzip else large
        slow = asyncio.create_task(receiver.receive(body, "http", gzip_limit=16 * MIB if is_gzip else None))
        await reader.entered()
        assert await receiver.receive(export_body(span()), "grpc") == b""
        assert not slow.done()
        reader.go_on.set()
        assert await slow == b""
    assert receiver.in_flight.held == 0


async def test_a_gzip_that_is_none_fails_alone(span: SpanOf, export_body: BodyOf) -> None:
    """Before it is read; what waits with it is read all the same."""
    reader, sink = GroupReader(), RecordingSink()
    with receiver_on(sink, reader=reader) as receiver:
        first = asyncio.create_task(receiver.receive(b"", "grpc"))
        await reader.entered()
        good = asyncio.create_task(receiver.receive(gzip.compress(export_body(span())), "http", gzip_limit=MIB))
        bad = asyncio.create_task(receiver.receive(b"no gzip", "http", gzip_limit=MIB))
        await asyncio.sleep(0)
        reader.go_on.set()
        assert await first == await good == b""
        with pytest.raises(MalformedError):
            await bad
    assert reader.groups == [1, 1]
    assert receiver.counts.exports == {("grpc", "accepted"): 1, ("http", "accepted"): 1, ("http", "malformed"): 1}


@pytest.mark.parametrize("where", ["gunzip", "Body"])
@pytest.mark.parametrize("size", [100, MIB])
async def test_what_runs_out_of_memory_is_answered_and_the_next_export_is_read(
    monkeypatch: pytest.MonkeyPatch, where: str, size: int
) -> None:
    """Wherever it does: nobody else would take what waits, and what the export held is let go."""

    def without_memory(*_: object) -> None:
        raise MemoryError

    with capture_logs(), receiver_on(RecordingSink()) as receiver:
        async with asyncio.timeout(SOON_S):
            with monkeypatch.context() as short:
                short.setattr(desk, where, without_memory)
                with pytest.raises(FailedError):
                    await receiver.receive(bytes(size), "http", gzip_limit=16 * MIB if where == "gunzip" else None)
            with pytest.raises(MalformedError):
                await receiver.receive(bytes(size), "http")
    assert receiver.in_flight.held == 0


async def test_a_lack_of_memory_while_decompressing_fails_one_export_alone(
    span: SpanOf, export_body: BodyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its company is kept."""
    decompress = desk.gunzip

    def short_of_memory(body: bytes, limit: int, grow: Callable[[int], None]) -> bytes:
        if body == b"large":
            raise MemoryError
        return decompress(body, limit, grow)

    monkeypatch.setattr(desk, "gunzip", short_of_memory)
    reader, bodies = GroupReader(), [b"large", gzip.compress(export_body(span()))]
    with capture_logs(), receiver_on(RecordingSink(), reader=reader) as receiver:
        first = asyncio.create_task(receiver.receive(b"", "grpc"))
        await reader.entered()
        sending = [asyncio.create_task(receiver.receive(body, "http", gzip_limit=MIB)) for body in bodies]
        await asyncio.sleep(0)
        reader.go_on.set()
        async with asyncio.timeout(SOON_S):
            answers = await asyncio.gather(first, *sending, return_exceptions=True)
    assert [type(answer) for answer in answers] == [bytes, FailedError, bytes]
