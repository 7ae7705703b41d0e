"""
Which decoder reads a protobuf body: the compiled one where it can, else the authority.

Both give equal columns and equal refusals; what the compiled one does not fully
understand it declines, and the protobuf library's alone decides what is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Final, Literal, Protocol

import structlog

from slo_exporter.clock import SECOND_NS, SystemClock
from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.digest import digest_of
from slo_exporter.ingest.otlp.native import code_cache
from slo_exporter.ingest.otlp.native.code_cache import CodeCache
from slo_exporter.ingest.otlp.native.compiling import Compiled, Compiler, CompilingError
from slo_exporter.ingest.otlp.native.trial import CompiledDecoder
from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch

Name = Literal["compiled", "protobuf", "json"]
"""A decoder."""
State = Literal["off", "compiling", "ready", "failed"]
"""What became of the compiled decoder."""

_MOST_BUGS: Final = 3
"""So many kinds of exceptions out of the compiled decoder, and it is not asked again."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One body in columns."""

    spans: SpanBatch
    refusals: Refusals
    decoder: Name
    flags: Mapping[str, int] = field(default_factory=dict)
    """What the decoder doubts: how often; never 0."""


class Maker(Protocol):
    """Makes the compiled decoder."""

    def make(self) -> Compiled:
        """
        Make it, which may take long.

        Raises:
            CompilingError: there is none.
        """
        ...

    def cancel(self) -> None:
        """Let `make` end soon; called from any thread."""
        ...


class Decoders:
    """
    Decodes protobuf bodies; any number of threads may at once.

    Args:
        wanted: use the compiled decoder once there is one.
        maker: makes it; None is `Compiler`, with the cache that this process has.
    """

    def __init__(self, *, wanted: bool = False, maker: Maker | None = None) -> None:
        self._maker = maker
        self._compiled: CompiledDecoder | None = None
        self._lock = Lock()
        self._is_stopped = False
        self._bugs: set[str] = set()
        self.state: State = "compiling" if wanted else "off"
        """What became of the compiled decoder."""
        self.failures = 0
        """How often the compiled decoder raised an exception; the authority decoded those exports."""

    @property
    def first(self) -> Name:
        """Who is asked first."""
        return "protobuf" if self._compiled is None else "compiled"

    def start(self) -> None:
        """Begin to make the compiled decoder, in a thread of its own, if it is wanted; once."""
        if self.state == "compiling":
            Thread(target=self._prepare, name="compiled-decoder", daemon=True).start()

    def stop(self) -> None:
        """Give up what is not ready; at once."""
        with self._lock:
            self._is_stopped = True
            maker = self._maker
        if maker is not None:
            maker.cancel()

    def decode(self, body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Decoded:
        """
        Decode one export, quickly if that goes.

        Raises:
            MalformedError: it is no ExportTraceServiceRequest.
            TooLargeError: it has too many parts.
        """
        found = self.quickly(body, keys, now_ns=now_ns, lateness_ns=lateness_ns)
        return self.surely(body, keys, now_ns=now_ns, lateness_ns=lateness_ns) if found is None else found

    def quickly(self, body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Decoded | None:
        """Decode one export with the compiled decoder; None: there is none, or it declines."""
        compiled = self._compiled
        if compiled is None:
            return None
        try:
            found = compiled.decode(body, keys, now_ns=now_ns, lateness_ns=lateness_ns)
        except Exception as bug:  # noqa: BLE001 - no bug of it may cost an export
            self._report(bug)
            return None
        return None if found is None else Decoded(spans=found[0], refusals=found[1], decoder="compiled")

    @staticmethod
    def surely(body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Decoded:
        """
        Decode one export with the protobuf library, in ten to thirty times as long.

        Raises:
            MalformedError: it is no ExportTraceServiceRequest.
            TooLargeError: it has too many parts.
        """
        spans, refusals = decode(body, keys, now_ns=now_ns, lateness_ns=lateness_ns)
        return Decoded(spans=spans, refusals=refusals, decoder="protobuf")

    def digests(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Give the digest of each body; the compiled decoder's are hashlib's, sooner where there are several."""
        compiled = self._compiled
        if compiled is not None:
            try:
                return compiled.digests(bodies)
            except Exception as bug:  # noqa: BLE001 - no bug of it may cost an export
                self._report(bug)
        return [*map(digest_of, bodies)]

    def _prepare(self) -> None:
        """Run in a thread: make the decoder and switch to it."""
        clock = SystemClock()
        began_ns = clock.monotonic_ns()
        try:
            made = self._made()
        except Exception as error:  # noqa: BLE001 - whatever it is, exports go on being decoded
            self._fail(error)
            return
        seconds = round((clock.monotonic_ns() - began_ns) / SECOND_NS, 2)
        self._compiled, self.state = made.decoder, "ready"
        _log.info("decoder_ready", decoder="compiled", code=made.origin, seconds=seconds)
        if made.not_kept:
            _log.warning("decoder_not_kept", reason=made.not_kept, hint="each start compiles; docs/deploy.md")

    def _made(self) -> Compiled:
        with self._lock:
            if self._maker is None:
                self._maker = Compiler(CodeCache(code_cache.place()))
            maker = self._maker
            if self._is_stopped:
                maker.cancel()
        return maker.make()

    def _fail(self, error: Exception) -> None:
        self.state = "failed"
        if not self._is_stopped:
            reason = str(error) if isinstance(error, CompilingError) else f"{type(error).__name__}: {error}"
            _log.warning("decoder_failed", reason=reason, hint="the protobuf library decodes")

    def _report(self, bug: Exception) -> None:
        """Count a bug of the compiled decoder; log it once per kind, and give the decoder up after several kinds."""
        kind = type(bug).__name__
        with self._lock:
            self.failures += 1
            is_new = kind not in self._bugs
            self._bugs.add(kind)
            if len(self._bugs) >= _MOST_BUGS:
                self._compiled, self.state = None, "failed"
        if is_new:
            _log.error("decoder_bug", kind=kind, kinds=len(self._bugs), gives_up=self.state == "failed", exc_info=bug)


AUTHORITY: Final = Decoders()
"""The protobuf library alone."""
