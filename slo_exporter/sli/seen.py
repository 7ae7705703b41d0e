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
_ONE: Final = np.uint64(1)
_MOST_STEPS: Final = 512
"""
The longest probe. Mixed keys never need it; a client that sends one request id
for ever would else make every admission walk through all its intervals.
"""
_BUCKET_BITS: Final = 3
_BUCKET: Final = 1 << _BUCKET_BITS
"""Slots of a bucket: as many keys as a cache line has room for, so that one look costs one miss."""
_ONE_EACH: Final = np.uint64(0x0101010101010101)
_TOP_BYTE: Final = np.uint64(56)
"""A word of eight bytes times the first has their sum from this bit on."""
_MOST_BUCKETS: Final = _MOST_STEPS // _BUCKET
_NOWHERE: Final = -1
"""Stands for the slot of a key that finds none within so many steps."""


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
    return np.where(state == _EMPTY, _ONE, state)


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
        self._of_home = np.uint64(slots - _BUCKET)

    def probe(self, keys: Words, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """
        For each key its slot, or the first empty one behind it.

        Returns:
            The slots, the rows that are there, and those that neither are there nor find a slot that is near.
        """
        slots, known, full = self._look(self._home(keys), keys, start, end)
        for _ in range(_MOST_BUCKETS - 1):
            if not full.size:
                break
            slots[full], there, on = self._look(slots[full] & self._last, keys[full], start[full], end[full])
            known, full = np.concatenate([known, full[there]]), full[on]
        return slots, known, full

    def insert(self, slots: Ints, keys: Words, start: Ints, end: Ints) -> Ints:
        """
        Put each key, of those that are not there, into the first free slot from that on which `probe` says.

        Args:
            slots: they change.
            keys: of all rows.
            start: of their intervals.
            end: of their intervals.

        Returns:
            The slots that were taken: less than there are keys where one finds none that is near.
        """
        if not self._claim(slots, keys):
            is_near = slots != _NOWHERE
            slots, keys, start, end = slots[is_near], keys[is_near], start[is_near], end[is_near]
        if self.intervals:
            self.keys[slots], self.start[slots], self.end[slots] = keys, start, end
        self.used += len(slots)
        return slots

    def _claim(self, slots: Ints, keys: Words) -> bool:
        """Mark a slot for each row, of several that want one for the last; the others go on. Whether all have one."""
        rows, at, have_all = np.arange(len(keys)), slots, True
        marks = rows.view(np.uint64) + _ONE if self.intervals else keys  # equal keys are of different intervals
        while True:
            self.keys[at] = marks
            lost = (self.keys[at] != marks).nonzero()[0]
            if not lost.size:
                return have_all
            rows, marks, at = rows[lost], marks[lost], at[lost] + 1
            if np.count_nonzero(at & (_BUCKET - 1)) < len(at):
                self._go_on(at, keys[rows])
                slots[rows] = at
                near = (at != _NOWHERE).nonzero()[0]
                have_all &= len(near) == len(at)
                rows, marks, at = rows[near], marks[near], at[near]
            else:
                slots[rows] = at

    def _go_on(self, slots: Ints, keys: Words) -> None:
        """Where *slots* are at the end of a bucket the first free ones behind it, or `_NOWHERE`."""
        rows = (slots & (_BUCKET - 1) == 0).nonzero()[0]
        while rows.size:
            first = slots[rows] & self._last
            used = _count(self._buckets.take(first >> _BUCKET_BITS, axis=0) != _EMPTY)
            is_far = ((first - self._home(keys[rows])) & self._last) >= _MOST_STEPS
            slots[rows] = np.where(is_far, _NOWHERE, first + used)
            rows = rows[(used == _BUCKET) & ~is_far]

    def _home(self, keys: Words) -> Ints:
        """The first slot of the bucket of each key."""
        home: Ints = (keys & self._of_home).view(np.int64)
        return home

    def _look(self, first: Ints, keys: Words, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
        """In the bucket from *first* on: the slot of each key or the first free one; which are there, which go on."""
        held = self._buckets.take(first >> _BUCKET_BITS, axis=0)
        places = _count(held != _EMPTY)
        cells = (held == keys[:, None]).ravel().nonzero()[0]  # of two dimensions it takes 20 times as long
        known = cells >> _BUCKET_BITS
        if known.size:
            known, place = self._meeting(known, cells & (_BUCKET - 1), first, start, end)
            places[known] = place
        return first + places, known, (places == _BUCKET).nonzero()[0]

    def _meeting(self, rows: Ints, places: Ints, first: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Of entries with the key of a row the first one that shares an instant with it."""
        if not self.intervals:
            return rows, places
        at = first[rows] + places
        meets = _overlap(self.start[at], self.end[at], start[rows], end[rows])
        met, earliest = np.unique(rows[meets], return_index=True)
        return met, places[meets][earliest]

    def remove(self, slots: Ints) -> None:
        """Take out the newest entries: nothing older stands behind them."""
        self.keys[slots] = _EMPTY
        self.used -= len(slots)

    def grown(self, slots: int) -> "_Table":
        """The same entries in a table of *slots*."""
        bigger = _Table(slots, intervals=self.intervals)
        held = (self.keys != _EMPTY).nonzero()[0]
        empty = np.zeros(0, dtype=np.int64)
        start, end = (self.start[held], self.end[held]) if self.intervals else (empty, empty)
        keys = self.keys[held]
        bigger.insert(bigger._home(keys), keys, start, end)
        return bigger


def _overlap(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> Mask:
    """Half-open intervals that share an instant; equal starts do, however short."""
    shared: Mask = ((start < other_end) & (other_start < end)) | (start == other_start)
    return shared


def _count(marks: Mask) -> Ints:
    """How many of each row of *marks*, shape (n, 8), are True; a row is looked at as one word."""
    counts: Ints = ((marks.view(np.uint64)[:, 0] * _ONE_EACH) >> _TOP_BYTE).view(np.int64)
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
        slots, known, lost = self._young.probe(keys, start, end)
        new = np.ones(len(keys), dtype=np.bool_)
        new[known] = False
        self._widen(self._young, slots, known, start, end)
        if self._old.used:
            old_slots, in_old, _ = self._old.probe(keys, start, end)
            new[in_old] = False
            self._widen(self._old, old_slots, in_old, start, end)
        room = max(0, len(self._young.keys) * 3 // 4 - self._young.used)
        if room < len(keys) or lost.size or np.count_nonzero(new) < len(new):
            fits = new.copy()
            fits[lost] = False
            rows = fits.nonzero()[0][:room]
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

    def _widen(self, table: _Table, slots: Ints, known: Ints, start: Ints, end: Ints) -> None:
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
        return self._young.used + self._old.used
