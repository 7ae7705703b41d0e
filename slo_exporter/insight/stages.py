"""
Distributions of stage times over the last day, in bounded memory.

Rules of this module:

1. Event time: an observation is in the slot of its request's end. Slots are a
   minute wide, and ten once no window of up to `FINE_S` reaches them.
2. Adding costs little more for many records than for one: what comes is gathered first, by whoever adds.
3. Arrays are replaced, never changed: what was read stays as it was.
4. At most `MOST_BYTES`: the oldest slot goes first, and a reading says since
   when it is whole. What comes late for a slot that went is left out; what ended
   before the book began is there, but does not make a reading whole.
5. It has no clock: the newest observation says how old the others are.

Nothing of it is kept across a restart.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from slo_exporter.insight.cells import Cells, by_minute, chained, merged
from slo_exporter.insight.labels import MOST_SETS, Labels, LabelSets, cut
from slo_exporter.insight.observations import of_parts, of_requests
from slo_exporter.sli.records import RequestBatch, StageTimes

SHORTEST_S: Final = 300
"""The shortest window that can be read."""
LONGEST_S: Final = 86_400
"""The longest window that can be read."""
FINE_S: Final = 7200
"""Windows up to so long begin at a full minute, longer ones at full ten."""
MOST_BYTES: Final = 24 << 20
"""Most that the slots take together."""

_MINUTE_S: Final = 60
_COARSE: Final = 10
"""Minutes of a wide slot."""
_KEEP_FINE: Final = FINE_S // _MINUTE_S + 2 * _COARSE
_KEEP: Final = LONGEST_S // _MINUTE_S + 2 * _COARSE
_AHEAD: Final = 30
"""Minutes that a slot may be ahead of what comes; further on, the clock was wrong when it was made."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a book knows of one service in a range of time."""

    from_s: int
    """
    Start, inclusive: later than asked where the book does not reach so far.

    What ended before the book began, in the window that was asked for, and came late is there all the same.
    """
    to_s: int
    """End, exclusive."""
    is_whole: bool
    """It reaches as far as was asked."""
    labels: dict[Labels, int]
    """The label sets of the service, with their numbers."""
    cells: Cells
    """Of those sets, and of others."""
    hides: bool = False
    """More of the service is counted under `labels.OTHER`, by model or by both names."""


class StageBook:
    """
    Remembers how long stages took, by group and minute.

    Args:
        since_ns: when it began; before that nothing is known.
        most_sets: most (service, model, view) that are told apart.
        most_bytes: most that the slots may take.
    """

    def __init__(self, since_ns: int, most_sets: int = MOST_SETS, most_bytes: int = MOST_BYTES) -> None:
        self._labels = LabelSets(most_sets)
        self._most_bytes = most_bytes
        self._slots: dict[int, list[Cells]] = {}
        """By its first minute; what comes for a slot is merged when it is as much as half of what is there."""
        self._bytes = 0
        self._since = since_ns // (_MINUTE_S * 10**9)
        self._gone = 0
        """Slots that start before this minute were let go of."""
        self._widened = 0
        """Slots that start before this minute are ten minutes wide; a multiple of ten."""

    @property
    def nbytes(self) -> int:
        """What the slots take."""
        return self._bytes

    def add(self, requests: RequestBatch, parts: StageTimes) -> None:
        """Take in requests, and stage times whose request came in another export; let go of what is old."""
        told = (of_requests(requests, self._labels), of_parts(parts, self._labels))
        found = [each for each in told if each is not None]
        if not found:
            return
        newest = max(int(each.groups[-1]) >> 32 for each in found)
        self._set_back(newest)
        for each in found:
            for minute, cells in by_minute(each):
                self._put(minute, cells)
        self._forget(newest - _KEEP)
        self._widen((newest - _KEEP_FINE) // _COARSE * _COARSE)
        self._shrink()

    def knows(self, service: str) -> bool:
        """A request of that service, or a part of one, ever came."""
        return self._labels.knows(cut(service))

    def read(self, service: str, window_s: int, now_ns: int) -> Reading:
        """
        Read one service over the *window_s* seconds until now; its name is cut as labels are.

        The range ends with the minute that holds now; its start is rounded down
        to a minute, or to ten where the window is longer than `FINE_S`.
        """
        service = cut(service)
        grid_s = _MINUTE_S if window_s <= FINE_S else _MINUTE_S * _COARSE
        now_s = now_ns // 10**9
        asked_s, to_s = (now_s - window_s) // grid_s * grid_s, (now_s // _MINUTE_S + 1) * _MINUTE_S
        from_s = min(max(asked_s, self._reach() * _MINUTE_S), to_s)
        labels = {names: number for names, number in self._labels.numbers.items() if names[0] == service}
        slots = [slot for slot in sorted(self._slots) if labels and asked_s <= slot * _MINUTE_S < to_s]
        first, last = min(labels.values(), default=0), max(labels.values(), default=0)
        cells = chained([chunk.between(first, last) for slot in slots for chunk in self._slots[slot]])
        return Reading(from_s, to_s, from_s == asked_s, labels, cells, self._labels.hides(service))

    def _reach(self) -> int:
        """The minute since when everything is there that came."""
        return max(self._gone, self._since)

    def _set_back(self, newest: int) -> None:
        """Forget what a clock made that was wrong, or all that comes now would be old."""
        if max([self._gone, self._since, *self._slots]) <= newest + _AHEAD:
            return
        for slot in [slot for slot in self._slots if slot > newest + _AHEAD]:
            self._set(slot, [])
        self._gone, self._since = min(self._gone, newest), min(self._since, newest)
        self._widened = min(self._widened, newest // _COARSE * _COARSE)

    def _put(self, minute: int, cells: Cells) -> None:
        slot = minute // _COARSE * _COARSE if minute < self._widened else minute
        if slot < self._gone:
            return
        chunks = [*self._slots.get(slot, ())]
        while chunks and len(chunks[-1].keys) <= 2 * len(cells.keys):
            cells = merged([chunks.pop(), cells])
        self._set(slot, [*chunks, cells])

    def _set(self, slot: int, chunks: list[Cells]) -> None:
        """Make *chunks* what a slot holds; without any it is let go of."""
        self._bytes += _nbytes(chunks) - _nbytes(self._slots.get(slot, ()))
        if chunks:
            self._slots[slot] = chunks
        else:
            self._slots.pop(slot, None)

    def _forget(self, before: int) -> None:
        """Let go of the slots that start before a minute."""
        for slot in [slot for slot in self._slots if slot < before]:
            self._set(slot, [])
        self._gone = max(self._gone, before)

    def _widen(self, before: int) -> None:
        """Make slots ten minutes wide that start before a minute, a multiple of ten."""
        if before <= self._widened:
            return
        narrow: dict[int, list[int]] = {}
        for slot in sorted(self._slots):
            if self._widened <= slot < before:
                narrow.setdefault(slot // _COARSE * _COARSE, []).append(slot)
        for wide, slots in narrow.items():
            cells = merged([cells for slot in slots for cells in self._slots[slot]])
            for slot in slots:
                self._set(slot, [])
            self._set(wide, [cells])
        self._widened = before

    def _shrink(self) -> None:
        while self._bytes > self._most_bytes:
            oldest = min(self._slots)
            self._forget(oldest + (_COARSE if oldest < self._widened else 1))


def _nbytes(chunks: Iterable[Cells]) -> int:
    return sum(cells.nbytes for cells in chunks)
