"""
What the counts of an SLO say to its alerts: whether one should fire, and whether it is over.

Exact: whole numbers are compared with whole numbers. Where the counts cannot
say, the answer is None, and what is stays (docs/laws.md, law 2).
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from slo_exporter.slo.alerting import FAILURE_WINDOWS, MOST_GOOD, AlertRule
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.windows import BURN_WINDOWS


def holds(rule: AlertRule, counts: Mapping[str, Counts], objective: Decimal) -> bool | None:
    """
    Whether an alert should fire.

    Args:
        rule: the alert.
        counts: of one SLO, by window text; the windows of `BURN_WINDOWS`.
        objective: the SLO's.

    Returns:
        None when the counts cannot say: what was active stays so, what was not does not fire.
    """
    if rule.factor is None:
        window = failure_window(rule, counts)
        return None if window is None else not works(counts[window])
    long, short = counts[rule.long], counts[rule.short]
    verdicts = (
        (long.bad >= rule.min_bad_events and _exceeds(long, objective, rule.factor)) if long.total else None,
        _exceeds(short, objective, rule.factor) if short.total else None,
    )
    # What one window denies, no window that is empty can make true.
    return False if False in verdicts else None if None in verdicts else True


def is_over(rule: AlertRule, counts: Mapping[str, Counts], objective: Decimal, active_s: float) -> bool:
    """
    Whether an alert that has been active for so many seconds should end.

    A burn alert ends when it no longer holds. Total failure ends on news alone: in a
    window that began when it fired, or in the shortest, some event was good.
    """
    if rule.factor is None:
        return recovery_window(counts, active_s) is not None
    return holds(rule, counts, objective) is False


def works(counts: Counts) -> bool:
    """More than `MOST_GOOD` of the events are good; there is one."""
    return counts.good * MOST_GOOD.denominator > counts.total * MOST_GOOD.numerator


def failure_window(rule: AlertRule, counts: Mapping[str, Counts]) -> str | None:
    """
    The shortest window that tells whether hardly any event is good; None without one.

    It holds enough events, or good ones: an outage that a longer window still shows is over.
    """
    least = rule.min_bad_events
    return next((text for text in FAILURE_WINDOWS if counts[text].total >= least or works(counts[text])), None)


def recovery_window(counts: Mapping[str, Counts], active_s: float) -> str | None:
    """The shortest window that tells that total failure, active for so many seconds, is over; None without one."""
    longest = max(BURN_WINDOWS[FAILURE_WINDOWS[0]], active_s)
    fit = (text for text in FAILURE_WINDOWS if BURN_WINDOWS[text] <= longest)
    return next((text for text in fit if works(counts[text])), None)


def _exceeds(counts: Counts, objective: Decimal, factor: Fraction) -> bool:
    """Whether bad / total > factor × (1 − objective), exactly."""
    required, whole = objective.as_integer_ratio()
    return counts.bad * whole * factor.denominator > factor.numerator * (whole - required) * counts.total
