"""The exports of a file: OTLP/JSON, one or several behind one another, or one in protobuf."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.decode_json import decode_json
from slo_exporter.ingest.otlp.errors import MalformedError
from slo_exporter.ingest.otlp.refusals import Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch

_FAR_NS: Final = 2**62
"""Some day in 2116: judged then, with a lateness as long, no span is too old or ahead of its time."""
_BLANK: Final = b" \t\r\n"
_BOM: Final = b"\xef\xbb\xbf"
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_PLACES: Final = re.compile(r"\[(\d+)\]")
_LAYERS: Final = (("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"), ("spans", "spans"))
_LEGACY: Final = ("instrumentationLibrarySpans", "instrumentation_library_spans")
_DECODER: Final = json.JSONDecoder(parse_int=float)
"""Python reads no integer of over 4,300 digits; nobody wants one of these numbers."""


@dataclass(frozen=True, slots=True)
class Document:
    """One export as it stands in a file."""

    body: bytes
    is_json: bool

    def decode(self, keys: Keys) -> tuple[SpanBatch, Refusals]:
        """
        Its spans, however old they are.

        Raises:
            MalformedError: it is no ExportTraceServiceRequest, or JSON of something else.
            TooLargeError: it has too many parts.
        """
        if self.is_json:
            spans, refusals, _ = decode_json(self.body, keys, now_ns=_FAR_NS, lateness_ns=_FAR_NS)
            # A receiver passes over what it does not know; here it is likely the wrong file.
            if not refusals.total and not _is_of_traces(self._json()):
                raise MalformedError("it is JSON, but has no resourceSpans")
            return spans, refusals
        return decode(self.body, keys, now_ns=_FAR_NS, lateness_ns=_FAR_NS)

    def names_at(self, positions: Sequence[str]) -> list[str]:
        """The names of the spans at positions that a `Refusals` tells; the position where one has none."""
        name_at = self._finder()
        return [name_at(position) or position for position in positions]

    def _finder(self) -> Callable[[str], str]:
        """Find the name of the span at a position; empty where there is none."""
        message = None if self.is_json else ExportTraceServiceRequest.FromString(self.body)
        export = self._json() if message is None else None

        def find(position: str) -> str:
            places = [int(place) for place in _PLACES.findall(position)]
            with suppress(LookupError, StopIteration, TypeError, ValueError):
                return _name_in_json(export, places) if message is None else _name(message, places)
            return ""

        return find

    def legacy_names(self) -> list[str]:
        """The names of the spans in ``instrumentationLibrarySpans``, which nobody reads."""
        if not self.is_json or not any(name.encode() in self.body for name in _LEGACY):
            return []
        layers = [layer for resource in _items(self._json(), _LAYERS[0]) for layer in _items(resource, _LEGACY)]
        return [str(span.get("name") or "") for layer in layers for span in _items(layer, _LAYERS[2])]

    def _json(self) -> Any:
        return _DECODER.decode(self.body.decode())


def documents_of(file: bytes) -> Sequence[Document]:
    """
    The exports of *file*, in order; none of an empty one.

    JSON begins with a brace, or with a bracket if it is none of ours. A protobuf
    export begins with a line feed, and where one of them follows it is a length:
    then none of them ends it.
    """
    text = file.removeprefix(_BOM).strip(_BLANK)
    if not text:
        return []
    is_protobuf = file.startswith((b"\n{", b"\n[")) and not text.endswith((b"}", b"]"))
    if is_protobuf or not text.startswith((b"{", b"[")):
        return [Document(file, is_json=False)]
    return [Document(part, is_json=True) for part in _values(text)]


def _values(text: bytes) -> Sequence[bytes]:
    """The JSON values that stand behind one another; from a fault on, the rest as it is."""
    found, start = list[bytes](), 0
    try:
        written = text.decode()
    except UnicodeDecodeError:
        return [text]
    while start < len(written):
        try:
            _, end = _DECODER.raw_decode(written, start)
        except (ValueError, RecursionError):
            end = len(written)
        found.append(written[start:end].encode())
        blanks = _BLANKS.match(written, end)
        start = blanks.end() if blanks else end
    return found


def _is_of_traces(export: Any) -> bool:
    return not export or any(name in export for name in _LAYERS[0])


def _items(node: Mapping[str, Any], names: Sequence[str]) -> list[Mapping[str, Any]]:
    """The objects in the list that stands under one of *names*."""
    items = next((node[name] for name in names if name in node), None)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _name(export: ExportTraceServiceRequest, places: Sequence[int]) -> str:
    resource, scope, span = places
    return export.resource_spans[resource].scope_spans[scope].spans[span].name


def _name_in_json(node: Any, places: Sequence[int]) -> str:
    for names, place in zip(_LAYERS, places, strict=True):
        node = next(node[name] for name in names if name in node)[place]
    return str(node["name"] or "")
