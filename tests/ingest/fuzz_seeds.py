"""What a fuzzer begins with: small exports, real ones of every framework among them."""

import json
import random
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from both_decoders import NOW_NS
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans
from otlp_exports import Exports
from wire_writer import SPELLINGS, WireWriter

from slo_exporter.ingest.otlp.documents import documents_of

CASES: Final = Path(__file__).parent / "cases"
_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})
_LARGEST: Final = 2500
"""Bytes of a seed; in larger ones most mutations hit what nobody reads."""
_OF_A_SCOPE: Final = 2
"""Exports taken out of one scope of a case."""
_MADE: Final = 60
"""Seeds that are made, half of them spelled by chance; too large ones are left out."""


def case_names() -> Sequence[str]:
    """The case files, each of one or several exports."""
    return sorted(path.name for path in CASES.glob("*.json"))


def exports_of(name: str) -> Sequence[ExportTraceServiceRequest]:
    """The exports of a case file."""
    return [
        json_format.ParseDict(_with_ids(json.loads(document.body)), ExportTraceServiceRequest())
        for document in documents_of((CASES / name).read_bytes())
    ]


def _with_ids(node: Any) -> Any:
    """OTLP/JSON writes ids in hex; protobuf's JSON mapping expects base64."""
    if isinstance(node, list):
        return [_with_ids(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_ids(item) for key, item in node.items()
    }


def seeds() -> Sequence[bytes]:
    """A few dozen bodies of one to three spans that are accepted at `NOW_NS`, always the same ones."""
    real = [body for name in case_names() for body in _small(name)]
    made = [body for body in map(_made, range(_MADE)) if 0 < len(body) <= _LARGEST]
    return [*real, *made]


def _small(name: str) -> Iterator[bytes]:
    seen = set[tuple[str, ...]]()
    for export in exports_of(name):
        for resource_spans in export.resource_spans:
            for scope_spans in resource_spans.scope_spans:
                for group in _groups(scope_spans):
                    names = (group.scope.name, *(span.name for span in group.spans))
                    part = ExportTraceServiceRequest()
                    part.resource_spans.add(resource=resource_spans.resource, scope_spans=[group])
                    if names not in seen and part.ByteSize() <= _LARGEST:
                        seen.add(names)
                        yield part.SerializeToString()


def _groups(scope_spans: ScopeSpans) -> Iterator[ScopeSpans]:
    """The first spans of a scope by one to three, as if they had just ended."""
    start = 0
    for size in range(1, _OF_A_SCOPE + 1):
        spans = scope_spans.spans[start : start + size]
        start += size
        for span in spans:
            lasted = span.end_time_unix_nano - span.start_time_unix_nano
            span.end_time_unix_nano = NOW_NS - start
            span.start_time_unix_nano = max(0, NOW_NS - start - lasted)
        if spans:
            yield ScopeSpans(scope=scope_spans.scope, spans=spans)


def _made(number: int) -> bytes:
    chance = random.Random(number)
    message = Exports(chance, is_plain=number % 3 == 0).export()
    return WireWriter(chance, frozenset(SPELLINGS if number % 2 else ())).message(message)
