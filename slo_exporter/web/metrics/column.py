"""The samples of one metric as two columns, labels and numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Column:
    """Samples of one metric; of one without labels every text is empty."""

    labels: Sequence[str]
    """As they are written: ``service="chat",slo="latency"``."""
    numbers: Numbers
    """One for each; NaN where it is undefined."""

    @classmethod
    def of(cls, rows: Iterable[tuple[str, float]]) -> "Column":
        """The samples of *rows*, in their order."""
        listed = list(rows)
        return cls([text for text, _ in listed], np.array([number for _, number in listed], dtype=np.float64))


def escaped(label: str) -> str:
    """A label's text as both formats write it between quotes."""
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def written(labels: Mapping[str, str]) -> str:
    """Labels in the order of their names, as both formats write them."""
    return ",".join([f'{name}="{escaped(labels[name])}"' for name in sorted(labels)])
