"""What `doctor` concludes from an examination: what reading costs, a verdict, and what to do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean
from typing import Final, TypeAlias

from slo_exporter.cli import doctor_words
from slo_exporter.ingest.nvml.frame import TIER_S, Fault, Reason, Tier
from slo_exporter.ingest.nvml.reading.capabilities import CAPABILITIES
from slo_exporter.ingest.nvml.reading.quantities import QUANTITIES, Unit
from slo_exporter.ingest.nvml.survey.examination import Examination, Examined, Found
from slo_exporter.ingest.nvml.survey.finding import XID_EVENTS, XIDS
from slo_exporter.ingest.nvml.survey.surroundings import Surroundings, advice
from slo_exporter.ingest.nvml.watch.hints import HINTS

Host: TypeAlias = Mapping[str, Mapping[tuple[str, ...], float]]
"""Metric → label values → value."""

OPT_IN: Final = frozenset({"process_shares"})
"""Read with ``gpu.processes`` only."""
TIERS: Final = {**{one.name: one.tier for one in CAPABILITIES}, XID_EVENTS: Tier.FAST}
METRICS: Final = {**{one.name: one.metrics for one in CAPABILITIES}, XID_EVENTS: (XIDS,)}
"""By capability."""
ABSENT: Final = frozenset({Reason.NO_LIBRARY, Reason.NO_DRIVER})
_US: Final = 1e-6


class Verdict(StrEnum):
    """Can GPUs be read here?"""

    READABLE = "readable"
    BROKEN = "broken"
    """There is NVML, and something of it fails."""
    ABSENT = "absent"
    """No NVML, or no GPU: normal on most machines."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The last lines."""

    verdict: Verdict
    text: str
    advice: Mapping[Reason, str] = field(default_factory=dict)
    """What to do, by what is wrong."""


def conclude(found: Examination, around: Surroundings) -> Conclusion:
    """Say whether GPUs can be read, and what to do where they cannot."""
    failed = [gpu for gpu in found.gpus.values() if gpu.reason is not Reason.OK]
    if found.fault is not None:
        reason = found.fault.reason
        verdict = Verdict.ABSENT if reason in ABSENT else Verdict.BROKEN
        return Conclusion(verdict, why(found.fault, around), _advice([reason], around))
    if found.accidents or failed:
        names = ", ".join(f"GPU {gpu.gpu}: {doctor_words.words(gpu.reason)}" for gpu in failed)
        text = f"{len(found.gpus) - len(failed)} of {len(found.gpus)} GPUs well ({names})"
        reasons = [*(accident.reason for accident in found.accidents), *(gpu.reason for gpu in failed)]
        return Conclusion(Verdict.BROKEN, text, _advice(reasons, around))
    if not found.gpus:
        text = "NVML works and lists no GPU; gpu: {source: simulated} shows what GPUs would give"
        return Conclusion(Verdict.ABSENT, text)
    if not any(one.is_there for gpu in found.gpus.values() for one in gpu.capabilities.values()):
        return Conclusion(Verdict.BROKEN, "there are GPUs, and they tell nothing")
    count = "1 GPU" if len(found.gpus) == 1 else f"{len(found.gpus)} GPUs"
    return Conclusion(Verdict.READABLE, f"{count} can be read, for at most {cost_ratio(found):.2%} of a core")


def _advice(reasons: Iterable[Reason], around: Surroundings) -> Mapping[Reason, str]:
    """Each advice once."""
    told: dict[str, Reason] = {}
    for reason in reasons:
        if (text := advice(reason, around)) is not None:
            told.setdefault(text, reason)
    return {reason: text for text, reason in told.items()}


def why(fault: Fault, around: Surroundings) -> str:
    """Why NVML as a whole cannot be read."""
    if fault.reason in ABSENT and advice(fault.reason, around) is None:
        return (
            "no NVIDIA driver and no GPU of NVIDIA here, which is normal: serve runs without; "
            "gpu: {source: simulated} shows what GPUs would give"
        )
    call = fault.call if fault.reason in {Reason.HANG, Reason.CRASH, Reason.EXIT} else ""
    return doctor_words.told(fault.reason, call, fault.text or HINTS[fault.reason])


def examined_first(found: Examination) -> Examined | None:
    """The GPU that was read several times: the first that can be read."""
    asked = [gpu for _, gpu in sorted(found.gpus.items()) if gpu.capabilities]
    return max(asked, key=lambda gpu: max(len(one.wall_us) for one in gpu.capabilities.values()), default=None)


def unit(metric: str) -> Unit:
    """In what a metric is given."""
    return Unit.COUNT if metric == XIDS else QUANTITIES[metric].unit


def cpu_us(found: Found) -> float:
    """What one reading costs in CPU; the first, which sets things up, left out where there are more."""
    return fmean(found.cpu_us[1:] or found.cpu_us)


def tier_costs(gpu: Examined) -> Mapping[Tier, float]:
    """
    Share of a core that reading takes on one GPU, by tier: at most.

    Here each call finds the caches of the CPU cold, which in a reader that goes on they are not.
    """
    costs = dict.fromkeys(TIER_S, 0.0)
    for name, one in gpu.capabilities.items():
        tier = TIERS[name]
        if tier in costs and name not in OPT_IN and one.cpu_us and one.refusal is None:
            costs[tier] += cpu_us(one) * _US / TIER_S[tier]
    return costs


def cost_ratio(found: Examination) -> float:
    """Share of a core that reading takes on all GPUs."""
    first = examined_first(found)
    readable = sum(gpu.reason is Reason.OK for gpu in found.gpus.values())
    return 0.0 if first is None else sum(tier_costs(first).values()) * readable
