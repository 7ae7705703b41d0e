"""
Since when exports have been accepted, in the face of clocks that are set.

A wall clock may jump by an hour and back. What was not lived through is not
uptime, and a clock that is wrong for a moment makes nothing old.
"""

from collections.abc import Sequence
from typing import Final

from slo_exporter.clock import SECOND_NS, Clock

_STEP_NS: Final = 2 * SECOND_NS
"""A wall clock that moved so much more, or less, than time passed was set, or the machine slept."""


class Accepting:
    """
    The interval in which exports are accepted, and the time by which things age.

    Attributes:
        since_ns: when the interval began; None while exports are refused.
    """

    def __init__(self, clock: Clock) -> None:
        self.since_ns: int | None = None
        self._doubted: list[tuple[int, int]] = []
        self._clock = clock
        self._wall_ns = clock.now_ns()
        self._steady_ns = clock.monotonic_ns()
        self._began_ns = self._steady_ns
        self._aged_offset_ns = self._wall_ns - self._steady_ns

    def begin(self) -> None:
        """Exports are accepted from now on."""
        self.since_ns = self.now_ns()

    def end(self) -> None:
        """Exports are refused; the interval ended with the last commit."""
        self.since_ns = None

    def now_ns(self) -> int:
        """The wall clock; where it was set, a new interval begins."""
        wall_ns, steady_ns = self._clock.now_ns(), self._clock.monotonic_ns()
        drift_ns = (wall_ns - self._wall_ns) - (steady_ns - self._steady_ns)
        if abs(drift_ns) > _STEP_NS and self.since_ns is not None:
            self.since_ns = wall_ns
        self._wall_ns, self._steady_ns = wall_ns, steady_ns
        return wall_ns

    def intervals(self, now_ns: int) -> Sequence[tuple[int, int]]:
        """What is to be said in SQL at *now_ns*, and in memory once that is committed."""
        return (*self._doubted, *([] if self.since_ns is None else [(self.since_ns, now_ns)]))

    def doubt(self, now_ns: int) -> None:
        """
        The outcome of a COMMIT at *now_ns* is unknown: SQL may say that we were accepting until then.

        We were, so it is said again: else a time slice would be judged by
        less uptime now than after a restart.
        """
        self._doubted = list(self.intervals(now_ns))

    def said(self) -> None:
        """SQL and memory say the same."""
        self._doubted.clear()

    def lived_ns(self) -> int:
        """How long this process has been running, whatever its clock says."""
        return self._clock.monotonic_ns() - self._began_ns

    def aged_ns(self, now_ns: int) -> int:
        """
        *now_ns*, but hardly ahead of the time that really passed.

        It catches up by a second a call, for a machine that slept.
        """
        steady_ns = self._clock.monotonic_ns() + self._aged_offset_ns
        self._aged_offset_ns += min(max(now_ns - steady_ns, 0), SECOND_NS)
        return min(now_ns, steady_ns)
