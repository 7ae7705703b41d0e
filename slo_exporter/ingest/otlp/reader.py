"""
From the bytes of an export to the requests it tells of.

A `Reader` has no state: any number of threads may read at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from slo_exporter.ingest.otlp import doubts
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.decode import decode
from slo_exporter.ingest.otlp.decode_json import decode_json
from slo_exporter.ingest.otlp.export import Encoding, Export
from slo_exporter.ingest.otlp.recognition import Recognition
from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An export, and what is to be said about its spans."""

    export: Export
    refusals: Refusals
    flags: Mapping[str, int]
    """What was accepted with a doubt, such as ``negative_duration``: how often; never 0."""


class Reader:
    """
    Reads OTLP trace exports.

    Attributes:
        keys: the attribute keys that it reads; all others are skipped.

    Args:
        declared: what the operator says about requests.
        lateness_ns: a span that ended longer ago is refused.
    """

    def __init__(self, declared: Declared, *, lateness_ns: int) -> None:
        self._recognition = Recognition(declared)
        self.keys = self._recognition.keys
        self._lateness_ns = lateness_ns

    def read(self, body: bytes, now_ns: int, encoding: Encoding = "protobuf") -> Reading:
        """
        Read one decompressed body; empty, it is valid protobuf without a span, and no JSON.

        Raises:
            MalformedError: it is no ExportTraceServiceRequest.
            TooLargeError: it has too many parts.
        """
        spans, refusals, flags = self._decoded(body, now_ns, encoding)
        recognised = self._recognition.recognise(spans, now_ns)
        export = Export(
            digest=blake2b(body, digest_size=16).digest(),
            received_ns=now_ns,
            refused=refusals.count,
            requests=recognised.requests,
            roles=recognised.roles,
            results=recognised.results,
            stages=recognised.stages,
            doubts=recognised.doubts + doubts.of_refusals(refusals.by_service),
        )
        return Reading(export=export, refusals=refusals, flags={**recognised.flags, **flags})

    def _decoded(self, body: bytes, now_ns: int, encoding: Encoding) -> tuple[SpanBatch, Refusals, Mapping[str, int]]:
        if encoding == "json":
            return decode_json(body, self.keys, now_ns=now_ns, lateness_ns=self._lateness_ns)
        return *decode(body, self.keys, now_ns=now_ns, lateness_ns=self._lateness_ns), {}
