"""The layers around the spans: where resources, scopes and spans stand in a body."""

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.compiled.arrays import FIRST_MESSAGE, LARGEST, RESOURCES, SCOPES, SPANS, Parts, Wire
from slo_exporter.ingest.otlp.compiled.jit import hot, part
from slo_exporter.ingest.otlp.compiled.shapes import DECLINED, EXPORT, LAYER
from slo_exporter.ingest.otlp.compiled.wire import any_field, length

_RESOURCE_SPANS, _HEAD, _PART = 1, 1, 2
_PART_TAG = 0x12
_START, _SIZE = 2 * _PART, 2 * _PART + 1


@hot
def _part(wire: Wire, message: int, at: int, end: int) -> tuple[int, int]:
    """Read a field of a layer, as `field` does; a part is stepped over."""
    if wire.body[at] == _PART_TAG:
        size, start = length(wire, at + 1, end)
        wire.fields[_START], wire.fields[_SIZE] = start, size
        return _PART, DECLINED if start < 0 else start + size
    return any_field(wire, message, at, end, FIRST_MESSAGE)


@part
def locate(wire: Wire, parts: Parts) -> bool:
    """Find the parts of a body, and count those for which there is no room; False: declined."""
    parts.counts[RESOURCES] = parts.counts[SCOPES] = parts.counts[SPANS] = parts.counts[LARGEST] = 0
    at = FIRST_MESSAGE
    while at < wire.size:
        number, at = any_field(wire, EXPORT, at, wire.size, FIRST_MESSAGE)
        if at < 0:
            return False
        start = wire.fields[2 * _RESOURCE_SPANS]
        end = start + wire.fields[2 * _RESOURCE_SPANS + 1]
        if number == _RESOURCE_SPANS and not _locate_scopes(wire, parts, start, end):
            return False
    return True


@part
def _locate_scopes(wire: Wire, parts: Parts, at: int, end: int) -> bool:
    """Find the head and the scopes of a resource."""
    resource, scopes, heads = parts.counts[RESOURCES], parts.counts[SCOPES], 0
    _note_head(parts, parts.resources, resource, 0, 0)
    while at < end:
        number, at = _part(wire, LAYER, at, end)
        if at < 0:
            return False
        if number == _HEAD:
            heads += 1
            _note_head(parts, parts.resources, resource, wire.fields[2 * _HEAD], wire.fields[2 * _HEAD + 1])
        if number == _PART:
            scope, start = parts.counts[SCOPES], wire.fields[_START]
            if scope < parts.scopes.shape[0]:
                parts.scopes[scope, 2], parts.scopes[scope, 3] = resource, scope - scopes
            if not _locate_spans(wire, parts, start, start + wire.fields[_SIZE]):
                return False
    parts.counts[RESOURCES] = resource + 1
    # Pieces of a head merge.
    return heads < 2


@part
def _locate_spans(wire: Wire, parts: Parts, at: int, end: int) -> bool:
    """Find the head and the spans of a scope."""
    scope, spans, heads, largest = parts.counts[SCOPES], parts.counts[SPANS], 0, parts.counts[LARGEST]
    _note_head(parts, parts.scopes, scope, 0, 0)
    span = spans
    while at < end:
        number, at = _part(wire, LAYER, at, end)
        if at < 0:
            return False
        if number == _PART:
            size = wire.fields[_SIZE]
            if span < parts.spans.shape[0]:
                parts.spans[span, 0], parts.spans[span, 1] = wire.fields[_START], size
                parts.spans[span, 2], parts.spans[span, 3] = scope, span - spans
            largest = max(largest, size)
            span += 1
        elif number == _HEAD:
            heads += 1
            _note_head(parts, parts.scopes, scope, wire.fields[2 * _HEAD], wire.fields[2 * _HEAD + 1])
    parts.counts[SPANS], parts.counts[SCOPES] = span, scope + 1
    parts.counts[LARGEST] = max(parts.counts[LARGEST], largest)
    return heads < 2


@part
def _note_head(parts: Parts, layers: NDArray[np.int64], index: int, start: int, size: int) -> None:
    """Say where the head of a layer stands, wherever that is; without one it is empty."""
    if index < layers.shape[0]:
        layers[index, 0], layers[index, 1] = start, size
    parts.counts[LARGEST] = max(parts.counts[LARGEST], size)
