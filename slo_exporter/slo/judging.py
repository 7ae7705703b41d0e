"""
Verdicts on time slices: which slice was good, bad or without data (docs/laws.md, law 5).

A `SliceBook` holds the sums of all slices that are not final. It says what a
commit or a heartbeat changes, as a `SliceChange`; only `SliceBook.apply`, after
the commit, changes the book.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.counting import EXCLUDED, GOOD, SLICE_S, TOTAL, Delta
from slo_exporter.sli.records import MISSING, Ints
from slo_exporter.sli.slicing import SliceSums, added
from slo_exporter.sli.verdict import Judge
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Range

SETTLE_S: Final = 30
"""A slice is judged this many seconds after its end, and final as long after its lateness (law 5)."""
JUDGED_WITHIN_S: Final = 10
"""What is due is judged by the next heartbeat but one; until then it is not missing."""
MOST_UP_S: Final = 3600
"""The most uptime judged at once: a machine that slept for a day wakes to a few steps, not to one long one."""
_SECOND_NS: Final = 10**9
_TALLIES: Final[Mapping[bool | None, Ints]] = {True: np.array([1, 1]), False: np.array([0, 1]), None: np.array([0, 0])}
"""Good and total of a verdict."""

Key = tuple[int, int]
"""Row of the SLO, and when the slice starts in seconds since the epoch."""
Verdicts = dict[Key, bool | None]
"""True is good, False bad, None no data, as is what is left out."""


@dataclass(frozen=True, slots=True)
class SliceOpening:
    """What a book starts from: what SQL holds."""

    sums: Mapping[Key, Ints]
    """Sums of the slices that are not final; shape (`width_of`,)."""
    since_ns: Sequence[int]
    """Per row: since when it is counted without a break."""
    judged_s: int
    """Every slice that ends here or before was judged."""
    final_s: int
    """Every slice that ends here or before is final."""


@dataclass(frozen=True, slots=True)
class SliceChange:
    """What a commit makes true of time slices."""

    sums: Mapping[Key, Ints]
    """Absolute sums, to be written."""
    done: tuple[Key, ...]
    """Slices with sums that became final: their rows are deleted."""
    counts: Delta
    """Signed change of the verdicts, each in the last 5 s slice of its time slice; as wide as all SLOs."""
    totals: Ints
    """Shape (s, 3): verdicts that became final, added to lifetime totals."""
    judged_s: int
    final_s: int
    """Watermarks afterwards."""
    refused: int
    """Records for slices that are final already."""


class SliceBook:
    """
    The sums of slices that are not final, and which verdicts the counts hold of them.

    Args:
        slos: one a row; those on requests have no slices.
        opening: what SQL holds.
    """

    def __init__(self, slos: Sequence[Slo], opening: SliceOpening) -> None:
        self.judged_s = opening.judged_s
        self.final_s = opening.final_s
        self._rows = len(slos)
        self._since_ns = tuple(opening.since_ns)
        self._widths = {row: slo.indicator.timeslice_s for row, slo in enumerate(slos) if slo.indicator.timeslice_s}
        self._judges = {row: Judge(slos[row].indicator) for row in self._widths}
        self._sums = {
            key: np.array(sums, dtype=np.int64) for key, sums in opening.sums.items() if key[0] in self._widths
        }
        self._began_s = min((self._since_ns[row] for row in self._widths), default=0) // _SECOND_NS
        self._counted: Verdicts | None = None
        self._looked_s = opening.judged_s
        """Where `due` looks from: behind the watermark while the clock is."""

    def __len__(self) -> int:
        """Slices with records that are not final."""
        return len(self._sums)

    def arrived(self, sums: Mapping[int, SliceSums], uptime: Uptime) -> SliceChange:
        """
        What the records of a commit change.

        Args:
            sums: by row, from `SlicePlan.sum`.
            uptime: with the interval that is still open, up to now.
        """
        written: dict[Key, Ints] = {}
        newest = np.full(self._rows, MISSING, dtype=np.int64)
        refused = 0
        for row, new in sums.items():
            for start_s, more in zip(new.starts.tolist(), new.sums, strict=True):
                key = (row, start_s)
                if self._is_closed(key):
                    refused += int(more[0])
                else:
                    written[key] = added(self._sums[key], more) if key in self._sums else more
                    newest[row] = new.newest_ns
        verdicts = {
            key: self._verdict(key, total, uptime)
            for key, total in written.items()
            if self._end_s(key) <= self.judged_s
        }
        return SliceChange(
            sums=written,
            done=(),
            counts=self._delta(verdicts, self._held(uptime), newest),
            totals=np.zeros((self._rows, 3), dtype=np.int64),
            judged_s=self.judged_s,
            final_s=self.final_s,
            refused=refused,
        )

    def due(self, now_ns: int, uptime: Uptime, lateness_ns: int) -> SliceChange:
        """
        What the passing of time changes: slices become due, then final.

        Judges `MOST_UP_S` of uptime at most; the next call goes on from there.

        Args:
            now_ns: where the watermarks would be; they never go back.
            uptime: as for `arrived`.
            lateness_ns: how long after its end a record may come in.
        """
        settled_s = now_ns // _SECOND_NS - SETTLE_S
        # A clock that was set back passes slices again that were judged ahead of it, before their time.
        self._looked_s = min(self._looked_s, settled_s)
        since_s = max(self._looked_s, self.final_s, self._began_s)
        until_s = _reach(uptime, since_s, settled_s)
        final_s = max(self.final_s, min(until_s, (now_ns - lateness_ns) // _SECOND_NS - SETTLE_S))
        held = self._held(uptime)
        verdicts = {
            key: self._verdict(key, self._sums.get(key), uptime) for key in self._slices(since_s, until_s, uptime)
        }
        return SliceChange(
            sums={},
            done=tuple(key for key in self._sums if self._end_s(key) <= final_s),
            counts=self._delta(verdicts, held, np.full(self._rows, MISSING, dtype=np.int64)),
            totals=self._totals({**held, **verdicts}, final_s),
            judged_s=max(self.judged_s, until_s),
            final_s=final_s,
            refused=0,
        )

    def apply(self, change: SliceChange) -> None:
        """Make the book say what SQL says."""
        self._sums.update(change.sums)
        for key in change.done:
            self._sums.pop(key, None)
        self._count(change.counts)
        if change.judged_s > self.judged_s:
            self._looked_s = change.judged_s
        if change.final_s > self.final_s and self._counted:
            self._counted = {key: v for key, v in self._counted.items() if self._end_s(key) > change.final_s}
        self.judged_s, self.final_s = change.judged_s, change.final_s

    def _count(self, counts: Delta) -> None:
        """Note which verdicts the counts hold now."""
        counted = self._counted = self._counted or {}
        for at, row in np.argwhere(counts.counts.any(axis=2)).tolist():
            key = (row, int(counts.slices[at]) + SLICE_S - self._widths[row])
            tally = _TALLIES[counted.pop(key, None)] + counts.counts[at, row, :EXCLUDED]
            if tally[TOTAL]:
                counted[key] = bool(tally[GOOD])

    def _end_s(self, key: Key) -> int:
        return key[1] + self._widths[key[0]]

    def _is_closed(self, key: Key) -> bool:
        """True when the slice is final, or was over before its SLO was counted."""
        end_s = self._end_s(key)
        return end_s <= self.final_s or end_s * _SECOND_NS <= self._since_ns[key[0]]

    def _held(self, uptime: Uptime) -> Verdicts:
        """The verdicts that the counts hold; after a start they follow from what SQL holds."""
        if self._counted is None:
            self._counted = {
                key: verdict
                for key in self._slices(self.final_s, self.judged_s, uptime)
                if (verdict := self._verdict(key, self._sums.get(key), uptime)) is not None
            }
        return self._counted

    def _slices(self, since_s: int, until_s: int, uptime: Uptime) -> list[Key]:
        """The slices that end in ``(since_s, until_s]`` and can have a verdict: with uptime, or with records."""
        keys = {key for key in self._sums if since_s < self._end_s(key) <= until_s}
        for width in set(self._widths.values()):
            starts = _starts(uptime, since_s, until_s, width)
            rows = [row for row, own in self._widths.items() if own == width]
            keys.update((row, start_s) for start_s in starts for row in rows)
        return [key for key in keys if not self._is_closed(key)]

    def _verdict(self, key: Key, sums: Ints | None, uptime: Uptime) -> bool | None:
        """Judge a slice; time before its SLO was counted is time down."""
        row, start_s = key
        up_ns = uptime.up_ns(max(start_s * _SECOND_NS, self._since_ns[row]), self._end_s(key) * _SECOND_NS)
        judge = self._judges[row]
        return judge.verdict([0] * judge.width if sums is None else sums.tolist(), up_ns)

    def _delta(self, verdicts: Verdicts, held: Verdicts, newest: Ints) -> Delta:
        """Put what changes from *held* to *verdicts* into the last 5 s slice of each time slice."""
        changed = [key for key, verdict in verdicts.items() if verdict is not held.get(key)]
        slices = np.array(sorted({self._end_s(key) - SLICE_S for key in changed}), dtype=np.int64)
        counts = np.zeros((len(slices), self._rows, 3), dtype=np.int64)
        for key in changed:
            at = np.searchsorted(slices, self._end_s(key) - SLICE_S)
            counts[at, key[0], :EXCLUDED] += _TALLIES[verdicts[key]] - _TALLIES[held.get(key)]
        for key, verdict in verdicts.items():
            if verdict is not None:
                newest[key[0]] = max(newest[key[0]], self._end_s(key) * _SECOND_NS)
        return Delta(slices, counts, newest)

    def _totals(self, verdicts: Verdicts, final_s: int) -> Ints:
        """Add up the verdicts that become final."""
        totals = np.zeros((self._rows, 3), dtype=np.int64)
        for key, verdict in verdicts.items():
            if self._end_s(key) <= final_s:
                totals[key[0], :EXCLUDED] += _TALLIES[verdict]
        return totals


def _reach(uptime: Uptime, since_s: int, until_s: int) -> int:
    """How far towards *until_s* one call judges."""
    left_ns = MOST_UP_S * _SECOND_NS
    for start_ns, end_ns in uptime.within(since_s * _SECOND_NS, until_s * _SECOND_NS):
        if end_ns - start_ns > left_ns:
            return (start_ns + left_ns) // _SECOND_NS
        left_ns -= end_ns - start_ns
    return until_s


def _starts(uptime: Uptime, since_s: int, until_s: int, width_s: int) -> set[int]:
    """Starts of the slices that end in ``(since_s, until_s]`` and in which we were ever up."""
    first_s = (since_s // width_s) * width_s
    last_s = until_s // width_s * width_s
    return {
        start_s
        for start_ns, end_ns in uptime.within(first_s * _SECOND_NS, last_s * _SECOND_NS)
        for start_s in range(start_ns // (width_s * _SECOND_NS) * width_s, -(-end_ns // _SECOND_NS), width_s)
    }


def settled_s(now_ns: int, judged_s: int | None = None) -> int:
    """Until when slices count as due at *now_ns*: those that wait for a heartbeat only, *judged_s* says, do not."""
    settled = now_ns // _SECOND_NS - SETTLE_S
    is_waiting = judged_s is not None and 0 <= settled - judged_s <= JUDGED_WITHIN_S
    return judged_s if judged_s is not None and is_waiting else settled


def due_slices(width_s: int, span: Range, started_ns: int, until_s: int) -> int:
    """
    How many time slices of *width_s* could have a verdict in *span*.

    Those whose last 5 s slice lies in *span*, that start at or after
    *started_ns* and that ended by *until_s*, see `settled_s`.
    """
    first_end = -(-started_ns // (width_s * _SECOND_NS)) * width_s + width_s
    low = max(first_end, span.start + SLICE_S)
    high = min(until_s, span.end)
    return max(0, high // width_s - (low - 1) // width_s)
