"""How all GPUs are read: who reads, how old the newest frame is, and why none comes."""

from dataclasses import dataclass
from typing import Final

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.book.roster import Expected
from slo_exporter.ingest.nvml.book.states import SourceState
from slo_exporter.ingest.nvml.frame import Hello, Reason
from slo_exporter.ingest.nvml.watch.hints import HINTS

FRESH_NS: Final = 3 * SECOND_NS
"""Values of an older frame are no longer told."""
_OFF: Final = "off"


@dataclass(frozen=True, slots=True)
class Away:
    """Why no frames come."""

    reason: Reason
    message: str
    gpu: Expected | None
    """In a call on which NVML hung or crashed."""


class Source:
    """
    Where frames come from.

    Attributes:
        name: nvml, simulated, replay or off.
        hello: what the newest child said of itself.
        away: why no frames come, as far as somebody said so.
        frames: how many came.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.hello: Hello | None = None
        self.away: Away | None = None
        self.frames = 0
        self._clock = clock
        self._frame_at_ns: int | None = None
        """Monotonic."""

    def frame(self) -> None:
        """A frame came."""
        self.frames += 1
        self.away = None
        self._frame_at_ns = self._clock.monotonic_ns()

    def reason(self) -> Reason:
        """Whether the newest frame can be told, or why not."""
        age_ns = self._age_ns()
        if self.name == _OFF:
            return Reason.OFF
        if age_ns is not None and age_ns <= FRESH_NS:
            return Reason.OK
        if self.away is not None:
            return self.away.reason
        # Frames that do not come any more, before the watchdog's patience is over.
        return Reason.STARTING if age_ns is None else Reason.HANG

    def state(self) -> SourceState:
        """For others."""
        reason, age_ns, hello = self.reason(), self._age_ns(), self.hello
        message = "" if reason is Reason.OK else HINTS[reason]
        if self.away is not None and reason is self.away.reason:
            message = self.away.message
        return SourceState(
            source=self.name,
            reason=reason,
            message=message,
            driver=hello.driver if hello else None,
            library=hello.library if hello else None,
            cuda=hello.cuda if hello else None,
            age_s=None if age_ns is None else age_ns / SECOND_NS,
        )

    def _age_ns(self) -> int | None:
        return None if self._frame_at_ns is None else self._clock.monotonic_ns() - self._frame_at_ns
