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
compares the sums. Which fields and aggregates there are is a `Vocabulary`,
quantities are read by `quantity`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final

from slo_exporter.sli import quantity
from slo_exporter.sli.quantity import NEVER, UNIT_NS, ConditionError, Measure
from slo_exporter.sli.records import Kind, Outcome
from slo_exporter.sli.vocabulary import FIELDS_TAKEN, PERCENTS, REQUESTS, Vocabulary, measure_of, measure_over

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

_ORDERED: Final = ("<=", "<", ">=", ">")
_RANKED: Final = (*PERCENTS, "min", "max")
"""Aggregates that are one record's value: whole, and kept as a tally against the bound, which takes an order."""

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
        return f"{self.field} {self.op} {quantity.canonical(measure_of(self.field), Fraction(self.bound))}"


@dataclass(frozen=True, slots=True, order=True)
class Aggregate:
    """One comparison over the records of a time slice."""

    function: str
    """p50 p90 p95 p99 mean min max rate count ratio."""
    fields: tuple[str, ...]
    op: str
    bound: Fraction
    """As values of the fields are: nanoseconds, a count, billionths; per second, or a plain ratio."""

    @property
    def name(self) -> str:
        """What is compared: ``p99(e2e)``, ``rate``."""
        return f"{self.function}({', '.join(self.fields)})" if self.fields else self.function

    @property
    def measure(self) -> Measure:
        """What the bound is."""
        return measure_over(self.function, self.fields)

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


def parse(text: str, words: Vocabulary = REQUESTS) -> Condition:
    """
    Read a condition on what *words* are of.

    Raises:
        ConditionError: what is wrong, where, and what would be right.
    """
    if not text.strip():
        raise ConditionError(f"is empty; write for example: {words.example()}")
    spaced = " ".join(text.split())
    if " or " in spaced:
        raise ConditionError(f"{text!r} says or; what is good meets every clause, so join them with and")
    read = [_clause(part, words) for part in spaced.split(" and ")]
    clauses = tuple(clause for clause in read if isinstance(clause, Clause))
    aggregates = tuple(clause for clause in read if isinstance(clause, Aggregate))
    if clauses and aggregates:
        raise ConditionError(
            f"{text!r} mixes one request ({clauses[0].field}) with a time slice ({aggregates[0].name}); "
            "with timeslice aggregate every field, as in p99(e2e) <= 80ms, without it none, as in e2e <= 80ms"
        )
    return Condition(clauses, aggregates)


def _clause(text: str, words: Vocabulary) -> Clause | Aggregate:
    match = _CLAUSE.fullmatch(text)
    if match is None:
        raise ConditionError(f"cannot read {text!r}; a clause is: {_shape(words)} {' | '.join(OPERATORS)} quantity")
    name, argument, op, value = match.groups()
    if argument is not None or name in FIELDS_TAKEN:
        return _aggregate(name, argument or "", op, value, words)
    if not words.judges_one:
        words.check(name)
        raise ConditionError(f"{name} has a value every second; aggregate it, as in {words.example()}")
    if name == "outcome":
        return Clause(name, _equality(op), _outcome(value))
    words.check(name, "outcome")
    return Clause(name, op, _whole(op, quantity.read(name, measure_of(name), value)))


def _shape(words: Vocabulary) -> str:
    return "field" if words.judges_one else "aggregate(field)"


def _aggregate(function: str, argument: str, op: str, value: str, words: Vocabulary) -> Aggregate:
    if function in words.refused:
        raise ConditionError(words.refused[function])
    if function not in FIELDS_TAKEN:
        known = [name for name in FIELDS_TAKEN if name not in words.refused]
        raise ConditionError(f"unknown aggregate {function!r}; aggregates are: {', '.join(known)}")
    inside = argument.strip("() ")
    fields = tuple(field.strip() for field in inside.split(",")) if inside else ()
    _check_fields(function, fields, words)
    if function in _RANKED and op not in _ORDERED:
        raise ConditionError(f"{function} takes {', '.join(_ORDERED[:-1])} or {_ORDERED[-1]}, not {op}")
    measure = measure_over(function, fields)
    bound = quantity.read(Aggregate(function, fields, op, Fraction()).name, measure, value)
    return Aggregate(function, fields, op, Fraction(_whole(op, bound)) if function in (*_RANKED, "count") else bound)


def _check_fields(function: str, fields: tuple[str, ...], words: Vocabulary) -> None:
    for field in fields:
        if field == "outcome" and words.judges_one:
            raise ConditionError(f"outcome is no number, so {function} cannot aggregate it; set outcomes beside good")
        words.check(field)
    if len(fields) not in FIELDS_TAKEN[function]:
        takes = {0: "no field", 1: "one field", 2: "two fields"}[FIELDS_TAKEN[function][-1]]
        raise ConditionError(f"{function} takes {takes}, as in {words.example(function)}")
    kinds = [words.fields[field] for field in fields]
    if function == "rate" and any(kind is not Kind.COUNT for kind in kinds):
        counts = ", ".join(name for name, kind in words.fields.items() if kind is Kind.COUNT)
        raise ConditionError(f"rate sums counts, and {fields[0]} is a duration; counts are: {counts}")
    if function == "ratio" and (kinds[0] is not kinds[1] or kinds[0] not in words.in_ratio):
        takes = " or ".join(f"two {_PLURAL[kind]}" for kind in words.in_ratio)
        raise ConditionError(f"ratio takes {takes}, not {fields[0]} and {fields[1]}")


_PLURAL: Final[Mapping[Kind, str]] = {Kind.DURATION: "durations", Kind.COUNT: "counts", Kind.RATIO: "shares"}


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
