"""How GPUs are read, at what cost, and what went wrong."""

from typing import Final

from slo_exporter.web.metrics.catalogue_gpus import GPU
from slo_exporter.web.metrics.metric import counter, gauge, info

NVML: Final = (
    gauge(
        "slo_exporter_nvml_up",
        "1 while GPUs are read, else 0, as on a machine without a GPU; slo_exporter_nvml_info says why. Absent with "
        "gpu.source off.",
    ),
    info(
        "slo_exporter_nvml_info",
        "How GPUs are read: source nvml, simulated, replay or off; reason ok, or why they cannot be read.",
        *("source", "reason", "driver", "library", "cuda"),
    ),
    gauge("slo_exporter_gpus", "GPUs by state: seen now; expected, since they were seen or are configured.", "state"),
    gauge("slo_exporter_nvml_frame_age_seconds", "Age of the newest reading. Beyond 3 s no value of a GPU is shown."),
    counter("slo_exporter_nvml_frames_total", "Readings of all GPUs, one a second."),
    counter(
        "slo_exporter_nvml_restarts_total",
        "Times the process that reads GPUs was replaced, by reason. Tries on a host without the library or the driver "
        "are not counted.",
        "reason",
    ),
    gauge(
        "slo_exporter_nvml_left_out",
        "1 while a capability of a GPU is left out, since NVML hung or crashed in it; * is the whole GPU.",
        *GPU,
        "capability",
    ),
    gauge(
        "slo_exporter_nvml_stuck_children",
        "Processes that hang in the driver and do not die. With two of them no third is started.",
    ),
    counter("slo_exporter_nvml_calls_total", "Calls of the NVML library, by function.", "call"),
    counter(
        "slo_exporter_nvml_call_seconds_total",
        "Time spent in calls of the NVML library, by function. A mean that rises announces a GPU that fails.",
        "call",
    ),
    counter(
        "slo_exporter_nvml_errors_total",
        "Calls of the NVML library that gave no value, by function and return code; not_supported is normal.",
        "call",
        "code",
    ),
    counter(
        "slo_exporter_nvml_values_refused_total",
        "Values that could not be true and are not shown, by metric.",
        "metric",
    ),
    counter(
        "slo_exporter_gpu_records_dropped_total",
        "Seconds of GPUs that are in no GPU SLO: too many while the database was away, or of a clock that was set.",
    ),
)
