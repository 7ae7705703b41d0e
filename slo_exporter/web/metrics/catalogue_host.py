"""The host beside its GPUs: without it a GPU that waits cannot be told from one that has no work."""

from typing import Final

from slo_exporter.web.metrics.metric import counter, gauge

HOST: Final = (
    gauge("host_cpus", "CPUs of the host that are online."),
    counter(
        "host_cpu_seconds_total",
        "Time of all CPUs since the host started, by mode: user, nice, system, idle, iowait, irq, softirq, steal.",
        "mode",
    ),
    gauge("host_memory_total_bytes", "Memory of the host."),
    gauge(
        "host_memory_available_bytes",
        "Memory that programs could still get, by the estimate of the kernel; caches that it can drop included.",
    ),
    counter(
        "host_pressure_seconds_total",
        "Time in which some, or all (full), tasks of the host waited for a resource: cpu, memory, io. Absent where the "
        "kernel does not tell.",
        "resource",
        "kind",
    ),
    counter(
        "cgroup_cpu_seconds_total",
        "CPU time of the control group that the exporter runs in, by mode: user, system. Not of the host.",
        "mode",
    ),
    gauge("cgroup_cpu_limit_cores", "CPUs that the control group may use at most. Absent without a limit."),
    counter(
        "cgroup_cpu_throttled_seconds_total",
        "Time in which tasks of the control group were kept from running by its limit.",
    ),
    gauge("cgroup_memory_used_bytes", "Memory of the control group, page cache included."),
    gauge("cgroup_memory_limit_bytes", "Most memory that the control group may use. Absent without a limit."),
)
