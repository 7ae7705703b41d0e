"""Colours, words and limits: what they mean is the same on every dashboard."""

from collections.abc import Mapping
from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import (
    DashboardSpecialValueMapOptions,
    DynamicConfigValue,
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


def nothing() -> list[ValueMapping]:
    """Show a number that is not defined as that, in a colour that says neither good nor bad."""
    shown = ValueMappingResult(text="–", color=QUIET, index=0)
    return [SpecialValueMap(DashboardSpecialValueMapOptions(match=SpecialValueMatch.NULL_AND_NAN, result=shown))]


def fixed(colour: str) -> DynamicConfigValue:
    """One colour, whatever the value."""
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})
