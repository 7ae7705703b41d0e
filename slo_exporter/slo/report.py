"""One SLO at one instant: every number of its budget, and its state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import floor
from typing import Final

from slo_exporter.slo import budget, burning
from slo_exporter.slo.alerting import AlertKey, AlertRule, burn_text
from slo_exporter.slo.budget import Budget, Counts
from slo_exporter.slo.budgets import LOW_BUDGET
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import Range

LEAST_COVERAGE: Final = 0.9
"""Below this coverage the data is not enough to judge (law 2)."""

_SECOND_NS: Final = 10**9
_MOST_DIGITS: Final = 17
"""As many as a float has."""


class State(StrEnum):
    """What the numbers mean; the first that holds, in this order (law 2)."""

    NO_DATA = "no_data"
    EXHAUSTED = "exhausted"
    INSUFFICIENT_DATA = "insufficient_data"
    AT_RISK = "at_risk"
    OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertReport:
    """One alert of an SLO at one instant."""

    rule: AlertRule
    since_ns: int | None
    """Active since; None while it is not."""
    holds: bool | None
    """What the counts say now; None when they cannot: then it stays as it was."""
    long: str
    """The long window; of total failure the one that tells, empty without one."""
    burn_long: float | None
    burn_short: float | None
    """None of total failure."""
    bad_events: int
    """In the long window."""
    events: int = 0
    """In the long window."""

    @property
    def is_active(self) -> bool:
        """It fires."""
        return self.since_ns is not None

    @property
    def is_frozen(self) -> bool:
        """It is active, and not because the counts call for it now."""
        return self.is_active and self.holds is not True


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """What `GET …/budget` answers, as values."""

    slo: Slo
    span: Range
    counts: Counts
    sli: float | None
    budget: Budget
    burn_rates: Mapping[str, float | None]
    """By window text ``5m`` … ``3d`` and ``window``."""
    slis: Mapping[str, float | None]
    """By the same window texts."""
    exhausts_in_seconds: float | None
    coverage_ratio: float | None
    as_of_ns: int
    """Until when the counts are complete: now, or when the receivers last accepted."""
    data_age_seconds: float | None
    """now − end of the newest counted event; None before the first."""
    state: State
    reason: str
    bad_events: Mapping[str, int]
    """By window text, as burn rates are."""
    alerts: tuple[AlertReport, ...]
    """One for each of the SLO's `alert_rules`."""

    @property
    def is_stale(self) -> bool:
        """The newest event is older than the SLO's ``max_data_age``."""
        return self.data_age_seconds is None or self.data_age_seconds * 1e9 > self.slo.max_data_age_ns


def share(ratio: float) -> str:
    """A ratio in percent, rounded down: what is left is never overstated."""
    return f"{floor(Decimal(repr(ratio)) * 1000) / 10:.1f}%"


def alert_reports(
    slo: Slo,
    rules: Sequence[AlertRule],
    counts: Mapping[str, Counts],
    burn_rates: Mapping[str, float | None],
    active: Mapping[AlertKey, int],
    now_ns: int,
) -> tuple[AlertReport, ...]:
    """Report on the alerts of an SLO, from counts and burn rates by window text, and since when active ones are."""
    return tuple(_alert_report(rule, slo.objective, counts, burn_rates, active.get(rule.key), now_ns) for rule in rules)


def alert_report(
    rule: AlertRule, objective: Decimal, counts: Mapping[str, Counts], since_ns: int | None, now_ns: int
) -> AlertReport:
    """Report on one alert, active since *since_ns*; None while it is not."""
    burn_rates = {text: budget.burn_rate(c, objective) for text, c in counts.items()}
    return _alert_report(rule, objective, counts, burn_rates, since_ns, now_ns)


def _alert_report(
    rule: AlertRule,
    objective: Decimal,
    counts: Mapping[str, Counts],
    burn_rates: Mapping[str, float | None],
    since_ns: int | None,
    now_ns: int,
) -> AlertReport:
    holds, long = burning.holds(rule, counts, objective), rule.long
    if rule.factor is None:
        long = burning.failure_window(rule, counts) or ""
        if since_ns is not None:
            # It ends otherwise than it fires.
            over = burning.recovery_window(counts, (now_ns - since_ns) / _SECOND_NS)
            holds, long = (False, over) if over else (holds or None, long)
    return AlertReport(
        rule=rule,
        since_ns=since_ns,
        holds=holds,
        long=long,
        burn_long=burn_rates[long] if long else None,
        burn_short=burn_rates[rule.short] if rule.short else None,
        bad_events=counts[long].bad if long else 0,
        events=counts[long].total if long else 0,
    )


def state_of(counts: Counts, objective: Decimal, coverage_ratio: float | None, *, is_burning: bool = False) -> State:
    """The state of an SLO (law 2); it is burning while an alert of it is active."""
    if not counts.total:
        return State.NO_DATA
    if budget.is_exhausted(counts, objective):
        return State.EXHAUSTED
    if coverage_ratio is None or coverage_ratio < LEAST_COVERAGE:
        return State.INSUFFICIENT_DATA
    if is_burning or budget.is_low(counts, objective, LOW_BUDGET):
        return State.AT_RISK
    return State.OK


def reason_of(
    state: State, slo: Slo, counts: Counts, coverage_ratio: float | None, alerts: Sequence[AlertReport] = ()
) -> str:
    """One sentence that says why the state is what it is; *alerts* are the active ones."""
    left = budget.budget(counts, slo.objective)
    match state:
        case State.NO_DATA if slo.indicator.timeslice_s:
            return f"no slice was judged in {slo.window.text}"
        case State.NO_DATA:
            return f"no event was counted in {slo.window.text}"
        case State.EXHAUSTED:
            event = "slice" if slo.indicator.timeslice_s else "event"
            bad = f"{counts.bad} bad {event}{'' if counts.bad == 1 else 's'}"
            return f"{bad}, {left.allowed_bad:.12g} allowed in {slo.window.text}"
        case State.INSUFFICIENT_DATA:
            return f"coverage is {share(coverage_ratio or 0)}, {LEAST_COVERAGE:.0%} is needed"
        case State.AT_RISK if alerts:
            return alert_reason(alerts[0])
        case _:
            least = f", less than {LOW_BUDGET:.0%}" if state is State.AT_RISK else ""
            return f"{share(left.remaining_ratio or 0)} of the error budget remains{least}"


_STAYS: Final = {
    None: "stays active: there is no data to end it",
    False: "is active: the counts no longer call for it, and it was not judged again yet",
}
"""By what the counts say."""


def alert_reason(alert: AlertReport) -> str:
    """One sentence that says why an alert is active, or why it stays so."""
    rule = alert.rule
    whose = f"a {rule.severity} alert ({rule.tier})"
    if not alert.holds:
        return f"{whose} {_STAYS[alert.holds]}"
    if rule.factor is None:
        return f"hardly any event was good: {_good_events(alert)}"
    burns, factor = _above(alert, rule.factor)
    return f"the budget burns at {burns}, {whose} is active above {factor}"


def alert_end(alert: AlertReport) -> str:
    """One sentence that says why an alert ended, from what it was when it did."""
    rule = alert.rule
    if rule.factor is None:
        return f"events are good again: {_good_events(alert)}" if alert.holds is False and alert.long else _NOTHING_LEFT
    if alert.bad_events < rule.min_bad_events:
        return f"{alert.bad_events} bad in {rule.long}, {rule.min_bad_events} are needed"
    if alert.holds is None:
        return _NOTHING_LEFT
    burns = ((alert.burn_short, rule.short), (alert.burn_long, rule.long))
    burn, window = min(((burn, window) for burn, window in burns if burn is not None), key=lambda one: one[0])
    return f"the budget burns at {burn_text(burn)} over {window}, not above {burn_text(rule.factor)}"


_NOTHING_LEFT: Final = "a correction took out what it was about"


def _above(alert: AlertReport, factor: Fraction) -> tuple[str, str]:
    """Both burn rates, ``20 over 1h and 18 over 5m``, and the factor, in digits enough to read as more than it."""
    burns = ((alert.burn_long, alert.rule.long), (alert.burn_short, alert.rule.short))
    known = [(burn, window) for burn, window in burns if burn is not None]
    least = min(burn for burn, _ in known)
    digits = next((d for d in range(3, _MOST_DIGITS) if f"{least:.{d}g}" != f"{float(factor):.{d}g}"), _MOST_DIGITS)
    told = " and ".join(f"{burn_text(burn, digits)} over {window}" for burn, window in known)
    return told, burn_text(factor, digits)


def _good_events(alert: AlertReport) -> str:
    """How many of the window that tells: ``0 of 30 in 5m``."""
    return f"{alert.events - alert.bad_events:,} of {alert.events:,} in {alert.long}"
