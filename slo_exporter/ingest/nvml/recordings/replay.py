"""
A recording in place of GPUs: the source ``replay``.

It is played in its own rhythm, as if it happened now, and begins again at its
end. What counters grew by just goes on. The counters of the hardware would fall
where the recording begins again: there, and where the recorded one was reset,
they stand still for one reading and then go on from where they were.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.frame import Fault, Frame, GpuReading, Hello, Reason, Sample
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.recordings import recording

LONGEST_LINE: Final = 1 << 20
"""Bytes; a frame of 16 GPUs with everything is some 100 KiB."""
SHORTEST_S: Final = 0.01
LONGEST_S: Final = 60.0
"""Of a frame, which comes every second: what is far from that is no recording."""
_COUNTER: Final = "_total"
"""How names of counters end."""


class RecordingError(Exception):
    """Something in the file is wrong; says where and what."""


def run(
    order: Order, write: Callable[[Hello | Frame | Fault], object], wait: Callable[[float], bool], clock: Clock
) -> None:
    """
    Play ``order.recording`` until told to end, or until a line of it is wrong or is a fault.

    Args:
        order: which file, and whether processes are wanted.
        write: takes what is said.
        wait: waits so many seconds; True, at once, when it is time to end.
        clock: says how long it took.
    """
    try:
        _play(order, write, wait, clock)
    except RecordingError as error:
        write(Fault(Reason.EXIT, "replay", 0, str(error)))


def _play(
    order: Order, write: Callable[[Hello | Frame | Fault], object], wait: Callable[[float], bool], clock: Clock
) -> None:
    lasting = _Lasting()
    write(replace(hello(order.recording), source="replay", pid=os.getpid()))
    due_ns = clock.monotonic_ns()
    while True:
        for said in _after_hello(order.recording):
            if isinstance(said, Fault):
                write(said)
                return
            due_ns += round(said.seconds * SECOND_NS)
            if wait(max(due_ns - clock.monotonic_ns(), 0) / SECOND_NS):
                return
            # A machine that slept does not hurry to catch up.
            due_ns = max(due_ns, clock.monotonic_ns() - SECOND_NS)
            write(_now(said, lasting, clock.now_ns(), processes=order.processes))
        lasting.begin_again()


def hello(path: str) -> Hello:
    """
    Read the first line of a recording: who was recorded.

    Raises:
        RecordingError: it is no recording.
    """
    first = next(_lines(path), None)
    if not isinstance(first, Hello):
        raise RecordingError(f"{path}, line 1: a recording begins with a hello")
    return first


def _after_hello(path: str) -> Iterator[Frame | Fault]:
    number = 1
    for number, said in enumerate(_lines(path), 1):
        if number == 1:
            continue
        if isinstance(said, Hello):
            raise RecordingError(f"{path}, line {number}: a second hello")
        if isinstance(said, Frame) and not SHORTEST_S <= said.seconds <= LONGEST_S:
            raise RecordingError(f"{path}, line {number}: a frame of {said.seconds} s")
        yield said
    if number == 1:
        raise RecordingError(f"{path}, line 1: nothing but a hello")


def _lines(path: str) -> Iterator[Hello | Frame | Fault]:
    """Read one line at a time: a recording may be longer than the memory we want to use."""
    number = 0
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the child imports as little as it can
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):  # noqa: B007 - told below
                yield recording.said(line)
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RecordingError(f"{path}, line {number}: {error}") from None


def _now(frame: Frame, lasting: "_Lasting", now_ns: int, *, processes: bool) -> Frame:
    """The frame as if it ended now."""
    later_ns = now_ns - frame.at_ns
    return replace(frame, at_ns=now_ns, gpus=[_moved(gpu, lasting, later_ns, processes) for gpu in frame.gpus])


def _moved(gpu: GpuReading, lasting: "_Lasting", later_ns: int, processes: bool) -> GpuReading:  # noqa: FBT001
    return replace(
        gpu,
        tiers={tier: lasting.go_on(gpu.uuid, samples) for tier, samples in gpu.tiers.items()},
        xids=[replace(xid, at_ns=xid.at_ns + later_ns) for xid in gpu.xids],
        processes=gpu.processes if processes else None,
    )


class _Lasting:
    """The hardware's counters, of which none falls."""

    def __init__(self) -> None:
        self._recorded: dict[tuple[str, str, tuple[str, ...]], float] = {}
        self._shown: dict[tuple[str, str, tuple[str, ...]], float] = {}

    def begin_again(self) -> None:
        """The recording starts anew."""
        self._recorded.clear()

    def go_on(self, uuid: str, samples: Sequence[Sample]) -> Sequence[Sample]:
        """The same samples, with counters that go on."""
        return [
            (metric, labels, self._next((uuid, metric, labels), value) if metric.endswith(_COUNTER) else value)
            for metric, labels, value in samples
        ]

    def _next(self, key: tuple[str, str, tuple[str, ...]], value: float) -> float:
        grown = max(value - self._recorded.get(key, value), 0.0)
        self._recorded[key] = value
        self._shown[key] = self._shown.get(key, value) + grown
        return self._shown[key]
