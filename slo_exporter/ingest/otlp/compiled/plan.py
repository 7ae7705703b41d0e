"""Where each name's values go, once it is known which kinds of values they have."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.compiled.arrays import LARGE_INT, LIST, OF_EVENT, OF_RESOURCE, TEXT

NAMES, SCOPES, SERVICES = range(3)
"""Slots of texts that every export has; those of columns follow."""

NOWHERE: Final = -1

_TEXT, _LARGE, _LIST = 1 << int(TEXT), 1 << int(LARGE_INT), 1 << int(LIST)


@dataclass(slots=True)
class Column:
    """Where the values of one key stand in `Dense`, or `NOWHERE`: there is one row more of each, without values."""

    name: int
    key: str
    of_resource: bool
    kinds: int = NOWHERE
    numbers: int = NOWHERE
    texts: int = NOWHERE
    is_list: bool = False

    @property
    def is_mixed(self) -> bool:
        """Large ints and lists beside other values are put together one by one."""
        return self.kinds == NOWHERE


@dataclass(slots=True)
class Plan:
    """Where all values stand, and how many rows of each kind there are."""

    places: NDArray[np.int64]
    of_spans: list[Column] = field(default_factory=list)
    of_resources: list[Column] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    kinds: int = 0
    numbers: int = 0
    texts: int = SERVICES + 1
    lists: int = 0
    sizes: NDArray[np.int64] = field(init=False)
    """`Dense.slots`, as they are at first."""

    @property
    def slots(self) -> int:
        """Of texts and lists."""
        return self.texts + self.lists

    @property
    def times(self) -> int:
        """Names of events that have a time."""
        return len(self.events)


def plan_of(sets: Sequence[Sequence[str]], masks: NDArray[np.int64], unasked: int) -> Plan:
    """Plan the columns of the names that occur, all but *unasked*."""
    plan = Plan(np.full((len(masks), 4), NOWHERE, dtype=np.int64))
    spans, resources = len(sets[0]), len(sets[0]) + len(sets[OF_RESOURCE])
    found = masks.nonzero()[0].tolist()
    for name, mask in zip(found, masks[found].tolist(), strict=True):
        if name >= resources:
            plan.places[name, 0] = plan.times
            plan.events.append(sets[OF_EVENT][name - resources])
        elif name != unasked:
            of_resource = name >= spans
            key = sets[OF_RESOURCE][name - spans] if of_resource else sets[0][name]
            columns = plan.of_resources if of_resource else plan.of_spans
            columns.append(_place(plan, Column(name, key, of_resource), mask))
    for column in plan.of_spans + plan.of_resources:
        _settle(plan, column)
    plan.sizes = np.array([[0, -1]] * (plan.slots + 1), dtype=np.int64)
    return plan


def _place(plan: Plan, column: Column, mask: int) -> Column:
    column.is_list = mask == _LIST
    if mask & _LARGE or (mask & _LIST and not column.is_list):
        return column
    column.kinds, plan.kinds = plan.kinds, plan.kinds + 1
    if mask & ~(_TEXT | _LIST):
        column.numbers, plan.numbers = plan.numbers, plan.numbers + 1
    if column.is_list:
        column.texts, plan.lists = plan.lists, plan.lists + 1
    elif mask & _TEXT:
        column.texts, plan.texts = plan.texts, plan.texts + 1
    return column


def _settle(plan: Plan, column: Column) -> None:
    """Lists come behind all texts."""
    if column.is_list and not column.is_mixed:
        column.texts += plan.texts
    plan.places[column.name] = (column.kinds, column.numbers, column.texts, int(column.of_resource))
