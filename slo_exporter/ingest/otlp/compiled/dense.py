"""From sparse cells to columns."""

import numpy as np

from slo_exporter.ingest.otlp.compiled.arrays import (
    BOOL,
    CELLS,
    DOUBLE,
    LETTERS,
    LIST,
    NAME_SHIFT,
    RESOURCES,
    ROW_SHIFT,
    ROWS,
    SCOPES,
    TEXT,
    TEXT_SHIFT,
    TEXT_SLOTS,
    TIMES,
    Dense,
    Sink,
    Wire,
)
from slo_exporter.ingest.otlp.compiled.jit import bounded, part
from slo_exporter.ingest.otlp.compiled.shapes import as_long
from slo_exporter.ingest.otlp.compiled.sink import count_text
from slo_exporter.ingest.otlp.compiled.texts import WORD, code_of_text, short_word

_KINDS = 2**NAME_SHIFT - 1
_NAMES = 2 ** (ROW_SHIFT - NAME_SHIFT) - 1
_SIZE = 2**TEXT_SHIFT - 1
_MISSING = as_long(-(2**63))
_NAMES_SLOT, _SCOPES_SLOT, _SERVICES_SLOT = map(as_long, range(3))
_NUMBER, _TEXT, _BOOL = 1, 2, 3
"""`ValueKind`."""


@part
def mark(sink: Sink) -> None:
    """Say which kinds of cells each name has, once all are found, and provide for their texts."""
    _mark_cells(sink)
    for index in range(sink.counts[TIMES]):
        sink.masks[sink.times[index, 0] >> NAME_SHIFT & _NAMES] |= 1


@bounded
def _mark_cells(sink: Sink) -> None:
    for index in range(min(sink.counts[CELLS], sink.cells.shape[0] >> 1)):
        what = sink.cells[np.uint64(2 * index)]
        name, kind = what >> NAME_SHIFT & _NAMES, what & _KINDS
        if name < sink.masks.shape[0]:
            sink.masks[np.uint64(name)] |= 1 << kind
        if kind == TEXT or kind == LIST:
            count_text(sink, sink.cells[np.uint64(2 * index + 1)])


@part
def densify(wire: Wire, sink: Sink, dense: Dense) -> bool:
    """Fill the columns; False: declined."""
    return (
        _is_shaped(dense)
        and _fill_names(wire, sink, dense)
        and _fill_services(wire, sink, dense)
        and _fill_cells(wire, sink, dense)
        and _fill_times(sink, dense)
        and _fill_blob(wire, sink, dense)
    )


@part
def _is_shaped(dense: Dense) -> bool:
    """Say whether the arrays are as wide as what is `bounded` takes them to be."""
    rows = dense.kinds.shape[1]
    are_wide = dense.codes.shape[1] == rows and dense.numbers.shape[1] == rows and dense.bits.shape[1] == rows
    return are_wide and dense.bits.shape[0] == dense.numbers.shape[0] and dense.plan.shape[1] == 4


@part
def _fill_names(wire: Wire, sink: Sink, dense: Dense) -> bool:
    for scope in range(sink.counts[SCOPES]):
        sink.scopes[scope] = code_of_text(wire, dense, _SCOPES_SLOT, sink.scopes[scope])
        if sink.scopes[scope] < 0:
            return False
    for row in range(sink.counts[ROWS]):
        code = code_of_text(wire, dense, _NAMES_SLOT, sink.longs[4, row])
        if code < 0:
            return False
        dense.codes[_NAMES_SLOT, row] = code
        dense.codes[_SCOPES_SLOT, row] = sink.scopes[sink.longs[5, row]]
    return True


@part
def _fill_services(wire: Wire, sink: Sink, dense: Dense) -> bool:
    for resource in range(sink.counts[RESOURCES]):
        code = code_of_text(wire, dense, _SERVICES_SLOT, sink.resources[resource, 1])
        if code < 0:
            return False
        sink.resources[resource, 1] = code
        for row in range(sink.resources[resource, 0], sink.resources[resource + 1, 0]):
            dense.codes[_SERVICES_SLOT, row] = code
    return True


@bounded
def _fill_cells(wire: Wire, sink: Sink, dense: Dense) -> bool:
    dense.bits[:] = 0x7FF8_0000_0000_0000
    dense.codes[_SERVICES_SLOT + 1 :] = -1
    dense.kinds[:] = 0
    for index in range(min(sink.counts[CELLS], sink.cells.shape[0] >> 1)):
        what, content = sink.cells[np.uint64(2 * index)], sink.cells[np.uint64(2 * index + 1)]
        name, first = what >> NAME_SHIFT & _NAMES, what >> ROW_SHIFT
        if name >= dense.plan.shape[0] or first < 0:
            return False
        place, last = np.uint64(name), first + 1
        if dense.plan[place, 0] >= 0:
            if dense.plan[place, 3]:
                if last >= sink.resources.shape[0]:
                    return False
                first, last = sink.resources[np.uint64(first), 0], sink.resources[np.uint64(last), 0]
            if not _fill_cell(wire, dense, what & _KINDS, content, (place, first, last)):
                return False
    return True


@part
def _fill_cell(wire: Wire, dense: Dense, kind: int, content: int, where: tuple[np.uint64, int, int]) -> bool:
    """Fill the rows of one cell, several where it is a resource's: of a name, from one up to another."""
    place, first, last = where
    column, number, slot = dense.plan[place, 0], dense.plan[place, 1], dense.plan[place, 2]
    is_text = kind == TEXT or kind == LIST
    if first < 0 or last > dense.kinds.shape[1] or column >= dense.kinds.shape[0]:
        return False
    if (slot < 0 or slot >= dense.codes.shape[0]) if is_text else (number < 0 or number >= dense.numbers.shape[0]):
        return False
    code = code_of_text(wire, dense, slot, content) if is_text else 0
    if code < 0:
        return False
    for row in range(first, last):
        dense.kinds[np.uint64(column), np.uint64(row)] = _TEXT if is_text else _BOOL if kind == BOOL else _NUMBER
        if is_text:
            dense.codes[np.uint64(slot), np.uint64(row)] = code
        elif kind == DOUBLE:
            dense.bits[np.uint64(number), np.uint64(row)] = content
        else:
            dense.numbers[np.uint64(number), np.uint64(row)] = np.float64(content)
    return True


@part
def _fill_times(sink: Sink, dense: Dense) -> bool:
    dense.times[:] = _MISSING
    for index in range(sink.counts[TIMES]):
        what, time = sink.times[index, 0], sink.times[index, 1]
        column, row = dense.plan[what >> NAME_SHIFT & _NAMES, 0], what >> ROW_SHIFT
        known = dense.times[column, row]
        if known == _MISSING or time < known:
            dense.times[column, row] = time
    return True


@part
def _order_texts(sink: Sink, dense: Dense) -> int:
    """Put the distinct texts in the order of their slots; give the number of those that are no lists."""
    slots = dense.slots.shape[0] - 1
    total, start = dense.slots[slots, 0], 0
    for slot in range(slots + 1):
        dense.slots[slot, 1] = start
        start += dense.slots[slot, 0]
    ordered = dense.hashes.view(np.int64)
    for index in range(total):
        ordered[dense.slots[dense.of[index, 0], 1] + dense.of[index, 1]] = dense.texts[index]
    for index in range(total):  # a slice set from a slice would need numba's run time
        dense.texts[index] = ordered[index]
    return dense.slots[sink.counts[TEXT_SLOTS], 1]


@part
def _fill_blob(wire: Wire, sink: Sink, dense: Dense) -> bool:
    position = 0
    for index in range(_order_texts(sink, dense)):
        text = dense.texts[index]
        if text >= 0:
            at, size = text >> TEXT_SHIFT, text & _SIZE
            last = at + size - WORD
            while at < last:
                dense.blob_words[position] = wire.words[at]
                at, position = at + WORD, position + WORD
            # What the last word has behind the text is written over.
            dense.blob_words[position] = short_word(wire, at, last + WORD - at)
            position += last + WORD - at
        dense.blob[position] = 0
        position += 1
    sink.counts[LETTERS] = position
    return True
