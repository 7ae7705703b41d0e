"""
The language of conditions: when is a request good?

```
condition = clause { "and" clause }
clause    = field op quantity | "outcome" op outcome      op = <= < >= > == !=
quantity  = number [unit]                                 unit = ns us ms s m h
```

A condition is data: clauses with exact integer bounds. `satisfies` in
`counting` turns them into masks. Aggregates (``p99(e2e)``, ``rate``) belong to
time slices and are refused here by name.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Final

from slo_exporter.sli.records import FIELDS, Kind, Outcome

UNIT_NS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
OPERATORS: Final = ("<=", "<", ">=", ">", "==", "!=")
OUTCOMES: Final[Mapping[str, Outcome]] = {outcome.name.lower(): outcome for outcome in Outcome}

_CLAUSE = re.compile(r"([a-z0-9_]+) ?(<=|<|>=|>|==|!=) ?([^<>=!].*)")
_AGGREGATE = re.compile(r"\b(p\d+|mean|min|max|rate|count|ratio)\b\s*(\(|<|>|=|!)")
_NUMBER = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,19})?) ?([a-zA-Z%/]*)")


class ConditionError(ValueError):
    """A condition that cannot be read; the message says what would be right."""


@dataclass(frozen=True, slots=True, order=True)
class Clause:
    """One comparison. *bound* is nanoseconds, a count, or an `Outcome`."""

    field: str
    op: str
    bound: int

    def __str__(self) -> str:
        """Canonical text: ``e2e <= 80000000ns``."""
        if self.field == "outcome":
            return f"outcome {self.op} {Outcome(self.bound).name.lower()}"
        unit = "ns" if FIELDS[self.field] is Kind.DURATION else ""
        return f"{self.field} {self.op} {self.bound}{unit}"


@dataclass(frozen=True, slots=True)
class Condition:
    """Clauses that must all hold."""

    clauses: tuple[Clause, ...]

    @property
    def on_outcome(self) -> tuple[Clause, ...]:
        """The clauses on ``outcome``."""
        return tuple(clause for clause in self.clauses if clause.field == "outcome")

    @property
    def on_numbers(self) -> tuple[Clause, ...]:
        """The clauses on durations and counts."""
        return tuple(clause for clause in self.clauses if clause.field != "outcome")

    def normal_form(self) -> str:
        """Text that is equal for conditions that mean the same comparisons."""
        return " and ".join(str(clause) for clause in sorted(set(self.clauses)))


def parse(text: str) -> Condition:
    """
    Read a condition.

    Raises:
        ConditionError: what is wrong, where, and what would be right.
    """
    if not text.strip():
        raise ConditionError("is empty; write for example: e2e <= 80ms")
    if _AGGREGATE.search(text):
        raise ConditionError(
            f"{text!r} aggregates over time slices, which are not supported yet; judge one request, as in e2e <= 80ms"
        )
    words = " ".join(text.split())
    if " or " in words:
        raise ConditionError(f"{text!r} says or; a good request meets every clause, so join them with and")
    return Condition(tuple(_clause(part) for part in words.split(" and ")))


def _clause(text: str) -> Clause:
    match = _CLAUSE.fullmatch(text)
    if match is None:
        raise ConditionError(f"cannot read {text!r}; a clause is: field {' | '.join(OPERATORS)} quantity")
    name, op, value = match.groups()
    if name == "outcome":
        return Clause(name, _equality(op), _outcome(value))
    if name not in FIELDS:
        raise ConditionError(f"unknown field {name!r}; fields are: {', '.join([*FIELDS, 'outcome'])}")
    return _bounded(name, op, _quantity(name, value))


def _equality(op: str) -> str:
    if op not in ("==", "!="):
        raise ConditionError(f"outcome takes == or !=, not {op}")
    return op


def _outcome(word: str) -> int:
    if word not in OUTCOMES:
        raise ConditionError(f"unknown outcome {word!r}; outcomes are: {', '.join(OUTCOMES)}")
    return int(OUTCOMES[word])


def _quantity(name: str, text: str) -> Fraction:
    match = _NUMBER.fullmatch(text)
    if match is None:
        example = "80ms" if FIELDS[name] is Kind.DURATION else "80"
        raise ConditionError(f"cannot read the quantity {text!r} of {name}; write for example {example}")
    number, unit = match.groups()
    if FIELDS[name] is Kind.COUNT:
        if unit:
            raise ConditionError(f"{name} is a count and takes no unit, not {unit!r}")
        return Fraction(number)
    if unit not in UNIT_NS:
        raise ConditionError(f"{name} is a duration and needs a unit ({' '.join(UNIT_NS)}), as in 80ms, not {text!r}")
    return Fraction(number) * UNIT_NS[unit]


_NEVER: Final = 2**63 - 1
"""A bound that no value reaches: 292 years, or as many tokens."""

_WHOLE: Final[Mapping[str, Callable[[Fraction], int]]] = {
    "<=": floor,
    ">": floor,
    "<": ceil,
    ">=": ceil,
    "==": lambda q: int(q) if q.denominator == 1 else _NEVER,
    "!=": lambda q: int(q) if q.denominator == 1 else _NEVER,
}
"""Values are whole, so a fractional bound has an equivalent whole one."""


def _bounded(name: str, op: str, quantity: Fraction) -> Clause:
    return Clause(name, op, min(_WHOLE[op](quantity), _NEVER))
