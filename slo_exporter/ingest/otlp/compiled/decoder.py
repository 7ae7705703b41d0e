"""One body through the kernel: what it reads is made here, and what it filled becomes columns."""

from dataclasses import dataclass
from secrets import randbits
from typing import Any, Final

import numpy as np

from slo_exporter.ingest.otlp.compiled.arrays import (
    COUNTS,
    DEPTH,
    LARGEST,
    LETTERS,
    NEWEST,
    OLDEST,
    RESOURCES,
    ROWS,
    SCOPES,
    SPANS,
    TEXT_SLOTS,
    TEXTS,
    UNASKED,
    Dense,
    Names,
    Parts,
    Sink,
    Wire,
)
from slo_exporter.ingest.otlp.compiled.assemble import Assembly, Filled
from slo_exporter.ingest.otlp.compiled.names import SERVICE, names_of, sets_of
from slo_exporter.ingest.otlp.compiled.plan import Plan, plan_of
from slo_exporter.ingest.otlp.compiled.shapes import shapes
from slo_exporter.ingest.otlp.decode import Keys, has_too_many_empty_parts
from slo_exporter.ingest.otlp.refusals import FUTURE_NS, LARGEST_PART, Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.ingest.otlp.walk import MOST_PARTS

_SMALLEST_BODY: Final = 16
"""What is smaller is padded."""
_LARGEST_BODY: Final = 2**31 - 1
_SMALLEST_CELL: Final = 5
_SMALLEST_TIME: Final = 11
"""Bytes: a status with a message of one; an event with a time."""
_MESSAGES_AT_ONCE: Final = 4
_SETS: Final = 3
_UNASKED: Final = 64
"""Of so many keys that nobody asks for the kernel knows when one comes again."""
_MOST_KEYS: Final = 8
"""How many sets of keys are remembered: a server has two for a moment when its SLOs change."""
_SEED: Final = np.uint64(randbits(64) | 1)


@dataclass(frozen=True, slots=True)
class Asked:
    """The asked-for keys of one `Keys`."""

    sets: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    names: Names
    unasked: int
    """The name of the service where nobody asks for it as a column; -1 where somebody does."""


class CompiledDecoder:
    """
    Decodes protobuf bodies as the authority does, or declines; any number of threads may at once.

    Args:
        kernel: has the functions of `..kernel`, by their names, as `..native.linking` makes them of machine code.

    Raises:
        UnknownShapesError: the installed OTLP messages are not those that the kernel knows.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._shapes = shapes()
        self._asked: dict[Keys, Asked] = {}

    def decode(self, body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> tuple[SpanBatch, Refusals] | None:
        """
        Decode one export: what `..decode.decode` gives for it.

        None: declined, and the authority decides what it is.
        """
        oldest_ns, newest_ns = now_ns - lateness_ns, now_ns + FUTURE_NS
        if len(body) > _LARGEST_BODY or not oldest_ns <= newest_ns < 2**63 or has_too_many_empty_parts(body):
            return None
        counts = np.zeros(COUNTS, dtype=np.int64)
        counts[OLDEST], counts[NEWEST] = max(oldest_ns, 0), max(newest_ns, 0)
        wire = self._wire(body)
        if not self._kernel.survey(wire, _parts(counts)) or not _is_bounded(counts):
            return None
        filled = self._filled(body, wire, self._names_of(keys), counts)
        if filled is None:
            return None
        assembly = Assembly(filled)
        return assembly.batch(), assembly.refusals(lateness_ns)

    def _wire(self, body: bytes) -> Wire:
        padded = body if len(body) >= _SMALLEST_BODY else body.ljust(_SMALLEST_BODY, b"\0")
        return Wire(
            body=np.frombuffer(padded, dtype=np.uint8),
            words=np.ndarray((len(padded) - 7,), np.uint64, padded, 0, (1,)),
            size=len(body),
            shapes=self._shapes,
            fields=np.empty(_MESSAGES_AT_ONCE * 2 * self._shapes.shape[1], dtype=np.int64),
            stack=np.empty((DEPTH, 2), dtype=np.int64),
        )

    def _names_of(self, keys: Keys) -> Asked:
        asked = self._asked.get(keys)
        if asked is None:
            sets = sets_of(keys)
            names = names_of(keys, sets)
            asked = Asked(sets, names, -1 if SERVICE in keys.resource else int(names.special[-1]))
            if len(self._asked) >= _MOST_KEYS:
                self._asked.clear()
            self._asked[keys] = asked
        return asked

    def _filled(self, body: bytes, wire: Wire, asked: Asked, counts: Any) -> Filled | None:
        parts, sink = _parts(counts), _sink(wire.size, asked.names, counts)
        if not (self._kernel.survey(wire, parts) and self._kernel.fill(wire, asked.names, parts, sink)):
            return None
        plan = plan_of(asked.sets, sink.masks, asked.unasked)
        dense = _dense(plan, counts)
        if not self._kernel.columns(wire, sink, dense):
            return None
        return Filled(body=body, plan=plan, sink=sink, dense=dense, counts=counts.tolist())


def _is_bounded(counts: Any) -> bool:
    parts = counts[RESOURCES] + counts[SCOPES] + counts[SPANS]
    return bool(parts <= MOST_PARTS and counts[LARGEST] <= LARGEST_PART)


def _parts(counts: Any) -> Parts:
    """Make room for as many parts as were counted."""
    return Parts(
        counts=counts,
        resources=np.empty((counts[RESOURCES], 2), dtype=np.int64),
        scopes=np.empty((counts[SCOPES], 4), dtype=np.int64),
        spans=np.empty((counts[SPANS], 4), dtype=np.int64),
    )


def _sink(size: int, names: Names, counts: Any) -> Sink:
    """Make room for all that a body of *size* bytes can hold; memory that nothing fills is never touched."""
    spans, known = counts[SPANS], len(names.sizes)
    counts[UNASKED] = known + _SETS
    marks = np.full((2, known + _SETS + _UNASKED), -1, dtype=np.int64)
    return Sink(
        counts=counts,
        masks=np.zeros(known, dtype=np.int64),
        last=marks[0],
        follow=marks[1],
        seen=np.zeros((len(marks[0]), 4), dtype=np.int64),
        cells=np.empty((size // _SMALLEST_CELL, 2), dtype=np.int64),
        times=np.empty((size // _SMALLEST_TIME, 2), dtype=np.int64),
        trace=np.empty((spans, 2), dtype=np.uint64),
        longs=np.empty((6, spans), dtype=np.int64),
        bytes=np.empty((3, spans), dtype=np.uint8),
        resources=np.empty((counts[RESOURCES] + 1, 2), dtype=np.int64),
        scopes=np.empty(counts[SCOPES], dtype=np.int64),
        refused=np.empty((spans, 4), dtype=np.int32),
    )


def _dense(plan: Plan, counts: Any) -> Dense:
    rows, texts, slots = counts[ROWS], int(counts[TEXTS]), plan.texts + plan.lists
    numbers = np.empty((plan.numbers, rows), dtype=np.float64)
    counts[TEXT_SLOTS] = plan.texts
    blob = np.empty(counts[LETTERS] + texts + 8, dtype=np.uint8)
    places = np.full((slots + 1, 2), -1, dtype=np.int64)
    places[:, 0] = 0
    return Dense(
        plan=plan.places,
        kinds=np.empty((plan.kinds, rows), dtype=np.uint8),
        numbers=numbers,
        bits=numbers.view(np.int64),
        codes=np.empty((slots, rows), dtype=np.int32),
        times=np.empty((plan.times, rows), dtype=np.int64),
        table=np.zeros(2 << texts.bit_length(), dtype=np.int32),
        hashes=np.empty(texts, dtype=np.uint64),
        texts=np.empty(texts, dtype=np.int64),
        of=np.empty((texts, 2), dtype=np.int64),
        slots=places,
        blob=blob,
        blob_words=np.ndarray((len(blob) - 7,), np.uint64, blob, 0, (1,)),
        seed=_SEED,
    )
