"""One span: whether it is accepted, and what it says."""

import numpy as np

from slo_exporter.ingest.otlp.compiled.arrays import (
    EXCEPTION_AT,
    EXCEPTION_SIZE,
    FIRST_MESSAGE,
    FUTURE,
    LOST,
    NAME_SHIFT,
    NEWEST,
    NO_END,
    OF_EVENT,
    OF_SPAN,
    OLD,
    OLDEST,
    PARENT_LENGTH,
    PRIOR,
    ROW_SHIFT,
    ROWS,
    SCOPE_AT,
    SPAN_LENGTH,
    SPAN_ZERO,
    TEXT_SHIFT,
    TIMES,
    TRACE_LENGTH,
    TRACE_ZERO,
    Names,
    Sink,
    Wire,
)
from slo_exporter.ingest.otlp.compiled.jit import hot, inner, part
from slo_exporter.ingest.otlp.compiled.shapes import DECLINED, EVENT, SPAN, STATUS, as_long
from slo_exporter.ingest.otlp.compiled.sink import (
    any_attribute,
    attribute,
    begin,
    count_text,
    repeated,
    stand_in,
    take_back,
    text_under,
)
from slo_exporter.ingest.otlp.compiled.texts import NO_TEXT, WORD
from slo_exporter.ingest.otlp.compiled.values import name_of
from slo_exporter.ingest.otlp.compiled.wire import any_field, field, fields, length

_TRACE, _SPAN, _PARENT, _NAME, _KIND, _START, _END = 2, 4, 8, 10, 12, 14, 16
"""Where the fields of a span stand in `Wire.fields`: twice their numbers."""
_ATTRIBUTES, _EVENTS, _LOST, _STATUS = 9, 11, 24, 15
_ATTRIBUTES_TAG = 0x4A
_TRACE_TAG, _SPAN_TAG, _START_TAG, _END_TAG = 0x0A, 0x12, 0x39, 0x41
_LONG = 128
"""From here on a size takes more than a byte."""
_MESSAGE, _CODE = 4, 6
"""Where those of a status stand."""
_TIME, _EVENT_NAME, _EVENT_ATTRIBUTES = 2, 4, 3
_STATUS_TEXT, _EXCEPTION_TYPE, _EXCEPTION = 0, 1, 2
"""Places in `Names.special`."""
_EVENT = 2
"""Which of the messages in `Wire.fields` it is; that of the span is the first, of its status the second."""
_ID, _TRACE_ID = 8, 16
_KINDS, _INTERNAL, _STATUSES = 6, 1, 3
_LAST_INT64 = as_long(2**63 - 1)
_BYTE = np.uint64(0xFF)


@inner
def take_span(wire: Wire, names: Names, sink: Sink, at: int, end: int) -> int:
    """Take the span that stands there: 0, or why it is refused, or `DECLINED`."""
    width = 2 * wire.shapes.shape[1]
    row, statuses = sink.counts[ROWS], 0
    wire.fields[: width + _CODE + 2] = 0
    begin(names, sink, OF_SPAN)
    # What is behind what is only guessed from it, so some need not tell: it stays in a register.
    prior = sink.counts[PRIOR]
    while at < end:
        if wire.body[at] == _ATTRIBUTES_TAG:
            behind, prior = repeated(wire, names, sink, (at, end, prior), row)
            if behind < 0:
                size, start = length(wire, at + 1, end)
                behind, sink.counts[PRIOR] = start + size, prior
                if start < 0 or not attribute(wire, names, sink, (at, start, behind), row, OF_SPAN):
                    return DECLINED
                prior = sink.counts[PRIOR]
            at = behind
            continue
        behind = _behind_usual(wire, at, end)
        if behind >= 0:
            at = behind
            continue
        number, at = field(wire, SPAN, at, end, FIRST_MESSAGE)
        is_part = number == _STATUS or number == _EVENTS or number == _ATTRIBUTES
        if at < 0 or (is_part and not _take_part(wire, names, sink, row, number)):
            return DECLINED
        statuses += number == _STATUS
        # Pieces of a status merge.
        if statuses > 1:
            return DECLINED
    reason = _reason_of_ids(wire)
    if reason == 0:
        reason = _reason_of_end(sink, wire.fields[_END])
    if reason != 0:
        take_back(sink)
        return reason
    return _accept(wire, names, sink, row)


@hot
def _behind_usual(wire: Wire, at: int, end: int) -> int:
    """Read an id or a time as `field` does, where it is written as usual: the position behind it, or `DECLINED`."""
    mark = as_long(wire.body[at])
    size, value, behind = as_long(0), at + 2, as_long(DECLINED)
    if (mark == _TRACE_TAG or mark == _SPAN_TAG) and value < end:
        size = as_long(wire.body[at + 1])
        behind = value + size if size < _LONG else behind
    elif (mark == _START_TAG or mark == _END_TAG) and at + WORD < end:
        size = value = as_long(wire.words[at + 1])
        behind = at + 1 + WORD
    if behind < 0 or behind > end:
        return DECLINED
    place = mark >> 3 << 1
    wire.fields[place], wire.fields[place + 1] = value, size
    return behind


@inner
def _take_part(wire: Wire, names: Names, sink: Sink, row: int, number: int) -> bool:
    """Take what was just read if it is a status, an event or an attribute with an unusual tag."""
    width = 2 * wire.shapes.shape[1]
    start, size = wire.fields[2 * number], wire.fields[2 * number + 1]
    if number == _STATUS:
        return fields(wire, STATUS, start, start + size, width)
    if number == _EVENTS and names.sets[OF_EVENT, 1] > 1:
        return _take_event(wire, names, sink, row, start, size)
    if number == _ATTRIBUTES:
        return any_attribute(wire, names, sink, (start, start, start + size), row, OF_SPAN)
    return True


@part
def _take_event(wire: Wire, names: Names, sink: Sink, row: int, at: int, size: int) -> bool:
    base = _EVENT * 2 * wire.shapes.shape[1]
    if not fields(wire, EVENT, at, at + size, base):
        return False
    name = name_of(wire, names, OF_EVENT, wire.fields[base + _EVENT_NAME], wire.fields[base + _EVENT_NAME + 1])
    time = wire.fields[base + _TIME]
    if name >= 0 and name == names.special[_EXCEPTION]:
        sink.counts[EXCEPTION_AT], sink.counts[EXCEPTION_SIZE] = at, size
    if name < 0 or time == 0 or names.roles[name] == 0:
        return True
    index = sink.counts[TIMES]
    if index >= sink.times.shape[0]:
        return False
    sink.times[index, 0] = row << ROW_SHIFT | name << NAME_SHIFT
    sink.times[index, 1] = time if time > 0 else _LAST_INT64
    sink.counts[TIMES] = index + 1
    return True


@part
def _reason_of_ids(wire: Wire) -> int:
    """Say why the ids are refused, in the order of `Limits.reason`; 0 when they are not."""
    found = wire.fields
    if found[_TRACE + 1] != _TRACE_ID:
        return TRACE_LENGTH
    if wire.words[found[_TRACE]] == 0 and wire.words[found[_TRACE] + WORD] == 0:
        return TRACE_ZERO
    if found[_SPAN + 1] != _ID:
        return SPAN_LENGTH
    if wire.words[found[_SPAN]] == 0:
        return SPAN_ZERO
    return PARENT_LENGTH if found[_PARENT + 1] != 0 and found[_PARENT + 1] != _ID else 0


@part
def _reason_of_end(sink: Sink, end: int) -> int:
    """Say why an end is refused; unsigned on the wire, so a negative one is far ahead."""
    if end == 0:
        return NO_END
    if 0 < end < sink.counts[OLDEST]:
        return OLD
    return FUTURE if end < 0 or end > sink.counts[NEWEST] else 0


@hot
def _accept(wire: Wire, names: Names, sink: Sink, row: int) -> int:
    """Fill the row of the span whose fields were read."""
    if row >= sink.longs.shape[1]:
        return DECLINED
    found, width = wire.fields, 2 * wire.shapes.shape[1]
    sink.trace[row, 0] = _big_endian(wire.words[found[_TRACE]])
    sink.trace[row, 1] = _big_endian(wire.words[found[_TRACE] + WORD])
    sink.longs[0, row] = as_long(_big_endian(wire.words[found[_SPAN]]))
    has_parent = found[_PARENT + 1] != 0
    sink.longs[1, row] = as_long(_big_endian(wire.words[found[_PARENT]])) if has_parent else 0
    sink.longs[2, row] = found[_START] if found[_START] >= 0 else _LAST_INT64
    sink.longs[3, row] = found[_END]
    name = found[_NAME] << TEXT_SHIFT | found[_NAME + 1]
    count_text(sink, name)
    sink.longs[4, row] = name
    sink.longs[5, row] = sink.counts[SCOPE_AT]
    kind, status = found[_KIND], found[width + _CODE]
    sink.bytes[0, row] = kind if 0 < kind < _KINDS else _INTERNAL
    sink.bytes[1, row] = status if status < _STATUSES else 0
    sink.bytes[2, row] = found[_LOST] != 0
    sink.counts[LOST] += found[_LOST] != 0
    sink.counts[ROWS] = row + 1
    return 0 if _take_stand_ins(wire, names, sink, row) else DECLINED


@part
def _take_stand_ins(wire: Wire, names: Names, sink: Sink, row: int) -> bool:
    status = 2 * wire.shapes.shape[1] + _MESSAGE
    size = wire.fields[status + 1]
    message = wire.fields[status] << TEXT_SHIFT | size if size else NO_TEXT
    if not stand_in(sink, row, names.special[_STATUS_TEXT], message):
        return False
    if sink.counts[EXCEPTION_AT] < 0:
        return True
    kind, is_read = _exception_type(wire, names, sink.counts[EXCEPTION_AT], sink.counts[EXCEPTION_SIZE])
    return is_read and stand_in(sink, row, names.special[_EXCEPTION_TYPE], kind)


@inner
def _exception_type(wire: Wire, names: Names, at: int, size: int) -> tuple[int, bool]:
    """Give the last text that an exception event has as its type, and whether it could be read."""
    kind, end, base = NO_TEXT, at + size, _EVENT * 2 * wire.shapes.shape[1]
    while at < end:
        number, at = any_field(wire, EVENT, at, end, base)
        if at < 0:
            return NO_TEXT, False
        if number == _EVENT_ATTRIBUTES:
            start = wire.fields[base + 2 * number]
            stop = start + wire.fields[base + 2 * number + 1]
            text, is_read = text_under(wire, names, names.special[_EXCEPTION_TYPE], start, stop)
            if not is_read:
                return NO_TEXT, False
            kind = text if text != NO_TEXT else kind
    return kind, True


@hot
def _big_endian(word: np.uint64) -> np.uint64:
    result = np.uint64(0)
    for shift in range(0, 64, WORD):
        result = result << np.uint64(WORD) | word >> np.uint64(shift) & _BYTE
    return result
