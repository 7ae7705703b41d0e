"""What no counter of the hardware counts: integrated over the fast periods."""

from typing import Final

from slo_exporter.ingest.nvml.reading import events, fields
from slo_exporter.ingest.nvml.reading.gpu import Gpu
from slo_exporter.ingest.nvml.reading.plan import Plan

_LONGEST_BEAT_S: Final = 3.0
"""After a longer pause nobody knows what happened in it."""


def account(gpu: Gpu, plan: Plan, seconds: float) -> None:
    """Let grow what went on in the *seconds* that ended with this pulse."""
    if seconds > _LONGEST_BEAT_S:
        return
    if (watts := gpu.pulse.power_watts) and plan.lacks("energy"):
        gpu.grow("gpu_energy_joules_total", ("integrated",), watts * seconds)
    counted = _counted(gpu, plan)
    if counted is None or gpu.pulse.reasons is None:
        return
    for reason in events.named(events.supported(gpu)):
        if reason not in counted:
            held = seconds if reason in events.named(gpu.pulse.reasons) else 0.0
            gpu.grow("gpu_clock_event_seconds_total", (reason, "sampled"), held)


def _counted(gpu: Gpu, plan: Plan) -> frozenset[str] | None:
    """Reasons that the hardware counts, as far as that is known: a counter that is left out has no stand-in."""
    if "clock_event_seconds" in plan.without:
        return fields.COUNTABLE_REASONS
    return frozenset() if plan.lacks("clock_event_seconds") else gpu.counted_reasons
