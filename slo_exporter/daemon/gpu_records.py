"""Where the writer gets what GPUs did: whoever reads them keeps it until it is asked for."""

from typing import Final, Protocol

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.gpus import GpuBatch

AHEAD_NS: Final = 60 * SECOND_NS
"""So far ahead of our clock a record may end (docs/laws.md, law 3): else the clock was set back meanwhile."""


class GpuRecords(Protocol):
    """
    Seconds of GPUs that are not counted yet; asked from the writer's thread.

    While the database is away nobody asks: what is kept must be bounded.
    """

    def take(self) -> GpuBatch | None:
        """Give what there is, and forget it; None where there is nothing."""
        ...

    def give_back(self, batch: GpuBatch) -> None:
        """Keep again what was taken last: it could not be counted now."""
        ...


class NoGpuRecords:
    """Of a host whose GPUs nobody reads."""

    def take(self) -> GpuBatch | None:
        """Nothing."""
        return None

    def give_back(self, batch: GpuBatch) -> None:
        """Never called: nothing was taken."""


def not_ahead(batch: GpuBatch, now_ns: int) -> GpuBatch:
    """What of *batch* is not further ahead of *now_ns* than a record may be."""
    fits = batch.end_ns <= now_ns + AHEAD_NS
    return batch if np.all(fits) else batch.take(fits)
