"""What the API answers about GPUs and their host; base units, and null for what is not known."""

from datetime import datetime

from pydantic import Field

from slo_exporter.web.api.models import Answer, NoNext


class XidItem(Answer):
    """Errors of one kind that the driver reported."""

    xid: int = Field(description="Number in NVIDIA's catalogue of XID errors.", examples=[79])
    action: str = Field(
        description="What NVIDIA says to do: restart_app, check_app, reset_gpu, reboot, contact_support or ignore."
    )
    count: int = Field(description="Since the start of the exporter.")
    last: datetime | None = Field(description="When it came last.")


class GpuItem(Answer):
    """One GPU as it is now."""

    gpu: int | None = Field(description="Index of NVML, which may change with a reboot; null where it was never seen.")
    uuid: str = Field(
        description="The name that never changes; empty where the GPU never answered; its PCI bus id where gpu.groups "
        "names it so and it was never seen."
    )
    name: str | None = Field(examples=["NVIDIA H200"])
    pci_bus_id: str | None = Field(examples=["00000000:18:00.0"])
    up: bool | None = Field(description="false once it failed, null while nobody can tell.")
    reason: str = Field(description="ok, or why it cannot be read.", examples=["ok", "lost", "hang"])
    groups: list[str] = Field(description="The groups of gpu.groups that it is in.")
    utilization: float | None = Field(
        description="Share of time, 0 to 1, in which any kernel or copy ran; not how much of the GPU was busy."
    )
    sm_active: float | None = Field(
        description="Share of time, 0 to 1, in which streaming multiprocessors had work, averaged over all of them."
    )
    tensor_active: float | None = Field(description="Share of time, 0 to 1, in which tensor cores were active.")
    dram_active: float | None = Field(description="Memory bandwidth in use, 0 to 1, of the highest possible.")
    graphics_active: float | None = Field(
        description="Share of time, 0 to 1, in which the compute or graphics engine was active; copies do not count."
    )
    memory_used_bytes: float | None = Field(description="Allocated, without what the driver reserves.")
    memory_total_bytes: float | None
    memory_reserved_bytes: float | None = Field(description="What the driver keeps for itself.")
    power_watts: float | None = Field(description="Now.")
    power_limit_watts: float | None = Field(description="The limit that holds.")
    energy_joules: float | None = Field(
        description="Since the driver was loaded; since the start of the exporter where the GPU has no counter."
    )
    temperature_celsius: float | None
    memory_temperature_celsius: float | None
    temperature_margin_celsius: float | None = Field(description="Left until the GPU slows down for heat.")
    sm_clock_hertz: float | None
    sm_clock_max_hertz: float | None
    clock_events: list[str] | None = Field(
        description="Why the clocks are held down, but for idle. A busy GPU meets sw_power_cap in good health.",
        examples=[["sw_power_cap"]],
    )
    pcie_generation: int | None = Field(description="Now; an idle GPU goes down to 1.")
    pcie_width: int | None = Field(description="Lanes, now.")
    pcie_max_generation: int | None
    pcie_max_width: int | None
    nvlinks_up: int | None
    nvlinks_down: int | None = Field(description="A link without a peer is down too.")
    ecc_uncorrected: int | None = Field(description="Memory errors since the driver was loaded.")
    remapped_rows_pending: bool | None = Field(description="Memory waits for a reset to be replaced by spare rows.")
    remapped_rows_failure: bool | None = Field(
        description="Memory could not be replaced by spare rows: the GPU has to be exchanged."
    )
    retired_pages_pending: bool | None = Field(
        description="Memory waits for a reset to go out of use; of GPUs before Ampere."
    )
    fabric_state: str | None = Field(
        description="Registration with the NVSwitch fabric: not_supported, not_started, in_progress or completed; its "
        "number where this list does not know it."
    )
    recovery_action: str | None = Field(
        description="What the driver asks for: none, reset, reboot, drain_p2p, drain_and_reset, recover_imex_domain, "
        "reset_bus or reboot_system; its number where this list does not know it."
    )
    xids: list[XidItem] = Field(description="Those that came, by number.")
    left_out: list[str] = Field(
        description="What is not read for 10 min, since NVML hung or crashed in it; * for the whole GPU.",
        examples=[["energy"]],
    )


class HostAnswer(Answer):
    """The host of the GPUs, and the control group that the exporter runs in; empty or null where it does not tell."""

    cpus: int | None = Field(description="Online.")
    cpu_seconds: dict[str, float] = Field(description="Of all CPUs since the host started, by mode.")
    memory_total_bytes: float | None
    memory_available_bytes: float | None = Field(description="What programs could still get.")
    pressure_seconds: dict[str, dict[str, float]] = Field(
        description="Time in which some, or all (full), tasks waited, by resource: cpu, memory, io.",
        examples=[{"io": {"some": 12.5, "full": 3.25}}],
    )
    cgroup_cpu_seconds: dict[str, float] = Field(description="By mode.")
    cgroup_cpu_limit_cores: float | None = Field(description="null without a limit.")
    cgroup_cpu_throttled_seconds: float | None
    cgroup_memory_used_bytes: float | None
    cgroup_memory_limit_bytes: float | None = Field(description="null without a limit.")


class GpuList(Answer):
    """The GPUs of this host by index, and how they are read."""

    source: str = Field(description="nvml, simulated, replay or off.")
    reason: str = Field(description="ok, or why GPUs cannot be read.", examples=["ok", "no_library"])
    message: str = Field(description="The same as a sentence; empty when all is well.")
    driver: str | None = Field(description="Version of the driver.", examples=["580.159.04"])
    library: str | None = Field(description="Version of the NVML library.")
    cuda: str | None = Field(description="Highest version of CUDA that the driver can do.", examples=["13.0"])
    age_seconds: float | None = Field(description="Of the newest reading; null without one.")
    as_of: datetime | None = Field(description="When that was.")
    items: list[GpuItem]
    next: NoNext = None
    host: HostAnswer
