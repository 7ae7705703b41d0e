"""
What this machine's GPUs give, each capability on its own: ``python -m slo_exporter.ingest.nvml.survey.survey ORDER``.

A child like the one that reads GPUs all the time, and as mortal. On the first
GPU everything is read several times, which tells what it costs; on the others
once, and what gives nothing then, such as windows, once more.
"""

import os
import resource
import select
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import c_void_p
from typing import BinaryIO, Final, TypeAlias

from slo_exporter.clock import SECOND_NS, Clock, SystemClock
from slo_exporter.ingest.nvml import order
from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.driver.library import Nvml
from slo_exporter.ingest.nvml.frame import Sample
from slo_exporter.ingest.nvml.note import NOTHING, NOWHERE, Note, written
from slo_exporter.ingest.nvml.reading import death, faults, identity
from slo_exporter.ingest.nvml.reading.capabilities import CAPABILITIES
from slo_exporter.ingest.nvml.reading.device import OPENING, WHOLE
from slo_exporter.ingest.nvml.reading.gpu import Gpu, Pulse
from slo_exporter.ingest.nvml.reading.identity import Identity
from slo_exporter.ingest.nvml.reading.quantities import is_plausible
from slo_exporter.ingest.nvml.survey.finding import (
    XID_EVENTS,
    XIDS,
    Done,
    Library,
    Opened,
    Reading,
    Refusal,
    Shut,
    line,
)

ROUNDS: Final = 5
"""Enough for a median, and for windows, which need a reading before."""
APART_S: Final = 0.3
"""Between two rounds: GPM needs 0.1 s, and the ring of utilisation gets a sample each 0.2 s."""
LONGEST_S: Final = 3.5
"""With what it takes to start, a survey is over in 5 s. What is unread by then stays unread."""
_STREAK: Final = 3
"""So many refusals in a row that may mean the end of a GPU do mean it."""
EXIT_FAULT: Final = 1

Ask: TypeAlias = Callable[[Gpu], Sequence[Sample]]
"""As `Capability.read`."""


class Survey:
    """
    One run.

    Args:
        nvml: initialised.
        clock: to measure with.
        asked: what is to be left out.
        note: which call is under way.
        say: where findings go.
    """

    def __init__(self, nvml: Nvml, clock: Clock, asked: order.Order, note: Note, say: BinaryIO) -> None:
        self._nvml = nvml
        self._clock = clock
        self._asked = asked
        self._note = note
        self._say = say
        self._gone = set(asked.without)
        self._streaks: Counter[int] = Counter()
        self._given: set[tuple[int, str]] = set()
        self._unread: dict[tuple[int, str], None] = {}
        self._refused: Counter[str] = Counter()
        self._until_ns = clock.monotonic_ns() + int(LONGEST_S * SECOND_NS)

    def run(self) -> None:
        """
        Read all GPUs, and say what each reading gave.

        Raises:
            NvmlError: NVML itself is gone.
        """
        gpus = list(self._open_all())
        for number in range(ROUNDS if gpus else 0):
            if number and not self._wait():
                return
            self._read_all(gpus[0])
            if number in {0, ROUNDS - 1}:
                for gpu in gpus[1:]:
                    self._read_all(gpu, once=True)
        self._say.write(line(Done(self._refused, tuple(self._unread))))

    def _open_all(self) -> Iterator[Gpu]:
        self._note.put(written(NOWHERE, "nvmlDeviceGetCount_v2"))
        nvml = self._nvml
        count = nvml.number("nvmlDeviceGetCount_v2")
        driver, library, cuda = identity.versions(nvml)
        self._say.write(line(Library(driver, library, cuda, count)))
        for index in range(count):
            if (index, WHOLE) not in self._gone and (opened := self._open(index)) is not None:
                yield opened

    def _open(self, index: int) -> Gpu | None:
        """Say who it is as soon as it is known, and again when all of it is: it may fail or hang in between."""
        self._note.put(written(index, OPENING))
        who = Identity()
        try:
            gpu = identity.open_gpu(self._nvml, index, who)
            gpu.lists_processes = self._asked.processes
            self._say.write(line(Opened(index, who.uuid, who.info)))
            identity.describe(gpu, who)
        except NvmlError as error:
            self._shut(index, error, who)
            return None
        self._say.write(line(Opened(index, who.uuid, who.info)))
        return gpu

    def _shut(self, index: int, error: NvmlError, who: Identity | None = None) -> None:
        if codes.behaviour(error.code) is Behaviour.FAULT:
            raise error
        self._gone.add((index, WHOLE))
        if who is not None and (who.uuid or who.info):
            self._say.write(line(Opened(index, who.uuid, who.info)))
        text = f"{error.call} answers {codes.name(error.code)} ({error.code})"
        self._say.write(line(Shut(index, codes.reason_of_gpu(error.code), text)))

    def _wait(self) -> bool:
        """Let some time pass; False when whoever asked is gone."""
        self._note.put(NOTHING)
        return not select.select([sys.stdin], [], [], APART_S)[0]

    def _read_all(self, gpu: Gpu, *, once: bool = False) -> None:
        """Read everything that was not refused for good; with *once* only what gave nothing yet."""
        for name, ask in _ASKED.items():
            key = (gpu.index, name)
            if (gpu.index, WHOLE) in self._gone:
                return
            if key in self._gone or (once and key in self._given):
                continue
            if self._clock.monotonic_ns() < self._until_ns:
                self._read(gpu, name, ask)
            elif key not in self._given:
                self._unread[key] = None

    def _read(self, gpu: Gpu, name: str, ask: Ask) -> None:
        self._note.put(written(gpu.index, name))
        gpu.pulse, gpu.processes = Pulse(), None
        gpu.added.clear()
        gpu.refused.clear()
        cpu_us, wall_ns = _cpu_us(), self._clock.monotonic_ns()
        try:
            samples = ask(gpu)
        except NvmlError as error:
            self._refuse(gpu, name, error)
            return
        wall_ns, cpu_us = self._clock.monotonic_ns() - wall_ns, _cpu_us() - cpu_us
        self._streaks[gpu.index] = 0
        self._refused.update(gpu.refused)
        found = Reading(
            gpu=gpu.index,
            capability=name,
            wall_us=wall_ns / 1000,
            cpu_us=cpu_us,
            samples=self._sound(samples),
            grown=self._sound([(metric, labels, grown) for (metric, labels), grown in gpu.added.items()]),
        )
        if found.samples or found.grown:
            self._given.add((gpu.index, name))
        self._say.write(line(found))

    def _refuse(self, gpu: Gpu, name: str, error: NvmlError) -> None:
        behaviour = codes.behaviour(error.code)
        if behaviour is Behaviour.FAULT:
            raise error
        if behaviour is Behaviour.DROP:
            self._gone.add((gpu.index, name))
        self._say.write(line(Refusal(gpu.index, name, error.call, error.code, codes.name(error.code))))
        self._streaks[gpu.index] = self._streaks[gpu.index] + 1 if behaviour is Behaviour.STREAK else 0
        if behaviour is Behaviour.GPU_DOWN or self._streaks[gpu.index] >= _STREAK:
            self._shut(gpu.index, error)

    def _sound(self, samples: Sequence[Sample]) -> Sequence[Sample]:
        """Samples that can be true; the others are counted."""
        self._refused.update(sample[0] for sample in samples if not _is_sound(sample))
        return [sample for sample in samples if _is_sound(sample)]


def _is_sound(sample: Sample) -> bool:
    return sample[0] == XIDS or is_plausible(sample[0], sample[2])


def _listen(gpu: Gpu) -> Sequence[Sample]:
    """Have the GPU's errors reported, and see how many are."""
    events = gpu.choices.get(XID_EVENTS)
    if not isinstance(events, c_void_p):
        events = gpu.nvml.event_set_create()
        gpu.nvml.register_xids(gpu.handle, events)
        gpu.choices[XID_EVENTS] = events
    return ((XIDS, (), float(gpu.nvml.next_event(events) is not None)),)


_ASKED: Final[Mapping[str, Ask]] = {
    **{capability.name: capability.read for capability in CAPABILITIES},
    XID_EVENTS: _listen,
}


def _cpu_us() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1e6


def main(arguments: Sequence[str]) -> int:
    """Survey as the order in *arguments* says; the exit code."""
    death.follow_parent()
    asked = order.read(arguments[0])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked stops us
    os.dup2(2, 1)  # what a library prints must not pass for a finding
    note = Note(asked.note_fd)
    with os.fdopen(asked.frames_fd, "wb", buffering=0) as say:
        note.put(written(NOWHERE, "nvmlInit"))
        clock = SystemClock()
        try:
            nvml = Nvml(clock)
            nvml.open()
            Survey(nvml, clock, asked, note, say).run()
        except NvmlError as error:
            say.write(line(faults.fault_of(error)))
            return EXIT_FAULT
        except BrokenPipeError:
            return EXIT_FAULT
        # The library is not shut down: that could hang, and the process ends anyway.
        note.put(NOTHING)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
