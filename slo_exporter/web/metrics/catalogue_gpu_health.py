"""What may be wrong with GPUs: errors of the driver, memory and links."""

from typing import Final

from slo_exporter.web.metrics.catalogue_gpus import GPU
from slo_exporter.web.metrics.metric import counter, gauge

GPU_HEALTH: Final = (
    counter(
        "gpu_xid_errors_total",
        "Errors that the driver reported since the start, by XID and what NVIDIA says to do: restart_app, check_app, "
        "reset_gpu, reboot, contact_support, ignore. Critical are reset_gpu, reboot and contact_support; those that "
        "NVIDIA lists are there from the start, at 0. Kept while the GPU is down.",
        *GPU,
        "xid",
        "action",
    ),
    gauge(
        "gpu_xid_last_timestamp_seconds",
        "When the driver reported an XID last; seconds since 1970. Absent before the first; kept while it is down.",
        *GPU,
        "xid",
    ),
    gauge(
        "gpu_recovery_action",
        "What the driver asks for: 0 none, 1 reset of the GPU, 2 reboot of the node, 3 drain peer-to-peer work, "
        "4 drain and reset, 5 recover the IMEX domain, 6 reset of the bus, 7 reboot of the system.",
        *GPU,
    ),
    counter(
        "gpu_ecc_errors_total",
        "Memory errors: corrected, uncorrected. Scope volatile: since the driver was loaded; aggregate: of the life of "
        "the GPU.",
        *GPU,
        "type",
        "scope",
    ),
    gauge(
        "gpu_remapped_rows",
        "Rows of memory that were replaced by spare ones, after corrected or uncorrected errors.",
        *GPU,
        "kind",
    ),
    gauge("gpu_remapped_rows_pending", "1 while a row waits for a reset of the GPU to be replaced, else 0.", *GPU),
    gauge(
        "gpu_remapped_rows_failure",
        "1 once a row could not be replaced, else 0: the GPU has to be exchanged.",
        *GPU,
    ),
    gauge(
        "gpu_retired_pages",
        "Pages of memory that are out of use, by cause: single_bit, double_bit. Of GPUs before Ampere.",
        *GPU,
        "cause",
    ),
    gauge("gpu_retired_pages_pending", "1 while a page waits for a reset to go out of use, else 0.", *GPU),
    gauge(
        "gpu_pcie_link_generation",
        "Generation of the PCIe link now. An idle GPU goes down to 1: compare with the highest under load only.",
        *GPU,
    ),
    gauge("gpu_pcie_link_max_generation", "Highest generation that the GPU and its slot can do.", *GPU),
    gauge("gpu_pcie_link_width", "Lanes of the PCIe link now.", *GPU),
    gauge("gpu_pcie_link_max_width", "Most lanes that the GPU and its slot can do.", *GPU),
    counter(
        "gpu_pcie_replays_total",
        "Packets over PCIe that had to be sent again, since the driver was loaded. Many are a bad slot.",
        *GPU,
    ),
    gauge("gpu_nvlink_links", "NVLinks by state: up, down. A link without a peer is down too.", *GPU, "state"),
    counter(
        "gpu_nvlink_errors_total",
        "Errors of all NVLinks of the GPU: replay, recovery, crc; since the driver was loaded.",
        *GPU,
        "kind",
    ),
    gauge(
        "gpu_fabric_state",
        "Registration with the NVSwitch fabric: 0 not supported, 1 not started, 2 in progress, 3 completed.",
        *GPU,
    ),
    gauge("gpu_mig_enabled", "1 while the GPU is divided by MIG, else 0; utilisation is absent then.", *GPU),
)
