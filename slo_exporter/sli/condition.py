"""
The language of conditions: when is a request good, or a time slice?

```
condition = clause { "and" clause }
clause    = field op quantity | "outcome" op outcome                      of one request
          | aggregate "(" field ")" op quantity                           of a time slice
          | ("rate" | "rate(" field ")" | "count") op quantity
          | "ratio(" field "," field ")" op quantity
aggregate = p50 p90 p95 p99 mean min max                op = <= < >= > == !=
```

A condition is data: clauses with exact bounds. `counting` turns those of
requests into masks; `slicing` sums what those of time slices need, `verdict`
compares the sums. Quantities are read by `quantity`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final

from slo_exporter.sli import quantity
from slo_exporter.sli.quantity import NEVER, UNIT_NS, ConditionError, Measure
from slo_exporter.sli.records import FIELDS, Kind, Outcome

__all__ = [
    "OPERATORS",
    "OUTCOMES",
    "PERCENTS",
    "UNIT_NS",
    "Aggregate",
    "Clause",
    "Condition",
    "ConditionError",
    "parse",
]

OPERATORS: Final = ("<=", "<", ">=", ">", "==", "!=")
OUTCOMES: Final[Mapping[str, Outcome]] = {outcome.name.lower(): outcome for outcome in Outcome}
PERCENTS: Final[Mapping[str, int]] = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}

_OF_ONE_FIELD: Final = (*PERCENTS, "mean", "min", "max")
_ORDERED: Final = ("<=", "<", ">=", ">")
_RANKED: Final = (*PERCENTS, "min", "max")
"""Aggregates that are one record's value: whole, and kept as a tally against the bound, which takes an order."""
_FIELDS_TAKEN: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(_OF_ONE_FIELD, (1,)),
    "rate": (0, 1),
    "count": (0,),
    "ratio": (2,),
}
_EXAMPLES: Final[Mapping[str, str]] = {
    "rate": "rate >= 100/s or rate(completion_tokens) >= 1000/s",
    "count": "count >= 100",
    "ratio": "ratio(data_wait, step) <= 15%",
}

_CLAUSE: Final = re.compile(r"([a-z0-9_]+) ?(\([^()<>=!]*\))? ?(<=|<|>=|>|==|!=) ?([^<>=!].*)")


@dataclass(frozen=True, slots=True, order=True)
class Clause:
    """One comparison of a request. *bound* is nanoseconds, a count, or an `Outcome`."""

    field: str
    op: str
    bound: int

    def __str__(self) -> str:
        """Canonical text: ``e2e <= 80000000ns``."""
        if self.field == "outcome":
            return f"outcome {self.op} {Outcome(self.bound).name.lower()}"
        return f"{self.field} {self.op} {quantity.canonical(_measure(self.field), Fraction(self.bound))}"


@dataclass(frozen=True, slots=True, order=True)
class Aggregate:
    """One comparison over the records of a time slice."""

    function: str
    """p50 p90 p95 p99 mean min max rate count ratio."""
    fields: tuple[str, ...]
    op: str
    bound: Fraction
    """Nanoseconds, a count, per second, or a plain ratio."""

    @property
    def name(self) -> str:
        """What is compared: ``p99(e2e)``, ``rate``."""
        return f"{self.function}({', '.join(self.fields)})" if self.fields else self.function

    @property
    def measure(self) -> Measure:
        """What the bound is."""
        return _measure_of(self.function, self.fields)

    def __str__(self) -> str:
        """Canonical text: ``p99(e2e) <= 80000000ns``."""
        return f"{self.name} {self.op} {quantity.canonical(self.measure, self.bound)}"


@dataclass(frozen=True, slots=True)
class Condition:
    """Clauses that must all hold: all on one request, or all on a time slice."""

    clauses: tuple[Clause, ...]
    aggregates: tuple[Aggregate, ...] = ()

    @property
    def on_outcome(self) -> tuple[Clause, ...]:
        """The clauses on ``outcome``."""
        return tuple(clause for clause in self.clauses if clause.field == "outcome")

    @property
    def on_numbers(self) -> tuple[Clause, ...]:
        """The clauses on durations and counts."""
        return tuple(clause for clause in self.clauses if clause.field != "outcome")

    @property
    def distinct_aggregates(self) -> tuple[Aggregate, ...]:
        """The clauses on a time slice, each once, in an order that how they are written does not change."""
        return tuple(sorted(set(self.aggregates)))

    def normal_form(self) -> str:
        """Text that is equal for conditions that mean the same comparisons."""
        return " and ".join(map(str, sorted(set(self.clauses)) or self.distinct_aggregates))


def parse(text: str) -> Condition:
    """
    Read a condition.

    Raises:
        ConditionError: what is wrong, where, and what would be right.
    """
    if not text.strip():
        raise ConditionError("is empty; write for example: e2e <= 80ms")
    words = " ".join(text.split())
    if " or " in words:
        raise ConditionError(f"{text!r} says or; what is good meets every clause, so join them with and")
    read = [_clause(part) for part in words.split(" and ")]
    clauses = tuple(clause for clause in read if isinstance(clause, Clause))
    aggregates = tuple(clause for clause in read if isinstance(clause, Aggregate))
    if clauses and aggregates:
        raise ConditionError(
            f"{text!r} mixes one request ({clauses[0].field}) with a time slice ({aggregates[0].name}); "
            "with timeslice aggregate every field, as in p99(e2e) <= 80ms, without it none, as in e2e <= 80ms"
        )
    return Condition(clauses, aggregates)


def _clause(text: str) -> Clause | Aggregate:
    match = _CLAUSE.fullmatch(text)
    if match is None:
        raise ConditionError(f"cannot read {text!r}; a clause is: field {' | '.join(OPERATORS)} quantity")
    name, argument, op, value = match.groups()
    if argument is not None or name in _FIELDS_TAKEN:
        return _aggregate(name, argument or "", op, value)
    if name == "outcome":
        return Clause(name, _equality(op), _outcome(value))
    _known(name, [*FIELDS, "outcome"])
    return Clause(name, op, _whole(op, quantity.read(name, _measure(name), value)))


def _aggregate(function: str, argument: str, op: str, value: str) -> Aggregate:
    if function not in _FIELDS_TAKEN:
        raise ConditionError(f"unknown aggregate {function!r}; aggregates are: {', '.join(_FIELDS_TAKEN)}")
    inside = argument.strip("() ")
    fields = tuple(field.strip() for field in inside.split(",")) if inside else ()
    _check_fields(function, fields)
    if function in _RANKED and op not in _ORDERED:
        raise ConditionError(f"{function} takes {', '.join(_ORDERED[:-1])} or {_ORDERED[-1]}, not {op}")
    measure = _measure_of(function, fields)
    bound = quantity.read(Aggregate(function, fields, op, Fraction()).name, measure, value)
    return Aggregate(function, fields, op, Fraction(_whole(op, bound)) if function in (*_RANKED, "count") else bound)


def _check_fields(function: str, fields: tuple[str, ...]) -> None:
    for field in fields:
        if field == "outcome":
            raise ConditionError(f"outcome is no number, so {function} cannot aggregate it; set outcomes beside good")
        _known(field, FIELDS)
    if len(fields) not in _FIELDS_TAKEN[function]:
        takes = {0: "no field", 1: "one field", 2: "two fields"}[_FIELDS_TAKEN[function][-1]]
        raise ConditionError(f"{function} takes {takes}, as in {_EXAMPLES.get(function, f'{function}(e2e) <= 80ms')}")
    if function == "rate" and any(FIELDS[field] is not Kind.COUNT for field in fields):
        counts = ", ".join(name for name, kind in FIELDS.items() if kind is Kind.COUNT)
        raise ConditionError(f"rate sums counts, and {fields[0]} is a duration; counts are: {counts}")
    if function == "ratio" and FIELDS[fields[0]] is not FIELDS[fields[1]]:
        raise ConditionError(f"ratio takes two durations or two counts, not {fields[0]} and {fields[1]}")


def _known(name: str, fields: Mapping[str, Kind] | list[str]) -> None:
    if name not in fields:
        raise ConditionError(f"unknown field {name!r}; fields are: {', '.join(fields)}")


def _measure(field: str) -> Measure:
    return Measure.DURATION if FIELDS[field] is Kind.DURATION else Measure.COUNT


def _measure_of(function: str, fields: tuple[str, ...]) -> Measure:
    special = {"rate": Measure.RATE, "ratio": Measure.RATIO, "count": Measure.COUNT}
    return special[function] if function in special else _measure(fields[0])


def _equality(op: str) -> str:
    if op not in ("==", "!="):
        raise ConditionError(f"outcome takes == or !=, not {op}")
    return op


def _outcome(word: str) -> int:
    if word not in OUTCOMES:
        raise ConditionError(f"unknown outcome {word!r}; outcomes are: {', '.join(OUTCOMES)}")
    return int(OUTCOMES[word])


_WHOLE: Final[Mapping[str, Callable[[Fraction], int]]] = {
    "<=": floor,
    ">": floor,
    "<": ceil,
    ">=": ceil,
    "==": lambda q: int(q) if q.denominator == 1 else NEVER,
    "!=": lambda q: int(q) if q.denominator == 1 else NEVER,
}
"""Values are whole, so a fractional bound has an equivalent whole one."""


def _whole(op: str, bound: Fraction) -> int:
    return _WHOLE[op](bound)
