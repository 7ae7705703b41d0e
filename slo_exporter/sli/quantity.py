"""
Numbers with their units: the right-hand side of a clause.

```
quantity = number [unit]        unit = ns us ms s m h (a duration) | % (a ratio) | /s (a rate)
```
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from fractions import Fraction
from typing import Final

from slo_exporter.sli.gpus import WHOLE

UNIT_NS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}

MOST_DIGITS: Final = 19
"""Digits before and after the point: as many as 2^63 has."""
NEVER: Final = 2**63 - 1
"""A bound that no value reaches: 292 years, or as many tokens."""

_NUMBER: Final = re.compile(rf"([0-9]{{1,{MOST_DIGITS}}}(?:\.[0-9]{{1,{MOST_DIGITS}}})?) ?([a-zA-Z%/]*)")


class ConditionError(ValueError):
    """A condition that cannot be read; the message says what would be right."""


class Measure(IntEnum):
    """What a bound is compared with, and so which unit it takes."""

    DURATION = 0
    """Nanoseconds."""
    COUNT = 1
    RATE = 2
    """Per second."""
    RATIO = 3
    SHARE = 4
    """A field that is a share, in whole billionths: never more than all."""
    PLAIN = 5
    """A field of GPUs whose unit is its own."""


_UNITS: Final[Mapping[Measure, Mapping[str, Fraction]]] = {
    Measure.DURATION: {unit: Fraction(width) for unit, width in UNIT_NS.items()},
    Measure.COUNT: {"": Fraction(1)},
    Measure.RATE: {"/s": Fraction(1)},
    Measure.RATIO: {"%": Fraction(1, 100), "": Fraction(1)},
    Measure.SHARE: {"%": Fraction(WHOLE, 100), "": Fraction(WHOLE)},
    Measure.PLAIN: {"": Fraction(1)},
}
_MOST: Final[Mapping[Measure, Fraction]] = {
    **dict.fromkeys(Measure, Fraction(NEVER)),
    Measure.RATIO: Fraction(10**MOST_DIGITS - 1, 100),
}
"""Larger bounds mean the same: that the canonical text can be read again matters more."""
_EXAMPLES: Final[Mapping[Measure, str]] = {
    Measure.DURATION: "80ms",
    Measure.COUNT: "80",
    Measure.RATE: "100/s",
    Measure.RATIO: "15%",
    Measure.SHARE: "40%",
    Measure.PLAIN: "80",
}
_WRONG_UNIT: Final[Mapping[Measure, str]] = {
    Measure.DURATION: f"is a duration and needs a unit ({' '.join(UNIT_NS)}), as in 80ms, not {{text!r}}",
    Measure.COUNT: "is a count and takes no unit, not {unit!r}",
    Measure.RATE: "is counted per second and needs /s, as in 100/s, not {text!r}",
    Measure.RATIO: "is a ratio and takes % or no unit, as in 15% or 0.15, not {text!r}",
    Measure.SHARE: "is a share and takes % or no unit, as in 40% or 0.4, not {text!r}",
    Measure.PLAIN: "is a plain number (temperature in degrees Celsius, power in watts) and takes no unit, not {unit!r}",
}


def read(name: str, measure: Measure, text: str) -> Fraction:
    """
    Read the bound of *name*: nanoseconds, events, per second, a plain ratio, or billionths of a share.

    Raises:
        ConditionError: says which unit *measure* takes.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ConditionError(f"cannot read the quantity {text!r} of {name}; write for example {_EXAMPLES[measure]}")
    number, unit = match.groups()
    scale = _UNITS[measure].get(unit)
    if scale is None:
        raise ConditionError(f"{name} {_WRONG_UNIT[measure].format(text=text, unit=unit)}")
    bound = Fraction(number) * scale
    if measure is Measure.SHARE and bound > WHOLE:
        raise ConditionError(f"{name} is a share and never more than 100%, as in 40% or 0.4, not {text!r}")
    return min(bound, _MOST[measure])


def canonical(measure: Measure, bound: Fraction) -> str:
    """The one text of a bound: in ns, %, per second or without a unit, as `read` takes it."""
    if measure in (Measure.RATIO, Measure.SHARE):
        return f"{_decimal(bound * 100 / (WHOLE if measure is Measure.SHARE else 1))}%"
    unit = {Measure.DURATION: "ns", Measure.RATE: "/s"}.get(measure, "")
    return f"{_decimal(bound)}{unit}"


def _decimal(number: Fraction) -> str:
    """Exact: units only ever shift the point or multiply."""
    whole, rest = divmod(int(number * 10**MOST_DIGITS), 10**MOST_DIGITS)
    return f"{whole}.{rest:0{MOST_DIGITS}d}".rstrip("0").rstrip(".")
