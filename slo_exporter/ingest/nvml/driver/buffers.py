"""What the library writes its answers into: allocated once and used again."""

from collections.abc import Callable, Sequence
from ctypes import Array, Structure, byref, c_uint
from typing import Final, Generic, TypeVar

from slo_exporter.ingest.nvml.driver import abi, codes
from slo_exporter.ingest.nvml.driver.codes import NvmlError

T = TypeVar("T", bound=Structure)

_MOST_ROWS: Final = 65_536
"""A library that asks for more room than that does not mean it."""


class GpmRequest:
    """GPM metrics that are always asked together."""

    __slots__ = ("metrics", "reference", "struct")

    def __init__(self, ids: Sequence[int]) -> None:
        self.struct = abi.GpmMetricsGet(version=abi.GPM_METRICS_GET_VERSION, numMetrics=len(ids))
        self.reference = byref(self.struct)
        self.metrics = tuple((number, self.struct.metrics[place]) for place, number in enumerate(ids))
        for number, metric in self.metrics:
            metric.metricId = number


class FieldRequest:
    """Field values of one GPU that are always asked together: (id, scope) in *wanted*."""

    __slots__ = ("array", "count", "values")

    def __init__(self, wanted: Sequence[tuple[int, int]]) -> None:
        self.count = len(wanted)
        self.array = (abi.FieldValue * self.count)()
        self.values = tuple(self.array[place] for place in range(self.count))
        for value, (field, scope) in zip(self.values, wanted, strict=True):
            value.fieldId, value.scopeId = field, scope


class Rows(Generic[T]):
    """
    Room for the rows that one function tells, which grows where it does not suffice.

    Args:
        kind: of a row.
        room: rows to begin with.
    """

    __slots__ = ("_count", "_kind", "array", "count_ref")

    def __init__(self, kind: type[T], room: int) -> None:
        self._kind = kind
        self._count = c_uint()
        self.array: Array[T] = (kind * room)()
        self.count_ref = byref(self._count)
        """To how many there is room, and then how many there are."""

    def fill(self, ask: Callable[[], int]) -> int:
        """How many rows *ask* writes to `array`; it is asked again with more room until they fit."""
        while True:
            self._count.value = len(self.array)
            code = ask()
            if code != codes.INSUFFICIENT_SIZE:
                return 0 if code else min(self._count.value, len(self.array))
            if len(self.array) >= _MOST_ROWS:
                raise NvmlError(code, "nvml")
            self.array = (self._kind * (len(self.array) * 2))()
