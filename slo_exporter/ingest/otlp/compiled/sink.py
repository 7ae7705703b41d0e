"""Cells: what a span or a resource has under the keys that somebody asks for."""

import numpy as np

from slo_exporter.ingest.otlp.compiled.arrays import (
    ABSENT,
    CELLS,
    COUNTS,
    DOUBLE,
    EXCEPTION_AT,
    FIRST,
    LETTERS,
    LIST,
    NAME_SHIFT,
    PRIOR,
    ROW_SHIFT,
    TEXT,
    TEXT_SHIFT,
    TEXTS,
    UNASKED,
    Names,
    Sink,
    Wire,
)
from slo_exporter.ingest.otlp.compiled.jit import bounded, hot, inner, part
from slo_exporter.ingest.otlp.compiled.shapes import DECLINED, as_long
from slo_exporter.ingest.otlp.compiled.texts import NO_TEXT, WORD, same_bytes
from slo_exporter.ingest.otlp.compiled.values import (
    DOUBLE_TAG,
    INT_TAG,
    STRING_TAG,
    is_name,
    kind_of_int,
    name_of,
    pair,
    value_of,
)
from slo_exporter.ingest.otlp.compiled.wire import is_utf8, length, varint

_KINDS = 2**NAME_SHIFT - 1
_SIZE = 2**TEXT_SHIFT - 1
_ATTRIBUTE = 3
"""Which of the messages in `Wire.fields` it is."""


@part
def is_shaped(sink: Sink) -> bool:
    """Say whether the arrays are as wide as what is `bounded` takes them to be."""
    return sink.counts.shape[0] == COUNTS and sink.resources.shape[1] == 2


@part
def begin(names: Names, sink: Sink, kind: int) -> None:
    """Say that the cells from here on are of another span, or resource."""
    sink.counts[FIRST] = sink.counts[CELLS]
    sink.counts[PRIOR] = names.sizes.shape[0] + kind
    sink.counts[EXCEPTION_AT] = -1


@part
def take_back(sink: Sink) -> None:
    """Forget the cells of the newest span."""
    for index in range(sink.counts[FIRST], sink.counts[CELLS]):
        sink.last[sink.cells[2 * index] >> NAME_SHIFT & (1 << ROW_SHIFT - NAME_SHIFT) - 1] = -1
    sink.counts[CELLS] = sink.counts[FIRST]


@bounded
def put(sink: Sink, row: int, name: int, kind: int, content: int) -> bool:
    """Fill a cell of the newest span or resource; of several the last stands. False: it is declined."""
    if name < 0 or name >= sink.last.shape[0]:
        return False
    cell = sink.last[np.uint64(name)]
    is_new = cell < sink.counts[FIRST]
    cell = sink.counts[CELLS] if is_new else cell
    # A list may turn out to be no value: which one stands is not known here.
    if cell < 0 or cell >= sink.cells.shape[0] >> 1 or (kind == LIST and not is_new):
        return False
    if is_new:
        sink.counts[CELLS] = cell + 1
        sink.last[np.uint64(name)] = cell
    sink.cells[np.uint64(2 * cell)] = row << ROW_SHIFT | name << NAME_SHIFT | kind
    sink.cells[np.uint64(2 * cell + 1)] = content
    return True


@inner
def stand_in(sink: Sink, row: int, name: int, text: int) -> bool:
    """Fill a cell with a text if the span has none; a name of -1 is nothing that is asked for."""
    if name < 0 or text == NO_TEXT:
        return True
    index = sink.last[name]
    if index >= sink.counts[FIRST]:
        return sink.cells[2 * index] & _KINDS != LIST
    return put(sink, row, name, TEXT, text)


@part
def cell_text(sink: Sink, name: int) -> int:
    """Give the text that the newest span or resource has under a name, if it is one and not empty."""
    index = sink.last[name]
    if index < sink.counts[FIRST] or sink.cells[2 * index] & _KINDS != TEXT:
        return NO_TEXT
    text = sink.cells[2 * index + 1]
    return text if text & _SIZE else NO_TEXT


@part
def count_text(sink: Sink, text: int) -> None:
    """Provide for a text."""
    sink.counts[TEXTS] += 1
    if text >= 0:
        sink.counts[LETTERS] += text & _SIZE


@hot
def attribute(wire: Wire, names: Names, sink: Sink, where: tuple[int, int, int], row: int, kind: int) -> bool:
    """
    Take a KeyValue if it is asked for in its set, and check it in any case.

    It is *where* its tag is, where it starts itself, and where it ends.
    """
    base = _ATTRIBUTE * 2 * wire.shapes.shape[1]
    key_at, key_size, value_at, end = pair(wire, where[1], where[2], base)
    if key_at < 0:
        return False
    prior, known = sink.counts[PRIOR], names.sizes.shape[0]
    name = sink.follow[prior]
    if name < 0 or name >= known or not is_name(wire, names, name, key_at, key_size):
        name = name_of(wire, names, kind, key_at, key_size)
        if name < 0 and not is_utf8(wire, key_at, key_size):
            return False
        name = name if name >= 0 else _unasked(sink, known, prior)
    cell, content = value_of(wire, value_at, end, base)
    if cell < 0 or name < 0:
        return cell >= 0
    sink.follow[prior] = sink.counts[PRIOR] = name
    _remember(wire, sink, name, (where[0], value_at, end), where[2])
    if name >= known or cell == ABSENT or (cell == LIST and names.roles[name] == 0):
        return True
    return put(sink, row, name, cell, content)


@part
def _unasked(sink: Sink, known: int, prior: int) -> int:
    """Give a key that nobody asks for a name of its own, by which it is known when it comes again; -1 = none."""
    name = sink.follow[prior]
    if name >= known:
        return name
    fresh = sink.counts[UNASKED]
    if name >= 0 or fresh >= sink.follow.shape[0]:
        return -1
    sink.counts[UNASKED] = fresh + 1
    return fresh


@part
def _remember(wire: Wire, sink: Sink, name: int, where: tuple[int, int, int], behind: int) -> None:
    """Note how a usual attribute, whose value is the last thing in it, starts up to its content."""
    at, value_at, end = where
    place = 4 * name
    if value_at == end:
        sink.seen[place + 1] = 0
        return
    mark, head = as_long(wire.body[value_at]), value_at + 1 - at
    if mark == STRING_TAG:
        size, start = length(wire, value_at + 1, end)
        head = start - at if start + size == end else 0
    elif mark != DOUBLE_TAG and mark != INT_TAG:
        head = 0
    sink.seen[place], sink.seen[place + 1] = at, head if end == behind else 0
    sink.seen[place + 2], sink.seen[place + 3] = end - at, mark


@bounded
def repeated(wire: Wire, names: Names, sink: Sink, where: tuple[int, int, int], row: int) -> tuple[int, int]:
    """
    Take an attribute that starts as the last one did that followed the same other one.

    It is *where* its tag is, where the span ends, and behind an attribute of which name. The same
    bytes, up to its value's content, say the same: key, type and sizes. Gives the position behind
    it, or `DECLINED`: it is another one; and its name.
    """
    at, end, prior = where
    if prior < 0 or prior >= sink.follow.shape[0]:
        return DECLINED, prior
    name = sink.follow[np.uint64(prior)]
    place = 4 * name
    if name < 0 or place + 3 >= sink.seen.shape[0]:
        return DECLINED, prior
    before, head = sink.seen[np.uint64(place)], sink.seen[np.uint64(place + 1)]
    start, behind = at + head, at + sink.seen[np.uint64(place + 2)]
    if head < WORD or behind > end or not same_bytes(wire, at, before, head):
        return DECLINED, prior
    mark, cell, content, stop = sink.seen[np.uint64(place + 3)], DOUBLE, as_long(0), as_long(DECLINED)
    if mark == DOUBLE_TAG:
        # A longer one, with something behind it, is another one.
        if start + WORD == behind and start < wire.words.shape[0]:
            content, stop = as_long(wire.words[np.uint64(start)]), behind
    elif mark == INT_TAG:
        content, stop = varint(wire, start, behind)
        cell = kind_of_int(content)
    elif is_utf8(wire, start, behind - start):
        cell, content, stop = TEXT, start << TEXT_SHIFT | behind - start, behind
    if stop != behind or (name < names.sizes.shape[0] and not put(sink, row, name, cell, content)):
        return DECLINED, prior
    return behind, name


@inner
def any_attribute(wire: Wire, names: Names, sink: Sink, where: tuple[int, int, int], row: int, kind: int) -> bool:
    """Do what `attribute` does, where it is not done for every one of a span."""
    return attribute(wire, names, sink, where, row, kind)


@inner
def text_under(wire: Wire, names: Names, name: int, at: int, end: int) -> tuple[int, bool]:
    """Give the text of a KeyValue whose key is a name, and whether it could be read."""
    base = _ATTRIBUTE * 2 * wire.shapes.shape[1]
    key_at, key_size, value_at, value_end = pair(wire, at, end, base)
    if key_at < 0:
        return NO_TEXT, False
    cell, content = value_of(wire, value_at, value_end, base)
    is_it = cell == TEXT and is_name(wire, names, name, key_at, key_size)
    return content if is_it else NO_TEXT, cell >= 0
