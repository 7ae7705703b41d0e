"""Why nothing can be read any more."""

from typing import Final

from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.frame import Fault, Reason
from slo_exporter.ingest.nvml.reading import container

_CONTAINER_LOST: Final = (
    "NVML answers Unknown (999) to everything: this container lost its GPUs, "
    "as systemd's daemon-reload does to it; only restarting the container heals that"
)


def fault_of(error: NvmlError) -> Fault:
    """What an error that ends the child says to its parent."""
    if error.code == codes.UNKNOWN and container.is_inside():
        return Fault(Reason.CONTAINER_LOST, error.call, error.code, _CONTAINER_LOST)
    reason, text = codes.reason_of_nvml(error)
    return Fault(reason, error.call, error.code, text)
