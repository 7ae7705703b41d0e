"""
What is left out for a while, since NVML hung or crashed in it.

The first fault of a GPU leaves out the call, a second one while that lasts the
whole GPU. A GPU that cannot be opened is left out at once, and the second time
for longer.

NVML numbers its GPUs anew when one is gone. What is left out follows the GPU
that it was left out of; where nobody can tell which that is, it is tried again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.frame import Reason
from slo_exporter.ingest.nvml.note import NOWHERE

QUARANTINE_S: Final = 600.0
"""Long enough that a GPU that always hangs costs the others little, short enough to heal within a shift."""
LONGER: Final = 6
"""So many spans for a GPU that cannot be opened a second time within two of them: each try costs the others a gap."""
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
        self._unopened_ns: dict[int, int] = {}
        """When a GPU could not be opened last."""
        self._uuids: dict[int, str] = {}
        """Which GPU is where, of all that were seen since the numbers last changed."""

    def blame(self, gpu: int, call: str, reason: Reason, now_ns: int) -> str | None:
        """NVML hung or crashed in *call* on *gpu*: give what is left out from now on, if anything."""
        if gpu == NOWHERE and call not in NOT_ON_ONE_GPU:
            return None
        earlier = [key for key, left in self._left.items() if key[0] == gpu and now_ns < left.until_ns]
        for key in earlier:
            del self._left[key]
        what = WHOLE if gpu != NOWHERE and (earlier or call == OPENING) else call
        self._left[gpu, what] = _Left(now_ns + self._span_of(gpu, call, now_ns), reason)
        return what

    def see(self, places: Mapping[int, str]) -> bool:
        """
        Learn which GPU is where; whether something else is to be left out now.

        Args:
            places: NVML index → UUID, empty where the GPU does not tell it, of all that are not left out as a whole.
        """
        here = {index: uuid or self._uuids.get(index, "") for index, uuid in places.items()}
        if not self._is_renumbered(here):
            self._uuids |= {index: uuid for index, uuid in here.items() if uuid}
            return False
        places_of = {uuid: index for index, uuid in here.items() if uuid}
        before, self._left = self._left, {}
        for (gpu, call), left in before.items():
            place = gpu if gpu == NOWHERE else places_of.get(self._uuids.get(gpu, ""))
            if place is not None:
                self._left[place, call] = left
        self._uuids = {index: uuid for uuid, index in places_of.items()}
        self._unopened_ns.clear()
        return self._left.keys() != before.keys()

    def expire(self, now_ns: int) -> bool:
        """Let go of what was left out long enough; whether there was something."""
        over = [key for key, left in self._left.items() if now_ns >= left.until_ns]
        for key in over:
            del self._left[key]
        return bool(over)

    def _span_of(self, gpu: int, call: str, now_ns: int) -> int:
        if call != OPENING:
            return self._span_ns
        longer_ns = LONGER * self._span_ns
        is_first = now_ns - self._unopened_ns.get(gpu, now_ns - 2 * longer_ns) >= 2 * longer_ns
        self._unopened_ns[gpu] = now_ns
        return self._span_ns if is_first else longer_ns

    def _is_renumbered(self, here: Mapping[int, str]) -> bool:
        """Whether a GPU is where another one was, or is gone: then those behind it have other numbers."""
        whole, known = self.whole(), {uuid: index for index, uuid in self._uuids.items()}
        return any(index not in here and index not in whole for index in self._uuids) or any(
            known.get(uuid, index) != index or self._uuids.get(index, uuid) != uuid for index, uuid in here.items()
        )

    def without(self) -> tuple[tuple[int, str], ...]:
        """For `Order.without`."""
        return tuple(sorted(self._left))

    def whole(self) -> Mapping[int, Reason]:
        """GPUs that are left out as a whole, and why."""
        return {gpu: left.reason for (gpu, call), left in self._left.items() if call == WHOLE}
