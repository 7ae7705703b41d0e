from collections import defaultdict
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.sli.hash_table import HashTable
from slo_exporter.sli.seen import SEEN_BYTES, Seen, mix

S = 10**9


def _keys(names: list[int]) -> np.ndarray:
    return mix(np.array(names, dtype=np.uint64))


def _times(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def _admit(seen: Seen, names: list[int], start: list[int] | None = None, end: list[int] | None = None) -> list[bool]:
    start, end = start or [0] * len(names), end or [0] * len(names)
    return seen.admit(_keys(names), _times(start), _times(end)).tolist()


def _bytes(seen: Seen) -> int:
    tables = [seen._young, *seen._others]
    return sum(array.nbytes for table in tables for array in (table.keys, table.start, table.end))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] == other[0] or (one[0] < other[1] and other[0] < one[1])


class Oracle:
    """
    Everything that came, as a plain list; what came since `keep` can be taken back.

    What was not new is remembered too: it may bridge to what overlaps it later.
    """

    def __init__(self, *, intervals: bool) -> None:
        self.intervals = intervals
        self.kept: list[tuple[int, tuple[int, int]]] = []
        self.tentative: list[tuple[int, tuple[int, int]]] = []
        self.held = self.held_tentative = 0

    def _is_new(self, name: int, interval: tuple[int, int]) -> bool:
        return not any(
            name == other and (not self.intervals or _overlap(interval, held))
            for other, held in self.kept + self.tentative
        )

    def admit(self, entries: list[tuple[int, tuple[int, int]]]) -> list[bool]:
        """Which entries are new, each compared with all that were there before."""
        new = [self._is_new(*entry) for entry in entries]
        self.tentative += entries
        self.held_tentative += sum(new)
        return new

    def ends(self, seen: Seen, *, is_kept: bool) -> None:
        """Keep what came, or take it back, here and there."""
        if is_kept:
            seen.keep()
            self.kept += self.tentative
            self.held += self.held_tentative
        else:
            seen.undo()
        self.tentative, self.held_tentative = [], 0


def _entries(random: Random, *, intervals: bool) -> list[tuple[int, tuple[int, int]]]:
    """Rows as `admit` takes them: those with one key do not overlap one another."""
    entries: list[tuple[int, tuple[int, int]]] = []
    for _ in range(random.choice((0, 1, 5, 40))):
        start = random.randrange(60)
        entry = random.randrange(50), (start, start + random.choice((0, 1, 4, 20)))
        if not any(entry[0] == name and (not intervals or _overlap(entry[1], held)) for name, held in entries):
            entries.append(entry)
    return entries


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), intervals=st.booleans())
def test_memory_agrees_with_a_plain_list(seed: int, intervals: bool) -> None:  # noqa: FBT001 - hypothesis draws it
    """While nothing was forgotten, every admission is what comparing with all before says."""
    random = Random(seed)
    seen, oracle = Seen(intervals=intervals), Oracle(intervals=intervals)
    for _ in range(12):
        rounds = [_entries(random, intervals=intervals) for _ in range(random.randrange(1, 4))]
        seen.reserve(sum(map(len, rounds)), 0)
        for entries in rounds:
            names, spans = [name for name, _ in entries], [span for _, span in entries]
            found = _admit(seen, names, [start for start, _ in spans], [end for _, end in spans])
            assert found == oracle.admit(entries)
        oracle.ends(seen, is_kept=random.random() >= 0.4)
        assert len(seen) == oracle.held


def _crowded(names: list[int]) -> np.ndarray:
    """Keys of the last two buckets of a table, so that most stand behind them; a larger one takes some apart."""
    values = np.array(names, dtype=np.uint64)
    return ((values + np.uint64(1)) << np.uint64(32)) | ((values % np.uint64(4)) << np.uint64(11)) | np.uint64(0x7F0)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32), intervals=st.booleans())
def test_a_crowded_memory_agrees_with_a_plain_list(seed: int, intervals: bool) -> None:  # noqa: FBT001 - hypothesis draws it
    """Keys that overflow their buckets, by whole batches, stay known where tables grow and newer ones are undone."""
    random = Random(seed)
    seen, oracle, name = Seen(intervals=intervals), Oracle(intervals=intervals), 0
    for _ in range(10):
        seen.reserve(random.choice((40, 40, 40, 2500, 5000)), 0)
        fresh = range(name, name + random.choice((0, 9, 40)))
        name += len(fresh) + random.randrange(2)
        again = {random.randrange(name + 1) for _ in range(9)} - set(fresh)
        times = [(start := random.randrange(4), start + random.choice((0, 2))) for _ in range(name + 1)]
        entries = [(each, times[each]) for each in (*fresh, *again)]
        random.shuffle(entries)
        names, spans = [each for each, _ in entries], [span for _, span in entries]
        columns = _times([start for start, _ in spans]), _times([end for _, end in spans])
        assert seen.admit(_crowded(names), *columns).tolist() == oracle.admit(entries)
        oracle.ends(seen, is_kept=random.random() >= 0.3)
        assert len(seen) == oracle.held == np.count_nonzero(seen._young.keys)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32), intervals=st.booleans())
def test_memory_is_bounded_and_its_reach_is_true(seed: int, intervals: bool) -> None:  # noqa: FBT001 - hypothesis draws it
    """Both tables stay within the capacity, and whatever is younger than the reach is known."""
    random = Random(seed)
    capacity = random.choice((4_000, 24_000, 70_000))
    seen = Seen(intervals=intervals, capacity_bytes=capacity)
    counted: list[tuple[int, int]] = []
    name = 0
    for now in range(1, 60):
        rows = random.choice((1, 7, 30))
        names = list(range(name, name + rows))
        name += rows
        seen.reserve(rows, now * S)
        assert all(_admit(seen, names))
        seen.keep()
        counted += [(now, each) for each in names]
        assert _bytes(seen) <= capacity
    horizon = 59 - seen.reach_seconds(59 * S)
    young = [each for now, each in counted if now >= horizon]
    assert len(young) <= len(seen)
    assert not any(_admit(seen, young))


def test_reach_grows_with_time_until_a_table_is_forgotten() -> None:
    """It never shrinks between reservations, and stands between one table and two."""
    seen = Seen(intervals=False, capacity_bytes=2 * 8 * 64)
    assert seen.reach_seconds(5 * S) == 0.0
    reaches = []
    for now in range(10, 50):
        seen.reserve(4, now * S)
        _admit(seen, list(range(4 * now, 4 * now + 4)))
        seen.keep()
        assert seen.reach_seconds((now + 1) * S) == seen.reach_seconds(now * S) + 1
        reaches.append(seen.reach_seconds(now * S))
    # 64 slots are filled to one half: a table takes 8 rounds of 4.
    assert reaches == [*map(float, range(16)), *[8.0 + step % 8 for step in range(24)]]
    assert seen.reach_seconds(0) == 0.0


def test_what_is_older_than_two_tables_is_forgotten() -> None:
    """The old table is let go as a whole, the younger one still answers."""
    seen = Seen(intervals=False, capacity_bytes=2 * 8 * 64)
    for first in range(0, 96, 32):
        seen.reserve(32, 0)
        assert all(_admit(seen, list(range(first, first + 32))))
        seen.keep()
    assert len(seen) == 64
    assert not any(_admit(seen, list(range(32, 96))))
    assert all(_admit(seen, list(range(32))))


def test_undo_takes_back_all_since_keep() -> None:
    """Several admissions are taken back together; what was kept stays known."""
    seen = Seen(intervals=False)
    seen.reserve(6, 0)
    _admit(seen, [1, 2])
    seen.keep()
    _admit(seen, [3])
    _admit(seen, [4, 5])
    seen.undo()
    seen.undo()
    assert len(seen) == 2
    assert _admit(seen, [1, 2, 3, 4, 5]) == [False, False, True, True, True]


def test_undo_leaves_colliding_entries_reachable() -> None:
    """In a small crowded table nothing older is lost behind what was taken back."""
    seen = Seen(intervals=False, capacity_bytes=2 * 8 * 64)
    for first in range(0, 24, 8):
        seen.reserve(16, 0)
        _admit(seen, list(range(first, first + 8)))
        seen.keep()
        _admit(seen, list(range(100 + first, 108 + first)))
        seen.undo()
    assert len(seen) == 24
    assert not any(_admit(seen, list(range(24))))


@pytest.mark.parametrize(
    ("interval", "is_new"),
    [
        ((10, 20), False),
        ((0, 11), False),
        ((0, 10), True),
        ((20, 30), True),
        ((19, 30), False),
        ((12, 13), False),
        ((0, 99), False),
        ((10, 10), False),
        ((20, 20), True),
    ],
)
def test_an_id_is_seen_only_where_it_overlaps(interval: tuple[int, int], is_new: bool) -> None:  # noqa: FBT001 - a table
    """A reused id is another request; ends are open, equal starts overlap."""
    seen = Seen(intervals=True)
    seen.reserve(2, 0)
    _admit(seen, [1], [10], [20])
    assert _admit(seen, [1], [interval[0]], [interval[1]]) == [is_new]
    assert _admit(seen, [2], [10], [20]) == [True]


def test_growing_keeps_intervals() -> None:
    """Entries of one key move to a larger table with their own intervals."""
    seen = Seen(intervals=True)
    seen.reserve(3, 0)
    _admit(seen, [1, 1, 2], [0, 10, 0], [5, 15, 5])
    seen.keep()
    slots = len(seen._young.keys)
    seen.reserve(3 * slots, 0)
    assert len(seen._young.keys) > slots
    assert _admit(seen, [1, 1, 1, 2], [4, 5, 14, 0], [5, 10, 15, 1]) == [False, True, False, False]


def test_growing_keeps_what_starts_together_since_it_was_widened() -> None:
    """Two entries of one key that start together are two in a larger table too."""
    seen = Seen(intervals=True)
    seen.reserve(3, 0)
    for interval in ((16, 16), (15, 15)):
        assert _admit(seen, [1], [interval[0]], [interval[1]]) == [True]
    assert _admit(seen, [1], [15], [19]) == [False]
    seen.keep()
    seen.reserve(3 * len(seen._young.keys), 0)
    assert len(seen) == np.count_nonzero(seen._young.keys) == 2
    assert _admit(seen, [1], [18], [19]) == [False]


def test_growing_takes_a_little_time_with_every_commit() -> None:
    """Nobody waits while a large table moves; meanwhile all of it is known, and counted once."""
    seen, sent = Seen(intervals=False), 0
    while sent < 40_000:
        names = list(range(sent, sent + 100))
        seen.reserve(100, 0)
        moved = seen._moving.at if seen._moving else 0
        assert moved % 800 == 0
        assert all(_admit(seen, names))
        seen.keep()
        sent += 100
        assert len(seen) == sent
        assert not any(_admit(seen, list(range(0, sent, 61))))
        seen.undo()
    assert len(seen._young.keys) == 131_072


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_a_table_that_is_moving_knows_what_it_knew(seed: int) -> None:
    """Whatever comes, is widened or undone while entries move, the answers are those of a list for each key."""
    chance = Random(seed)
    seen, known = Seen(intervals=True), defaultdict[int, list[tuple[int, int]]](list)
    for _ in range(80):
        names = chance.sample(range(4000), 60)
        starts = [chance.randrange(40) for _ in names]
        ends = [start + chance.randrange(12) for start in starts]
        expected = [
            not any(_overlap(interval, held) for held in known[name])
            for name, interval in zip(names, zip(starts, ends, strict=True), strict=True)
        ]
        seen.reserve(60, 0)
        assert _admit(seen, names, starts, ends) == expected
        if chance.random() < 0.2:
            seen.undo()
            continue
        seen.keep()
        for name, start, end in zip(names, starts, ends, strict=True):
            known[name].append((start, end))


def test_moving_into_a_crowd_loses_only_what_finds_no_slot() -> None:
    """Keys of one home, more than are looked through, are counted as they stand, with intervals and without."""
    home = np.uint64(8) + (np.arange(1, 601, dtype=np.uint64) << np.uint64(32))
    zeros = np.zeros(300, dtype=np.int64)
    for intervals in (False, True):
        tables = [HashTable(4096, intervals=intervals) for _ in range(2)]
        for table, keys in zip(tables, (home[:300], home[300:]), strict=True):
            table.insert(table.probe(keys, zeros, zeros)[0], keys, zeros, zeros)
        assert tables[0].take_in(tables[1], slice(0, 4096)) == 300
        assert tables[0].used == np.count_nonzero(tables[0].keys) == 512


def test_more_rows_than_fit_are_new_and_not_remembered() -> None:
    """A crowd beyond the room counts, and the table never fills up."""
    seen = Seen(intervals=False, capacity_bytes=2 * 8 * 64)
    seen.reserve(200, 0)
    assert all(_admit(seen, list(range(200))))
    assert len(seen) == 48
    assert _admit(seen, [0, 47, 48]) == [False, False, True]
    assert len(seen) == 48


def test_a_table_doubles_until_it_is_half_empty_or_at_its_limit() -> None:
    """Sizes stay powers of two; beyond the limit nothing grows."""
    seen = Seen(intervals=False, capacity_bytes=2 * 8 * 16384)
    sizes = []
    for rows in (1, 2048, 2049, 4097, 50_000):
        seen.reserve(rows, 0)
        sizes.append(len(seen._young.keys))
    assert sizes == [4096, 4096, 8192, 16384, 16384]


def test_one_id_for_ever_is_cheap() -> None:
    """A client that never changes its request id cannot make admission walk through all it sent."""
    seen = Seen(intervals=True)
    for batch in range(12):
        seen.reserve(100, 0)
        starts = [1_000 * batch + 10 * row for row in range(100)]
        assert all(_admit(seen, [1] * 100, starts, [start + 5 for start in starts]))
        seen.keep()
    assert 500 <= len(seen) <= 1100
    _admit(seen, [2], [0], [5])
    seen.undo()
    assert _admit(seen, [1, 2], [0, 0], [5, 5]) == [False, True]


def test_a_crowd_in_one_export_leaves_no_trace_of_its_rows() -> None:
    """Of more intervals of one key than are remembered the rest is new, and neither it nor what is undone is held."""
    seen = Seen(intervals=True)
    seen.reserve(2000, 0)
    starts = list(range(0, 8000, 10))
    assert all(_admit(seen, [1] * 800, starts, [start + 5 for start in starts]))
    seen.keep()
    assert len(seen) == np.count_nonzero(seen._young.keys) == 512
    assert sum(_admit(seen, [1] * 800, starts, [start + 5 for start in starts])) == 288
    seen.undo()
    assert set(seen._young.keys.tolist()) == {0, *_keys([1]).tolist()}


def test_mixing_tells_columns_and_order_apart() -> None:
    """Equal rows get equal hashes, others do not, and none is 0."""
    one = np.arange(1000, dtype=np.uint64)
    other = one + np.uint64(5000)
    assert (mix(one, other) == mix(one, other)).all()
    hashes = np.concatenate([mix(one), mix(one, other), mix(other, one), mix(one, one)])
    assert len(np.unique(hashes)) == len(hashes)
    assert (hashes != 0).all()


def test_one_column_mixes_as_splitmix64_does() -> None:
    """The first outputs for the seeds 0 and 1 are the published ones."""
    assert mix(np.array([0, 1], dtype=np.uint64)).tolist() == [0xE220A8397B1DCDAF, 0x910A2DEC89025CC1]


def test_a_hash_of_zero_becomes_one() -> None:
    """0 marks an empty slot, so no key is 0."""
    # The one input that splitmix64's finaliser maps to 0 after its increment.
    assert mix(np.array([-0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64)).tolist() == [1]


def test_the_default_capacity_is_what_the_design_allows() -> None:
    """32 MiB, both tables full size."""
    for intervals in (False, True):
        seen = Seen(intervals=intervals)
        slot_bytes = 24 if intervals else 8
        assert SEEN_BYTES // 2 < 2 * seen._most_slots * slot_bytes <= SEEN_BYTES == 32 * 1024 * 1024
