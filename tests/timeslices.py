"""Time slices in tests: records in columns, and an oracle that looks at them one by one."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf

import numpy as np

from slo_exporter.sli import condition
from slo_exporter.sli.indicator import DEFAULT_RULES, Empty, Indicator, Rule, Selector
from slo_exporter.sli.records import FIELDS, MISSING, Outcome, RequestBatch, View
from slo_exporter.sli.slicing import SlicePlan, width_of
from slo_exporter.sli.texts import missing_texts, texts_of
from slo_exporter.sli.verdict import Judge

S = 10**9
MS = 10**6

Record = Mapping[str, object]
"""One record: ``end_ns``, perhaps ``outcome`` and ``service``, and its number fields."""

_COMPARE = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def batch_of(records: Sequence[Record], service: str = "chat") -> RequestBatch:
    """Columns of some records."""
    rows = len(records)
    ones = np.ones(rows, dtype=np.uint64)
    no = np.zeros(rows, dtype=np.bool_)
    fields = sorted({name for record in records for name in record if name in FIELDS})
    return RequestBatch(
        start_ns=np.array([record.get("end_ns", 0) for record in records], dtype=np.int64),
        end_ns=np.array([record.get("end_ns", 0) for record in records], dtype=np.int64),
        trace_id=np.ones((rows, 2), dtype=np.uint64),
        span_id=ones,
        fingerprint=ones,
        request_key=ones,
        view=np.full(rows, View.SERVER, dtype=np.uint8),
        outcome=np.array([record.get("outcome", Outcome.OK) for record in records], dtype=np.uint8),
        layer=np.zeros(rows, dtype=np.uint8),
        pair_key=np.zeros(rows, dtype=np.uint64),
        shadowed=no,
        service=texts_of([str(record.get("service", service)) for record in records]),
        model=missing_texts(rows),
        framework=missing_texts(rows),
        fields={name: _column(records, name) for name in fields},
    )


def _column(records: Sequence[Record], name: str) -> np.ndarray:
    values = [record.get(name) for record in records]
    return np.array([MISSING if value is None else value for value in values], dtype=np.int64)


def indicator_of(good: str, width_s: int = 60, empty: Empty | None = None, **rules: Rule) -> Indicator:
    """A time-slice indicator on all requests of ``chat``; rules by the name of the outcome."""
    overridden = {Outcome[name.upper()]: rule for name, rule in rules.items()}
    return Indicator(Selector("chat"), condition.parse(good), {**DEFAULT_RULES, **overridden}, width_s, empty)


def verdict_of(indicator: Indicator, records: Sequence[Record], up_ns: int | None = None) -> bool | None:
    """The verdict of the code on one slice that holds *records*; it was up all the time unless said otherwise."""
    summed = SlicePlan([indicator]).sum(batch_of(records))
    sums = summed[0].sums.tolist() if summed else [[0] * width_of(indicator)]
    assert len(sums) == 1, "the records lie in several slices"
    assert indicator.timeslice_s is not None
    return Judge(indicator).verdict(sums[0], indicator.timeslice_s * S if up_ns is None else up_ns)


@dataclass(frozen=True)
class Asked:
    """A time-slice SLO as its author thinks of it."""

    clauses: tuple[tuple[str, tuple[str, ...], str, str, Fraction], ...]
    """Function, fields, operator, quantity as text, and the same as a number."""
    width_s: int
    empty: Empty | None
    rules: Mapping[Outcome, Rule]

    @property
    def indicator(self) -> Indicator:
        """What the code gets."""
        texts = [
            f"{f}({', '.join(of)}) {op} {text}" if of else f"{f} {op} {text}" for f, of, op, text, _ in self.clauses
        ]
        return Indicator(Selector("chat"), condition.parse(" and ".join(texts)), self.rules, self.width_s, self.empty)

    def is_counted(self, record: Record) -> bool:
        """True when the record is not excluded."""
        return self.rules[record["outcome"]] != Rule.EXCLUDE

    def verdict(self, records: Sequence[Record], up_ns: int) -> bool | None:
        """Judge a slice from all its records."""
        counted = [record for record in records if self.is_counted(record)]
        if Fraction(up_ns, self.width_s * S) < Fraction(9, 10):
            return False if any(self._is_beyond_hope(clause, counted) for clause in self.clauses) else None
        held = [self._holds(clause, counted, up_ns) for clause in self.clauses]
        if None not in held:
            return all(held)
        promises = any(function in ("rate", "count") for function, *_ in self.clauses)
        what = self.empty if self.empty is not None else (Empty.BAD if promises else Empty.NO_DATA)
        return {Empty.NO_DATA: None, Empty.GOOD: True, Empty.BAD: False}[what]

    def _is_bad(self, record: Record) -> bool:
        return self.rules[record["outcome"]] == Rule.BAD

    def _values(self, field: str, records: Sequence[Record]) -> list[int]:
        return [
            record[field]
            for record in records
            if record[field] is not None and not (field == "inter_token" and _has_one_token(record))
        ]

    def _ranked(self, field: str, op: str, records: Sequence[Record]) -> list[float]:
        """Values in order; what fails by its outcome is on the wrong side, one token on the right one."""
        right, wrong = (-inf, inf) if op in ("<=", "<") else (inf, -inf)
        values: list[float] = []
        for record in records:
            if self._is_bad(record):
                values.append(wrong)
            elif field == "inter_token" and _has_one_token(record):
                values.append(right)
            elif record[field] is not None:
                values.append(record[field])
        return sorted(values)

    def _holds(self, clause: tuple, counted: Sequence[Record], up_ns: int) -> bool | None:
        function, fields, op, _, bound = clause
        judged = [record for record in counted if not self._is_bad(record)]
        value: float | Fraction | None = None
        if function.startswith("p"):
            ranked = self._ranked(fields[0], op, counted)
            value = ranked[ceil(Fraction(int(function[1:]) * len(ranked), 100)) - 1] if ranked else None
        elif function in ("min", "max"):
            values = self._values(fields[0], judged)
            value = {"min": min, "max": max}[function](values) if values else None
        elif function == "mean":
            values = self._values(fields[0], judged)
            value = Fraction(sum(values), len(values)) if values else None
        elif function == "ratio":
            both = [r for r in judged if self._values(fields[0], [r]) and self._values(fields[1], [r])]
            below = sum(record[fields[1]] for record in both)
            value = Fraction(sum(record[fields[0]] for record in both), below) if below else None
        elif function == "count":
            value = len(counted) or None
        else:
            values = self._values(fields[0], counted) if fields else [1] * len(counted)
            value = sum(values) / Fraction(up_ns, S) if values else None
        return None if value is None else _COMPARE[op](value, bound)

    def _is_beyond_hope(self, clause: tuple, counted: Sequence[Record]) -> bool:
        function, fields, op, _, bound = clause
        judged = [record for record in counted if not self._is_bad(record)]
        if function == "max" and op in ("<", "<="):
            return any(not _COMPARE[op](value, bound) for value in self._values(fields[0], judged))
        if function == "min" and op in (">", ">="):
            return any(not _COMPARE[op](value, bound) for value in self._values(fields[0], judged))
        if function == "count" and op in ("<", "<=", "=="):
            return not any(_COMPARE[op](len(counted) + more, bound) for more in range(20))
        return False


def _has_one_token(record: Record) -> bool:
    tokens = record["completion_tokens"]
    return tokens is not None and tokens <= 1
