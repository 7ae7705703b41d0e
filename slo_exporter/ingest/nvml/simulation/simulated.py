"""
Two GPUs that are not there, for machines without one: the source ``simulated``.

They give every metric that an H200 gives, at a chat service's moderate load.
Their incidents come when those of the demo's service do: slow decoding and a
long queue there, a GPU that is too hot here.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from slo_exporter.clock import SECOND_NS, Clock
from slo_exporter.ingest.nvml.frame import FRAME_S, TIER_S, Fault, Frame, GpuReading, Hello, Reason, Tier
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.simulation import metrics
from slo_exporter.ingest.nvml.simulation.metrics import READ, Span
from slo_exporter.ingest.nvml.simulation.physics import SimulatedGpu

GPUS: Final = 2
_PERIODS: Final = round(FRAME_S / TIER_S[Tier.FAST])
"""Activities in a frame."""
_EVERY: Final[Mapping[Tier, int]] = {tier: round(TIER_S.get(tier, 0.0) / FRAME_S) for tier in READ}
"""Frames from one reading of a tier to the next; 0 for the first one only."""


def run(
    order: Order, write: Callable[[Hello | Frame | Fault], object], wait: Callable[[float], bool], clock: Clock
) -> None:
    """
    Write a frame a second until told to end.

    Args:
        order: of it the incidents, and whether processes are wanted.
        write: takes what is said.
        wait: waits so many seconds; True, at once, when it is time to end.
        clock: says how long it took.
    """
    write(Hello("simulated", os.getpid()))
    gpus = [SimulatedGpu(index, order.incidents) for index in range(GPUS)]
    for cycle, (from_s, to_s) in enumerate(_seconds(wait, clock)):
        write(frame(gpus, cycle, from_s, to_s, clock.now_ns(), processes=order.processes))


def _seconds(wait: Callable[[float], bool], clock: Clock) -> Iterator[tuple[float, float]]:
    """Beginning and end of each frame, in seconds since the start."""
    started_ns, from_s, now_s, due_s = clock.monotonic_ns(), 0.0, 0.0, FRAME_S
    while not wait(max(due_s - now_s, 0.0)):
        now_s = (clock.monotonic_ns() - started_ns) / SECOND_NS
        if now_s > from_s:
            yield from_s, now_s
            from_s = now_s
        due_s = max(due_s + FRAME_S, now_s)


def frame(
    gpus: Sequence[SimulatedGpu], cycle: int, from_s: float, to_s: float, now_ns: int, *, processes: bool
) -> Frame:
    """What the GPUs did between two instants; the first frame has every tier."""
    readings = [_reading(gpu, cycle, from_s, to_s, now_ns, processes=processes) for gpu in gpus]
    return Frame(at_ns=now_ns, seconds=to_s - from_s, gpus=readings)


def _reading(gpu: SimulatedGpu, cycle: int, from_s: float, to_s: float, now_ns: int, *, processes: bool) -> GpuReading:
    states = [gpu.at(from_s + (to_s - from_s) * part / _PERIODS) for part in range(_PERIODS)] + [gpu.at(to_s)]
    span = Span(gpu, states[0], states[-1])
    due = [tier for tier, every in _EVERY.items() if (cycle % every if every else cycle) == 0]
    return GpuReading(
        gpu=gpu.index,
        uuid=metrics.UUIDS[gpu.index],
        reason=Reason.OK,
        info=metrics.info(gpu.index) if cycle == 0 else {},
        tiers={tier: READ[tier](span) for tier in due},
        added=metrics.added(span),
        activity=[metrics.activity(Span(gpu, *pair)) for pair in pairwise(states)],
        xids=metrics.xids(span, now_ns),
        processes=[metrics.process(span)] if processes and Tier.SLOW in due else None,
    )
