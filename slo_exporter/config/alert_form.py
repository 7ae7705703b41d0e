"""
What stands under ``alerts:``: which alerts an SLO has, and at what shares of its budget.

What is not said is as usual; what is said must make sense for the window and
the objective of the SLO.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import count
from math import ceil, floor
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

from slo_exporter.config import values
from slo_exporter.slo.alerting import MOST_SHARE, AlertPolicy, Burn, Severity, Tier, standard

MOST_BAD_EVENTS: Final = 1_000_000
OFF: Final = "off"
_SWITCH: Final[Mapping[str, bool]] = {"on": True, OFF: False}


def _share(plain: object) -> Fraction | None:
    """A share of the budget; None for ``off``."""
    if plain == OFF:
        return None
    found = values.share(plain, "2%", "0.02")
    if not found:
        raise ValueError(f"{plain} of the budget is none; write more, or {OFF}")
    return found


def _switch(plain: object) -> bool:
    if not isinstance(plain, str):
        raise ValueError(f"must be one of {', '.join(_SWITCH)}")
    if plain not in _SWITCH:
        raise ValueError(f"must be one of {', '.join(_SWITCH)}, not {values.shown(plain)}")
    return _SWITCH[plain]


def _events(plain: object) -> int:
    written = values.text(plain)
    if not (written.isascii() and written.isdecimal() and 1 <= int(written) <= MOST_BAD_EVENTS):
        raise ValueError(f"{values.shown(written)} must be a whole number from 1 to {MOST_BAD_EVENTS}")
    return int(written)


def _unfolded(plain: object, off: Mapping[str, object], such_as: str) -> object:
    """*off* where it is written in one word."""
    if plain == OFF:
        return off
    if not isinstance(plain, Mapping | BaseModel):
        raise ValueError(f"must be {OFF} or a mapping, such as {such_as}")
    return plain


class TiersForm(BaseModel):
    """Alerts of one severity; None is off."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    quick: Annotated[Fraction | None, PlainValidator(_share)] = None
    slow: Annotated[Fraction | None, PlainValidator(_share)] = None

    @model_validator(mode="before")
    @classmethod
    def _in_a_word(cls, plain: object) -> object:
        return _unfolded(plain, {"quick": OFF, "slow": OFF}, "{quick: 2%, slow: 5%}")

    def share(self, tier: Tier, usual: Fraction) -> Fraction | None:
        """What is said of *tier*, else the *usual* share."""
        return getattr(self, tier.value) if tier.value in self.model_fields_set else usual


class AlertForm(BaseModel):
    """Of an entry, or of a document for those of its entries that have none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page: TiersForm = TiersForm()
    ticket: TiersForm = TiersForm()
    min_bad_events: Annotated[int | None, PlainValidator(_events)] = None
    total_failure: Annotated[bool, PlainValidator(_switch)] = True

    @model_validator(mode="before")
    @classmethod
    def _in_a_word(cls, plain: object) -> object:
        off = {"page": OFF, "ticket": OFF, "total_failure": OFF}
        return _unfolded(plain, off, "{page: {quick: 2%}, min_bad_events: 5}")

    def policy(self, window_s: int) -> AlertPolicy:
        """What it says for a compliance window of so many seconds."""
        usual = standard(window_s)
        if not (self.page.model_fields_set or self.ticket.model_fields_set):
            return AlertPolicy(None, self.total_failure, self.min_bad_events)
        shares = ((burn, self._of(burn).share(burn.tier, burn.share)) for burn in usual)
        burns = tuple(replace(burn, share=share) for burn, share in shares if share is not None)
        return AlertPolicy(None if burns == usual else burns, self.total_failure, self.min_bad_events)

    def unfit(self, window_s: int, objective: Decimal) -> Iterator[str]:
        """What of it makes no sense for a window and an objective, a line each that begins with the field."""
        for burn in self.policy(window_s).burns_of(window_s):
            why = burn.unfit(window_s, objective)
            if why and burn.tier.value in self._of(burn).model_fields_set:
                yield f"{field(burn)}: {percent(burn.share)} {why}; {advice(burn, window_s, objective)}"

    def _of(self, burn: Burn) -> TiersForm:
        return self.page if burn.severity is Severity.PAGE else self.ticket


def field(burn: Burn) -> str:
    """Where its share stands in an SLO file."""
    return f"alerts.{burn.severity}.{burn.tier}"


def percent(share: Fraction) -> str:
    """A share as it may be written."""
    return f"{float(share * 100):.6g}%"


def advice(burn: Burn, window_s: int, objective: Decimal) -> str:
    """Which share would be right."""
    ends = bounds(burn, window_s, objective)
    return f"write {OFF}" if ends is None else f"write at least {ends[0]} and at most {ends[1]}, or {OFF}"


def bounds(burn: Burn, window_s: int, objective: Decimal) -> tuple[str, str] | None:
    """The least and the greatest share that are right, as they may be written; None where none is."""
    fitting = burn.fitting(window_s, objective)
    if fitting is None:
        return None
    least, most = fitting
    # What would reach *most* is wrong; half of the budget is not.
    highest, below = (MOST_SHARE, floor) if most > MOST_SHARE else (most, _below)
    # Ends that lie close together take more digits to tell apart.
    ends = ((_rounded(least, digits, ceil), _rounded(highest, digits, below)) for digits in count(3))
    low, high = next((low, high) for low, high in ends if low <= high)
    return _exact(low), _exact(high)


def _below(share: Fraction) -> int:
    """The greatest whole number that is less."""
    return ceil(share) - 1


def _rounded(share: Fraction, digits: int, whole: Callable[[Fraction], int]) -> Fraction:
    """To so many digits."""
    unit = Fraction(1, next(10**decimals for decimals in count() if share * 10**decimals >= 10 ** (digits - 1)))
    return whole(share / unit) * unit


def _exact(share: Fraction) -> str:
    """A share of few decimals, in percent."""
    return f"{(Decimal(share.numerator * 100) / share.denominator).normalize():f}%"
