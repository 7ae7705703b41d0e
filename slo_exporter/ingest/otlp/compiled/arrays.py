"""
What the kernel reads and fills: tuples of arrays, made by `..decoder`.

Bits of doubles and of unsigned 64-bit numbers stand in int64 as they are. A text is one
int64, see `TEXT_SHIFT`: where it starts in the body, and its size.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.compiled.shapes import as_long

TEXT_SHIFT = 31
"""A text is ``start << TEXT_SHIFT | size``; bodies are smaller than 2**31."""
NAME_SHIFT, ROW_SHIFT = 4, 32
"""A cell is ``row << ROW_SHIFT | name << NAME_SHIFT | kind``, and its content."""
DOUBLE, INT, LARGE_INT, BOOL, TEXT, LIST = map(as_long, range(6))
"""Kinds of cells. `LARGE_INT` is one that a double may not hold, `LIST` an ArrayValue not yet judged."""
ABSENT = as_long(6)
"""Kind of a value that fills no cell."""

OF_SPAN, OF_RESOURCE, OF_EVENT = map(as_long, range(3))
"""Sets of names."""

(
    RESOURCES,
    SCOPES,
    SPANS,
    LARGEST,
    OLDEST,
    NEWEST,
    CELLS,
    TIMES,
    ROWS,
    REFUSED,
    LOST,
    TEXTS,
    LETTERS,
    FIRST,
    PRIOR,
    EXCEPTION_AT,
    EXCEPTION_SIZE,
    RESOURCE_AT,
    SCOPE_AT,
    TEXT_SLOTS,
    UNASKED,
) = range(21)
"""
Places in `Sink.counts`.

`RESOURCES`, `SCOPES` and `SPANS` are how many the body has, `LARGEST` the size of the largest
span, resource or scope, `OLDEST` and `NEWEST` bounds of ends; then how many cells, times of
events, rows, refused spans, rows that lost events, texts, and bytes of texts there are. The rest
is where the walk is: the first cell of the span or resource, the name of its newest attribute,
its newest exception event, and which resource and scope it is in. `TEXT_SLOTS` is how many
slots of texts `Dense` has, without those of lists, and `UNASKED` the next name of a key that nobody
asks for.
"""
COUNTS = 21

TRACE_LENGTH, TRACE_ZERO, SPAN_LENGTH, SPAN_ZERO, PARENT_LENGTH, NO_END, OLD, FUTURE = range(1, 9)
"""Why a span is refused."""
REASON_NAMES = (
    "",
    "bad_trace_id",
    "zero_trace_id",
    "bad_span_id",
    "zero_span_id",
    "bad_parent_id",
    "no_end_time",
    "too_old",
    "in_future",
)
"""Their keys of `REASONS`."""

DEPTH = 48
"""Messages in one another that are followed; the protobuf library follows 100."""


FIRST_MESSAGE = as_long(0)
"""Where the first message in `Wire.fields` stands."""


class Wire(NamedTuple):
    """A body, and what reading it takes."""

    body: NDArray[np.uint8]
    """At least 16 bytes."""
    words: NDArray[np.uint64]
    """The 8 bytes from each position of the body on, little-endian."""
    shapes: NDArray[np.int64]
    """See `..shapes`."""
    fields: NDArray[np.int64]
    """Scratch: fields of a message as they are read; four messages of ``2 * shapes.shape[1]``."""
    stack: NDArray[np.int64]
    """Scratch: the messages around the one that is read, shape (`DEPTH`, 2)."""
    size: int
    """Bytes of the body that count."""


class Names(NamedTuple):
    """Asked-for keys and names of events, the sets one after the other."""

    sizes: NDArray[np.int64]
    heads: NDArray[np.uint64]
    """The first eight bytes, or as many as there are."""
    tails: NDArray[np.uint64]
    """The last eight bytes, or the head."""
    starts: NDArray[np.int64]
    """Where in `letters` its whole words of eight bytes start."""
    letters: NDArray[np.uint64]
    places: NDArray[np.int64]
    """Hash tables: a name or -1."""
    sets: NDArray[np.int64]
    """Of each set where its hash table starts, and its size less one; shape (3, 2)."""
    roles: NDArray[np.int64]
    """Per name: 1 = a key whose lists are read, or an event whose times are asked for."""
    special: NDArray[np.int64]
    """Names of the status message, the exception's type, the exception event and the service; -1 = not asked for."""


class Parts(NamedTuple):
    """Where the parts of a body stand: start and size; there is room for as many as there are, or for more."""

    counts: NDArray[np.int64]
    """That of `Sink`."""
    resources: NDArray[np.int64]
    """Of each the head; shape (resources, 2)."""
    scopes: NDArray[np.int64]
    """Of each the head, the resource, and its place in that; shape (scopes, 4)."""
    spans: NDArray[np.int64]
    """Of each the scope, and its place in that; shape (spans, 4)."""


class Sink(NamedTuple):
    """What the walk finds."""

    counts: NDArray[np.int64]
    masks: NDArray[np.int64]
    """Per name a bit for each kind of its cells, or 1 where an event has a time."""
    last: NDArray[np.int64]
    """Per name its newest cell."""
    follow: NDArray[np.int64]
    """
    Per name, per set behind them, and per key that nobody asks for behind those, the name that came after it
    last time.
    """
    seen: NDArray[np.int64]
    """
    Per name an attribute of a span: where it is, bytes up to its value's content, bytes in all, and the
    value's tag; four numbers a name.
    """
    cells: NDArray[np.int64]
    """Two numbers a cell."""
    times: NDArray[np.int64]
    """Times of events: ``row << ROW_SHIFT | name << NAME_SHIFT``, nanoseconds; shape (times, 2)."""
    trace: NDArray[np.uint64]
    """Shape (spans, 2)."""
    longs: NDArray[np.int64]
    """Span id, parent id, start, end, name, scope; shape (6, spans)."""
    bytes: NDArray[np.uint8]
    """Kind, status, lost events; shape (3, spans)."""
    resources: NDArray[np.int64]
    """First row, service; shape (resources + 1, 2)."""
    scopes: NDArray[np.int64]
    """Name of each scope, shape (scopes,)."""
    refused: NDArray[np.int32]
    """Reason, resource, scope in it, span in that; shape (spans, 4)."""


class Dense(NamedTuple):
    """What becomes of it."""

    plan: NDArray[np.int64]
    """
    Per name its row of `kinds` or, of an event, of `times`, that of `numbers`, that of `codes`,
    and 1 if it is a resource's; shape (names, 4).
    """
    kinds: NDArray[np.uint8]
    numbers: NDArray[np.float64]
    bits: NDArray[np.int64]
    """The same memory."""
    codes: NDArray[np.int32]
    """Names, scopes, services, columns of texts, columns of lists; shape (slots, rows)."""
    times: NDArray[np.int64]
    table: NDArray[np.int32]
    """Hash table of texts: index + 1, or 0."""
    hashes: NDArray[np.uint64]
    texts: NDArray[np.int64]
    """Distinct texts; in the end slot by slot."""
    of: NDArray[np.int64]
    """Of each its slot and its code there; shape (texts, 2)."""
    slots: NDArray[np.int64]
    """Per slot how many texts it has, and its newest one; the last row counts them all; shape (slots + 1, 2)."""
    blob: NDArray[np.uint8]
    """The texts of all slots but those of lists, a NUL after each, and 8 bytes more."""
    blob_words: NDArray[np.uint64]
    """Its 8 bytes from each position on."""
    seed: np.uint64
    """Odd and secret, so that nobody can make texts collide."""
