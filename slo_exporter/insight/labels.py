"""
Which (service, model, view) there are: a bounded number, whatever clients send.

Rules of this module:

1. Columns, not objects: Python runs once per distinct set of a batch, never
   once per request.
2. Texts are cut, and past the limit of sets both service and model become
   `OTHER`; no input can make it grow further.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.records import Ints, Texts, View

LONGEST_LABEL: Final = 128
"""Most characters of a label text; the rest is cut."""
UNKNOWN: Final = "unknown"
"""Stands for a missing service or model."""
OTHER: Final = "_other"
"""Stands for every service and model past the limit."""
MOST_SETS: Final = 500
"""Label sets told apart, unless said otherwise; those of `OTHER` come on top."""

Labels: TypeAlias = tuple[str, str, str]
"""Service, model and view."""

_VIEWS: Final = len(View)


class LabelSets:
    """
    Numbers for (service, model, view), from 0 in the order in which they came.

    Args:
        most: so many are told apart; those of `OTHER`, one per view, come on top.

    Attributes:
        overflowed: rows that were counted under `OTHER`.
    """

    def __init__(self, most: int = MOST_SETS) -> None:
        self.overflowed = 0
        self._most = most
        self._numbers: dict[Labels, int] = {}

    @property
    def room(self) -> int:
        """The most numbers there can be."""
        return self._most + _VIEWS

    @property
    def numbers(self) -> Mapping[Labels, int]:
        """Every set that came, and its number."""
        return self._numbers

    def of(self, service: Texts, model: Texts, view: NDArray[np.uint8]) -> Ints:
        """The number of each row's set, made while there is room."""
        shape = (len(service.values) + 1, len(model.values) + 1, _VIEWS)
        # Codes from 0: the missing text comes first.
        mixed = np.ravel_multi_index((service.codes + np.int64(1), model.codes + np.int64(1), view), shape)
        distinct, position, sizes = np.unique(mixed, return_inverse=True, return_counts=True)
        codes = zip(*(column.tolist() for column in np.unravel_index(distinct, shape)), strict=True)
        labels = ((_label(service, s), _label(model, m), View(v).name.lower()) for s, m, v in codes)
        return np.array(list(self._each(labels, sizes)), dtype=np.int64)[position]

    def _each(self, labels: Iterator[Labels], sizes: Ints) -> Iterator[int]:
        for wanted, size in zip(labels, sizes.tolist(), strict=True):
            number = self._numbers.get(wanted)
            if number is None and len(self._numbers) < self._most:
                number = self._numbers[wanted] = len(self._numbers)
            elif number is None:
                self.overflowed += size
                number = self._numbers.setdefault((OTHER, OTHER, wanted[2]), len(self._numbers))
            yield number


def _label(column: Texts, shifted: int) -> str:
    """The label of a code that was shifted by one; empty would be no label at all."""
    return (column.values[shifted - 1][:LONGEST_LABEL] if shifted else "") or UNKNOWN
