"""
XIDs, the errors that the driver reports: what each asks for, and how often it came.

Source: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
column "Resolution Bucket (Immediate Action)", Ampere and newer, read 2026-11-30.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.nvml.book.shapes import Key
from slo_exporter.ingest.nvml.frame import Xid


class Action(StrEnum):
    """What an XID asks for; the catalogue's buckets, those with few members put to the next in kind."""

    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    CONTACT_SUPPORT = "contact_support"
    CHECK_APP = "check_app"
    IGNORE = "ignore"


_CODES: Final[Mapping[Action, tuple[int, ...]]] = {
    Action.RESTART_APP: (
        *(8, 11, 25, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94),
        *range(96, 106),
        *range(126, 136),
        139,
    ),
    # RESTART_APP in the catalogue, which sends on to a debugger: the application did it.
    Action.CHECK_APP: (13, 31),
    Action.RESET_GPU: (
        *(46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
        # WORKFLOW_XID_48, WORKFLOW_NVLINK_ERR and WORKFLOW_NVLINK5_ERR: a reset clears what they are about.
        *(48, 74, 144, 145, 146, 147, 148, 149, 150),
    ),
    # RESTART_BM and RESTART_VM.
    Action.REBOOT: (79, 151),
    # 45 and 154 only ever go with another XID that tells more.
    Action.IGNORE: (
        *(14, 37, 38, 43, 44, 45, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141),
        *(152, 153, 154, 157, 160, 161, 162, 163),
    ),
}
_ACTIONS: Final = {code: action for action, codes in _CODES.items() for code in codes}
"""An XID that is not here is for support: that is the catalogue's bucket of what it calls unused."""

CRITICAL: Final = frozenset({Action.RESET_GPU, Action.REBOOT, Action.CONTACT_SUPPORT})
"""What asks for more than an application's restart; `critical_xids` of SLIs counts these."""

PRECREATED: Final = tuple(sorted(code for code, asked in _ACTIONS.items() if asked in CRITICAL))
"""Shown as 0 before the first, so that ``increase()`` sees it: the critical ones that the catalogue lists, 25."""
MOST_CODES: Final = 64
"""Of one GPU; the catalogue has some 170, a GPU meets a few."""

_MOST_XID: Final = 1 << 32
_MOST_NS: Final = 1 << 63


def action(xid: int) -> Action:
    """What *xid* asks for."""
    return _ACTIONS.get(xid, Action.CONTACT_SUPPORT)


class XidCounts:
    """The XIDs of one GPU since the start."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._last_ns: dict[int, int] = {}

    def precreate(self) -> None:
        """Show the critical ones, which did not come yet."""
        for xid in PRECREATED:
            self._counts.setdefault(xid, 0)

    def add(self, xids: Iterable[Xid]) -> int:
        """Count *xids*; give how many had to be left out."""
        left_out = 0
        for xid in xids:
            if not self._has_place(xid):
                left_out += 1
                continue
            self._counts[xid.xid] = self._counts.get(xid.xid, 0) + 1
            self._last_ns[xid.xid] = max(xid.at_ns, self._last_ns.get(xid.xid, 0))
        return left_out

    def _has_place(self, xid: Xid) -> bool:
        if not (0 <= xid.xid < _MOST_XID and 0 <= xid.at_ns < _MOST_NS):
            return False
        return xid.xid in self._counts or len(self._counts) < MOST_CODES

    def values(self) -> Iterator[tuple[Key, float]]:
        """As samples."""
        for xid, count in self._counts.items():
            yield ("gpu_xid_errors_total", (str(xid), action(xid).value)), float(count)
        for xid, at_ns in self._last_ns.items():
            yield ("gpu_xid_last_timestamp_seconds", (str(xid),)), at_ns / SECOND_NS
