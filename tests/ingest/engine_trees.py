"""Spans of an inference engine as trees, by milliseconds, and what `explain` says of them."""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from builders import NOON_NS
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.documents import Document
from slo_exporter.ingest.otlp.explain import explain
from slo_exporter.ingest.otlp.explanation import Explanation

MS = 10**6
START_NS = NOON_NS - 60 * SECOND_NS
"""Where the milliseconds begin."""
INTERNAL, SERVER = 1, 2
DECLARED = Declared(selector_keys=frozenset(), models={}, ignore_routes=())
_numbers = count(1 << 40)


def _value(value: Any) -> AnyValue:
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[_value(each) for each in value]))
    kinds = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}
    return AnyValue(**{kinds[type(value)]: value})


def node(
    name: str,
    start_ms: float,
    end_ms: float,
    parent: Span | None = None,
    attributes: Mapping[str, Any] | None = None,
    *,
    events: Mapping[str, float] | None = None,
    error: bool = False,
    **overrides: Any,
) -> Span:
    """Build a span, below another one or the root of a trace, with events by name and instant."""
    number = next(_numbers)
    fields = {
        "trace_id": parent.trace_id if parent else number.to_bytes(16, "big"),
        "span_id": number.to_bytes(8, "big"),
        "parent_span_id": parent.span_id if parent else b"",
        "kind": INTERNAL,
        "status": Status(code=Status.STATUS_CODE_ERROR) if error else Status(),
    }
    return Span(
        name=name,
        start_time_unix_nano=_instant(start_ms),
        end_time_unix_nano=_instant(end_ms),
        attributes=[KeyValue(key=key, value=_value(value)) for key, value in (attributes or {}).items()],
        events=[Span.Event(name=event, time_unix_nano=_instant(at)) for event, at in (events or {}).items()],
        **{**fields, **overrides},
    )


def body(spans: Iterable[Span], scope: str, service: str = "chat", resource: Mapping[str, Any] | None = None) -> bytes:
    """Build an export of one service; several of them, one after the other, are one export."""
    export = ExportTraceServiceRequest()
    of_service = export.resource_spans.add()
    told = {"service.name": service, **(resource or {})}
    of_service.resource.attributes.extend(KeyValue(key=key, value=_value(value)) for key, value in told.items())
    of_scope = of_service.scope_spans.add()
    of_scope.scope.name = scope
    of_scope.spans.extend(spans)
    return export.SerializeToString()


def told(*exports: bytes) -> Explanation:
    """Explain exports, one after the other."""
    return explain([Document(export, is_json=False) for export in exports], DECLARED)


def ms(**values: float) -> dict[str, int]:
    """Durations in nanoseconds."""
    return {name: round(value * MS) for name, value in values.items()}


def _instant(at_ms: float) -> int:
    return START_NS + round(at_ms * MS)
