"""
The SLOs that are counted: what was counted, and what whatever comes changes.

An `Effect` is computed first, written to SQL next and applied last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slo_exporter.daemon.definitions import Key
from slo_exporter.sli.admission import Admitted
from slo_exporter.sli.counting import Plan, merged
from slo_exporter.sli.gpu_slicing import GpuSlicePlan
from slo_exporter.sli.gpus import GpuBatch
from slo_exporter.sli.slicing import SlicePlan, SliceSums
from slo_exporter.slo.alert_book import AlertBook
from slo_exporter.slo.corrections import CorrectionMade
from slo_exporter.slo.judging import SliceBook, SliceChange
from slo_exporter.slo.ledger import Entry
from slo_exporter.slo.snapshot import Snapshot
from slo_exporter.slo.uptime import Uptime
from slo_exporter.store.store import Declaration, Opened


@dataclass(frozen=True, slots=True)
class Effect:
    """What a commit changes, in SQL and then in memory."""

    entry: Entry
    slices: SliceChange
    admitted: Admitted | None = None
    """None where no export came: at a heartbeat, and with seconds of GPUs alone."""


class Loaded:
    """
    Counts, time slices and how to count, of the same SLOs in the same order.

    Attributes:
        ledger: what was counted.
        slices: time slices that are not final.
        alerts: which are active.
        generations: number of the current generation of each SLO, from 1.
        corrections: by row, in the order in which they were made.
        counts_gpus: whether any SLO is on GPUs.
    """

    def __init__(self, declarations: Sequence[Declaration], opened: Opened) -> None:
        slos = [declaration.slo for declaration in declarations]
        indicators = [slo.indicator for slo in slos]
        self.ledger: Final = opened.ledger
        self.slices: Final = SliceBook(slos, opened.slices)
        self.alerts: Final = AlertBook(slos, opened.alerts)
        self.generations: Final = tuple(opened.generations)
        self.corrections: Final[dict[int, list[CorrectionMade]]] = {
            row: list(made) for row, made in opened.corrections.items()
        }
        self._plan = Plan(indicators)
        self._slice_plan = SlicePlan(indicators)
        self._gpu_plan = GpuSlicePlan(indicators)
        self.counts_gpus: Final = len(self._gpu_plan) > 0

    def counted(self, admitted: Admitted | None, gpus: GpuBatch | None) -> Effect:
        """What requests and seconds of GPUs change; when they are committed makes no difference."""
        # No SLO is on both.
        sums: dict[int, SliceSums] = {} if gpus is None else self._gpu_plan.sum(gpus)
        if admitted is None:
            slices = self.slices.arrived(sums, self.ledger.uptime)
            return Effect(Entry(slices.counts, slices.totals), slices)
        counts = self._plan.count(admitted.requests)
        slices = self.slices.arrived(sums | self._slice_plan.sum(admitted.requests), self.ledger.uptime)
        totals = counts.counts.sum(axis=0) + slices.totals
        return Effect(Entry(merged(counts, slices.counts), totals), slices, admitted)

    def judged(self, aged_ns: int, uptime: Uptime, lateness_ns: int) -> Effect:
        """What the passing of time changes."""
        slices = self.slices.due(aged_ns, uptime, lateness_ns)
        return Effect(Entry(slices.counts, slices.totals), slices)

    def apply(self, effect: Effect) -> None:
        """Make memory say what SQL says; nothing here can fail."""
        self.ledger.add(effect.entry)
        self.slices.apply(effect.slices)

    def snapshot(
        self, now_ns: int, accepting_since_ns: int | None, key: Key | None = None, service: str | None = None
    ) -> Snapshot:
        """
        Copy what is counted of the SLO of *key*, of those of *service*, or of all.

        Raises:
            KeyError: if there is none of that name.
        """
        rows = None if service is None else self.ledger.rows_of(service)
        return self.ledger.snapshot(
            now_ns,
            rows if key is None else [self.ledger.row(*key)],
            accepting_since_ns=accepting_since_ns,
            judged_s=self.slices.judged_s,
            active=self.alerts.active,
        )
