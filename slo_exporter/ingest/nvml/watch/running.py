"""The child that reads, and what is expected of it."""

from dataclasses import dataclass, field
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.watch.backoff import Pauses
from slo_exporter.ingest.nvml.watch.messages import GarbageError, Lines
from slo_exporter.ingest.nvml.watch.process import Reader
from slo_exporter.ingest.nvml.watch.quarantine import QUARANTINE_S

MOST_FRAMES: Final = 16
"""In a second, where one is due: each costs us a fraction of a millisecond per GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for what, in seconds."""

    first_frame_s: float = 15.0
    """From the start: nvmlInit may take 10 s on a machine with many GPUs."""
    opening_s: float = 60.0
    """From the start, while one call after the other returns: a driver that keeps no state starts each GPU anew."""
    frame_s: float = 5.0
    """From frame to frame, and before the first for one call: no NVML call has a deadline of its own."""
    ending_s: float = 0.5
    """From asking a child to end to SIGKILL."""
    stuck_s: float = 2.0
    """From SIGKILL to giving up."""
    quarantine_s: float = QUARANTINE_S
    pauses: Pauses = field(default_factory=Pauses)


class Running:
    """
    The child that reads; instants are monotonic.

    Attributes:
        lines: what it wrote.
        deadline_ns: when it hangs, unless it is heard of.
        has_said_hello: NVML is initialised.
    """

    def __init__(self, reader: Reader, patience: Patience, now_ns: int) -> None:
        self.reader: Final = reader
        self.lines: Final = Lines()
        self.has_said_hello = False
        self.deadline_ns = now_ns + _ns(patience.first_frame_s)
        self._opened_by_ns = now_ns + _ns(patience.opening_s)
        self._patience_ns = _ns(patience.frame_s)
        self._has_framed = False
        self._steps = 0
        self._second_ns, self._frames = now_ns, 0

    def excuse(self, asleep_ns: int, now_ns: int) -> None:
        """We did not listen for so long: what it said meanwhile comes at once, and it had no chance to be late."""
        self.deadline_ns += asleep_ns
        self._opened_by_ns += asleep_ns
        self._second_ns, self._frames = now_ns, -(asleep_ns // SECOND_NS)

    def look(self, now_ns: int) -> None:
        """See whether a child that opens its GPUs gets on."""
        if self._has_framed or not self.has_said_hello:
            return
        steps = self.reader.steps()
        if steps != self._steps:
            self._steps = steps
            self.deadline_ns = min(now_ns + self._patience_ns, self._opened_by_ns)

    def framed(self, now_ns: int) -> None:
        """
        A frame came.

        Raises:
            GarbageError: too many came.
        """
        self._has_framed = True
        self.deadline_ns = now_ns + self._patience_ns
        if now_ns - self._second_ns >= SECOND_NS:
            self._second_ns, self._frames = now_ns, 0
        self._frames += 1
        if self._frames > MOST_FRAMES:
            raise GarbageError(f"more than {MOST_FRAMES} frames in a second")


def _ns(seconds: float) -> int:
    return int(seconds * SECOND_NS)
