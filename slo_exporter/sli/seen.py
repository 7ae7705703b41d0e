"""
What was counted lately, in bounded memory: no span and no request twice.

A `Seen` holds 64-bit hashes in two hash tables, a young one and an old one. When
the young one is full it becomes the old one and the old one is forgotten, so the
reach is between one and two tables of entries. Until it has its full size, a young
one that is full moves into one twice as large, a little with every commit. Nothing
of it survives a restart.

Admission is tentative until `keep`; `undo` takes it back, so that a refused
export can come again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.hash_table import BUCKET, HashTable
from slo_exporter.sli.records import Ints, Mask, Words

SEEN_BYTES: Final = 32 * 1024 * 1024
"""The most that one memory may take (docs/laws.md, "Acknowledged means kept, once")."""
_FIRST_SLOTS: Final = 1 << 12
_MOVED: Final = 8
"""Slots that a row moves to a table twice as large: all at once would keep everybody waiting for 0.1 s."""
_30, _27, _31 = (np.uint64(bits) for bits in (30, 27, 31))
_ADDEND: Final = np.uint64(0x9E3779B97F4A7C15)
_LEAST: Final = np.uint64(1)
_FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def mix(*columns: Words) -> Words:
    """
    Hash several columns into one of 64 bits, never 0.

    Source: the finaliser of splitmix64 (Steele, Lea, Flood 2014), chained.
    """
    state = np.zeros_like(columns[0])
    shifted = np.empty_like(state)
    for column in columns:
        state ^= column
        state += _ADDEND
        for bits, factor in zip((_30, _27), _FACTORS, strict=True):
            state ^= np.right_shift(state, bits, out=shifted)
            state *= factor
        state ^= np.right_shift(state, _31, out=shifted)
    return np.maximum(state, _LEAST, out=state)


@dataclass(frozen=True, slots=True)
class _Moving:
    """A table whose entries go to the young one."""

    table: HashTable
    left: int
    """Entries that have not moved."""
    at: int = 0
    """Slots before this one have moved."""


class Seen:
    """
    Hashes seen lately, each with an interval if asked for.

    Args:
        intervals: an entry matches only where the intervals overlap too.
        capacity_bytes: the most that both tables take together.
    """

    def __init__(self, *, intervals: bool, capacity_bytes: int = SEEN_BYTES) -> None:
        slot_bytes = 24 if intervals else 8
        self._most_slots = max(BUCKET, 1 << (capacity_bytes // slot_bytes // 2).bit_length() - 1)
        first = min(_FIRST_SLOTS, self._most_slots)
        self._young = HashTable(first, intervals=intervals)
        self._old = HashTable(BUCKET, intervals=intervals)
        self._moving: _Moving | None = None
        self._young_since_ns: int | None = None
        self._old_since_ns: int | None = None
        self._tentative: list[Ints] = []
        self._widened: list[tuple[HashTable, Ints, Ints, Ints]] = []
        """Table, slots and the intervals before they were widened."""

    def reserve(self, rows: int, now_ns: int) -> None:
        """Make room for *rows*, between transactions only."""
        if self._young_since_ns is None:
            self._young_since_ns = now_ns
        slots, used = len(self._young.keys), len(self) - self._old.used
        while 2 * (used + rows) > slots and slots < self._most_slots:
            slots *= 2
        if slots > len(self._young.keys):
            self._move(len(self._young.keys))
            self._moving = _Moving(self._young, self._young.used)
            self._young = HashTable(slots, intervals=self._old.intervals)
        self._move(_MOVED * rows)
        if used and 2 * (used + rows) > slots:
            self._move(slots)
            self._old, self._old_since_ns = self._young, self._young_since_ns
            self._young = HashTable(slots, intervals=self._old.intervals)
            self._young_since_ns = now_ns

    def _move(self, slots: int) -> None:
        """Move what stands in the next so many slots, if anything is to be moved."""
        if self._moving is None:
            return
        source, left, at = self._moving.table, self._moving.left, self._moving.at
        left -= self._young.take_in(source, slice(at, at + slots))
        self._moving = _Moving(source, left, at + slots) if left else None

    def admit(self, keys: Words, start: Ints, end: Ints) -> Mask:
        """
        Say which rows are new, and remember them.

        Keys are never 0. Rows with equal keys must not overlap one another. Rows
        beyond the room of a whole table, or beyond some 500 intervals of one key,
        are new and not remembered.
        """
        slots, known, lost = self._young.probe(keys, start, end)
        new = np.ones(len(keys), dtype=np.bool_)
        new[known] = False
        self._widen(self._young, slots, known, start, end)
        for table in self._others:
            there, in_it, _ = table.probe(keys, start, end)
            new[in_it] = False
            self._widen(table, there, in_it, start, end)
        room = max(0, len(self._young.keys) * 3 // 4 - self._young.used)
        if room < len(keys) or lost.size or np.count_nonzero(new) < len(new):
            fits = new.copy()
            fits[lost] = False
            rows = fits.nonzero()[0][:room]
            slots, keys, start, end = slots[rows], keys[rows], start[rows], end[rows]
        self._tentative.append(self._young.insert(slots, keys, start, end))
        return new

    @property
    def _others(self) -> Iterator[HashTable]:
        """Tables with entries that the young one does not have."""
        if self._old.used:
            yield self._old
        if self._moving is not None:
            yield self._moving.table

    def keep(self) -> None:
        """What was admitted is counted."""
        self._tentative.clear()
        self._widened.clear()

    def undo(self) -> None:
        """Forget what was admitted since the last `keep`."""
        while self._widened:
            table, slots, start, end = self._widened.pop()
            table.start[slots], table.end[slots] = start, end
        while self._tentative:
            self._young.remove(self._tentative.pop())

    def _widen(self, table: HashTable, slots: Ints, known: Ints, start: Ints, end: Ints) -> None:
        """An overlapping interval belongs to the entry: what overlaps it later does too."""
        if table.intervals and known.size:
            slots, start, end = slots[known], start[known], end[known]
            self._widened.append((table, slots, table.start[slots], table.end[slots]))
            np.minimum.at(table.start, slots, start)
            np.maximum.at(table.end, slots, end)

    def reach_seconds(self, now_ns: int) -> float:
        """How far back everything counted is still known."""
        since = self._young_since_ns if self._old_since_ns is None else self._old_since_ns
        return 0.0 if since is None else max(0.0, (now_ns - since) / 1e9)

    def __len__(self) -> int:
        """Entries held."""
        to_move = 0 if self._moving is None else self._moving.left
        return self._young.used + self._old.used + to_move
