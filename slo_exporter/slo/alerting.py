"""
Multi-window, multi-burn-rate alerts: which ones an SLO has, and what its counts say to each.

A burn alert fires while the budget burns faster than its factor over a long
window, so that enough of the budget is gone to matter, and over a short one, so
that it ends soon after the fault does. The factor spends a given share of the
budget in the long window: factor = share × compliance window / long window.

One more alert needs no factor: every event failed. It holds where the factor
cannot be reached, and where so few events come that an hour of them is little.

Source: Google, The Site Reliability Workbook, ch. 5 "Alerting on SLOs",
"6: Multiwindow, Multi-Burn-Rate Alerts" and table 5-8.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

from slo_exporter.slo.budget import Counts
from slo_exporter.slo.windows import BURN_WINDOWS

DEFAULT_MIN_BAD_EVENTS: Final = 5
"""A burn of fewer bad events is no news: one failure among ten requests an hour burns at 100 (Workbook, ch. 5)."""
MOST_SHARE: Final = Fraction(1, 2)
"""An alert that waits until more than so much of the budget is spent comes too late."""
LEAST_FAILED: Final = 5
"""So many events, all of them bad, are a total failure."""


class Severity(StrEnum):
    """Who has to look, and when."""

    PAGE = "page"
    """Somebody, now."""
    TICKET = "ticket"
    """Somebody, in working hours."""


class Tier(StrEnum):
    """How an alert notices."""

    QUICK = "quick"
    SLOW = "slow"
    TOTAL = "total"
    """Every event failed."""


@dataclass(frozen=True, slots=True)
class Burn:
    """A pair of windows, and the share of the budget that is worth an alert."""

    severity: Severity
    tier: Tier
    long: str
    short: str
    share: Fraction
    """Of the error budget, spent in the long window at exactly the factor."""

    def factor(self, window_s: int) -> Fraction:
        """The burn rate that has to be exceeded, for a compliance window of so many seconds; exact."""
        return self.share * window_s / BURN_WINDOWS[self.long]

    def unfit(self, window_s: int, objective: Decimal) -> str | None:
        """Why it makes no sense for a compliance window and an objective; None when it does."""
        factor, most = self.factor(window_s), 1 / (1 - Fraction(objective))
        if BURN_WINDOWS[self.long] > window_s:
            return f"is judged over {self.long}, which is longer than the window"
        if factor < 1:
            return f"is a burn rate of {float(factor):.3g} over {self.long}: below 1 a service keeps its objective"
        if factor >= most:
            return f"is a burn rate of {float(factor):.3g} over {self.long}: no more than {float(most):.3g} can be"
        if self.share > MOST_SHARE:
            return f"is {float(self.share):.0%} of the budget in {self.long}: most of it is gone by then"
        return None

    def fitting(self, window_s: int, objective: Decimal) -> tuple[Fraction, Fraction] | None:
        """
        The shares that make sense: at least the first, and less than the second, or `MOST_SHARE` where that is less.

        None where none does.
        """
        least = Fraction(BURN_WINDOWS[self.long], window_s)
        return (least, least / (1 - Fraction(objective))) if least <= MOST_SHARE else None


STANDARD: Final = (
    Burn(Severity.PAGE, Tier.QUICK, "1h", "5m", Fraction(2, 100)),
    Burn(Severity.PAGE, Tier.SLOW, "6h", "30m", Fraction(5, 100)),
    Burn(Severity.TICKET, Tier.QUICK, "1d", "2h", Fraction(10, 100)),
    Burn(Severity.TICKET, Tier.SLOW, "3d", "6h", Fraction(10, 100)),
)
"""
The windows and shares of the Workbook, table 5-8, and the pair of a day that its listing adds.

For 30 days the factors are 14.4, 6, 3 and 1.
"""


@lru_cache
def standard(window_s: int) -> tuple[Burn, ...]:
    """
    The usual alerts for a compliance window of so many seconds.

    Below 30 days the share of a ticket is raised until its factor is 1, as 0.93
    over three days, which is 10 % of 28, is a pace that keeps the objective. A
    page is not: it is for more than that.
    """
    return tuple(
        replace(burn, share=max(burn.share, Fraction(BURN_WINDOWS[burn.long], window_s)))
        if burn.severity is Severity.TICKET
        else burn
        for burn in STANDARD
    )


KEYS: Final = ((Severity.PAGE, Tier.TOTAL), *((burn.severity, burn.tier) for burn in STANDARD))
"""Names of all alerts there can be, the gravest first."""
FAILURE_WINDOWS: Final = ("5m", "30m", "1h", "2h", "6h")
"""The shortest of them that holds `LEAST_FAILED` events tells whether all of them fail."""


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """What an SLO's author wants to hear of."""

    burns: tuple[Burn, ...] | None = None
    """None: the `standard` ones."""
    total_failure: bool = True
    min_bad_events: int | None = None
    """In the long window; None: `DEFAULT_MIN_BAD_EVENTS`, and 1 for time slices, each of which is many records."""

    @classmethod
    def silent(cls) -> "AlertPolicy":
        """No alert at all."""
        return cls((), total_failure=False)

    def burns_of(self, window_s: int) -> tuple[Burn, ...]:
        """The burn alerts for a compliance window, be they fit or not."""
        return standard(window_s) if self.burns is None else self.burns


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alert of one SLO."""

    severity: Severity
    tier: Tier
    long: str
    """Window text; empty where every event failed: that window is whichever holds enough events."""
    short: str
    factor: Fraction | None
    """The burn rate that both windows have to exceed; None where every event failed."""
    min_bad_events: int

    @property
    def key(self) -> tuple[Severity, Tier]:
        """Unique among the rules of an SLO."""
        return (self.severity, self.tier)


AlertKey: TypeAlias = tuple[Severity, Tier]
"""Names an alert of an SLO."""
ActiveAlerts: TypeAlias = Mapping[int, Mapping[AlertKey, int]]
"""By the row of an SLO in its ledger: since when, in ns, its active alerts are."""
NO_ALERTS: Final[ActiveAlerts] = MappingProxyType({})


@lru_cache(1024)
def rules(policy: AlertPolicy, *, window_s: int, objective: Decimal, is_sliced: bool) -> tuple[AlertRule, ...]:
    """The alerts of an SLO: those of its policy that make sense for its window and objective."""
    least = policy.min_bad_events or (1 if is_sliced else DEFAULT_MIN_BAD_EVENTS)
    burning = tuple(
        AlertRule(burn.severity, burn.tier, burn.long, burn.short, burn.factor(window_s), least)
        for burn in policy.burns_of(window_s)
        if burn.unfit(window_s, objective) is None
    )
    failing = AlertRule(Severity.PAGE, Tier.TOTAL, "", "", None, max(least, LEAST_FAILED))
    return (failing, *burning) if policy.total_failure else burning


def left_out(policy: AlertPolicy, *, window_s: int, objective: Decimal) -> Iterator[tuple[Burn, str]]:
    """The alerts that make no sense for a window and an objective, and why."""
    for burn in policy.burns_of(window_s):
        if why := burn.unfit(window_s, objective):
            yield burn, why


def holds(rule: AlertRule, counts: Mapping[str, Counts], objective: Decimal) -> bool | None:
    """
    Whether an alert should be active.

    Args:
        rule: the alert.
        counts: of one SLO, by window text; the windows of `BURN_WINDOWS`.
        objective: the SLO's.

    Returns:
        None when the counts cannot say: what was active stays so, what was not does not fire.
    """
    if rule.factor is None:
        return _all_failed(rule, counts)
    long, short = counts[rule.long], counts[rule.short]
    if not (long.total and short.total):
        return None
    is_news = long.bad >= rule.min_bad_events
    return is_news and _exceeds(short, objective, rule.factor) and _exceeds(long, objective, rule.factor)


def failure_window(rule: AlertRule, counts: Mapping[str, Counts]) -> str | None:
    """The shortest window with events enough to tell whether all of them fail; None without one."""
    return next((text for text in FAILURE_WINDOWS if counts[text].total >= rule.min_bad_events), None)


def _all_failed(rule: AlertRule, counts: Mapping[str, Counts]) -> bool | None:
    window = failure_window(rule, counts)
    return None if window is None else not counts[window].good


def _exceeds(counts: Counts, objective: Decimal, factor: Fraction) -> bool:
    """Whether bad / total > factor × (1 − objective), exactly."""
    required, whole = objective.as_integer_ratio()
    return counts.bad * whole * factor.denominator > factor.numerator * (whole - required) * counts.total
