"""What GPUs are and do: activity, memory, power, temperature, clocks and bytes moved."""

from typing import Final

from slo_exporter.web.metrics.metric import counter, gauge, info

GPU: Final = ("gpu", "uuid")
"""Index of NVML, which may change with a reboot, and the name that never does."""

_PROCESS: Final = (*GPU, "pid", "process")

GPUS: Final = (
    info(
        "gpu_info",
        "Which GPU it is. An empty label is one that this GPU does not tell. The label gpu is the index of NVML, which "
        "may change with a reboot; uuid never does. Kept while the GPU is down; absent of one that was never seen.",
        *GPU,
        *("pci_bus_id", "name", "architecture", "compute_capability", "serial", "vbios", "driver", "cuda"),
        *("minor", "module", "numa"),
    ),
    info(
        "gpu_group_info",
        "Which groups of the setting gpu.groups a GPU is in: what it serves. Kept while the GPU is down.",
        "group",
        *GPU,
    ),
    gauge(
        "gpu_up",
        "1 while the GPU can be read, else 0; what is measured of it is absent then. The reason says whether it failed "
        "(lost, reset_required, missing, unknown) or nobody can tell. With the state the label changes, and with it "
        "the series: alert on max without (reason) (gpu_up) == 0. Of a GPU that gpu.groups names and that was never "
        "seen uuid is the UUID or PCI bus id written there.",
        *GPU,
        "reason",
    ),
    # Activity.
    gauge(
        "gpu_utilization_ratio",
        "Share of time in which any kernel or copy ran, over the last sample period of the driver. Says nothing of how "
        "much of the GPU was busy: launching tiny kernels or copying is 1 too.",
        *GPU,
    ),
    counter(
        "gpu_busy_seconds_total",
        "Time in which any kernel or copy ran, from the sample ring of the driver. Its rate is the mean utilisation "
        "over any range.",
        *GPU,
    ),
    gauge(
        "gpu_sm_active_ratio",
        "Share of time in which streaming multiprocessors had work, averaged over all of them, in the last second. "
        "Waiting for memory counts as work.",
        *GPU,
    ),
    gauge(
        "gpu_sm_occupancy_ratio",
        "Warps that were resident, of the most that there can be, averaged over the last second. High is not fast.",
        *GPU,
    ),
    gauge("gpu_tensor_active_ratio", "Share of time in which tensor cores were active, in the last second.", *GPU),
    gauge(
        "gpu_pipe_active_ratio",
        "Share of time in which a pipe was active, in the last second: int, fp64, fp32, fp16, and of the tensor cores "
        "dfma_tensor, hmma_tensor, dmma_tensor, imma_tensor.",
        *GPU,
        "pipe",
    ),
    gauge(
        "gpu_dram_active_ratio",
        "Memory bandwidth that was used, of the highest possible, in the last second. About 0.9 is all one gets.",
        *GPU,
    ),
    gauge(
        "gpu_graphics_active_ratio",
        "Share of time in which the compute or graphics engine was active, in the last second. Copies do not count.",
        *GPU,
    ),
    gauge(
        "gpu_memory_bandwidth_busy_ratio",
        "Share of time in which memory was read or written at all, over the last sample period of the driver. Not "
        "bandwidth: for that see gpu_dram_active_ratio.",
        *GPU,
    ),
    gauge(
        "gpu_engine_utilization_ratio",
        "Share of time in which a media engine was busy: encoder, decoder, jpeg, ofa.",
        *GPU,
        "engine",
    ),
    counter(
        "gpu_sm_active_seconds_total",
        "Time in which streaming multiprocessors had work, averaged over all of them. Divide its increase by that of "
        "gpu_observed_seconds_total for an exact mean.",
        *GPU,
    ),
    counter("gpu_tensor_active_seconds_total", "Time in which tensor cores were active.", *GPU),
    counter("gpu_dram_active_seconds_total", "Memory bandwidth that was used, as time at the highest possible.", *GPU),
    counter("gpu_graphics_active_seconds_total", "Time in which the compute or graphics engine was active.", *GPU),
    counter(
        "gpu_observed_seconds_total",
        "Time that the counters of activity cover. It stands still while the GPU cannot be read.",
        *GPU,
    ),
    # Memory.
    gauge("gpu_memory_total_bytes", "Memory of the GPU, with what the driver reserves.", *GPU),
    gauge(
        "gpu_memory_used_bytes",
        "Memory that is allocated, without what the driver reserves. Frameworks keep pools: allocated is not in use.",
        *GPU,
    ),
    gauge("gpu_memory_free_bytes", "Memory that can be allocated.", *GPU),
    gauge("gpu_memory_reserved_bytes", "Memory that the driver and the firmware keep for themselves.", *GPU),
    gauge("gpu_bar1_total_bytes", "Window of PCIe through which others map the memory of the GPU.", *GPU),
    gauge("gpu_bar1_used_bytes", "Part of that window that is mapped.", *GPU),
    # Power.
    gauge("gpu_power_watts", "Power that the GPU draws now; the driver renews it every 100 ms.", *GPU),
    gauge(
        "gpu_power_average_watts", "Power that the GPU draws, averaged by the driver; over 1 s on recent GPUs.", *GPU
    ),
    gauge("gpu_module_power_watts", "Power that the whole module draws, CPU included; of superchips only.", *GPU),
    gauge(
        "gpu_power_limit_watts",
        "Limit of the power, by kind: enforced, which holds, requested, default, min and max.",
        *GPU,
        "kind",
    ),
    counter(
        "gpu_energy_joules_total",
        "Energy that the GPU used. Source counter: its own, since the driver was loaded; integrated: from its power "
        "since the start of the exporter, where it has no counter.",
        *GPU,
        "source",
    ),
    # Temperature.
    gauge("gpu_temperature_celsius", "Temperature by sensor: gpu, memory.", *GPU, "sensor"),
    gauge(
        "gpu_temperature_margin_celsius",
        "Degrees that are left until the GPU slows down for heat; the measure to watch where there is no threshold.",
        *GPU,
    ),
    gauge(
        "gpu_temperature_threshold_celsius",
        "Temperature at which something happens, by kind: shutdown, slowdown, memory_max, gpu_max. Recent GPUs tell a "
        "margin instead.",
        *GPU,
        "kind",
    ),
    # Clocks.
    gauge("gpu_clock_hertz", "Clock now: sm, memory, graphics, video. An idle GPU clocks down.", *GPU, "clock"),
    gauge("gpu_clock_max_hertz", "Highest clock: sm, memory, graphics, video.", *GPU, "clock"),
    gauge("gpu_performance_state", "Performance state from 0, the fastest, to 15; 32 is unknown.", *GPU),
    gauge(
        "gpu_clock_event_active",
        "1 while the clocks are held down for a reason, else 0: idle, application_clocks, sw_power_cap, hw_slowdown, "
        "sync_boost, sw_thermal, hw_thermal, power_brake, display_clocks. A busy GPU meets sw_power_cap in health.",
        *GPU,
        "reason",
    ),
    counter(
        "gpu_clock_event_seconds_total",
        "Time in which the clocks were held down, by reason. Source counter: the own of the GPU, since the driver was "
        "loaded; sampled: from its flags, four times a second, since the start of the exporter.",
        *GPU,
        "reason",
        "source",
    ),
    # Bytes moved.
    counter(
        "gpu_pcie_bytes_total",
        "Bytes over PCIe, from the rates of each second, protocol included: receive is towards the GPU, transmit away "
        "from it.",
        *GPU,
        "direction",
    ),
    counter(
        "gpu_nvlink_bytes_total",
        "Bytes over all NVLinks of the GPU: receive is towards it, transmit away from it.",
        *GPU,
        "direction",
    ),
    # Processes: opt-in, because each process is a series.
    gauge("gpu_compute_processes", "Processes that hold a compute context on the GPU, be they busy or not.", *GPU),
    gauge(
        "gpu_process_memory_bytes",
        "GPU memory of a process; with gpu.processes only. The pid is that of the host, also in a container.",
        *_PROCESS,
    ),
    gauge("gpu_process_sm_ratio", "Share of time in which a process ran kernels; with gpu.processes only.", *_PROCESS),
    counter(
        "gpu_process_cpu_seconds_total",
        "CPU time of a process that uses the GPU, by the kernel; with gpu.processes only, and where /proc shows it.",
        *_PROCESS,
    ),
    gauge(
        "gpu_process_resident_bytes",
        "Host memory of a process that uses the GPU; with gpu.processes only, and where /proc shows it.",
        *_PROCESS,
    ),
)
