"""Builders of OTLP bodies."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from builders import NOON_NS
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from slo_exporter.clock import SECOND_NS

CASES = Path(__file__).parent / "cases"
VALUE_FIELDS = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}


def _attributes(values: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in values.items()]


def _value(value: Any) -> AnyValue:
    return value if isinstance(value, AnyValue) else AnyValue(**{VALUE_FIELDS[type(value)]: value})


def _binary_ids(node: Any) -> Any:
    """OTLP/JSON writes ids in hex; protobuf's JSON mapping expects base64."""
    if isinstance(node, list):
        return [_binary_ids(item) for item in node]
    if not isinstance(node, dict):
        return node
    ids = {"traceId", "spanId", "parentSpanId"}
    return {
        key: b64encode(bytes.fromhex(item)).decode() if key in ids else _binary_ids(item) for key, item in node.items()
    }


@pytest.fixture
def now_ns() -> int:
    """Stand for the time at which an export is judged."""
    return NOON_NS


@pytest.fixture
def otlp_case() -> Callable[[str], list[bytes]]:
    """Read a case file, one OTLP/JSON export or one a line, as protobuf bodies."""

    def bodies(name: str) -> list[bytes]:
        text = (CASES / name).read_text()
        decoder, position, found = json.JSONDecoder(), 0, []
        while text[position:].strip():
            position += len(text[position:]) - len(text[position:].lstrip())
            node, position = decoder.raw_decode(text, position)
            found.append(json_format.ParseDict(_binary_ids(node), ExportTraceServiceRequest()).SerializeToString())
        return found

    return bodies


@pytest.fixture
def span() -> Callable[..., Span]:
    """Build a valid span with ids of its own, 1 s long, ended 1 s ago; keywords override."""
    numbers = count(1)

    def build(attributes: Mapping[str, Any] | None = None, *, error: bool = False, **overrides: Any) -> Span:
        number = next(numbers)
        fields = {
            "trace_id": number.to_bytes(16, "big"),
            "span_id": number.to_bytes(8, "big"),
            "name": "work",
            "kind": Span.SPAN_KIND_SERVER,
            "start_time_unix_nano": NOON_NS - 2 * SECOND_NS,
            "end_time_unix_nano": NOON_NS - SECOND_NS,
            "status": Status(code=Status.STATUS_CODE_ERROR) if error else Status(),
        }
        return Span(attributes=_attributes(attributes or {}), **{**fields, **overrides})

    return build


@pytest.fixture
def export_body() -> Callable[..., bytes]:
    """Build the body of an export of one resource and scope."""

    def build(*spans: Span, resource: Mapping[str, Any] | None = None, scope: str = "test") -> bytes:
        message = ExportTraceServiceRequest()
        resource_spans = message.resource_spans.add()
        resource_spans.resource.attributes.extend(_attributes(resource or {"service.name": "chat"}))
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = scope
        scope_spans.spans.extend(spans)
        return message.SerializeToString()

    return build
