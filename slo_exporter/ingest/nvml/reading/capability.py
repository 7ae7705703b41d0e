"""
What a capability is: one thing that a GPU may or may not tell, and how to ask.

| module | its capabilities |
|---|---|
| readings | plain getters |
| fields | field values, read in batches |
| events | why clocks are held down |
| gpm | activity and traffic of GPU performance monitoring |
| rings | busy seconds of the utilisation ring |
| links | NVLink |
| processes | who computes |
| capabilities | all of them in one table |
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slo_exporter.ingest.nvml.frame import Sample, Tier
from slo_exporter.ingest.nvml.reading.gpu import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One thing that a GPU may tell; the smallest that is dropped or left out."""

    name: str
    """In the note of the call that is under way, and in ``Order.without``."""
    tier: Tier
    calls: tuple[str, ...]
    """The library's functions, as `Calls` names them."""
    metrics: tuple[str, ...]
    """What it gives: as samples, or through `Gpu.grow` (`quantities.GROWING`)."""
    read: Callable[[Gpu], Sequence[Sample]]
    """
    Ask the GPU: samples that still have to pass `quantities.QUANTITIES`.

    Raises `NvmlError` when the GPU refuses; what that means stands in `codes`.
    No samples: nothing to tell this time (windows need a second reading).
    """
