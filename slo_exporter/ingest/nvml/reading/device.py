"""One GPU, read in tiers: what it tells, what it was found not to tell, and whether it is there at all."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.codes import Behaviour, NvmlError
from slo_exporter.ingest.nvml.driver.library import Nvml
from slo_exporter.ingest.nvml.frame import Activity, GpuReading, Reason, Sample, Tier, Xid
from slo_exporter.ingest.nvml.note import Note, written
from slo_exporter.ingest.nvml.reading import identity, integrals
from slo_exporter.ingest.nvml.reading.gpu import Gpu, Pulse
from slo_exporter.ingest.nvml.reading.identity import Identity
from slo_exporter.ingest.nvml.reading.plan import Asked, Plan
from slo_exporter.ingest.nvml.reading.quantities import is_plausible
from slo_exporter.ingest.nvml.reading.rhythm import Beat, Rhythm
from slo_exporter.ingest.nvml.reading.xid_events import XidEvents

WHOLE: Final = "*"
"""Stands for every call on a GPU, in ``Order.without``."""
OPENING: Final = "open"
"""In the note, while a GPU is opened."""
XIDS: Final = "xid_events"
RETRY_NS: Final = 30 * SECOND_NS
"""A GPU that is gone is looked for again that much later."""
_SOON_NS: Final = SECOND_NS
_STREAK: Final = 3
"""So many refusals in a row that may mean the end of a GPU do mean it."""


class Device:
    """
    A GPU under its number.

    Args:
        nvml: to read with.
        index: NVML's number of it.
        clock: monotonic.
        note: which call is under way.
        xids: where the GPU's errors arrive.
        without: capabilities that are not to be read.
        lists_processes: whether processes are wanted.
    """

    def __init__(  # noqa: PLR0913
        self,
        nvml: Nvml,
        index: int,
        clock: Clock,
        note: Note,
        xids: XidEvents,
        *,
        without: Collection[str] = (),
        lists_processes: bool = False,
    ) -> None:
        self.index: Final = index
        self.who: Final = Identity()
        self.plan: Final = Plan(index, without)
        self.reason = Reason.STARTING
        self.code = 0
        """The last that made it unreadable."""
        self.refused: dict[str, int] = {}
        """Values that could not be true, by metric; emptied by its owner."""
        self._nvml, self._clock, self._note, self._xid_events = nvml, clock, note, xids
        self._lists_processes = lists_processes
        self._gpu: Gpu | None = None
        self._rhythm, self._beat = Rhythm(index), Beat()
        self._streak = 0
        self._again_ns = 0
        self._info: dict[str, str] = {}
        self._tiers: dict[Tier, Sequence[Sample]] = {}
        self._added: dict[tuple[str, tuple[str, ...]], float] = {}
        self._activity: list[Activity] = []
        self._xids: list[Xid] = []

    def poll(self, cycle: int) -> None:
        """
        Read the tiers that are due in this cycle.

        Raises:
            NvmlError: NVML itself is gone.
        """
        if self._gpu is None and self._clock.monotonic_ns() >= self._again_ns:
            self._open(cycle)
        for tier in self._rhythm.due(cycle):
            if self._gpu is None:
                return
            if tier is Tier.FAST:
                self._feel_pulse(self._gpu)
            else:
                self._tiers[tier] = self._read_tier(tier)

    @property
    def is_unknown(self) -> bool:
        """Whether it was given up for answering Unknown (999)."""
        return self.reason is Reason.UNKNOWN and self.code == codes.UNKNOWN

    def report(self, xid: Xid) -> None:
        """Take an error that the driver reported of this GPU."""
        self._xids.append(xid)

    def reading(self) -> GpuReading:
        """What was found since the last time."""
        gpu = self._gpu
        said = GpuReading(
            gpu=self.index,
            uuid=self.who.uuid,
            reason=self.reason,
            info=self._info,
            tiers=self._tiers if gpu is not None else {},
            added=self._take_added(),
            activity=self._activity,
            xids=self._xids,
            processes=None if gpu is None else gpu.processes,
        )
        self._info, self._tiers, self._activity, self._xids = {}, {}, [], []
        if gpu is not None:
            gpu.processes = None
        return said

    def close(self) -> None:
        """Give back what the library lent."""
        if self._gpu is not None and self._gpu.windows is not None:
            with suppress(NvmlError):  # of a GPU that is gone; whatever is wrong shows in the next call
                self._gpu.windows.close()
        self._gpu = None

    def _open(self, cycle: int) -> None:
        self._note.put(written(self.index, OPENING))
        try:
            gpu = identity.open_gpu(self._nvml, self.index, self.who)
            identity.describe(gpu, self.who)
            if XIDS not in self.plan.without:
                self._xid_events.register(gpu)
        except NvmlError as error:
            self._judge_opening(error)
            return
        finally:
            self._info = dict(self.who.info)
        gpu.added, gpu.refused, gpu.lists_processes = self._added, self.refused, self._lists_processes
        self._gpu, self.reason, self._streak = gpu, Reason.OK, 0
        self.plan.renew()
        self._beat = Beat()
        self._rhythm.start(cycle)
        self._tiers[Tier.ONCE] = self._read_tier(Tier.ONCE)

    def _judge_opening(self, error: NvmlError) -> None:
        behaviour = codes.behaviour(error.code)
        if behaviour is Behaviour.FAULT:
            raise error
        self._streak += 1
        if behaviour in {Behaviour.STREAK, Behaviour.COUNT} and self._streak < _STREAK:
            self._again_ns = self._clock.monotonic_ns() + _SOON_NS
        else:
            self._shut(error.code)

    def _shut(self, code: int) -> None:
        """Stop reading; look for it again later, under its UUID."""
        self.close()
        self.reason, self.code = codes.reason_of_gpu(code), code
        self._streak, self._tiers = 0, {}
        self._again_ns = self._clock.monotonic_ns() + RETRY_NS

    def _read_tier(self, tier: Tier) -> Sequence[Sample]:
        found: list[Sample] = []
        for asked in self.plan.of(tier):
            if self._gpu is None:
                break
            found += self._read(self._gpu, asked)
        return found

    def _read(self, gpu: Gpu, asked: Asked) -> Sequence[Sample]:
        self._note.put(asked.note)
        try:
            found = asked.capability.read(gpu)
        except NvmlError as error:
            self._judge(asked, error)
            return ()
        self._streak = 0
        return found if all(is_plausible(metric, value) for metric, _, value in found) else self._sifted(found)

    def _sifted(self, found: Sequence[Sample]) -> Sequence[Sample]:
        sound = [sample for sample in found if is_plausible(sample[0], sample[2])]
        for sample in found:
            if sample not in sound:
                self.refused[sample[0]] = self.refused.get(sample[0], 0) + 1
        return sound

    def _judge(self, asked: Asked, error: NvmlError) -> None:
        behaviour = codes.behaviour(error.code)
        if behaviour is Behaviour.FAULT:
            raise error
        if behaviour is Behaviour.DROP:
            self.plan.drop(asked, error.code)
        self._streak = self._streak + 1 if behaviour is Behaviour.STREAK else 0
        if behaviour is Behaviour.GPU_DOWN or self._streak >= _STREAK:
            self._shut(error.code)

    def _feel_pulse(self, gpu: Gpu) -> None:
        started = self._clock.monotonic_ns()
        elapsed_s = self._beat.since_last(started)
        gpu.pulse = pulse = Pulse()
        self._read_tier(Tier.FAST)
        self._rhythm.took(self._clock.monotonic_ns() - started)
        if elapsed_s is not None:
            integrals.account(gpu, self.plan, elapsed_s)
        seconds = pulse.seconds or elapsed_s
        if seconds is not None and pulse != Pulse():
            self._activity.append(
                Activity(seconds, pulse.sm, pulse.tensor, pulse.dram, pulse.power_watts, pulse.reasons)
            )

    def _take_added(self) -> Sequence[Sample]:
        """Growth, without what cannot be true."""
        added = [(metric, labels, amount) for (metric, labels), amount in self._added.items()]
        self._added.clear()
        return added if all(is_plausible(metric, amount) for metric, _, amount in added) else self._sifted(added)
