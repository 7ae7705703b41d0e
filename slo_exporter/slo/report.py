"""One SLO at one instant: every number of its budget, and its state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import floor
from typing import Final

from slo_exporter.slo import alerting, budget
from slo_exporter.slo.alerting import AlertKey, AlertRule
from slo_exporter.slo.budget import Budget, Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import Range

LEAST_COVERAGE: Final = 0.9
"""Below this coverage the data is not enough to judge (law 2)."""
LOW_BUDGET: Final = Decimal("0.25")
"""Below this remaining ratio an SLO is at risk (law 2)."""


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
    """The long window; where every event failed, the one that tells, empty without one."""
    burn_long: float | None
    burn_short: float | None
    """None where every event failed."""
    bad_events: int
    """In the long window."""

    @property
    def is_active(self) -> bool:
        """It fires."""
        return self.since_ns is not None


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
) -> tuple[AlertReport, ...]:
    """Report on the alerts of an SLO, from counts and burn rates by window text, and since when active ones are."""
    return tuple(_alert_report(rule, slo.objective, counts, burn_rates, active.get(rule.key)) for rule in rules)


def alert_report(
    rule: AlertRule, objective: Decimal, counts: Mapping[str, Counts], since_ns: int | None
) -> AlertReport:
    """Report on one alert, active since *since_ns*; None while it is not."""
    burn_rates = {text: budget.burn_rate(c, objective) for text, c in counts.items()}
    return _alert_report(rule, objective, counts, burn_rates, since_ns)


def _alert_report(
    rule: AlertRule,
    objective: Decimal,
    counts: Mapping[str, Counts],
    burn_rates: Mapping[str, float | None],
    since_ns: int | None,
) -> AlertReport:
    long = rule.long or alerting.failure_window(rule, counts) or ""
    return AlertReport(
        rule=rule,
        since_ns=since_ns,
        holds=alerting.holds(rule, counts, objective),
        long=long,
        burn_long=burn_rates[long] if long else None,
        burn_short=burn_rates[rule.short] if rule.short else None,
        bad_events=counts[long].bad if long else 0,
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
    state: State, slo: Slo, counts: Counts, coverage_ratio: float | None, burning: Sequence[AlertReport] = ()
) -> str:
    """One sentence that says why the state is what it is."""
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
        case State.AT_RISK if burning:
            return alert_reason(burning[0])
        case _:
            least = f", less than {LOW_BUDGET:.0%}" if state is State.AT_RISK else ""
            return f"{share(left.remaining_ratio or 0)} of the error budget remains{least}"


def alert_reason(alert: AlertReport) -> str:
    """One sentence that says why an alert is active, or why it stays so."""
    rule = alert.rule
    if alert.holds is None:
        return f"a {rule.severity} alert ({rule.tier}) stays active: there is no data to end it"
    if rule.factor is None or alert.burn_long is None:
        return f"every event failed: {alert.bad_events} in {alert.long or alert.rule.long}"
    return (
        f"the budget burns at {alert.burn_long:.3g} over {rule.long}, a {rule.severity} alert ({rule.tier}) "
        f"is active above {float(rule.factor):.3g}"
    )


def alert_end(alert: AlertReport) -> str:
    """One sentence that says why an alert ended."""
    rule = alert.rule
    if rule.factor is None:
        return f"not every event failed in {alert.long}"
    if alert.bad_events < rule.min_bad_events:
        return f"{alert.bad_events} bad in {rule.long}, {rule.min_bad_events} are needed"
    burns = ((alert.burn_short, rule.short), (alert.burn_long, rule.long))
    known = [(burn, window) for burn, window in burns if burn is not None]
    burn, window = min(known, key=lambda one: one[0], default=(0.0, rule.short))
    return f"the budget burns at {burn:.3g} over {window}, not above {float(rule.factor):.3g}"
