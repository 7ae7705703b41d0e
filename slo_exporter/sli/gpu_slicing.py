"""
From seconds of GPUs to the sums of time slices (docs/laws.md, law 5).

The sums are those of `slicing`, in its layout, so that `verdict` and what keeps
them need not know of whom they are. A GPU has no outcome: every record that
knows a field of the condition is judged, and none is bad by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from slo_exporter.sli.condition import Aggregate, Clause
from slo_exporter.sli.gpus import Gpu, GpuBatch, GpuSelector
from slo_exporter.sli.indicator import Indicator
from slo_exporter.sli.masks import COMPARE
from slo_exporter.sli.records import MISSING, Ints, Mask
from slo_exporter.sli.slicing import Records, SliceSums, cut, summed

_TEXTS: Final[Mapping[str, Callable[[Gpu], frozenset[str]]]] = {
    "gpu": lambda gpu: frozenset((str(gpu.index),)),
    "uuid": lambda gpu: frozenset((gpu.uuid.lower(),)),
    "name": lambda gpu: frozenset((gpu.name,)),
    "group": lambda gpu: gpu.groups,
}
"""What a GPU is called, by key of a selector; a UUID in lower case, as it is compared."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An SLO on GPUs."""

    row: int
    width_s: int
    selector: GpuSelector
    aggregates: tuple[Aggregate, ...]
    fields: tuple[str, ...]


class GpuSlicePlan:
    """
    How to sum seconds of GPUs for some indicators.

    Args:
        indicators: in the order of rows; those on requests are left out.
    """

    def __init__(self, indicators: Sequence[Indicator]) -> None:
        self._asked = tuple(
            _Asked(row, one.timeslice_s, one.selector, one.good.distinct_aggregates, _fields(one))
            for row, one in enumerate(indicators)
            if one.timeslice_s is not None and isinstance(one.selector, GpuSelector)
        )

    def __len__(self) -> int:
        """How many SLOs are on GPUs."""
        return len(self._asked)

    def sum(self, batch: GpuBatch) -> dict[int, SliceSums]:
        """Sum a batch; by row, those alone that have records in it."""
        if not self._asked or not len(batch):
            return {}
        batch = batch.take(np.argsort(batch.end_ns, kind="stable"))
        cuts = {width: cut(batch.end_ns, width) for width in {asked.width_s for asked in self._asked}}
        look = _Look(batch)
        return {asked.row: sums for asked in self._asked if (sums := _sums(asked, look, *cuts[asked.width_s]))}


def _fields(indicator: Indicator) -> tuple[str, ...]:
    return tuple(sorted({field for aggregate in indicator.good.aggregates for field in aggregate.fields}))


def _sums(asked: _Asked, look: "_Look", starts: Ints, first: Ints) -> SliceSums | None:
    tells: Mask = reduce(np.logical_or, map(look.known, asked.fields))
    judged = look.selected(asked.selector) & tells
    records = Records(look, judged, np.zeros_like(judged), first)
    return summed(records, asked.aggregates, starts, look.batch.end_ns)


class _Look:
    """The masks of one batch."""

    def __init__(self, batch: GpuBatch) -> None:
        self.batch = batch

    def selected(self, selector: GpuSelector) -> Mask:
        """Rows of the GPUs that *selector* is about."""
        wanted = np.array([selects(selector, gpu) for gpu in self.batch.gpus], dtype=np.bool_)
        selected: Mask = wanted[self.batch.gpu]
        return selected

    def number(self, field: str) -> Ints:
        """The column of *field*; a negative temperature is 0: what is summed never falls."""
        return np.maximum(self.batch.number(field), 0)

    def known(self, field: str) -> Mask:
        """Rows that have a value of *field*."""
        known: Mask = self.batch.number(field) != MISSING
        return known

    measured = known

    def holds(self, clause: Clause) -> Mask:
        """Rows that satisfy *clause*; one without a value does not."""
        return COMPARE[clause.op](self.number(clause.field), clause.bound) & self.known(clause.field)


def selects(selector: GpuSelector, gpu: Gpu) -> bool:
    """True when *gpu* has one of the texts of every key."""
    return all(not _TEXTS[key](gpu).isdisjoint(_compared(key, texts)) for key, texts in selector.matches)


def _compared(key: str, texts: Sequence[str]) -> Sequence[str]:
    """*texts* of a selector as they are compared: hexadecimal digits have no case."""
    return [text.lower() for text in texts] if key == "uuid" else texts
