"""Errors (XIDs) that the driver reports, of all GPUs in one set; asked without waiting."""

from collections.abc import Iterator
from contextlib import suppress
from ctypes import c_void_p
from typing import Final

from slo_exporter.ingest.nvml.driver import abi, codes
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.driver.library import Nvml
from slo_exporter.ingest.nvml.note import NOWHERE, Note, written
from slo_exporter.ingest.nvml.reading.gpu import Gpu

_WAITING: Final = written(NOWHERE, "xid_events")
_MOST: Final = 256
"""In one cycle: a storm of errors must not keep the GPUs from being read."""


class XidEvents:
    """
    The set, made when the first GPU registers.

    Args:
        nvml: to listen with.
        note: which call is under way.
        is_wanted: False where waiting for events hung or crashed before.
    """

    def __init__(self, nvml: Nvml, note: Note, *, is_wanted: bool = True) -> None:
        self._nvml = nvml
        self._note = note
        self._events: c_void_p | None = None
        self._gpus: dict[int | None, Gpu] = {}
        """Those that are listened to, by handle."""
        self._can_listen = is_wanted

    def register(self, gpu: Gpu) -> None:
        """
        Listen to a GPU; one that has no events is read all the same.

        Raises:
            NvmlError: the GPU, or NVML itself, is gone.
        """
        if not self._can_listen:
            return
        try:
            if self._events is None:
                self._events = self._nvml.event_set_create()
            self._nvml.register_xids(gpu.handle, self._events)
        except NvmlError as error:
            if codes.behaviour(error.code) in {Behaviour.GPU_DOWN, Behaviour.STREAK, Behaviour.FAULT}:
                raise
        else:
            self._gpus.setdefault(gpu.handle.value, gpu)

    def waiting(self) -> Iterator[tuple[int, int]]:
        """
        Errors that arrived: (number of the GPU, XID).

        Raises:
            NvmlError: NVML itself is gone.
        """
        self._note.put(_WAITING)
        for _ in range(_MOST):
            if self._events is None or not self._gpus or not self._can_listen:
                return
            event = self._next(self._events)
            if event is None:
                return
            gpu = self._gpus.get(event.device)
            if gpu is not None and event.eventType & abi.XID_EVENT:
                yield gpu.index, event.eventData

    def _next(self, events: c_void_p) -> abi.EventData | None:
        try:
            return self._nvml.next_event(events)
        except NvmlError as error:
            behaviour = codes.behaviour(error.code)
            if behaviour is Behaviour.FAULT:
                raise
            self._can_listen = behaviour is not Behaviour.DROP
            if behaviour is Behaviour.GPU_DOWN:
                self._listen_to_the_rest()
            return None

    def _listen_to_the_rest(self) -> None:
        """A set with a lost GPU tells nothing any more: make one of those that still answer."""
        gpus, self._gpus = self._gpus, {}
        self.close()
        for gpu in gpus.values():
            try:
                self.register(gpu)
            except NvmlError as error:
                if codes.behaviour(error.code) is Behaviour.FAULT:
                    raise

    def close(self) -> None:
        """Give the set back."""
        if self._events is not None:
            events, self._events = self._events, None
            with suppress(NvmlError):  # whatever is wrong shows in the next call
                self._nvml.event_set_free(events)
