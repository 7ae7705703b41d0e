"""Seconds of GPUs in tests: rows in columns, and an oracle that looks at them one by one."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from slo_exporter.sli import condition
from slo_exporter.sli.gpu_slicing import GpuSlicePlan
from slo_exporter.sli.gpus import GPU_FIELDS, Gpu, GpuBatch, GpuSelector
from slo_exporter.sli.indicator import Empty, Indicator
from slo_exporter.sli.records import MISSING
from slo_exporter.sli.slicing import width_of
from slo_exporter.sli.verdict import Judge
from slo_exporter.sli.vocabulary import GPUS

S = 10**9
SHARE = 10**9
"""A share of 1, in a column."""

Second = Mapping[str, object]
"""One GPU in one second: ``end_ns``, perhaps ``gpu``, and its fields; what it does not name is missing."""

FLEET = (
    Gpu(0, "GPU-a", "H200", frozenset({"chat"})),
    Gpu(1, "GPU-b", "H200", frozenset({"chat", "embed"})),
    Gpu(2, "GPU-c", "L40S"),
)
_COMPARE = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def seconds_of(rows: Sequence[Second], gpus: Sequence[Gpu] = FLEET) -> GpuBatch:
    """Columns of some rows; ``gpu`` says which of *gpus*, the first unless said otherwise."""
    fields = sorted({name for row in rows for name in row if name in GPU_FIELDS})
    return GpuBatch(
        end_ns=np.array([row.get("end_ns", 0) for row in rows], dtype=np.int64),
        gpus=gpus,
        gpu=np.array([row.get("gpu", 0) for row in rows], dtype=np.int32),
        fields={name: _column(rows, name) for name in fields},
    )


def _column(rows: Sequence[Second], name: str) -> np.ndarray:
    values = [row.get(name) for row in rows]
    return np.array([MISSING if value is None else value for value in values], dtype=np.int64)


def gpu_indicator(good: str, width_s: int = 60, empty: Empty | None = None, **matches: str | tuple) -> Indicator:
    """An indicator on the GPUs that *matches* says, all of them without."""
    texts = tuple((key, (one,) if isinstance(one, str) else one) for key, one in sorted(matches.items()))
    return Indicator(GpuSelector("chat", texts), condition.parse(good, GPUS), timeslice_s=width_s, empty=empty)


def gpu_verdict(indicator: Indicator, rows: Sequence[Second], up_ns: int | None = None) -> bool | None:
    """The verdict of the code on one slice that holds *rows*; we were up all the time unless said otherwise."""
    summed = GpuSlicePlan([indicator]).sum(seconds_of(rows))
    sums = summed[0].sums.tolist() if summed else [[0] * width_of(indicator)]
    assert len(sums) == 1, "the rows lie in several slices"
    assert indicator.timeslice_s is not None
    return Judge(indicator).verdict(sums[0], indicator.timeslice_s * S if up_ns is None else up_ns)


@dataclass(frozen=True)
class AskedOfGpus:
    """An SLO on GPUs as its author thinks of it."""

    clauses: tuple[tuple[str, tuple[str, ...], str, str, Fraction], ...]
    """Function, fields, operator, quantity as text, and the same as a number in the column's unit."""
    width_s: int
    empty: Empty | None
    matches: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def indicator(self) -> Indicator:
        """What the code gets."""
        good = " and ".join(f"{f}({', '.join(of)}) {op} {text}" for f, of, op, text, _ in self.clauses)
        return gpu_indicator(good, self.width_s, self.empty, **dict(self.matches))

    def is_about(self, row: Second) -> bool:
        """True when the row is of a GPU that the SLO is about."""
        gpu = FLEET[row["gpu"]]
        called = {"gpu": {str(gpu.index)}, "uuid": {gpu.uuid}, "name": {gpu.name}, "group": gpu.groups}
        return all(called[key] & set(texts) for key, texts in self.matches)

    def is_counted(self, row: Second) -> bool:
        """True when the row tells anything of what is asked."""
        return self.is_about(row) and any(row[name] is not None for _, of, *_ in self.clauses for name in of)

    def verdict(self, rows: Sequence[Second], up_ns: int) -> bool | None:
        """Judge a slice from all its rows."""
        mine = [row for row in rows if self.is_about(row)]
        if Fraction(up_ns, self.width_s * S) < Fraction(9, 10):
            return False if any(_is_lost(clause, mine) for clause in self.clauses) else None
        held = [_holds(clause, mine) for clause in self.clauses]
        if any(one is False for one in held):
            return False
        if None in held:
            return {None: None, Empty.NO_DATA: None, Empty.GOOD: True, Empty.BAD: False}[self.empty]
        return all(held)


def _values(rows: Sequence[Second], name: str) -> list[int]:
    return sorted(row[name] for row in rows if row[name] is not None)


def _holds(clause: tuple, rows: Sequence[Second]) -> bool | None:
    function, fields, op, _, bound = clause
    values, value = _values(rows, fields[0]), None
    if function == "ratio":
        both = [row for row in rows if row[fields[0]] is not None and row[fields[1]] is not None]
        below = sum(row[fields[1]] for row in both)
        value = Fraction(sum(row[fields[0]] for row in both), below) if below else None
    elif values:
        rank = ceil(Fraction(int(function[1:]) * len(values), 100)) - 1 if function[0] == "p" else 0
        value = {"mean": Fraction(sum(values), len(values)), "min": values[0], "max": values[-1]}.get(
            function, values[rank]
        )
    return None if value is None else _COMPARE[op](value, bound)


def _is_lost(clause: tuple, rows: Sequence[Second]) -> bool:
    function, fields, op, _, bound = clause
    asks_all = (function, op[0]) in (("max", "<"), ("min", ">"))
    return asks_all and any(not _COMPARE[op](value, bound) for value in _values(rows, fields[0]))
