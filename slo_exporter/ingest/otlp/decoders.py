"""
Which decoder reads a protobuf body: the compiled one where it can, else the authority.

Both give equal columns and equal refusals; what the compiled one does not fully
understand it declines, and the protobuf library's alone decides what is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch

Name = Literal["compiled", "protobuf", "json"]
"""A decoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """One body in columns."""

    spans: SpanBatch
    refusals: Refusals
    decoder: Name
    flags: Mapping[str, int] = field(default_factory=dict)
    """What the decoder doubts: how often; never 0."""


class Decoders:
    """Decodes protobuf bodies; any number of threads may at once."""

    def decode(self, body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Decoded:
        """
        Decode one export.

        Raises:
            MalformedError: it is no ExportTraceServiceRequest.
            TooLargeError: it has too many parts.
        """
        spans, refusals = decode(body, keys, now_ns=now_ns, lateness_ns=lateness_ns)
        return Decoded(spans=spans, refusals=refusals, decoder="protobuf")


AUTHORITY: Final = Decoders()
"""The protobuf library alone."""
