"""Who decodes: the compiled decoder once there is one, and the authority whenever it cannot."""

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from builders import NOON_NS

from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.decoders import AUTHORITY, Decoded, Decoders
from slo_exporter.ingest.otlp.digest import digest_of
from slo_exporter.ingest.otlp.errors import MalformedError
from slo_exporter.ingest.otlp.native.compiling import Compiled, CompilingError
from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch

LATENESS_NS = 600 * 10**9
SOON_S = 10
Result = tuple[SpanBatch, Refusals] | None


class Double:
    """Stands for the compiled decoder: reads as the authority, declines, or has bugs."""

    def __init__(self) -> None:
        self.answer: Callable[[Result], Result] = lambda found: found
        self.calls = 0

    def decode(self, body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Result:
        """Answer as a test wants it."""
        self.calls += 1
        return self.answer(decode(body, keys, now_ns=now_ns, lateness_ns=lateness_ns))

    def digests(self, bodies: Sequence[bytes]) -> list[bytes]:
        """As hashlib's."""
        return [*map(digest_of, bodies)]

    def declines(self) -> None:
        """From now on."""
        self.answer = lambda _: None

    def raises(self, error: Exception) -> None:
        """From now on."""

        def fail(_: Result) -> Result:
            raise error

        self.answer = fail


class Making:
    """A compiler that is done when a test says so."""

    def __init__(self, made: Double | Exception) -> None:
        self._made = made
        self.go_on = threading.Event()
        self.is_cancelled = False

    def make(self) -> Compiled:
        """Wait, then give or raise."""
        assert self.go_on.wait(SOON_S)
        if self.is_cancelled:
            raise CompilingError("cancelled")
        if isinstance(self._made, Exception):
            raise self._made
        return Compiled(decoder=self._made, origin="compiled", not_kept="the disk is full")

    def cancel(self) -> None:
        """Let it end."""
        self.is_cancelled = True
        self.go_on.set()


def thread_of(decoders: Decoders) -> threading.Thread:
    """Start; the thread that compiles."""
    before = set(threading.enumerate())
    decoders.start()
    (thread,) = set(threading.enumerate()) - before
    return thread


def ready(made: Double | Exception) -> Decoders:
    """Decoders whose compiled one is there, or is not to be had."""
    making = Making(made)
    decoders = Decoders(wanted=True, maker=making)
    thread = thread_of(decoders)
    making.go_on.set()
    thread.join(SOON_S)
    assert not thread.is_alive()
    return decoders


@pytest.fixture
def body(export_body: Callable[..., bytes], span: Callable[..., Any]) -> bytes:
    """An export of one span."""
    return export_body(span())


def read(decoders: Decoders, body: bytes) -> Decoded:
    """Decode at noon."""
    return decoders.decode(body, Keys(), now_ns=NOON_NS, lateness_ns=LATENESS_NS)


def test_the_authority_decodes_alone_where_nothing_else_is_wanted(body: bytes) -> None:
    """Starting and stopping change nothing."""
    decoders = Decoders()
    decoders.start()
    decoders.stop()

    assert (decoders.first, decoders.state) == ("protobuf", "off")
    assert read(decoders, body).decoder == read(AUTHORITY, body).decoder == "protobuf"


def test_the_authority_decodes_until_the_compiled_one_is_ready(body: bytes) -> None:
    """Nobody waits for it."""
    making = Making(Double())
    decoders = Decoders(wanted=True, maker=making)
    thread = thread_of(decoders)

    assert (decoders.first, decoders.state) == ("protobuf", "compiling")
    assert read(decoders, body).decoder == "protobuf"

    making.go_on.set()
    thread.join(SOON_S)
    assert (decoders.first, decoders.state) == ("compiled", "ready")
    assert read(decoders, body).decoder == "compiled"


def test_both_are_ready_is_told_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """How long it took, whether it was compiled, and that the next start will have to."""
    ready(Double())

    said = capsys.readouterr().out
    assert "decoder_ready" in said
    assert "code=compiled" in said
    assert "decoder_not_kept" in said
    assert "the disk is full" in said


def test_what_the_compiled_decoder_declines_the_authority_decodes(body: bytes) -> None:
    """Each export by itself."""
    double = Double()
    decoders = ready(double)
    double.declines()

    found = read(decoders, body)

    assert (found.decoder, len(found.spans), double.calls) == ("protobuf", 1, 1)
    assert (decoders.first, decoders.failures) == ("compiled", 0)


def test_the_authority_alone_says_what_is_malformed() -> None:
    """Its error is the client's."""
    double = Double()
    decoders = ready(double)
    double.declines()

    with pytest.raises(MalformedError):
        read(decoders, b"no protobuf")


def test_a_bug_of_the_compiled_decoder_costs_no_export(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """The authority decodes; the bug is counted each time and logged once."""
    double = Double()
    decoders = ready(double)
    double.raises(IndexError("a bug"))

    found = [read(decoders, body) for _ in range(5)]

    assert [(one.decoder, len(one.spans)) for one in found] == [("protobuf", 1)] * 5
    assert (decoders.failures, decoders.first, decoders.state) == (5, "compiled", "ready")
    assert capsys.readouterr().out.count("decoder_bug") == 1


def test_a_compiled_decoder_with_many_bugs_is_given_up(body: bytes) -> None:
    """After three kinds of them it is not asked again."""
    double = Double()
    decoders = ready(double)
    for bug in (IndexError(), KeyError(), MemoryError()):
        double.raises(bug)
        assert read(decoders, body).decoder == "protobuf"

    assert (decoders.first, decoders.state, decoders.failures) == ("protobuf", "failed", 3)
    assert read(decoders, body).decoder == "protobuf"
    assert double.calls == 3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (CompilingError("there is no numba"), "there is no numba"),
        (LookupError("a bug of the compiler"), "LookupError: a bug of the compiler"),
    ],
)
def test_without_a_compiled_decoder_the_authority_goes_on(
    error: Exception, reason: str, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """One warning with the reason, and nothing else changes."""
    decoders = ready(error)

    assert (decoders.first, decoders.state) == ("protobuf", "failed")
    assert read(decoders, body).decoder == "protobuf"
    said = capsys.readouterr().out
    assert said.count("decoder_failed") == 1
    assert reason in said


def test_stopping_gives_up_what_is_not_ready(capsys: pytest.CaptureFixture[str]) -> None:
    """At once, and without a word: nobody needs it any more."""
    decoders = Decoders(wanted=True, maker=Making(Double()))
    thread = thread_of(decoders)
    decoders.stop()
    thread.join(SOON_S)

    assert not thread.is_alive()
    assert decoders.state == "failed"
    assert "decoder" not in capsys.readouterr().out


def test_a_daemon_that_wants_no_compiled_decoder_has_none_of_it() -> None:
    """Neither numba nor LLVM is imported, nor anything that one of them brings."""
    program = (
        "import sys, slo_exporter.daemon.wiring\n"
        "from slo_exporter.ingest.otlp.decoders import Decoders\n"
        "decoders = Decoders(wanted=False); decoders.start(); decoders.stop()\n"
        "print(*sorted({'numba', 'llvmlite', 'slo_exporter.ingest.otlp.compiled'} & {*sys.modules}))\n"
    )

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert said.stdout.strip() == ""
