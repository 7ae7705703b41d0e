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
from slo_exporter.ingest.otlp.compiled.jit import part
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
    for index in range(sink.counts[CELLS]):
        what = sink.cells[index, 0]
        kind = what & _KINDS
        sink.masks[what >> NAME_SHIFT & _NAMES] |= 1 << kind
        if kind == TEXT or kind == LIST:
            count_text(sink, sink.cells[index, 1])
    for index in range(sink.counts[TIMES]):
        sink.masks[sink.times[index, 0] >> NAME_SHIFT & _NAMES] |= 1


@part
def densify(wire: Wire, sink: Sink, dense: Dense) -> bool:
    """Fill the columns; False: declined."""
    return (
        _fill_names(wire, sink, dense)
        and _fill_services(wire, sink, dense)
        and _fill_cells(wire, sink, dense)
        and _fill_times(sink, dense)
        and _fill_blob(wire, sink, dense)
    )


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


@part
def _fill_cells(wire: Wire, sink: Sink, dense: Dense) -> bool:
    dense.bits[:] = 0x7FF8_0000_0000_0000
    dense.codes[_SERVICES_SLOT + 1 :] = -1
    dense.kinds[:] = 0
    for index in range(sink.counts[CELLS]):
        what = sink.cells[index, 0]
        name, first = what >> NAME_SHIFT & _NAMES, what >> ROW_SHIFT
        if dense.plan[name, 0] >= 0:
            last = first + 1
            if dense.plan[name, 3]:
                first, last = sink.resources[first, 0], sink.resources[first + 1, 0]
            if not _fill_cell(wire, dense, what, sink.cells[index, 1], (first, last)):
                return False
    return True


@part
def _fill_cell(wire: Wire, dense: Dense, what: int, content: int, rows: tuple[int, int]) -> bool:
    """Fill the rows of one cell, several where it is a resource's: from one up to another."""
    name, kind = what >> NAME_SHIFT & _NAMES, what & _KINDS
    column = dense.plan[name, 0]
    if kind == TEXT or kind == LIST:
        code = code_of_text(wire, dense, dense.plan[name, 2], content)
        if code < 0:
            return False
        for row in range(rows[0], rows[1]):
            dense.kinds[column, row] = _TEXT
            dense.codes[dense.plan[name, 2], row] = code
        return True
    number = dense.plan[name, 1]
    for row in range(rows[0], rows[1]):
        dense.kinds[column, row] = _BOOL if kind == BOOL else _NUMBER
        if kind == DOUBLE:
            dense.bits[number, row] = content
        else:
            dense.numbers[number, row] = np.float64(content)
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
            for step in range(0, size, WORD):
                dense.blob_words[position + step] = short_word(wire, at + step, min(WORD, size - step))
            position += size
        dense.blob[position] = 0
        position += 1
    sink.counts[LETTERS] = position
    return True
