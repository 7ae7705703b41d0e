"""
A hash table of words, each with an interval if asked for, for many rows at once.

Keys are 64-bit hashes, never 0, and the home of a key is its low bits.
"""

import mmap
from typing import Final

import numpy as np

from slo_exporter.sli.records import Ints, Mask, Words

_EMPTY: Final = np.uint64(0)
_ONE: Final = np.uint64(1)
_MOST_STEPS: Final = 512
"""
The longest probe. Mixed keys never need it; a client that sends one request id
for ever would else make every admission walk through all its intervals.
"""
_BUCKET_BITS: Final = 3
BUCKET: Final = 1 << _BUCKET_BITS
"""Slots of a bucket: as many keys as a cache line has room for."""
_ONE_EACH: Final = np.uint64(0x0101010101010101)
_TOP_BYTE: Final = np.uint64(56)
"""A word of eight bytes times the first has their sum from this bit on."""
_MOST_BUCKETS: Final = _MOST_STEPS // BUCKET
_NONE: Final = np.zeros(0, dtype=np.int64)
_NOWHERE: Final = -1
"""Stands for the slot of a key that finds none within so many steps."""


class HashTable:
    """
    Open addressing by buckets: a key stands in its bucket, or where that is full in the next one, and so on.

    A bucket is filled from its first slot on. A key may stand with several intervals.
    """

    def __init__(self, slots: int, *, intervals: bool) -> None:
        self.keys = _zeros(slots)
        self.intervals = intervals
        bounds = (_zeros(2 * slots).view(np.int64) if intervals else _NONE).reshape(-1, 2)
        self.start, self.end = bounds[:, 0], bounds[:, 1]
        self.used = 0
        self._buckets = self.keys.reshape(-1, BUCKET)
        self._last = slots - 1
        self._of_home = np.uint64(slots - BUCKET)

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
            near = (slots != _NOWHERE).nonzero()[0]
            slots, keys = slots[near], keys[near]
            start, end = (start[near], end[near]) if self.intervals else (start, end)
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
            if np.count_nonzero(at & (BUCKET - 1)) < len(at):
                self._go_on(at, keys[rows])
                slots[rows] = at
                near = (at != _NOWHERE).nonzero()[0]
                have_all &= len(near) == len(at)
                rows, marks, at = rows[near], marks[near], at[near]
            else:
                slots[rows] = at

    def _go_on(self, slots: Ints, keys: Words) -> None:
        """Where *slots* are at the end of a bucket the first free ones behind it, or `_NOWHERE`."""
        rows = (slots & (BUCKET - 1) == 0).nonzero()[0]
        while rows.size:
            first = slots[rows] & self._last
            used = _count(self._buckets.take(first >> _BUCKET_BITS, axis=0) != _EMPTY)
            is_far = ((first - self._home(keys[rows])) & self._last) >= _MOST_STEPS
            slots[rows] = np.where(is_far, _NOWHERE, first + used)
            rows = rows[(used == BUCKET) & ~is_far]

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
            known, place = self._meeting(known, cells & (BUCKET - 1), first, start, end)
            places[known] = place
        return first + places, known, (places == BUCKET).nonzero()[0]

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

    def take_in(self, other: "HashTable", part: slice) -> int:
        """Put in what stands in a part of another table's slots, none of which is here; how many entries that are."""
        held = (other.keys[part] != _EMPTY).nonzero()[0] + part.start
        keys = other.keys[held]
        slots = self._home(keys)
        self._go_on(slots, keys)
        is_near = slots != _NOWHERE
        slots, keys, rows = slots[is_near], keys[is_near], held[is_near]
        start, end = (other.start[rows], other.end[rows]) if self.intervals else (_NONE, _NONE)
        self.insert(slots, keys, start, end)
        return len(held)


def _zeros(words: int) -> Words:
    """
    Memory whose pages come one by one when they are written to.

    numpy asks for huge pages where an array is large, and of keys that lie
    anywhere the first few would wait until all of it was wiped: 20 ms.
    """
    memory = mmap.mmap(-1, 8 * words, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype=np.uint64)


def _overlap(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> Mask:
    """Half-open intervals that share an instant; equal starts do, however short."""
    shared: Mask = ((start < other_end) & (other_start < end)) | (start == other_start)
    return shared


def _count(marks: Mask) -> Ints:
    """How many of each row of *marks*, shape (n, 8), are True; a row is looked at as one word."""
    counts: Ints = ((marks.view(np.uint64)[:, 0] * _ONE_EACH) >> _TOP_BYTE).view(np.int64)
    return counts
