"""Alerts on GPUs."""

from inspect import cleandoc
from typing import Final

from slo_exporter.rules.model import Alert, Group, RuleFile
from slo_exporter.slo.alerting import Severity

PAGE: Final = Severity.PAGE
TICKET: Final = Severity.TICKET

_GPU: Final = "GPU {{ $labels.gpu }} of {{ $labels.instance }}"

_ALERTS: Final = (
    Alert(
        name="GpuXidCritical",
        comment="Five minutes from the last report on. The XIDs of applications are no fault of the GPU.",
        expr=cleandoc(
            """
            gpu_xid_errors_total{action=~"reset_gpu|reboot|contact_support"} > 0
              and ignoring (action)
            time() - gpu_xid_last_timestamp_seconds < 300
            """
        ),
        severity=PAGE,
        summary=f"{_GPU} reported XID {{{{ $labels.xid }}}} ({{{{ $labels.action }}}}).",
        description="What ran on it has failed or will. The label action is what NVIDIA says to do.",
    ),
    Alert(
        name="GpuLost",
        comment="The reason is a label that changes with the state: without it the series goes on.",
        expr=cleandoc(
            """
            max without (reason) (gpu_up) == 0
              unless ignoring (gpu, uuid)
            slo_exporter_nvml_up == 0
            """
        ),
        hold="1m",
        severity=PAGE,
        summary=f"{_GPU} cannot be read any more.",
        description="It fell off the bus, needs a reset, is missing, or answers with errors only. /api/v1/gpus "
        "says which.",
    ),
    Alert(
        name="GpusUnread",
        comment="A host without GPUs expects none.",
        expr=cleandoc(
            """
            slo_exporter_nvml_up == 0
              and ignoring (state)
            slo_exporter_gpus{state="expected"} > 0
            """
        ),
        hold="5m",
        severity=TICKET,
        summary="No GPU of {{ $labels.instance }} can be read.",
        description="The driver hangs, crashes or went away. The GPUs may work all the same; nobody can tell.",
    ),
    Alert(
        name="GpuRecoveryNeeded",
        expr="gpu_recovery_action > 0",
        hold="1m",
        severity=PAGE,
        summary=f"The driver asks for recovery of {_GPU} (action {{{{ $value }}}}).",
        description="1 reset, 2 reboot, 3 drain peer-to-peer work, 4 drain and reset, 5 recover the IMEX domain, "
        "6 reset of the bus, 7 reboot of the system. New work should not go there.",
    ),
    Alert(
        name="GpuThrottled",
        comment="A power cap is met in good health, and is not in here.",
        expr=cleandoc(
            """
            max without (source) (
              rate(gpu_clock_event_seconds_total{reason=~"hw_slowdown|hw_thermal|sw_thermal|power_brake"}[10m])
            )
              > 0.1
            """
        ),
        hold="10m",
        severity=TICKET,
        summary=f"{_GPU} is throttled {{{{ $value | humanizePercentage }}}} of the time ({{{{ $labels.reason }}}}).",
        description="It is too hot, or its power supply holds it down: everything on it takes longer.",
    ),
    Alert(
        name="GpuMemoryNearlyFull",
        comment="Inference servers take most of the memory at their start, by default nine tenths: that is no fault.",
        expr=cleandoc(
            """
            min_over_time(gpu_memory_used_bytes[15m])
              / (gpu_memory_total_bytes - gpu_memory_reserved_bytes)
              > 0.98
            """
        ),
        hold="5m",
        severity=TICKET,
        summary=f"{_GPU} has had {{{{ $value | humanizePercentage }}}} of its memory allocated for 15 minutes.",
        description="The next allocation that does not come from a pool fails, and with it the process.",
    ),
    Alert(
        name="GpuMemoryHot",
        comment="HBM slows down, and ages, from about 95 degrees on; where the GPU tells its limit, near that.",
        expr=cleandoc(
            """
            max without (sensor) (gpu_temperature_celsius{sensor="memory"}) > 95
              or
            max without (sensor) (gpu_temperature_celsius{sensor="memory"})
              > max without (kind) (gpu_temperature_threshold_celsius{kind="memory_max"}) - 5
            """
        ),
        hold="10m",
        severity=TICKET,
        summary=f"The memory of {_GPU} has {{{{ $value | humanize }}}} degrees.",
        description="It is about to be throttled. Look at the air, the load and the neighbours.",
    ),
    Alert(
        name="GpuEccUncorrected",
        expr='increase(gpu_ecc_errors_total{type="uncorrected", scope="volatile"}[1h]) > 0',
        severity=TICKET,
        summary=f"{_GPU} had uncorrected memory errors.",
        description="What used that memory was stopped. One is bad luck, more are bad memory.",
    ),
    Alert(
        name="GpuMemoryRepairPending",
        expr="gpu_remapped_rows_pending == 1 or gpu_retired_pages_pending == 1",
        hold="5m",
        severity=TICKET,
        summary=f"{_GPU} has bad memory that waits for a reset.",
        description="Until then the same place may fail again.",
    ),
    Alert(
        name="GpuMemoryRepairFailed",
        expr="gpu_remapped_rows_failure == 1",
        severity=TICKET,
        summary=f"{_GPU} has bad memory that cannot be replaced.",
        description="The GPU has to be exchanged.",
    ),
    Alert(
        name="GpuNvLinksDown",
        comment="Where none is up there may be no peer at all.",
        expr=cleandoc(
            """
            gpu_nvlink_links{state="down"} > 0
              and ignoring (state)
            gpu_nvlink_links{state="up"} > 0
            """
        ),
        hold="5m",
        severity=TICKET,
        summary=f"{_GPU} has {{{{ $value }}}} NVLinks down.",
        description="Work over several GPUs is slower, or hangs.",
    ),
    Alert(
        name="GpuFabricNotReady",
        expr="gpu_fabric_state == 1 or gpu_fabric_state == 2",
        hold="10m",
        severity=TICKET,
        summary=f"{_GPU} is not registered with the NVSwitch fabric.",
        description="Until it is NVLink cannot be used, and CUDA may not start.",
    ),
    Alert(
        name="GpuPcieNarrow",
        comment="The generation goes down in idleness, the width does not.",
        expr="gpu_pcie_link_width < gpu_pcie_link_max_width",
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

        To inhibit, where instance and uuid are equal: GpuLost and GpuRecoveryNeeded the tickets. One GPU has
        one uuid; the label gpu may change with a reboot.
        """
    ),
    groups=(Group(name="slo-exporter-gpus", rules=_ALERTS),),
)
