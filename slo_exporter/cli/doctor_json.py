"""All that `doctor` found, as JSON; the keys are described in docs/gpu.md."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from slo_exporter.cli.doctor_report import TIERS, Host, conclude, cost_ratio, cpu_us, examined_first, tier_costs, unit
from slo_exporter.ingest.nvml.frame import TIER_S, Reason, Sample
from slo_exporter.ingest.nvml.survey.examination import Examination, Examined, Found
from slo_exporter.ingest.nvml.survey.surroundings import Surroundings
from slo_exporter.web.metrics.catalogue import CATALOGUE

_LABELS: Final = {metric.name: metric.labels for metric in CATALOGUE}
_OF_GPU: Final = 2
"""Labels ``gpu`` and ``uuid``, which stand first."""


def plain(found: Examination, around: Surroundings, host: Host) -> dict[str, object]:
    """All of it."""
    concluded, first = conclude(found, around), examined_first(found)
    library, fault = found.library, found.fault
    return {
        "verdict": concluded.verdict.value,
        "text": concluded.text,
        "advice": {reason.value: text for reason, text in concluded.advice.items()},
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
        "call": gpu.call or None,
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
