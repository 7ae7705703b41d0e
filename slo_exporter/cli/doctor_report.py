"""What `doctor` concludes from an examination: what it costs, a verdict, and all of it as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median
from typing import Final, TypeAlias

from slo_exporter.ingest.nvml.frame import TIER_S, Reason, Sample, Tier
from slo_exporter.ingest.nvml.reading.capabilities import CAPABILITIES
from slo_exporter.ingest.nvml.reading.quantities import QUANTITIES, Unit
from slo_exporter.ingest.nvml.survey.examination import Examination, Examined, Found
from slo_exporter.ingest.nvml.survey.finding import XID_EVENTS, XIDS
from slo_exporter.ingest.nvml.survey.surroundings import Surroundings, advice
from slo_exporter.ingest.nvml.watch.hints import HINTS
from slo_exporter.web.metrics.catalogue import CATALOGUE

Host: TypeAlias = Mapping[str, Mapping[tuple[str, ...], float]]
"""Metric → label values → value."""

OPT_IN: Final = frozenset({"process_shares"})
"""Read with ``gpu.processes`` only."""
TIERS: Final = {**{one.name: one.tier for one in CAPABILITIES}, XID_EVENTS: Tier.FAST}
METRICS: Final = {**{one.name: one.metrics for one in CAPABILITIES}, XID_EVENTS: (XIDS,)}
"""By capability."""
_LABELS: Final = {metric.name: metric.labels for metric in CATALOGUE}
_OF_GPU: Final = 2
"""Labels ``gpu`` and ``uuid``, which stand first."""
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
    """The last line."""

    verdict: Verdict
    text: str
    advice: str | None


def conclude(found: Examination, around: Surroundings) -> Conclusion:
    """Say whether GPUs can be read, and what to do where they cannot."""
    failed = [gpu for gpu in found.gpus.values() if gpu.reason is not Reason.OK]
    if found.fault is not None:
        reason = found.fault.reason
        verdict = Verdict.ABSENT if reason in ABSENT else Verdict.BROKEN
        return Conclusion(verdict, _absence(found, around), advice(reason, around))
    if found.accidents or failed:
        accident = found.accidents[0].reason if found.accidents else failed[0].reason
        names = ", ".join(f"GPU {gpu.gpu}: {gpu.reason.value.replace('_', ' ')}" for gpu in failed)
        text = f"{len(found.gpus) - len(failed)} of {len(found.gpus)} GPUs well ({names})"
        return Conclusion(Verdict.BROKEN, text, advice(accident, around))
    if not found.gpus:
        text = "NVML works and lists no GPU; gpu: {source: simulated} shows what GPUs would give"
        return Conclusion(Verdict.ABSENT, text, None)
    if not any(one.is_there for gpu in found.gpus.values() for one in gpu.capabilities.values()):
        return Conclusion(Verdict.BROKEN, "there are GPUs, and they tell nothing", None)
    share = cost_ratio(found)
    count = "1 GPU" if len(found.gpus) == 1 else f"{len(found.gpus)} GPUs"
    return Conclusion(Verdict.READABLE, f"{count} can be read, at {share:.2%} of a core", None)


def _absence(found: Examination, around: Surroundings) -> str:
    fault = found.fault
    if fault is None:
        return ""
    if fault.reason in ABSENT and advice(fault.reason, around) is None:
        return (
            "no NVIDIA driver and no GPU of NVIDIA here, which is normal: serve runs without; "
            "gpu: {source: simulated} shows what GPUs would give"
        )
    where = f" in {fault.call}" if fault.call and fault.reason in {Reason.HANG, Reason.CRASH, Reason.EXIT} else ""
    return f"{fault.reason.value.replace('_', ' ')}{where}: {fault.text or HINTS[fault.reason]}"


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
    """Share of a core that reading takes on one GPU, by tier."""
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


# -- JSON --


def plain(found: Examination, around: Surroundings, host: Host) -> dict[str, object]:
    """All of it; the keys are described in docs/gpu.md."""
    concluded, first = conclude(found, around), examined_first(found)
    library, fault = found.library, found.fault
    return {
        "verdict": concluded.verdict.value,
        "text": concluded.text,
        "advice": concluded.advice,
        "seconds": round(found.seconds, 3),
        "nvml": {
            "reason": (fault.reason if fault else Reason.OK).value,
            "call": fault.call if fault else None,
            "code": fault.code if fault else None,
            "driver": library.driver if library else None,
            "library": library.library if library else None,
            "cuda": library.cuda if library else None,
            "gpus": library.gpus if library else None,
        },
        "machine": {
            "kernel_driver": around.kernel_driver,
            "devices": list(around.devices),
            "devices_closed": list(around.closed),
            "gpus_on_pci": around.on_pci,
            "container": around.in_container,
        },
        "gpus": [_gpu(gpu, found) for _, gpu in sorted(found.gpus.items())],
        "accidents": [
            {"reason": one.reason.value, "gpu": one.gpu, "call": one.call, "text": one.text} for one in found.accidents
        ],
        "values_refused": dict(found.refused),
        "cost": {
            "cpu_ratio": cost_ratio(found),
            "cpu_ratio_per_gpu": {tier.value: share for tier, share in (tier_costs(first) if first else {}).items()},
        },
        "host": {
            metric: [{"labels": _named(metric, labels, 0), "value": value} for labels, value in samples.items()]
            for metric, samples in host.items()
        },
    }


def _gpu(gpu: Examined, found: Examination) -> dict[str, object]:
    return {
        "gpu": gpu.gpu,
        "uuid": gpu.uuid,
        "reason": gpu.reason.value,
        "text": gpu.text,
        "info": dict(gpu.info),
        "capabilities": [_capability(name, one) for name, one in gpu.capabilities.items()],
        "unread": sorted(name for index, name in found.unread if index == gpu.gpu),
    }


def _capability(name: str, found: Found) -> dict[str, object]:
    tier, refusal = TIERS[name], found.refusal
    return {
        "name": name,
        "tier": tier.value,
        "every_seconds": TIER_S.get(tier),
        "readings": len(found.wall_us),
        "median_us": median(found.wall_us) if found.wall_us else None,
        "worst_us": max(found.wall_us, default=None),
        "cpu_us": cpu_us(found) if found.cpu_us else None,
        "values": _values(found.samples),
        "grown": _values(found.grown),
        "refusal": refusal and {"call": refusal.call, "code": refusal.code, "name": refusal.name},
    }


def _values(samples: Sequence[Sample]) -> list[dict[str, object]]:
    return [
        {
            "metric": metric,
            "labels": _named(metric, labels, _OF_GPU),
            "value": value,
            "unit": unit(metric).value,
        }
        for metric, labels, value in samples
    ]


def _named(metric: str, labels: Sequence[str], first: int) -> dict[str, str]:
    return dict(zip(_LABELS[metric][first:], labels, strict=False))
