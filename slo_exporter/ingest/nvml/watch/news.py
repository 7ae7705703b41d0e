"""What the log says of GPUs: a line for a change of state, none for a retry."""

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from slo_exporter.ingest.nvml.book.states import Change
from slo_exporter.ingest.nvml.frame import Frame, Reason
from slo_exporter.ingest.nvml.watch.hints import HINTS

_NORMAL_WITHOUT_GPU: Final = frozenset({Reason.NO_LIBRARY, Reason.NO_DRIVER})

_log = structlog.get_logger(__name__)


class News:
    """
    Remembers what was said last.

    Args:
        source: nvml, simulated or replay.
        is_optional: no library and no driver are normal.
    """

    def __init__(self, source: str, *, is_optional: bool) -> None:
        self._source = source
        self._normal = _NORMAL_WITHOUT_GPU if is_optional else frozenset[Reason]()
        self._said: object = Reason.STARTING

    def bad(self, reason: Reason, message: str, more: Mapping[str, str]) -> None:
        """A child failed; *more* says where and how."""
        state = (reason, more.get("gpu"), more.get("call"))
        if state == self._said:
            return
        self._said = state
        found = {} if message.startswith(HINTS[reason]) else {"message": message}
        tell = _log.info if reason in self._normal else _log.warning
        tell("gpus_unreadable", reason=reason.value, **found, **more, hint=HINTS[reason])

    def stuck(self) -> bool:
        """No child is started any more; whether that is new."""
        if self._said is Reason.STUCK:
            return False
        self._said = Reason.STUCK
        _log.error("gpus_unreadable", reason=Reason.STUCK.value, hint=HINTS[Reason.STUCK])
        return True

    def good(self, frame: Frame, pid: int, changes: Sequence[Change]) -> None:
        """A frame came."""
        if self._said is not Reason.OK:
            self._said = Reason.OK
            readable = sum(gpu.reason is Reason.OK for gpu in frame.gpus)
            _log.info("gpus_readable", source=self._source, gpus=readable, pid=pid)
        for change in changes:
            _tell(change)

    @staticmethod
    def put_aside(pid: int, stuck: int) -> None:
        """A child does not die."""
        _log.error("gpu_reader_stuck", pid=pid, stuck=stuck, hint="it hangs in the driver, past SIGKILL")

    @staticmethod
    def gone(pid: int) -> None:
        """A child that did not die is dead."""
        _log.info("gpu_reader_gone", pid=pid)


def _tell(change: Change) -> None:
    who = {"gpu": change.gpu, "uuid": change.uuid, "before": change.before.value}
    if change.reason is not Reason.OK:
        _log.warning("gpu_down", **who, reason=change.reason.value, hint=HINTS.get(change.reason, ""))
    elif change.before is not Reason.STARTING:
        _log.info("gpu_up_again", **who)
