"""
The book of GPUs: the newest values, true counters, and the seconds that SLIs are made of.

One thread writes, any may read. The lock is held for as long as it takes to
copy a few hundred numbers: frames are checked before, metrics are made after.
Ages are monotonic; the wall clock dates records only.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.book import records, told
from slo_exporter.ingest.nvml.book.costs import Costs
from slo_exporter.ingest.nvml.book.groups import Groups
from slo_exporter.ingest.nvml.book.records import GpuRecords
from slo_exporter.ingest.nvml.book.roster import Expected, Roster
from slo_exporter.ingest.nvml.book.shapes import Key
from slo_exporter.ingest.nvml.book.sifting import Sifted, Uses, sift
from slo_exporter.ingest.nvml.book.source import Away, Source
from slo_exporter.ingest.nvml.book.states import Change, GpuState, SourceState
from slo_exporter.ingest.nvml.frame import OF_ONE_GPU, Frame, Hello, Reason
from slo_exporter.ingest.nvml.note import NOWHERE
from slo_exporter.ingest.nvml.watch.hints import HINTS
from slo_exporter.sli.gpus import Gpu, GpuBatch

DEFAULT_LATENESS_NS: Final = 600 * SECOND_NS
_LAG_NS: Final = SECOND_NS
"""A second without a frame has its row so much later: until then a frame may come that tells of it."""
_IN_A_CALL: Final = frozenset({Reason.HANG, Reason.CRASH})
_PRECREATED: Final = (
    *(Reason.HANG, Reason.CRASH, Reason.EXIT, Reason.GARBAGE),
    *(Reason.VERSION_MISMATCH, Reason.CONTAINER_LOST),
)
"""Restarts that are shown as 0 before the first, so that ``increase()`` sees it."""


class GpuBook:
    """
    What is known of the GPUs of this host.

    Args:
        source: nvml, simulated, replay or off.
        groups: group → GPUs, each an NVML index, a UUID or a PCI bus id.
        lateness_ns: records of older frames are dropped.
        uses: asked about the processes of a frame, from the writing thread.
    """

    def __init__(
        self,
        clock: Clock,
        groups: Groups | None = None,
        *,
        source: str = "nvml",
        lateness_ns: int = DEFAULT_LATENESS_NS,
        uses: Uses | None = None,
    ) -> None:
        self._clock = clock
        self._source = Source(source, clock)
        self._uses = uses
        self._lock = threading.Lock()
        self._roster = Roster(groups or {})
        self._records = GpuRecords(lateness_ns)
        self._costs = Costs()
        self._restarts: Counter[str] = Counter(dict.fromkeys((reason.value for reason in _PRECREATED), 0))
        self._stuck = 0
        self._without: Sequence[tuple[int, str]] = ()
        """As in the order of the newest child."""
        self._told_ns = clock.now_ns()
        """Up to where seconds have records; wall clock."""

    # What the watchdog writes.

    def hello(self, hello: Hello) -> None:
        """A child started to read."""
        with self._lock:
            self._source.hello = hello

    def frame(self, frame: Frame) -> Sequence[Change]:
        """Book a frame; give the GPUs whose reason changed."""
        refused: Counter[str] = Counter(frame.refused)
        sifted = sift(frame, self._uses, refused)
        with self._lock:
            self._fill(min(frame.at_ns, self._clock.now_ns()) - SECOND_NS // 2)
            before = {id(gpu): self._reason(gpu, Reason.OK) for gpu in self._roster}
            self._source.frame()
            present = self._book(sifted, refused)
            for gpu in self._roster:
                if id(gpu) not in present:
                    self._miss(gpu)
            self._record(frame.at_ns, present)
            self._costs.add(frame.calls, refused)
            return self._changes(before)

    def fault(self, reason: Reason, message: str = "", gpu: int | None = None) -> None:
        """No frames come, for this reason; *gpu* is the NVML index of the one that is to blame."""
        with self._lock:
            blamed = None if gpu is None else self._roster.expect(gpu)
            self._source.away = Away(reason, message or HINTS[reason], blamed)

    def left_out(self, blamed: Mapping[int, Reason], without: Sequence[tuple[int, str]]) -> None:
        """
        NVML hung or crashed: the next child leaves something out.

        Args:
            blamed: GPUs that nobody touches, by NVML index, and why; one that was never seen is expected from now on.
            without: its `Order.without`.
        """
        with self._lock:
            self._without = without
            whose = {id(self._roster.expect(index)): reason for index, reason in blamed.items()}
            for gpu in self._roster:
                gpu.blamed = whose.get(id(gpu))

    def restarted(self, reason: str) -> None:
        """A child ended for this reason and is replaced."""
        with self._lock:
            self._restarts[reason] += 1

    def stuck(self, children: int) -> None:
        """So many children hang past SIGKILL."""
        with self._lock:
            self._stuck = children

    def tick(self) -> None:
        """Record the seconds in which no frame came, for a known reason; called about once a second."""
        with self._lock:
            self._fill(self._clock.now_ns() - _LAG_NS)

    # What others read.

    def take(self) -> GpuBatch | None:
        """Give the records that came since the last time."""
        with self._lock:
            return self._records.take()

    def give_back(self, batch: GpuBatch) -> None:
        """Keep records that could not be counted now."""
        with self._lock:
            self._records.give_back(batch)

    def source(self) -> SourceState:
        """How GPUs are read."""
        with self._lock:
            return self._source.state()

    def gpus(self) -> Sequence[GpuState]:
        """Every expected GPU, by index; none when the source is off."""
        with self._lock:
            return self._states()

    def readings(self) -> told.Readings:
        """All ``gpu_*`` metrics, and what is to be known of how they are read."""
        with self._lock:
            source, gpus = self._source.state(), self._states()
            counted = told.Counted(
                restarts=dict(self._restarts),
                stuck=self._stuck,
                frames=self._source.frames,
                dropped=self._records.dropped,
                costs=dict(self._costs.readings()),
            )
        return told.readings(source, gpus, counted)

    # With the lock held.

    def _book(self, sifted: Sequence[Sifted], refused: Counter[str]) -> Mapping[int, Sifted]:
        """Take what each GPU said; give who said something."""
        by_reading = {id(one.reading): one for one in sifted}
        refused_before = self._roster.refused
        present = {}
        for gpu, reading in self._roster.match([one.reading for one in sifted]):
            one = present[id(gpu)] = by_reading[id(reading)]
            self._enter(gpu, one, refused)
        if self._roster.refused > refused_before:
            refused["gpu_up"] += self._roster.refused - refused_before
        return present

    def _enter(self, gpu: Expected, one: Sifted, refused: Counter[str]) -> None:
        now_ns = self._clock.monotonic_ns()
        gpu.reason = one.reading.reason
        gpu.info = one.info or gpu.info
        self._roster.regroup(gpu)
        gpu.counters.add(one.grown)
        for values in one.tiers.values():
            gpu.counters.give_way(values)
        if gpu.reason is Reason.OK:
            gpu.xids.precreate()
        if left_out := gpu.xids.add(one.reading.xids):
            refused["gpu_xid_errors_total"] += left_out
        if gpu.reason is not Reason.OK:
            gpu.newest.clear()
            return
        for tier, values in one.tiers.items():
            gpu.newest.put(tier, values, now_ns)
        if one.processes is not None:
            gpu.newest.put_processes(one.processes, now_ns)

    @staticmethod
    def _miss(gpu: Expected) -> None:
        """A frame came without this GPU."""
        gpu.reason = Reason.MISSING
        gpu.newest.clear()

    def _fill(self, until_ns: int) -> None:
        """No frame told of the seconds until then, if none came."""
        away = self._source.away
        if (away is None and self._source.frames) or 0 <= self._told_ns - until_ns <= _LAG_NS:
            return
        reason = Reason.STARTING if away is None else away.reason
        for gpu in self._roster:
            up = records.up(gpu.blamed or reason, is_blamed=self._is_blamed(gpu))
            self._records.fill(until_ns, self._told_ns, _row(gpu), up)
        self._told_ns = until_ns

    def _record(self, at_ns: int, present: Mapping[int, Sifted]) -> None:
        if self._records.is_odd(at_ns, self._clock.now_ns(), len(self._roster)):
            return
        self._told_ns = at_ns
        for gpu in self._roster:
            up = records.up(gpu.blamed or gpu.reason, is_blamed=gpu.blamed is not None)
            told_now = present[id(gpu)].second if id(gpu) in present else {}
            self._records.add(at_ns, _row(gpu), {**told_now, **up})

    def _changes(self, before: Mapping[int, Reason]) -> Sequence[Change]:
        now = [(gpu, before.get(id(gpu), Reason.STARTING), self._reason(gpu, Reason.OK)) for gpu in self._roster]
        return [Change(gpu.index, gpu.uuid, was, reason) for gpu, was, reason in now if was is not reason]

    @staticmethod
    def _reason(gpu: Expected, source: Reason) -> Reason:
        if gpu.blamed is not None:
            return gpu.blamed
        return gpu.reason if source is Reason.OK else source

    def _is_blamed(self, gpu: Expected) -> bool:
        away = self._source.away
        return gpu.blamed is not None or (away is not None and away.gpu is gpu)

    def _is_up(self, gpu: Expected, reason: Reason) -> bool | None:
        if reason is Reason.OK:
            return True
        is_at_fault = reason in OF_ONE_GPU or (reason in _IN_A_CALL and self._is_blamed(gpu))
        return False if is_at_fault else None

    def _states(self) -> Sequence[GpuState]:
        source = self._source.reason()
        return [] if source is Reason.OFF else [self._state(gpu, self._reason(gpu, source)) for gpu in self._roster]

    def _state(self, gpu: Expected, reason: Reason) -> GpuState:
        values = {**dict(gpu.xids.values()), **self._left_out(gpu)}
        if reason is Reason.OK:
            values |= gpu.newest.values(self._clock.monotonic_ns())
            values |= gpu.counters.values()
        return GpuState(
            gpu=gpu.index,
            uuid=gpu.uuid,
            is_up=self._is_up(gpu, reason),
            reason=reason,
            groups=gpu.groups,
            info=gpu.info,
            values=values,
        )

    def _left_out(self, gpu: Expected) -> Mapping[Key, float]:
        names = {name for index, name in self._without if index == NOWHERE or self._roster.at(index) is gpu}
        return {("slo_exporter_nvml_left_out", (name,)): 1.0 for name in sorted(names)}


def _row(gpu: Expected) -> Gpu:
    return Gpu(gpu.index, gpu.uuid, gpu.info.get("name", ""), frozenset(gpu.groups))
