"""Colours, words and limits: what they mean is the same on every dashboard."""

from collections.abc import Mapping, Sequence
from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import (
    DashboardRangeMapOptions,
    DashboardSpecialValueMapOptions,
    DynamicConfigValue,
    RangeMap,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsConfig,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)

GOOD: Final = "green"
WARN: Final = "orange"
BAD: Final = "red"
UNSURE: Final = "purple"
QUIET: Final = "#8e8e8e"
"""Neither good nor bad: unknown, or nothing to say."""
PLAIN: Final = "text"
BLUE: Final = "blue"

FILLS: Final = {GOOD: "#96d98d", WARN: "#ffb357", BAD: "#c4162a", UNSURE: "#8f3bb8", QUIET: "#c0c0c0"}
"""
The same colours behind a word, so that it can be read.

Grafana writes in black on what is brighter than 180 of 255 and in white on all else, which on its own green and orange
is too faint.
"""
SHADES: Final = ("light-blue", "semi-dark-blue", "purple", "dark-purple", WARN)
"""For lines that have an order, such as lengths: from light to dark, and the last one stands out."""

STATES: Final = {
    "exhausted": ("Exhausted", BAD),
    "at_risk": ("At risk", WARN),
    "insufficient_data": ("Too little data", UNSURE),
    "no_data": ("No data", QUIET),
    "ok": ("OK", GOOD),
}
"""Words and colours of the states of an SLO, worst first (docs/laws.md, law 2)."""

AT_RISK_RATIO: Final = 0.25
"""Less budget than this is at risk (docs/laws.md, law 2)."""

Steps = Mapping[float | None, str]
"""Colour from a value on; None is below all of them."""

BUDGET: Final[Steps] = {None: BAD, 0: WARN, AT_RISK_RATIO: GOOD}
BURN: Final[Steps] = {None: GOOD, 1: WARN, 6: BAD}
"""1 spends the budget in its window; 6 is what pages within half an hour by the standard policy."""
COVERAGE: Final[Steps] = {None: UNSURE, 0.9: GOOD}
"""Below 0.9 the state is insufficient_data (docs/laws.md, law 2)."""
OVERSPENT: Final[Steps] = {None: BAD, 0: PLAIN}
COST: Final[Steps] = {None: GOOD, 0.1: WARN, 0.5: BAD}
"""Of the budget of a whole window, by one release."""
ANY_IS_BAD: Final[Steps] = {None: GOOD, 1: BAD}
ANY_IS_ODD: Final[Steps] = {None: GOOD, 1: WARN}
NEUTRAL: Final[Steps] = {None: PLAIN}


def limits(steps: Steps) -> build.ThresholdsConfig:
    """Make Grafana's thresholds of steps."""
    made = [Threshold(value=value, color=colour) for value, colour in steps.items()]
    return build.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(made)


def limits_of(steps: Steps) -> ThresholdsConfig:
    """Make them as an override takes them."""
    return limits(steps).build()


def words(of: Mapping[str, tuple[str, str]]) -> list[ValueMapping]:
    """Show a word and a colour in place of a value."""
    shown = {
        value: ValueMappingResult(text=word, color=colour, index=index)
        for index, (value, (word, colour)) in enumerate(of.items())
    }
    return [ValueMap(options=shown)]


def filled(of: Mapping[str, tuple[str, str]]) -> Mapping[str, tuple[str, str]]:
    """Words for the front of their colour."""
    return {value: (word, FILLS.get(colour, colour)) for value, (word, colour) in of.items()}


def within(least: float | None, most: float | None, word: str) -> RangeMap:
    """Show a word in place of numbers whose exact size tells nothing more; their colour stays."""
    result = ValueMappingResult(text=word, index=1)
    return RangeMap(DashboardRangeMapOptions(from_val=least, to=most, result=result))


DAY_S: Final = 86_400
LASTS: Final[Sequence[ValueMapping]] = (
    *words({"0": ("Spent", BAD)}),
    within(30 * DAY_S, None, "over 30 days"),
)
"""How long a budget lasts: nobody plans by the years that a quiet hour promises."""
LEFT: Final[Sequence[ValueMapping]] = (within(None, -1.0001, "under −100 %"),)
"""A budget that is overspent more than once."""


def nothing() -> list[ValueMapping]:
    """Show a number that is not defined as that, in a colour that says neither good nor bad."""
    shown = ValueMappingResult(text="–", color=QUIET, index=0)
    return [SpecialValueMap(DashboardSpecialValueMapOptions(match=SpecialValueMatch.NULL_AND_NAN, result=shown))]


def fixed(colour: str) -> DynamicConfigValue:
    """One colour, whatever the value."""
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})
