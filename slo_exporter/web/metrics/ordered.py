"""Requests in the order in which sums and newest ones are read off: by label set, then by their end."""

from collections.abc import Iterable
from dataclasses import dataclass

from slo_exporter.insight.labels import Found
from slo_exporter.insight.runs import Runs, ascending
from slo_exporter.sli.records import Ints, RequestBatch


@dataclass(frozen=True, slots=True)
class Ordered:
    """Some requests of a batch, at least one."""

    batch: RequestBatch
    numbers: Ints
    """Their label sets, distinct."""
    runs: Runs
    """Of each label set its requests by their end, of those that end together in the order of the batch."""

    @classmethod
    def of(cls, batch: RequestBatch, requests: Ints, found: Found) -> "Ordered":
        """Those at ascending positions *requests*, whose label sets were *found*."""
        order = ascending(batch.end_ns[requests])
        return cls(batch, found.numbers, Runs.of(found.position[order], requests[order]))

    def columns(self, names: Iterable[str], more: int = 0) -> tuple[list[int], Ints]:
        """Which of the fields *names* there are, and their columns and room for some *more*, shape (columns, n)."""
        fields = self.batch.fields
        known = {place: fields[name] for place, name in enumerate(names) if name in fields}
        return [*known], self.runs.columns([*known.values()], more)
