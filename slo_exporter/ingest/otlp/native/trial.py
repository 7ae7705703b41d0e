"""A first export for a compiled decoder, in the process that compiled it: the daemon shall not be where it fails."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.digest import digest_of
from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import Attribute, SpanBatch
from slo_exporter.sli.texts import Texts

_NOW_NS: Final = 1_800_000_000 * SECOND_NS
_LATENESS_NS: Final = 600 * SECOND_NS
_SPANS: Final = 64
_VALUES: Final = (
    AnyValue(int_value=-7),
    AnyValue(double_value=0.25),
    AnyValue(bool_value=True),
    AnyValue(string_value="günther"),
)
_CODES: Final = (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_OK, Status.STATUS_CODE_ERROR)
_PATTERN: Final = bytes(range(251)) * 200
_BODIES: Final = (b"", _PATTERN[: 1 << 15], *(_PATTERN[start : -499 * start] for start in range(1, 8)))
"""To be hashed: of unequal sizes, and in all so large that it is not left to hashlib."""
_KEYS: Final = Keys(span=frozenset({"asked", "never"}), resource=frozenset({"service.name"}))


class CompiledDecoder(Protocol):
    """The compiled decoder, as its callers see it."""

    def decode(self, body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> tuple[SpanBatch, Refusals] | None:
        """Decode one export; None: let the authority do it."""
        ...

    def digests(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Give the BLAKE2b digest of each body, 16 bytes."""
        ...


class TrialError(Exception):
    """It does not decode, or hash, what it must."""


def attempt(decoder: CompiledDecoder) -> None:
    """
    Let it decode an ordinary export, and hash bodies.

    Raises:
        TrialError: it declines, or has found something else than the authority or hashlib.
    """
    body = _body()
    found = decoder.decode(body, _KEYS, now_ns=_NOW_NS, lateness_ns=_LATENESS_NS)
    spans, refusals = decode(body, _KEYS, now_ns=_NOW_NS, lateness_ns=_LATENESS_NS)
    if found is None:
        raise TrialError("the compiled decoder declines an ordinary export")
    if found[1] != refusals or _plain(found[0]) != _plain(spans):
        raise TrialError("the compiled decoder reads an ordinary export as another one")
    if decoder.digests(_BODIES) != [*map(digest_of, _BODIES)]:
        raise TrialError("the compiled decoder hashes bodies to other digests than hashlib")


def _body() -> bytes:
    """Spans of every type of value, one of them refused."""
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value="chat")))
    scope = resource.scope_spans.add()
    scope.scope.name = "trial"
    for number in range(1, _SPANS + 1):
        span = scope.spans.add(name=f"span {number % 3}", kind=Span.SPAN_KIND_SERVER)
        span.trace_id, span.span_id = number.to_bytes(16, "big"), number.to_bytes(8, "little")
        span.start_time_unix_nano, span.end_time_unix_nano = _NOW_NS - number, _NOW_NS
        span.status.code = _CODES[number % len(_CODES)]
        for key in ("asked", "unasked"):
            span.attributes.append(KeyValue(key=key, value=_VALUES[number % len(_VALUES)]))
    scope.spans[5].trace_id = b""
    return message.SerializeToString()


def _plain(spans: SpanBatch) -> list[object]:
    """Give what can be compared: every column as a list."""
    columns = (spans.trace_id, spans.span_id, spans.parent_id, spans.start_ns, spans.end_ns, spans.kind, spans.status)
    texts = (spans.name, spans.scope, spans.service)
    return [
        *(column.tolist() for column in columns),
        *map(_plain_texts, texts),
        _plain_attributes(spans.attributes),
        _plain_attributes(spans.resource),
    ]


def _plain_attributes(attributes: Mapping[str, Attribute]) -> dict[str, object]:
    return {
        key: (column.kind.tolist(), np.nan_to_num(column.number, nan=-1.5).tolist(), _plain_texts(column.text))
        for key, column in attributes.items()
    }


def _plain_texts(texts: Texts) -> list[str | None]:
    return [texts.at(row) for row in range(len(texts.codes))]
