"""
Every capability in one table, and what each metric can be.

Both the poller and the survey of `slo-exporter doctor` read this table.
"""

from typing import Final

from slo_exporter.ingest.nvml.reading import events, fields, gpm, links, processes, readings, rings
from slo_exporter.ingest.nvml.reading.capability import Capability
from slo_exporter.ingest.nvml.reading.quantities import QUANTITIES

__all__ = ["CAPABILITIES", "QUANTITIES"]

CAPABILITIES: Final[tuple[Capability, ...]] = (
    *gpm.CAPABILITIES,
    *fields.CAPABILITIES,
    *events.CAPABILITIES,
    *readings.CAPABILITIES,
    *rings.CAPABILITIES,
    *processes.CAPABILITIES,
    *links.CAPABILITIES,
)
"""In the order in which they are read."""

BY_NAME: Final = {capability.name: capability for capability in CAPABILITIES}
