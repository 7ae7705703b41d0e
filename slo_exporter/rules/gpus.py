"""Alerts on GPUs."""

from inspect import cleandoc
from typing import Final

from slo_exporter.rules.model import Alert, Group, RuleFile
from slo_exporter.rules.promql import REPLICA, indented, without
from slo_exporter.slo.alerting import Severity

PAGE: Final = Severity.PAGE
TICKET: Final = Severity.TICKET

_GPU: Final = "GPU {{ $labels.gpu }} of {{ $labels.node }}"
_REPLACED: Final = (*REPLICA, "container", "endpoint")
"""Labels that are others once another process reads the same GPU."""
_LINKS_UP: Final = 'gpu_nvlink_links{state="up"}'
LINGER: Final = "5m"
"""A process that is replaced is gone for so long at most: an alert does not end, and fire again, for that."""


def _of_host(expr: str, *without_labels: str) -> str:
    """What is true of a GPU, whichever process reads it; a host without a label ``node`` is called by its instance."""
    node = (
        f'label_join(\n{indented(expr, 4)},\n  "node", ";", "node", "instance"), "node", "$1", "node", ";?([^;]+).*")'
    )
    return without((*_REPLACED, *without_labels), f"label_replace({node}\n")


_ALERTS: Final = (
    Alert(
        name="GpuXidCritical",
        comment="Five minutes from the last report on. The XIDs of applications are no fault of the GPU.",
        expr=_of_host(
            'gpu_xid_errors_total{action=~"reset_gpu|reboot|contact_support"} > 0\n  and ignoring (action)\n'
            "time() - gpu_xid_last_timestamp_seconds < 300"
        ),
        severity=PAGE,
        summary=f"{_GPU} reported XID {{{{ $labels.xid }}}} ({{{{ $labels.action }}}}).",
        description="What ran on it has failed or will. The label action is what NVIDIA says to do.",
    ),
    Alert(
        name="GpuLost",
        comment="The reason is a label that changes with the state: without it the series goes on.",
        expr=_of_host("max without (reason) (gpu_up) == 0\n  unless ignoring (gpu, uuid)\nslo_exporter_nvml_up == 0"),
        linger=LINGER,
        hold="1m",
        severity=PAGE,
        summary=f"{_GPU} cannot be read any more.",
        description="It fell off the bus, needs a reset, is missing, or answers with errors only. /api/v1/gpus "
        "says which.",
    ),
    Alert(
        name="GpusUnread",
        comment="A host without GPUs expects none.",
        expr=_of_host('slo_exporter_nvml_up == 0\n  and ignoring (state)\nslo_exporter_gpus{state="expected"} > 0'),
        linger=LINGER,
        hold="5m",
        severity=TICKET,
        summary="No GPU of {{ $labels.node }} can be read.",
        description="The driver hangs, crashes or went away. The GPUs may work all the same; nobody can tell.",
    ),
    Alert(
        name="GpuRecoveryNeeded",
        expr=_of_host("gpu_recovery_action > 0"),
        linger=LINGER,
        hold="1m",
        severity=PAGE,
        summary=f"The driver asks for recovery of {_GPU} (action {{{{ $value }}}}).",
        description="1 reset, 2 reboot, 3 drain peer-to-peer work, 4 drain and reset, 5 recover the IMEX domain, "
        "6 reset of the bus, 7 reboot of the system. New work should not go there.",
    ),
    Alert(
        name="GpuThrottled",
        comment="A power cap is met in good health, and is not in here.",
        expr=_of_host(
            'rate(gpu_clock_event_seconds_total{reason=~"hw_slowdown|hw_thermal|sw_thermal|power_brake"}[10m]) > 0.1',
            "source",
        ),
        linger=LINGER,
        hold="10m",
        severity=TICKET,
        summary=f"{_GPU} is throttled {{{{ $value | humanizePercentage }}}} of the time ({{{{ $labels.reason }}}}).",
        description="It is too hot, or its power supply holds it down: everything on it takes longer.",
    ),
    Alert(
        name="GpuMemoryNearlyFull",
        comment="Inference servers take most of the memory at their start, by default nine tenths: that is no fault.",
        expr=_of_host("gpu_memory_used_bytes\n  / (gpu_memory_total_bytes - gpu_memory_reserved_bytes)\n  > 0.98"),
        hold="15m",
        linger=LINGER,
        severity=TICKET,
        summary=f"{_GPU} has had {{{{ $value | humanizePercentage }}}} of its memory allocated for 15 minutes.",
        description="The next allocation that does not come from a pool fails, and with it the process.",
    ),
    Alert(
        name="GpuMemoryHot",
        comment="HBM slows down, and ages, from about 95 degrees on; where the GPU tells its limit, near that.",
        expr=_of_host(
            'gpu_temperature_celsius{sensor="memory"} > 95\n  or ignoring (sensor)\n'
            'gpu_temperature_celsius{sensor="memory"}\n  > ignoring (sensor, kind) '
            'gpu_temperature_threshold_celsius{kind="memory_max"} - 5',
            "sensor",
        ),
        linger=LINGER,
        hold="10m",
        severity=TICKET,
        summary=f"The memory of {_GPU} has {{{{ $value | humanize }}}} degrees.",
        description="It is about to be throttled. Look at the air, the load and the neighbours.",
    ),
    Alert(
        name="GpuEccUncorrected",
        expr=_of_host('increase(gpu_ecc_errors_total{type="uncorrected", scope="volatile"}[1h]) > 0'),
        linger=LINGER,
        severity=TICKET,
        summary=f"{_GPU} had uncorrected memory errors.",
        description="What used that memory was stopped. One is bad luck, more are bad memory.",
    ),
    Alert(
        name="GpuMemoryRepairPending",
        expr=_of_host("gpu_remapped_rows_pending == 1 or gpu_retired_pages_pending == 1"),
        linger=LINGER,
        hold="5m",
        severity=TICKET,
        summary=f"{_GPU} has bad memory that waits for a reset.",
        description="Until then the same place may fail again.",
    ),
    Alert(
        name="GpuMemoryRepairFailed",
        expr=_of_host("gpu_remapped_rows_failure == 1"),
        linger=LINGER,
        severity=TICKET,
        summary=f"{_GPU} has bad memory that cannot be replaced.",
        description="The GPU has to be exchanged.",
    ),
    Alert(
        name="GpuNvLinksDown",
        comment="Fewer than were up within a day: a card that is not bridged, or in part, has links that never are.",
        expr=f"{_of_host(f'max_over_time({_LINKS_UP}[1d])', 'state')}\n  -\n{_of_host(_LINKS_UP, 'state')}\n  > 0",
        hold="5m",
        linger=LINGER,
        severity=TICKET,
        summary=f"{_GPU} has {{{{ $value }}}} NVLinks down that were up.",
        description="Work over several GPUs is slower, or hangs.",
    ),
    Alert(
        name="GpuFabricNotReady",
        expr=_of_host("gpu_fabric_state == 1 or gpu_fabric_state == 2"),
        linger=LINGER,
        hold="10m",
        severity=TICKET,
        summary=f"{_GPU} is not registered with the NVSwitch fabric.",
        description="Until it is NVLink cannot be used, and CUDA may not start.",
    ),
    Alert(
        name="GpuPcieNarrow",
        comment="The generation goes down in idleness, the width does not.",
        expr=_of_host("gpu_pcie_link_width < gpu_pcie_link_max_width"),
        linger=LINGER,
        hold="15m",
        severity=TICKET,
        summary=f"{_GPU} has a PCIe link of {{{{ $value }}}} lanes, fewer than it can have.",
        description="Loading a model, and everything that goes through the host, takes longer.",
    ),
)

GPUS: Final = RuleFile(
    comment=cleandoc(
        """
        Alerts on the GPUs that slo-exporter reads. Simulated and replayed GPUs fire them too.

        severity: page    work on the GPU fails, or will: somebody has to look now
                  ticket  it is slow, or wears out: somebody has to look in working hours

        The labels instance, pod, container and endpoint of a target are left out, so that no alert fires
        again because another process reads the GPU. node is the host: where the scrape gives no such label,
        as for a host outside of Kubernetes, it is the instance.

        To inhibit, where node and uuid are equal: GpuLost and GpuRecoveryNeeded the tickets. One GPU has
        one uuid; the label gpu may change with a reboot.
        """
    ),
    groups=(Group(name="slo-exporter-gpus", rules=_ALERTS),),
)
