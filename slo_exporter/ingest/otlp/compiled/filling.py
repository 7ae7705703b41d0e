"""The walk over the parts of a body."""

from slo_exporter.ingest.otlp.compiled.arrays import (
    FIRST_MESSAGE,
    OF_RESOURCE,
    REFUSED,
    RESOURCE_AT,
    RESOURCES,
    ROWS,
    SCOPE_AT,
    SCOPES,
    SPANS,
    TEXT_SHIFT,
    TIMES,
    Names,
    Parts,
    Sink,
    Wire,
)
from slo_exporter.ingest.otlp.compiled.dense import mark
from slo_exporter.ingest.otlp.compiled.jit import part
from slo_exporter.ingest.otlp.compiled.shapes import RESOURCE, SCOPE
from slo_exporter.ingest.otlp.compiled.sink import any_attribute, begin, cell_text, count_text
from slo_exporter.ingest.otlp.compiled.spans import take_span
from slo_exporter.ingest.otlp.compiled.wire import any_field, fields

_ATTRIBUTES, _NAME = 1, 2
"""Of a resource; and where the name of a scope stands in `Wire.fields`."""
_SERVICE = 3
"""Place in `Names.special`."""


@part
def take_resources(wire: Wire, names: Names, parts: Parts, sink: Sink) -> bool:
    """Take the attributes of all resources; False: declined."""
    for resource in range(sink.counts[RESOURCES]):
        begin(names, sink, OF_RESOURCE)
        at = parts.resources[resource, 0]
        end = at + parts.resources[resource, 1]
        while at < end:
            number, at = any_field(wire, RESOURCE, at, end, FIRST_MESSAGE)
            if at < 0:
                return False
            start = wire.fields[2 * _ATTRIBUTES]
            where = (start, start, start + wire.fields[2 * _ATTRIBUTES + 1])
            if number == _ATTRIBUTES and not any_attribute(wire, names, sink, where, resource, OF_RESOURCE):
                return False
        service = cell_text(sink, names.special[_SERVICE])
        count_text(sink, service)
        sink.resources[resource, 1] = service
    return True


@part
def take_scopes(wire: Wire, parts: Parts, sink: Sink) -> bool:
    """Take the names of all scopes; False: declined."""
    for scope in range(sink.counts[SCOPES]):
        start = parts.scopes[scope, 0]
        if not fields(wire, SCOPE, start, start + parts.scopes[scope, 1], FIRST_MESSAGE):
            return False
        name = wire.fields[_NAME] << TEXT_SHIFT | wire.fields[_NAME + 1]
        count_text(sink, name)
        sink.scopes[scope] = name
    return True


@part
def take_spans(wire: Wire, names: Names, parts: Parts, sink: Sink) -> bool:
    """Take all spans; False: declined."""
    resources = 0
    for span in range(sink.counts[SPANS]):
        scope, times = parts.spans[span, 2], sink.counts[TIMES]
        sink.counts[SCOPE_AT], sink.counts[RESOURCE_AT] = scope, parts.scopes[scope, 2]
        while resources <= parts.scopes[scope, 2]:
            sink.resources[resources, 0] = sink.counts[ROWS]
            resources += 1
        start = parts.spans[span, 0]
        reason = take_span(wire, names, sink, start, start + parts.spans[span, 1])
        if reason < 0:
            return False
        if reason > 0:
            sink.counts[TIMES] = times
            _refuse(parts, sink, reason, span)
    for resource in range(resources, sink.resources.shape[0]):
        sink.resources[resource, 0] = sink.counts[ROWS]
    mark(sink)
    return True


@part
def _refuse(parts: Parts, sink: Sink, reason: int, span: int) -> None:
    """Note where a refused span stands."""
    index, scope = sink.counts[REFUSED], parts.spans[span, 2]
    sink.refused[index, 0], sink.refused[index, 1] = reason, parts.scopes[scope, 2]
    sink.refused[index, 2], sink.refused[index, 3] = parts.scopes[scope, 3], parts.spans[span, 3]
    sink.counts[REFUSED] = index + 1
