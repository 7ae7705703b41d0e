"""How long to wait before the next child."""

from dataclasses import dataclass
from typing import Final

from slo_exporter.clock import SECOND_NS

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
GOOD_S: Final = 60.0
"""Frames for this long, and the past is forgotten."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds between the end of a child and the start of the next: each twice the one before."""

    first_s: float = FIRST_S
    longest_s: float = LONGEST_S
    good_s: float = GOOD_S


class Backoff:
    """Waits longer after each failure, until a child did well for a while; in monotonic time."""

    def __init__(self, pauses: Pauses | None = None) -> None:
        self._pauses = pauses or Pauses()
        self._next_s = self._pauses.first_s
        self._good_since_ns: int | None = None
        self.start_at_ns = 0

    def good(self, now_ns: int) -> None:
        """A frame came."""
        if self._good_since_ns is None:
            self._good_since_ns = now_ns
        elif now_ns - self._good_since_ns >= self._pauses.good_s * SECOND_NS:
            self._next_s = self._pauses.first_s

    def failed(self, now_ns: int, *, is_cause_left_out: bool = False) -> None:
        """A child failed: the next starts after a pause; after the shortest where it leaves out why."""
        self._good_since_ns = None
        pause_s = self._pauses.first_s if is_cause_left_out else self._next_s
        self.start_at_ns = now_ns + int(pause_s * SECOND_NS)
        if not is_cause_left_out:
            self._next_s = min(2 * self._next_s, self._pauses.longest_s)
