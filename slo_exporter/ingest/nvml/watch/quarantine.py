"""
What is left out for a while, since NVML hung or crashed in it.

The first fault of a GPU leaves out the call, a second one while that lasts the
whole GPU. A GPU that cannot be opened is left out at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.frame import Reason
from slo_exporter.ingest.nvml.note import NOWHERE

QUARANTINE_S: Final = 600.0
"""Long enough that a GPU that always hangs costs the others little, short enough to heal within a shift."""
WHOLE: Final = "*"
"""Stands for every call on a GPU, in `Order.without`."""
OPENING: Final = "open"
"""Note of a child that opens a GPU."""
NOT_ON_ONE_GPU: Final = frozenset({"xid_events"})
"""Calls that are not on one GPU and can be left out; without the others nothing can be read."""


@dataclass(frozen=True, slots=True)
class _Left:
    """Left out, and why, until a monotonic instant."""

    until_ns: int
    reason: Reason


class Quarantine:
    """Which calls are not to be made on which GPU; instants are monotonic."""

    def __init__(self, seconds: float = QUARANTINE_S) -> None:
        self._span_ns = int(seconds * SECOND_NS)
        self._left: dict[tuple[int, str], _Left] = {}

    def blame(self, gpu: int, call: str, reason: Reason, now_ns: int) -> str | None:
        """NVML hung or crashed in *call* on *gpu*: give what is left out from now on, if anything."""
        if gpu == NOWHERE and call not in NOT_ON_ONE_GPU:
            return None
        earlier = [key for key, left in self._left.items() if key[0] == gpu and now_ns < left.until_ns]
        for key in earlier:
            del self._left[key]
        what = WHOLE if gpu != NOWHERE and (earlier or call == OPENING) else call
        self._left[gpu, what] = _Left(now_ns + self._span_ns, reason)
        return what

    def expire(self, now_ns: int) -> bool:
        """Let go of what was left out long enough; whether there was something."""
        over = [key for key, left in self._left.items() if now_ns >= left.until_ns]
        for key in over:
            del self._left[key]
        return bool(over)

    def without(self) -> tuple[tuple[int, str], ...]:
        """For `Order.without`."""
        return tuple(sorted(self._left))

    def whole(self) -> Mapping[int, Reason]:
        """GPUs that are left out as a whole, and why."""
        return {gpu: left.reason for (gpu, call), left in self._left.items() if call == WHOLE}
