"""What the log says of GPUs: a line for a change of state, none for a retry."""

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from slo_exporter.ingest.nvml.book.states import NO_INDEX, Change
from slo_exporter.ingest.nvml.frame import Frame, Reason
from slo_exporter.ingest.nvml.watch.hints import HINTS

_NORMAL_WITHOUT_GPU: Final = frozenset({Reason.NO_LIBRARY, Reason.NO_DRIVER})

_NONE_READABLE: Final = "none"
"""Frames come, and no GPU in them can be read."""

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
        """A child failed; *more* says where and how, and its *hint* what to do if that is not the reason's own."""
        state = (reason, more.get("gpu"), more.get("call"))
        if state == self._said:
            return
        self._said = state
        said = {"hint": HINTS[reason], **more}
        found = {} if message.startswith(said["hint"]) else {"message": message}
        tell = _log.info if reason in self._normal else _log.warning
        tell("gpus_unreadable", reason=reason.value, **found, **said)

    def stuck(self) -> bool:
        """No child is started any more; whether that is new."""
        if self._said is Reason.STUCK:
            return False
        self._said = Reason.STUCK
        _log.error("gpus_unreadable", reason=Reason.STUCK.value, hint=HINTS[Reason.STUCK])
        return True

    def good(self, frame: Frame, pid: int, changes: Sequence[Change], *, left_out: int = 0) -> None:
        """A frame came; so many GPUs are not in it since they are left out."""
        if self._said is not Reason.OK:
            self._begin(frame, pid, left_out)
        for change in changes:
            _tell(change)

    def _begin(self, frame: Frame, pid: int, left_out: int) -> None:
        readable = sum(gpu.reason is Reason.OK for gpu in frame.gpus)
        more = {"left_out": left_out} if left_out else {}
        if readable or not (frame.gpus or left_out):
            self._said = Reason.OK
            _log.info("gpus_readable", source=self._source, gpus=readable, **more, pid=pid)
        elif self._said != _NONE_READABLE:
            self._said = _NONE_READABLE
            hint = "NVML works, and no GPU does: see the reason of each in gpu_up"
            _log.warning("no_gpu_readable", source=self._source, gpus=len(frame.gpus), **more, pid=pid, hint=hint)

    @staticmethod
    def put_aside(pid: int, stuck: int) -> None:
        """A child does not die."""
        _log.error("gpu_reader_stuck", pid=pid, stuck=stuck, hint="it hangs in the driver, past SIGKILL")

    @staticmethod
    def gone(pid: int) -> None:
        """A child that did not die is dead."""
        _log.info("gpu_reader_gone", pid=pid)


def _tell(change: Change) -> None:
    # What is not known of it is left out: a placeholder would be taken for its name.
    index = {} if change.gpu == NO_INDEX else {"gpu": change.gpu}
    uuid = {"uuid": change.uuid} if change.uuid else {}
    who = {**index, **uuid, "before": change.before.value}
    if change.reason is not Reason.OK:
        _log.warning("gpu_down", **who, reason=change.reason.value, hint=HINTS[change.reason])
    elif change.before is not Reason.STARTING:
        _log.info("gpu_up_again", **who)
