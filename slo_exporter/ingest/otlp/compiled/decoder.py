"""One body through the kernel: what it reads is made here, and what it filled becomes columns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from secrets import randbits
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.compiled.arrays import (
    COUNTS,
    DEPTH,
    LARGEST,
    LETTERS,
    NEWEST,
    OLDEST,
    ROWS,
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
from slo_exporter.ingest.otlp.compiled.digests import digests
from slo_exporter.ingest.otlp.compiled.names import SERVICE, names_of, sets_of
from slo_exporter.ingest.otlp.compiled.plan import Plan, plan_of
from slo_exporter.ingest.otlp.compiled.shapes import shapes
from slo_exporter.ingest.otlp.decode import Keys, has_too_many_empty_parts
from slo_exporter.ingest.otlp.refusals import FUTURE_NS, LARGEST_PART, Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.ingest.otlp.walk import MOST_PARTS

_BYTE, _INT, _LONG, _WORD, _FLOAT = map(np.dtype, (np.uint8, np.int32, np.int64, np.uint64, np.float64))
"""Made once: numpy would look each up, for each array."""
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
_MOST_PLANS: Final = 64
_USUAL_LAYERS: Final = 64
"""Resources, and scopes, for which there is room before any is counted."""
_USUAL_SPAN: Final = 64
"""Bytes; of smaller ones there may be too many."""
_SEED: Final = np.uint64(randbits(64) | 1)


@dataclass(frozen=True, slots=True)
class Asked:
    """The asked-for keys of one `Keys`."""

    sets: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    names: Names
    unasked: int
    """The name of the service where nobody asks for it as a column; -1 where somebody does."""
    marks: NDArray[np.int64]
    """`Sink.last` and `Sink.follow`, as they are at first."""
    plans: dict[bytes, Plan] = field(default_factory=dict)
    """By the masks of the names: one export after the other has the same keys, with values of the same kinds."""

    def plan(self, masks: NDArray[np.int64]) -> Plan:
        """Plan the columns of the names that occur."""
        packed = masks.tobytes()
        plan = self.plans.get(packed)
        if plan is None:
            if len(self.plans) >= _MOST_PLANS:
                self.plans.clear()
            plan = self.plans[packed] = plan_of(self.sets, masks, self.unasked)
        return plan


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
        counts = np.zeros(COUNTS, dtype=_LONG)
        counts[OLDEST], counts[NEWEST] = max(oldest_ns, 0), max(newest_ns, 0)
        wire = self._wire(body)
        parts = self._located(wire, counts)
        filled = None if parts is None else self._filled(body, wire, self._names_of(keys), parts)
        if filled is None:
            return None
        assembly = Assembly(filled)
        return assembly.batch(), assembly.refusals(lateness_ns)

    def digests(self, bodies: Sequence[bytes]) -> list[bytes]:
        """Give the BLAKE2b digest of each body, 16 bytes; faster where there are several."""
        return digests(self._kernel, bodies)

    def _wire(self, body: bytes) -> Wire:
        padded = body if len(body) >= _SMALLEST_BODY else body.ljust(_SMALLEST_BODY, b"\0")
        return Wire(
            body=np.frombuffer(padded, dtype=_BYTE),
            words=np.ndarray((len(padded) - 7,), _WORD, padded, 0, (1,)),
            size=len(body),
            shapes=self._shapes,
            fields=np.empty(_MESSAGES_AT_ONCE * 2 * self._shapes.shape[1], dtype=_LONG),
            stack=np.empty((DEPTH, 2), dtype=_LONG),
        )

    def _names_of(self, keys: Keys) -> Asked:
        asked = self._asked.get(keys)
        if asked is None:
            sets = sets_of(keys)
            names = names_of(keys, sets)
            marks = np.full((2, len(names.sizes) + _SETS + _UNASKED), -1, dtype=_LONG)
            asked = Asked(sets, names, -1 if SERVICE in keys.resource else int(names.special[-1]), marks)
            if len(self._asked) >= _MOST_KEYS:
                self._asked.clear()
            self._asked[keys] = asked
        return asked

    def _located(self, wire: Wire, counts: NDArray[np.int64]) -> Parts | None:
        """Find the parts, at once where there are as many as usual; None: declined."""
        parts = _parts(counts, _USUAL_LAYERS, _USUAL_LAYERS, wire.size // _USUAL_SPAN)
        if not self._kernel.survey(wire, parts):
            return None
        resources, scopes, spans, largest = counts[: LARGEST + 1].tolist()
        if resources + scopes + spans > MOST_PARTS or largest > LARGEST_PART:
            return None
        if max(resources, scopes) <= _USUAL_LAYERS and spans <= len(parts.spans):
            return parts
        parts = _parts(counts, resources, scopes, spans)
        return parts if self._kernel.survey(wire, parts) else None

    def _filled(self, body: bytes, wire: Wire, asked: Asked, parts: Parts) -> Filled | None:
        sink = _sink(wire.size, asked, parts.counts)
        if not self._kernel.fill(wire, asked.names, parts, sink):
            return None
        plan = asked.plan(sink.masks)
        dense = _dense(plan, parts.counts)
        if not self._kernel.columns(wire, sink, dense):
            return None
        return Filled(body=body, plan=plan, sink=sink, dense=dense, counts=parts.counts.tolist())


def _parts(counts: NDArray[np.int64], resources: int, scopes: int, spans: int) -> Parts:
    """Make room for so many parts."""
    return Parts(
        counts=counts,
        resources=np.empty((resources, 2), dtype=_LONG),
        scopes=np.empty((scopes, 4), dtype=_LONG),
        spans=np.empty((spans, 4), dtype=_LONG),
    )


def _sink(size: int, asked: Asked, counts: NDArray[np.int64]) -> Sink:
    """Make room for all that a body of *size* bytes can hold; memory that nothing fills is never touched."""
    resources, scopes, spans = counts[: SPANS + 1].tolist()
    known = len(asked.names.sizes)
    counts[UNASKED] = known + _SETS
    last, follow = asked.marks.copy()
    return Sink(
        counts=counts,
        masks=np.zeros(known, dtype=_LONG),
        last=last,
        follow=follow,
        seen=np.zeros(4 * len(last), dtype=_LONG),
        cells=np.empty(size // _SMALLEST_CELL * 2, dtype=_LONG),
        times=np.empty((size // _SMALLEST_TIME, 2), dtype=_LONG),
        trace=np.empty((spans, 2), dtype=_WORD),
        longs=np.empty((6, spans), dtype=_LONG),
        bytes=np.empty((3, spans), dtype=_BYTE),
        resources=np.empty((resources + 1, 2), dtype=_LONG),
        scopes=np.empty(scopes, dtype=_LONG),
        refused=np.empty((spans, 4), dtype=_INT),
    )


def _dense(plan: Plan, counts: NDArray[np.int64]) -> Dense:
    counts[TEXT_SLOTS] = plan.texts
    found = counts.tolist()
    rows, texts, letters = found[ROWS], found[TEXTS], found[LETTERS]
    # One row more, which nothing fills, is that of the columns without numbers, or without texts.
    numbers = np.empty((plan.numbers + 1, rows), dtype=_FLOAT)
    blob = np.empty(letters + texts + 8, dtype=_BYTE)
    return Dense(
        plan=plan.places,
        kinds=np.empty((plan.kinds, rows), dtype=_BYTE),
        numbers=numbers,
        bits=numbers.view(_LONG),
        codes=np.empty((plan.slots + 1, rows), dtype=_INT),
        times=np.empty((plan.times, rows), dtype=_LONG),
        table=np.zeros(2 << texts.bit_length(), dtype=_INT),
        hashes=np.empty(texts, dtype=_WORD),
        texts=np.empty(texts, dtype=_LONG),
        of=np.empty((texts, 2), dtype=_LONG),
        slots=plan.sizes.copy(),
        blob=blob,
        blob_words=np.ndarray((len(blob) - 7,), _WORD, blob, 0, (1,)),
        seed=_SEED,
    )
