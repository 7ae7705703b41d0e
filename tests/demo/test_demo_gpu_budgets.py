"""The simulated GPUs and the demo's objectives on them through the real arithmetic."""

from collections import Counter

import numpy as np
import pytest

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import slo_file
from slo_exporter.config.settings import DEMO_SLOS
from slo_exporter.demo.traffic import CYCLE_S, FIRST_INCIDENT_S, INCIDENT_S
from slo_exporter.ingest.nvml.book import records
from slo_exporter.ingest.nvml.frame import Reason, Tier
from slo_exporter.ingest.nvml.order import Incidents
from slo_exporter.ingest.nvml.simulation import simulated
from slo_exporter.ingest.nvml.simulation.physics import SimulatedGpu
from slo_exporter.sli.counting import SLICE_S, Delta
from slo_exporter.sli.gpu_slicing import GpuSlicePlan
from slo_exporter.sli.gpus import GPU_FIELDS, Gpu, GpuBatch, GpuSelector
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.budget import Counts, burn_rate
from slo_exporter.slo.judging import SETTLE_S, SliceBook, SliceOpening
from slo_exporter.slo.report import State, state_of
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import range_of

EPOCH_NS = 1_700_000_000 * SECOND_NS
END_S = round(3 * CYCLE_S)
INCIDENTS = Incidents(first_s=FIRST_INCIDENT_S, every_s=CYCLE_S, lasting_s=INCIDENT_S)
"""As the daemon orders them."""
SLOS = [slo for slo in slo_file.load([DEMO_SLOS]) if isinstance(slo.indicator.selector, GpuSelector)]
NAMES = [slo.name for slo in SLOS]


def batch() -> GpuBatch:
    """Every second of both GPUs."""
    gpus = [SimulatedGpu(index, INCIDENTS) for index in range(simulated.GPUS)]
    rows = [
        {**records.up(Reason.OK, is_blamed=False), **records.fields(reading, normal)}
        for second in range(1, END_S + 1)
        for reading in simulated.frame(gpus, 1, second - 1, second, EPOCH_NS, processes=False).gpus
        if (normal := {(metric, labels): value for metric, labels, value in reading.tiers[Tier.NORMAL]})
    ]
    ends = np.repeat(np.arange(1, END_S + 1, dtype=np.int64), len(gpus)) * SECOND_NS + EPOCH_NS - 1
    return GpuBatch(
        end_ns=ends,
        gpus=[Gpu(gpu.index, f"GPU-{gpu.index}") for gpu in gpus],
        gpu=np.tile(np.arange(len(gpus), dtype=np.int32), END_S),
        fields={name: np.array([row.get(name, MISSING) for row in rows], dtype=np.int64) for name in GPU_FIELDS},
    )


@pytest.fixture(scope="module")
def deltas() -> list[Delta]:
    """The verdicts on their time slices."""
    start_s, uptime = EPOCH_NS // SECOND_NS, Uptime([(EPOCH_NS, EPOCH_NS + END_S * SECOND_NS)])
    book = SliceBook(SLOS, SliceOpening({}, [EPOCH_NS] * len(SLOS), judged_s=start_s, final_s=start_s))
    book.apply(book.arrived(GpuSlicePlan([slo.indicator for slo in SLOS]).sum(batch()), uptime))
    change = book.due(EPOCH_NS + (END_S + SETTLE_S) * SECOND_NS, uptime, 3600 * SECOND_NS)
    return [change.counts]


def counts_at(deltas: list[Delta], column: int, seconds: int, elapsed_s: int) -> Counts:
    """What an SLO has counted in a window, so long after the start."""
    span = range_of(seconds, EPOCH_NS + elapsed_s * SECOND_NS)
    counts = np.zeros(3, dtype=np.int64)
    for delta in deltas:
        within = (delta.slices >= span.start) & (delta.slices < span.end)
        counts += delta.counts[within, column].sum(axis=0)
    return Counts(*counts.tolist())


def test_throttling_runs_out_in_incidents_and_recovers_and_the_others_are_kept(deltas: list[Delta]) -> None:
    """Who looks at the demo sees a GPU that burns, beside promises that are kept."""
    seen = {
        slo.name: Counter(
            state_of(counts_at(deltas, column, slo.window.seconds, at), slo.objective, 1.0)
            for at in range(round(CYCLE_S), END_S, SLICE_S)
        )
        for column, slo in enumerate(SLOS)
    }

    throttling = seen.pop("gpu-throttling")
    assert {name: set(states) for name, states in seen.items()} == {
        "gpu-utilization": {State.OK},
        "gpu-availability": {State.OK},
    }
    assert 0.05 < throttling[State.EXHAUSTED] / throttling.total() < 0.4
    assert throttling[State.OK] > throttling[State.EXHAUSTED]


@pytest.mark.parametrize("incident", range(3))
def test_throttling_burns_in_every_incident(deltas: list[Delta], incident: int) -> None:
    """The minute before one is clean, up to the time slice that holds its first instant; its own is not."""
    column, begins_s = NAMES.index("gpu-throttling"), round(FIRST_INCIDENT_S + incident * CYCLE_S)
    before, after = (
        burn_rate(counts_at(deltas, column, 60, at), SLOS[column].objective)
        for at in (begins_s - 3 * SLICE_S, begins_s + round(INCIDENT_S))
    )

    assert before == 0
    assert after is not None
    assert after > 1
