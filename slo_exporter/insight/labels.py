"""
Which (service, model, view) there are: a bounded number, whatever clients send.

Rules of this module:

1. Columns, not objects: Python runs once per distinct set of a batch, never
   once per request.
2. Texts are cut. Past the limit of a service's sets the model becomes `OTHER`,
   so that one service leaves room for the others; past the limit of all sets
   the service does too. No input can make it grow further.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.distinct import distinct
from slo_exporter.sli.records import Ints, View
from slo_exporter.sli.texts import Texts

LONGEST_LABEL: Final = 128
"""Most characters of a label text; the rest is cut."""
UNKNOWN: Final = "unknown"
"""Stands for a missing service or model."""
OTHER: Final = "_other"
"""Stands for every service and model past a limit."""
MOST_SETS: Final = 500
"""Label sets told apart, unless said otherwise; those of the service `OTHER` come on top."""
MOST_OF_SERVICE: Final = 100
"""Models and views told apart of one service; those of the model `OTHER` come on top."""
_MOST_HIDDEN: Final = 10_000
"""Services remembered of which something was counted under `OTHER`."""

Labels: TypeAlias = tuple[str, str, str]
"""Service, model and view."""

_VIEWS: Final = len(View)


@dataclass(frozen=True, slots=True)
class Found:
    """The label sets of some rows."""

    numbers: Ints
    """Shape (k,): their numbers, distinct."""
    position: Ints
    """Shape (n,): where in *numbers* that of each row stands."""


class LabelSets:
    """
    Numbers for (service, model, view), from 0 in the order in which they came.

    Args:
        most: so many are told apart; those of the service `OTHER`, one per view, come on top.

    Attributes:
        overflowed: rows that were counted under `OTHER`, be it the model alone or the service too.
    """

    def __init__(self, most: int = MOST_SETS) -> None:
        self.overflowed = 0
        self._most = most
        self._numbers: dict[Labels, int] = {}
        self._sets = Counter[str]()
        """How many sets each service has, without those of the model `OTHER`."""
        self._hidden = set[str]()

    @property
    def room(self) -> int:
        """The most numbers there can be."""
        return self._most + _VIEWS

    @property
    def numbers(self) -> Mapping[Labels, int]:
        """Every set that came, and its number."""
        return self._numbers

    def knows(self, service: str) -> bool:
        """Anything of that service ever came, as far as is remembered."""
        return service in self._hidden or any(labels[0] == service for labels in self._numbers)

    def hides(self, service: str) -> bool:
        """Some of what came of that service was counted under `OTHER`."""
        return service in self._hidden or any((service, OTHER, view.name.lower()) in self._numbers for view in View)

    def of(self, service: Texts, model: Texts, view: NDArray[np.uint8]) -> Ints:
        """The number of each row's set, made while there is room."""
        found = self.found(service, model, view)
        return found.numbers[found.position]

    def found(self, service: Texts, model: Texts, view: NDArray[np.uint8]) -> "Found":
        """The sets of some rows, made while there is room."""
        models = len(model.values) + 1
        # Of most batches all rows are of one set.
        is_one = len(view) > 0 and all(each.min() == each.max() for each in (service.codes, model.codes, view))
        rows = slice(1 if is_one else None)
        # The least code is -1, and the missing text comes first.
        mixed = service.codes[rows].astype(np.int64)
        mixed *= models * _VIEWS
        mixed += model.codes[rows] * np.int64(_VIEWS)
        mixed += view[rows]
        codes, position = (mixed, np.zeros(len(view), dtype=np.int64)) if is_one else distinct(mixed)
        pairs, views = np.divmod(codes + (models + 1) * _VIEWS, _VIEWS)
        each = zip(*(column.tolist() for column in (*np.divmod(pairs, models), views)), strict=True)
        labels = [(_label(service, s), _label(model, m), View(v).name.lower()) for s, m, v in each]
        numbers = np.array(self._each(labels, position), dtype=np.int64)
        if len(set(numbers.tolist())) < len(numbers):  # values repeat, or another set stands for some
            numbers, merged = distinct(numbers)
            position = merged[position]
        return Found(numbers, position)

    def _each(self, labels: list[Labels], position: Ints) -> list[int]:
        """The number of each set; *position* tells how many rows are of it."""
        if all(wanted in self._numbers for wanted in labels):
            return [self._numbers[wanted] for wanted in labels]
        sizes = np.bincount(position).tolist()
        return [
            self._numbers[wanted] if wanted in self._numbers else self._new(wanted, size)
            for wanted, size in zip(labels, sizes, strict=True)
        ]

    def _new(self, wanted: Labels, size: int) -> int:
        """The number of a set that has none, be it that of another set that stands for it."""
        service, _, view = wanted
        if self._sets[service] < MOST_OF_SERVICE and len(self._numbers) < self._most:
            self._sets[service] += 1
            return self._numbers.setdefault(wanted, len(self._numbers))
        self.overflowed += size
        of_service = (service, OTHER, view)
        is_known = of_service in self._numbers
        if self._sets[service] >= MOST_OF_SERVICE and (is_known or len(self._numbers) < self._most):
            return self._numbers.setdefault(of_service, len(self._numbers))
        if len(self._hidden) < _MOST_HIDDEN:
            self._hidden.add(service)
        return self._numbers.setdefault((OTHER, OTHER, view), len(self._numbers))


def _label(column: Texts, shifted: int) -> str:
    """The label of a code that was shifted by one; empty would be no label at all."""
    return (cut(column.values[shifted - 1]) if shifted else "") or UNKNOWN


def cut(text: str) -> str:
    """As much of a text as a label keeps."""
    return text[:LONGEST_LABEL]
