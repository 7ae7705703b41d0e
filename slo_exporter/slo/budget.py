"""
The arithmetic of error budgets.

Everything is a ratio of two whole numbers, divided once: Python's ``int / int``
is correctly rounded, so each answer is the float nearest to the exact one.
Undefined is None, never 0, 1 or NaN. Nothing is clamped (docs/laws.md, law 1).

Source: Google, Site Reliability Engineering, ch. 3, and The Site Reliability
Workbook, ch. 5 "Alerting on SLOs".
"""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Counts:
    """Events of one SLO in one window."""

    good: int
    total: int
    """good + bad; excluded events are outside."""
    excluded: int = 0

    @property
    def bad(self) -> int:
        """Events that spent budget."""
        return self.total - self.good


@dataclass(frozen=True, slots=True)
class Budget:
    """What an objective allows over some counts, and what is left of it."""

    allowed_bad: float
    """(1 − objective) × total, in events."""
    remaining_events: float
    """allowed_bad − bad; negative when overspent."""
    remaining_ratio: float | None
    """1 − bad / allowed_bad; None without events."""
    consumed_ratio: float | None
    """bad / allowed_bad; None without events."""


def allowed_share(objective: Decimal) -> tuple[int, int]:
    """1 − objective as a ratio of whole numbers; Decimal's own minus would round to 28 digits."""
    required, whole = objective.as_integer_ratio()
    return whole - required, whole


def sli(counts: Counts) -> float | None:
    """Good over total; None without events."""
    return counts.good / counts.total if counts.total else None


def budget(counts: Counts, objective: Decimal) -> Budget:
    """The error budget of *objective* over *counts*."""
    share, whole = allowed_share(objective)
    allowed, spent = share * counts.total, whole * counts.bad
    return Budget(
        allowed_bad=allowed / whole,
        remaining_events=(allowed - spent) / whole,
        remaining_ratio=(allowed - spent) / allowed if allowed else None,
        consumed_ratio=spent / allowed if allowed else None,
    )


def burn_rate(counts: Counts, objective: Decimal) -> float | None:
    """
    How fast the budget burns: (bad / total) / (1 − objective).

    1.0 spends exactly the whole budget in one compliance period. None without
    events.
    """
    share, whole = allowed_share(objective)
    return whole * counts.bad / (share * counts.total) if counts.total else None


def burn_rate_factor(budget_fraction: Decimal, window_seconds: int, long_window_seconds: int) -> float:
    """
    The burn rate that spends *budget_fraction* of the budget in the long window.

    Source: The Site Reliability Workbook, ch. 5: factor = fraction × window / long window.
    """
    part, whole = budget_fraction.as_integer_ratio()
    return part * window_seconds / (whole * long_window_seconds)


def is_exhausted(counts: Counts, objective: Decimal) -> bool:
    """More was spent than allowed; exact, also where the float would round to 0."""
    share, whole = allowed_share(objective)
    return whole * counts.bad > share * counts.total


def is_low(counts: Counts, objective: Decimal, share_left: Decimal) -> bool:
    """Less than *share_left* of the budget remains; exact."""
    share, whole = allowed_share(objective)
    allowed, spent = share * counts.total, whole * counts.bad
    part, parts = share_left.as_integer_ratio()
    return (allowed - spent) * parts < part * allowed


def exhausts_in_seconds(remaining: float | None, burn_1h: float | None, window_seconds: int) -> float | None:
    """
    Seconds until nothing is left at the pace of the last hour.

    remaining_ratio × window / burn rate: 0 when exhausted, else None while the
    burn rate is 0 or unknown.
    """
    if remaining is None:
        return None
    if remaining < 0:
        return 0.0
    return remaining * window_seconds / burn_1h if burn_1h else None
