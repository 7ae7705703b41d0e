"""
What a metric is, and how one is declared in the catalogue.

Sources: https://prometheus.io/docs/specs/om/open_metrics_spec/ (families and
units) and https://prometheus.io/docs/practices/naming/ (base units)
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Type(StrEnum):
    """What a metric is; an info metric is a gauge of value 1."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


_SUFFIXES: Final = {Type.COUNTER: "_total", Type.INFO: "_info"}
_UNITS: Final = frozenset({"bytes", "celsius", "hertz", "joules", "ratio", "seconds", "watts"})
"""A UNIT line must repeat the end of the family's name, and an info metric has none."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family; *name* is that of its samples, but for the suffixes of a histogram's."""

    name: str
    type: Type
    help: str
    labels: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The name in OpenMetrics: without what the type appends to that of its samples."""
        return self.name.removesuffix(_SUFFIXES.get(self.type, ""))

    @property
    def unit(self) -> str | None:
        """The base unit that ends the name of the family; None without one."""
        last = self.family.rpartition("_")[2]
        return last if last in _UNITS else None


def gauge(name: str, meaning: str, *labels: str) -> Metric:
    """Declare a gauge."""
    return Metric(name, Type.GAUGE, meaning, labels)


def counter(name: str, meaning: str, *labels: str) -> Metric:
    """Declare a counter."""
    return Metric(name, Type.COUNTER, meaning, labels)


def info(name: str, meaning: str, *labels: str) -> Metric:
    """Declare an info metric."""
    return Metric(name, Type.INFO, meaning, labels)
