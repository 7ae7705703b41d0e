"""The loop that reads all GPUs: a cycle each 250 ms, a frame each second."""

import os
from collections.abc import Callable
from typing import Final, TypeAlias

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.driver.library import Nvml
from slo_exporter.ingest.nvml.frame import Fault, Frame, Hello, Tier, Xid
from slo_exporter.ingest.nvml.note import NOTHING, NOWHERE, Note, written
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.reading import container, death, identity
from slo_exporter.ingest.nvml.reading.device import OPENING, WHOLE, XIDS, Device
from slo_exporter.ingest.nvml.reading.rhythm import PERIOD_NS, STEPS
from slo_exporter.ingest.nvml.reading.xid_events import XidEvents

Write: TypeAlias = Callable[[Hello | Frame | Fault], object]
Wait: TypeAlias = Callable[[float], bool]
"""Waits so many seconds; True when it is time to end."""

_COUNT: Final = "nvmlDeviceGetCount_v2"
_COUNTING: Final = written(NOWHERE, _COUNT)
_FRAME: Final = STEPS[Tier.NORMAL]
_RECOUNT: Final = STEPS[Tier.SLOW]
"""GPUs are counted again so often."""


class Poller:
    """
    All GPUs of one generation of NVML.

    Args:
        nvml: initialised.
        clock: for when and how long.
        asked: what is to be left out.
        note: which call is under way.
        write: where frames go.
    """

    def __init__(self, nvml: Nvml, clock: Clock, asked: Order, note: Note, write: Write) -> None:
        self._nvml, self._clock, self._asked, self._note, self._write = nvml, clock, asked, note, write
        self._xids = XidEvents(nvml, note, is_wanted=(NOWHERE, XIDS) not in asked.without)
        self._devices: dict[int, Device] = {}
        self._left_out = {gpu for gpu, name in asked.without if name in {WHOLE, OPENING}}
        self._framed_ns = clock.monotonic_ns()
        self._frame_at = self._recount_at = 0

    def run(self, wait: Wait) -> None:
        """
        Read until *wait* says that it is time to end.

        What was missed in a stall is not made up for: the next cycle is the next of the grid.

        Raises:
            NvmlError: NVML itself is gone.
        """
        start_ns = self._clock.monotonic_ns()
        cycle = 0
        while True:
            self.cycle(cycle)
            behind_ns = self._clock.monotonic_ns() - start_ns
            cycle = max(cycle + 1, -(-behind_ns // PERIOD_NS))
            if wait(max(0, cycle * PERIOD_NS - behind_ns) / SECOND_NS):
                return

    def cycle(self, number: int) -> None:
        """Read what is due in cycle *number*, and write a frame each second."""
        if number >= self._recount_at:
            self._recount_at = number + _RECOUNT
            self._count()
        for device in self._devices.values():
            device.poll(number)
        self._hear()
        self._note.put(NOTHING)
        if number >= self._frame_at:
            self._frame_at = number + _FRAME - number % _FRAME
            self._forget_twins()
            self._frame()
        self._judge()

    def close(self) -> None:
        """Give back what the library lent."""
        for device in self._devices.values():
            device.close()
        self._xids.close()

    def _count(self) -> None:
        """Look for GPUs that were added; those that go are missed by their own calls."""
        self._note.put(_COUNTING)
        try:
            count = self._nvml.number(_COUNT)
        except NvmlError as error:
            if not self._devices or codes.behaviour(error.code) is Behaviour.FAULT:
                raise
            return
        for index in range(count):
            if index not in self._devices and index not in self._left_out:
                self._devices[index] = self._device(index)

    def _device(self, index: int) -> Device:
        without = frozenset(name for gpu, name in self._asked.without if gpu == index)
        return Device(
            self._nvml,
            index,
            self._clock,
            self._note,
            self._xids,
            without=without,
            lists_processes=self._asked.processes,
        )

    def _hear(self) -> None:
        at_ns = self._clock.now_ns()
        for index, xid in self._xids.waiting():
            if (device := self._devices.get(index)) is not None:
                device.report(Xid(xid, at_ns))

    def _forget_twins(self) -> None:
        """A GPU that answers under a second number is the same GPU."""
        seen: set[str] = set()
        for index, device in list(self._devices.items()):
            uuid = device.who.uuid
            if uuid and uuid in seen:
                self._devices.pop(index).close()
                self._left_out.add(index)
            seen.add(uuid)

    def _frame(self) -> None:
        now_ns = self._clock.monotonic_ns()
        refused: dict[str, int] = {}
        for device in self._devices.values():
            for metric, count in device.refused.items():
                refused[metric] = refused.get(metric, 0) + count
            device.refused.clear()
        self._write(
            Frame(
                at_ns=self._clock.now_ns(),
                seconds=(now_ns - self._framed_ns) / SECOND_NS,
                gpus=[device.reading() for device in self._devices.values()],
                calls=self._nvml.take_costs(),
                refused=refused,
            )
        )
        self._framed_ns = now_ns

    def _judge(self) -> None:
        """A container that lost its devices answers 999 to everything; only a new container heals that."""
        if self._devices and all(device.is_unknown for device in self._devices.values()) and container.is_inside():
            raise NvmlError(codes.UNKNOWN, "every call")


def run(asked: Order, write: Write, wait: Wait, clock: Clock) -> None:
    """
    Initialise NVML, say who reads, and read.

    Raises:
        NvmlError: NVML cannot be used, or is gone.
    """
    death.follow_parent()
    if wait(0):  # the parent was gone before that
        return
    note = Note(asked.note_fd)
    note.put(written(NOWHERE, "nvmlInit"))
    nvml = Nvml(clock)
    nvml.open()
    write(hello(nvml))
    poller = Poller(nvml, clock, asked, note, write)
    poller.run(wait)
    note.put(written(NOWHERE, "nvmlShutdown"))
    poller.close()
    nvml.close()
    note.put(NOTHING)


def hello(nvml: Nvml) -> Hello:
    """Who reads."""
    driver, library, cuda = identity.versions(nvml)
    return Hello("nvml", os.getpid(), driver, library, cuda)
