"""
What was counted lately, in bounded memory: no span and no request twice.

A `Seen` holds 64-bit hashes in two open-addressing tables, a young one and an
old one. When the young one is full it becomes the old one and the old one is
forgotten, so the reach is between one and two tables of entries. Nothing of it
survives a restart.

Admission is tentative until `keep`; `undo` takes it back, so that a refused
export can come again.
"""

from typing import Final

import numpy as np

from slo_exporter.sli.records import Ints, Mask, Words

SEEN_BYTES: Final = 32 * 1024 * 1024
"""The most that one memory may take (docs/laws.md, "Acknowledged means kept, once")."""
_FIRST_SLOTS: Final = 1 << 12
_EMPTY: Final = np.uint64(0)
_MOST_STEPS: Final = 512
"""
The longest probe. Mixed keys never need it; a client that sends one request id
for ever would else make every admission walk through all its intervals.
"""
_BUCKET: Final = 8
"""Slots of a bucket: as many keys as a cache line has room for, so that one look costs one miss."""
_MOST_BUCKETS: Final = _MOST_STEPS // _BUCKET


def mix(*columns: Words) -> Words:
    """
    Hash several columns into one of 64 bits, never 0.

    Source: the finaliser of splitmix64 (Steele, Lea, Flood 2014), chained.
    """
    state = np.zeros_like(columns[0])
    with np.errstate(over="ignore"):
        for column in columns:
            state = (state ^ column) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
    return np.where(state == _EMPTY, np.uint64(1), state)


class _Table:
    """
    Open addressing by buckets: a key stands in its bucket, or where that is full in the next one, and so on.

    A bucket is filled from its first slot on. A key may stand with several intervals.
    """

    def __init__(self, slots: int, *, intervals: bool) -> None:
        self.keys = np.zeros(slots, dtype=np.uint64)
        self.intervals = intervals
        bounds = np.zeros((slots if intervals else 0, 2), dtype=np.int64)
        self.start, self.end = bounds[:, 0], bounds[:, 1]
        self.used = 0
        self._buckets = self.keys.reshape(-1, _BUCKET)
        self._last = slots - 1

    def probe(self, keys: Words, start: Ints, end: Ints) -> tuple[Ints, Mask]:
        """For each key its slot and True, or the first empty slot behind it and False."""
        slots, found, is_full = self._look(self._home(keys), keys, start, end)
        rows = np.flatnonzero(is_full)
        for _ in range(_MOST_BUCKETS - 1):
            if not rows.size:
                break
            slots[rows], found[rows], is_full = self._look(slots[rows], keys[rows], start[rows], end[rows])
            rows = rows[is_full]
        return slots, found

    def insert(self, slots: Ints, keys: Words, start: Ints, end: Ints) -> Ints:
        """Put each key into the first free slot from *slots* on, if one is near; say which."""
        rows, kept, slots = np.arange(len(keys)), np.ones(len(keys), dtype=np.bool_), slots.copy()
        while True:
            rows = self._claim(rows, slots, keys, start, end)
            if not rows.size:
                break
            slots[rows] = self._free(slots[rows])
            is_far = ((slots[rows] - self._home(keys[rows])) & self._last) >= _MOST_STEPS
            kept[rows[is_far]] = False
            rows = rows[~is_far]
        slots = slots[kept]
        self.used += len(slots)
        return slots

    def _home(self, keys: Words) -> Ints:
        """The first slot of the bucket of each key."""
        home: Ints = (keys & np.uint64(self._last - (_BUCKET - 1))).view(np.int64)
        return home

    def _look(self, slots: Ints, keys: Words, start: Ints, end: Ints) -> tuple[Ints, Mask, Mask]:
        """In the bucket of each slot: the slot of the key or the first free one, if the key is there, if to go on."""
        first = slots & ~(_BUCKET - 1)
        held = self._buckets.take(first // _BUCKET, axis=0)
        is_here = held == keys[:, None]
        used = _count(held != _EMPTY)
        slots, found = (first + used) & self._last, np.zeros(len(keys), dtype=np.bool_)
        if is_here.any():
            rows = np.flatnonzero(is_here.any(axis=1))
            is_here = is_here[rows]
            if self.intervals:
                of_bucket = first[rows, None] + np.arange(_BUCKET)
                mine = start[rows, None], end[rows, None]
                is_here &= _overlap(self.start[of_bucket], self.end[of_bucket], *mine)
                rows, is_here = rows[is_here.any(axis=1)], is_here[is_here.any(axis=1)]
            found[rows], slots[rows] = True, first[rows] + is_here.argmax(axis=1)
        return slots, found, (used == _BUCKET) & ~found

    def _free(self, slots: Ints) -> Ints:
        """The first free slot of the bucket of each slot; where it is full the next bucket."""
        first = slots & ~(_BUCKET - 1)
        return (first + _count(self._buckets.take(first // _BUCKET, axis=0) != _EMPTY)) & self._last

    def _claim(self, rows: Ints, slots: Ints, keys: Words, start: Ints, end: Ints) -> Ints:
        """Write *rows* to their slots where those are free, the last one of several; which rows are left."""
        at = slots[rows]
        is_free = self.keys[at] == _EMPTY
        left = rows[:0]
        if not is_free.all():
            left, rows, at = rows[~is_free], rows[is_free], at[is_free]
        wanted = keys[rows]
        self.keys[at] = wanted
        won = self.keys[at] == wanted
        if self.intervals:
            starts = start[rows]
            self.start[at], self.end[at] = starts, end[rows]
            won &= self.start[at] == starts  # equal keys never start together
        return left if won.all() else np.concatenate([left, rows[~won]])

    def remove(self, slots: Ints) -> None:
        """Take out the newest entries: nothing older stands behind them."""
        self.keys[slots] = _EMPTY
        self.used -= len(slots)

    def grown(self, slots: int) -> "_Table":
        """The same entries in a table of *slots*."""
        bigger = _Table(slots, intervals=self.intervals)
        held = np.flatnonzero(self.keys)
        empty = np.zeros(0, dtype=np.int64)
        start, end = (self.start[held], self.end[held]) if self.intervals else (empty, empty)
        bigger.insert(bigger.probe(self.keys[held], start, end)[0], self.keys[held], start, end)
        return bigger


def _overlap(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> Mask:
    """Half-open intervals that share an instant; equal starts do, however short."""
    shared: Mask = ((start < other_end) & (other_start < end)) | (start == other_start)
    return shared


def _count(marks: Mask) -> Ints:
    """How many of each row of *marks*, shape (n, 8), are True; a row is looked at as one word."""
    words = marks.view(np.uint64)[:, 0]
    counts: Ints = ((words * np.uint64(0x0101010101010101)) >> np.uint64(56)).view(np.int64)
    return counts


class Seen:
    """
    Hashes seen lately, each with an interval if asked for.

    Args:
        intervals: an entry matches only where the intervals overlap too.
        capacity_bytes: the most that both tables take together.
    """

    def __init__(self, *, intervals: bool, capacity_bytes: int = SEEN_BYTES) -> None:
        slot_bytes = 24 if intervals else 8
        self._most_slots = max(_BUCKET, 1 << (capacity_bytes // slot_bytes // 2).bit_length() - 1)
        first = min(_FIRST_SLOTS, self._most_slots)
        self._young = _Table(first, intervals=intervals)
        self._old = _Table(_BUCKET, intervals=intervals)
        self._young_since_ns: int | None = None
        self._old_since_ns: int | None = None
        self._tentative: list[Ints] = []
        self._widened: list[tuple[_Table, Ints, Ints, Ints]] = []
        """Table, slots and the intervals before they were widened."""

    def reserve(self, rows: int, now_ns: int) -> None:
        """Make room for *rows*, between transactions only."""
        if self._young_since_ns is None:
            self._young_since_ns = now_ns
        slots = len(self._young.keys)
        while 2 * (self._young.used + rows) > slots and slots < self._most_slots:
            slots *= 2
        if slots > len(self._young.keys):
            self._young = self._young.grown(slots)
        if self._young.used and 2 * (self._young.used + rows) > slots:
            self._old, self._old_since_ns = self._young, self._young_since_ns
            self._young = _Table(slots, intervals=self._old.intervals)
            self._young_since_ns = now_ns

    def admit(self, keys: Words, start: Ints, end: Ints) -> Mask:
        """
        Say which rows are new, and remember them.

        Keys are never 0. Rows with equal keys must not overlap one another. Rows
        beyond the room of a whole table, or beyond some 500 intervals of one key,
        are new and not remembered.
        """
        slots, known = self._young.probe(keys, start, end)
        self._widen(self._young, slots, known, start, end)
        if self._old.used:
            old_slots, in_old = self._old.probe(keys, start, end)
            self._widen(self._old, old_slots, in_old, start, end)
            known |= in_old
        new = ~known
        room = max(0, len(self._young.keys) * 3 // 4 - self._young.used)
        if room < len(keys) or not new.all():
            rows = np.flatnonzero(new)[:room]
            slots, keys, start, end = slots[rows], keys[rows], start[rows], end[rows]
        self._tentative.append(self._young.insert(slots, keys, start, end))
        return new

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

    def _widen(self, table: _Table, slots: Ints, known: Mask, start: Ints, end: Ints) -> None:
        """An overlapping interval belongs to the entry: what overlaps it later does too."""
        if table.intervals and known.any():
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
        return self._young.used + self._old.used
