"""
The layers around the spans of an export, opened one at a time.

The protobuf library makes 170 bytes of a span that takes two, so a small body,
read as one message, may become gigabytes. Here a layer's parts stay bytes until
they are asked for, and no two spans exist at once. The layers are those of
trace.proto with their inner messages declared as bytes, which is the same on
the wire, so the library still judges what is well formed.

Source: opentelemetry-proto, collector/trace/v1/trace_service.proto and
trace/v1/trace.proto; protobuf, "Encoding".
"""

from collections.abc import Sequence
from typing import Final, Protocol, cast

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessages


def _field(name: str, number: int, kind: FieldDescriptorProto.Type.ValueType) -> FieldDescriptorProto:
    return FieldDescriptorProto(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_REPEATED)


_BYTES: Final = FieldDescriptorProto.TYPE_BYTES
_FILE: Final = FileDescriptorProto(
    name="slo_exporter/envelope.proto",
    package="slo_exporter",
    syntax="proto3",
    message_type=[
        DescriptorProto(name="Export", field=[_field("parts", 1, _BYTES)]),
        DescriptorProto(
            name="Layer",
            field=[
                _field("head", 1, _BYTES),
                _field("parts", 2, _BYTES),
                _field("schema_url", 3, FieldDescriptorProto.TYPE_STRING),
            ],
        ),
    ],
)
_MESSAGES: Final = GetMessages([_FILE], pool=DescriptorPool())


class _Export(Protocol):
    """ExportTraceServiceRequest."""

    parts: Sequence[bytes]


class _Layer(Protocol):
    """ResourceSpans and ScopeSpans, which are alike."""

    head: Sequence[bytes]
    """The resource or the scope: one, though the wire may bring it in pieces."""
    parts: Sequence[bytes]


def resources_of(body: bytes) -> Sequence[bytes]:
    """
    Open an ExportTraceServiceRequest: the ResourceSpans in it.

    Raises:
        DecodeError: it is none.
    """
    return cast("_Export", _MESSAGES["slo_exporter.Export"].FromString(body)).parts


def opened(layer: bytes) -> tuple[bytes, Sequence[bytes]]:
    """
    Open a ResourceSpans or a ScopeSpans.

    Returns:
        Its Resource or InstrumentationScope; the ScopeSpans or Spans in it.

    Raises:
        DecodeError: it is neither.
    """
    message = cast("_Layer", _MESSAGES["slo_exporter.Layer"].FromString(layer))
    # Pieces of a message, one after the other, are the message.
    return b"".join(message.head), message.parts
