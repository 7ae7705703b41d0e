"""
What stands under ``alerts:``: which alerts an SLO has, and at what shares of its budget.

What is not said is as usual; what is said must make sense for the window and
the objective of the SLO.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
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
    word = values.text(plain)
    if word not in _SWITCH:
        raise ValueError(f"must be one of {', '.join(_SWITCH)}, not {values.shown(word)}")
    return _SWITCH[word]


def _events(plain: object) -> int:
    written = values.text(plain)
    if not (written.isascii() and written.isdecimal() and 1 <= int(written) <= MOST_BAD_EVENTS):
        raise ValueError(f"{values.shown(written)} must be a whole number from 1 to {MOST_BAD_EVENTS}")
    return int(written)


def _unfolded(plain: object, off: Mapping[str, object], such_as: str) -> object:
    """*off* where it is written in one word."""
    if isinstance(plain, str):
        if plain != OFF:
            raise ValueError(f"must be {OFF} or a mapping, such as {such_as}")
        return off
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
    fitting = burn.fitting(window_s, objective)
    if fitting is None:
        return f"write {OFF}"
    least, most = fitting
    to = f"at most {percent(MOST_SHARE)}" if most > MOST_SHARE else f"less than {_rounded(most, ROUND_FLOOR)}"
    return f"write at least {_rounded(least, ROUND_CEILING)} and {to}, or {OFF}"


def _rounded(share: Fraction, rounding: str) -> str:
    """In percent, to three digits, inwards: what is advised is right."""
    exact = Decimal(share.numerator * 100) / share.denominator
    step = Decimal(1).scaleb(exact.adjusted() - 2)
    return f"{exact.quantize(step, rounding).normalize():f}%"
