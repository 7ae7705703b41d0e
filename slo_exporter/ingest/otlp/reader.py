"""
From the bytes of an export to the requests it tells of.

A `Reader` has no state: any number of threads may read at once.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from slo_exporter.ingest.otlp import doubts
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.decode_json import decode_json
from slo_exporter.ingest.otlp.decoders import AUTHORITY, Decoded, Decoders, Name
from slo_exporter.ingest.otlp.errors import ExportError
from slo_exporter.ingest.otlp.export import Encoding, Export
from slo_exporter.ingest.otlp.recognition import Recognised, Recognition
from slo_exporter.ingest.otlp.refusals import Refusals

Turn = AbstractContextManager[object]
"""Threads that compute take turns, since they share one interpreter: else they only hand it to and fro."""
_NO_TURN: Final = nullcontext()


@dataclass(frozen=True, slots=True)
class Body:
    """One decompressed body; empty, it is valid protobuf without a span, and no JSON."""

    plain: bytes
    received_ns: int
    """When it is judged."""
    encoding: Encoding = "protobuf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An export, and what is to be said about its spans."""

    export: Export
    refusals: Refusals
    flags: Mapping[str, int]
    """What was accepted with a doubt, such as ``negative_duration``: how often; never 0."""
    decoder: Name = "protobuf"
    """Who decoded it."""


class Reader:
    """
    Reads OTLP trace exports.

    Attributes:
        keys: the attribute keys that it reads; all others are skipped.

    Args:
        declared: what the operator says about requests.
        lateness_ns: a span that ended longer ago is refused.
        decoders: of protobuf.
    """

    def __init__(self, declared: Declared, *, lateness_ns: int, decoders: Decoders = AUTHORITY) -> None:
        self._recognition = Recognition(declared)
        self.keys = self._recognition.keys
        self._lateness_ns = lateness_ns
        self._decoders = decoders

    def read(self, body: bytes, now_ns: int, encoding: Encoding = "protobuf") -> Reading:
        """
        Read one body.

        Raises:
            MalformedError: it is no ExportTraceServiceRequest.
            TooLargeError: it has too many parts.
        """
        [reading] = self.read_all([Body(body, now_ns, encoding)])
        if isinstance(reading, ExportError):
            raise reading
        return reading

    def read_all(self, bodies: Sequence[Body], turn: Turn = _NO_TURN) -> list[Reading | ExportError]:
        """
        Read bodies, each as `read` does alone.

        Args:
            bodies: what came.
            turn: held while decoding quickly, and while recognising.

        Returns:
            What each says, or why it cannot be read.
        """
        with turn:
            quick = [self._quickly(body) for body in bodies]
        decoded = [self._tried(body) if one is None else one for body, one in zip(bodies, quick, strict=True)]
        good = [(body, one) for body, one in zip(bodies, decoded, strict=True) if isinstance(one, Decoded)]
        with turn:
            digests = self._decoders.digests([body.plain for body, _ in good])
            recognised = self._recognition.recognise_all([(one.spans, body.received_ns) for body, one in good])
        said = zip(good, recognised, digests, strict=True)
        readings = iter([_reading(*pair, found, digest) for pair, found, digest in said])
        return [next(readings) if isinstance(one, Decoded) else one for one in decoded]

    def _quickly(self, body: Body) -> Decoded | None:
        """None: it takes longer, and nobody's turn."""
        if body.encoding == "json":
            return None
        return self._decoders.quickly(body.plain, self.keys, now_ns=body.received_ns, lateness_ns=self._lateness_ns)

    def _tried(self, body: Body) -> Decoded | ExportError:
        try:
            return self._decoded(body)
        except ExportError as error:
            error.__context__ = None  # its frames hold the body in pieces
            return error.with_traceback(None)

    def _decoded(self, body: Body) -> Decoded:
        if body.encoding == "json":
            spans, refusals, flags = decode_json(
                body.plain, self.keys, now_ns=body.received_ns, lateness_ns=self._lateness_ns
            )
            return Decoded(spans=spans, refusals=refusals, flags=flags, decoder="json")
        return self._decoders.surely(body.plain, self.keys, now_ns=body.received_ns, lateness_ns=self._lateness_ns)


def _reading(body: Body, decoded: Decoded, recognised: Recognised, digest: bytes) -> Reading:
    refusals = decoded.refusals
    export = Export(
        digest=digest,
        received_ns=body.received_ns,
        refused=refusals.count,
        requests=recognised.requests,
        roles=recognised.roles,
        results=recognised.results,
        stages=recognised.stages,
        doubts=recognised.doubts + doubts.of_refusals(refusals.by_service),
    )
    flags = {**recognised.flags, **decoded.flags}
    return Reading(export=export, refusals=refusals, flags=flags, decoder=decoded.decoder)
