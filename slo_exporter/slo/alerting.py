"""
Multi-window, multi-burn-rate alerts: which ones an SLO has.

A burn alert fires while the budget burns faster than its factor over a long
window, so that enough of the budget is gone to matter, and over a short one, so
that it ends soon after the fault does. The factor spends a given share of the
budget in the long window: factor = share × compliance window / long window.

One more alert needs no factor: hardly any event was good. It holds where the
factor cannot be reached, and where so few events come that an hour of them is
little. It fires on what a window holds, and ends on news: not because a window
that grows, or moves on, holds something else.

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

from slo_exporter.slo.windows import BURN_WINDOWS

DEFAULT_MIN_BAD_EVENTS: Final = 5
"""A burn of fewer bad events is no news: one failure among ten requests an hour burns at 100 (Workbook, ch. 5)."""
MOST_SHARE: Final = Fraction(1, 2)
"""An alert that waits until more than so much of the budget is spent comes too late."""
LEAST_FAILED: Final = 5
"""So many events, hardly one of them good, are a total failure."""
MOST_GOOD: Final = Fraction(1, 20)
"""
While no larger share of events is good, hardly any is: one in twenty, and with fewer than twenty none.

A health check or a cached answer that still works hides no outage by it.
"""
TWO_MINUTES_S: Final = 120
"""So many seconds of time slices, all of them bad, are news."""


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
    """Hardly any event was good."""


def burn_text(rate: Fraction | float, digits: int = 3) -> str:
    """A burn rate in so many digits, or all of those before the point: ``14.4``, ``12,346``."""
    if 0 < rate < 0.005:
        return "<0.01"
    number = float(rate)
    return f"{number:,.{max(digits, len(f'{number:.0f}'))}g}"


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
            return f"is a burn rate of {burn_text(factor)} over {self.long}: below 1 a service keeps its objective"
        if factor >= most:
            return f"is a burn rate of {burn_text(factor)} over {self.long}: no more than {burn_text(most)} can be"
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
"""The shortest of them that holds enough events tells whether hardly any of them is good."""


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """What an SLO's author wants to hear of."""

    burns: tuple[Burn, ...] | None = None
    """None: the `standard` ones."""
    total_failure: bool = True
    min_bad_events: int | None = None
    """
    In the long window; None: `DEFAULT_MIN_BAD_EVENTS`, or as many time slices as two minutes have.

    A slice is many records, but a single short one may be bad by chance.
    """

    @classmethod
    def silent(cls) -> "AlertPolicy":
        """No alert at all."""
        return cls((), total_failure=False)

    def burns_of(self, window_s: int) -> tuple[Burn, ...]:
        """The burn alerts for a compliance window, be they fit or not."""
        return standard(window_s) if self.burns is None else self.burns

    def least(self, timeslice_s: int | None) -> int:
        """Bad events that are news, where an event is a time slice of so many seconds, or none."""
        usual = DEFAULT_MIN_BAD_EVENTS if timeslice_s is None else -(-TWO_MINUTES_S // timeslice_s)
        return self.min_bad_events or usual


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alert of one SLO."""

    severity: Severity
    tier: Tier
    long: str
    """Window text; empty of total failure: that window is whichever holds enough events."""
    short: str
    factor: Fraction | None
    """The burn rate that both windows have to exceed; None of total failure."""
    min_bad_events: int
    """In the long window; of total failure, events in any."""

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
def rules(
    policy: AlertPolicy, *, window_s: int, objective: Decimal, timeslice_s: int | None = None
) -> tuple[AlertRule, ...]:
    """
    The alerts of an SLO: those of its policy that make sense for its window and objective.

    Args:
        policy: what its author wants.
        window_s: its compliance window.
        objective: its own; one of `MOST_GOOD` or less allows what total failure is.
        timeslice_s: width of its time slices; None where it counts events.
    """
    least = policy.least(timeslice_s)
    burning = tuple(
        AlertRule(burn.severity, burn.tier, burn.long, burn.short, burn.factor(window_s), least)
        for burn in policy.burns_of(window_s)
        if burn.unfit(window_s, objective) is None
    )
    failing = AlertRule(Severity.PAGE, Tier.TOTAL, "", "", None, max(least, LEAST_FAILED))
    return (failing, *burning) if policy.total_failure and objective > MOST_GOOD else burning


def left_out(policy: AlertPolicy, *, window_s: int, objective: Decimal) -> Iterator[tuple[Burn, str]]:
    """The alerts that make no sense for a window and an objective, and why."""
    for burn in policy.burns_of(window_s):
        if why := burn.unfit(window_s, objective):
            yield burn, why
