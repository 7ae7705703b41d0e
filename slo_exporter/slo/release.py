"""
May we release now? A decision from budget reports, with its reasons.

Each SLO is judged by the policy of its service; what whoever asks says wins
over it. A reason says what it does to the decision: any that denies denies,
else any that cannot decide leaves it open. Somebody may override that; the
reasons stay, and say that they were overridden.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from slo_exporter.slo import budget
from slo_exporter.slo.alerting import Severity
from slo_exporter.slo.policy import OnNoData, ReleasePolicy
from slo_exporter.slo.report import LEAST_COVERAGE, BudgetReport, State, alert_reason, share

BURN_WINDOW: Final = "1h"
"""The window of ``max_burn_1h``."""


class Decision(StrEnum):
    """The answer. Undecided is not allowed: the data cannot say."""

    ALLOW = "allow"
    DENY = "deny"
    UNDECIDED = "undecided"


class Code(StrEnum):
    """What a reason is about."""

    EXHAUSTED = "exhausted"
    BELOW_MINIMUM = "below_minimum"
    BURN_TOO_HIGH = "burn_too_high"
    ALERT_ACTIVE = "alert_active"
    NO_DATA = "no_data"
    STALE = "stale"
    INSUFFICIENT_DATA = "insufficient_data"
    OVERRIDDEN = "overridden"


class Effect(StrEnum):
    """What a reason does to the decision."""

    DENIES = "denies"
    UNDECIDED = "undecided"
    """It cannot decide."""
    IGNORED = "ignored"
    """It could not decide, and the policy is to go on."""
    OVERRIDDEN = "overridden"
    """It would deny, or leave the decision open."""
    ALLOWS = "allows"


WITHOUT_DATA: Final = frozenset({Code.NO_DATA, Code.STALE, Code.INSUFFICIENT_DATA})
"""Codes that cannot decide; ``on_no_data`` says what becomes of them."""

_WITHOUT_DATA: Final[Mapping[OnNoData, Effect]] = MappingProxyType(
    {OnNoData.DENY: Effect.DENIES, OnNoData.UNDECIDED: Effect.UNDECIDED, OnNoData.ALLOW: Effect.IGNORED}
)
_STRICTEST: Final = tuple(OnNoData)
"""The strictest first."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one SLO speaks against a release, or cannot speak; or why that does not matter."""

    slo: str
    """Empty for an override: it is about the service."""
    code: Code
    message: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Asked:
    """What whoever asks says; None leaves it to the policy of the service."""

    min_remaining: Decimal | None = None
    max_burn_1h: Decimal | None = None
    on_no_data: OnNoData | None = None

    def over(self, policy: ReleasePolicy) -> ReleasePolicy:
        """*policy* with what was said in its place."""
        return ReleasePolicy(
            policy.min_remaining if self.min_remaining is None else self.min_remaining,
            policy.max_burn_1h if self.max_burn_1h is None else self.max_burn_1h,
            self.on_no_data or policy.on_no_data,
        )


@dataclass(frozen=True, slots=True)
class Override:
    """Somebody wants the release whatever the budgets say."""

    who: str
    """The name of the write token."""
    why: str


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """A decision over the SLOs of a service."""

    decision: Decision
    reasons: tuple[Reason, ...]
    reports: tuple[BudgetReport, ...]
    policy: ReleasePolicy
    """What was asked of the SLOs: where theirs differ, the strictest."""
    override: Override | None = None

    @property
    def allowed(self) -> bool | None:
        """True, False, or None when undecided."""
        return {Decision.ALLOW: True, Decision.DENY: False}.get(self.decision)

    @property
    def is_overridden(self) -> bool:
        """Without the override the decision would be another one."""
        return any(reason.code is Code.OVERRIDDEN for reason in self.reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionMade:
    """A decision that is kept, with its inputs."""

    id: int
    at_ns: int
    who: str
    """The name of the write token."""
    service: str
    decision: Decision
    override: str | None
    """Why it was overridden; None when it was not."""
    answer: str
    """JSON text of what was answered."""


_NOTHING: Final = Asked()


def check(reports: Sequence[BudgetReport], asked: Asked = _NOTHING, override: Override | None = None) -> ReleaseCheck:
    """
    Decide over *reports*: any that denies denies, else any that cannot decide leaves it undecided.

    Args:
        reports: at least one.
        asked: what wins over the policy of each SLO.
        override: who lets the release pass all the same, and why.

    Raises:
        ValueError: nothing to judge; a gate does not open for want of SLOs.
    """
    if not reports:
        raise ValueError("a release check needs at least one SLO")
    policies = [asked.over(report.slo.release) for report in reports]
    judged = [reason for report, policy in zip(reports, policies, strict=True) for reason in _reasons(report, policy)]
    reasons = judged if override is None else _overridden(judged, override)
    return ReleaseCheck(_decision(reasons), tuple(reasons), tuple(reports), _strictest(policies), override)


def _decision(reasons: Sequence[Reason]) -> Decision:
    effects = {reason.effect for reason in reasons}
    if Effect.DENIES in effects:
        return Decision.DENY
    return Decision.UNDECIDED if Effect.UNDECIDED in effects else Decision.ALLOW


def _overridden(reasons: Sequence[Reason], override: Override) -> list[Reason]:
    """The same reasons without their effect, and who took it; nothing new where they have none."""
    left = [
        replace(reason, effect=Effect.OVERRIDDEN) if reason.effect in (Effect.DENIES, Effect.UNDECIDED) else reason
        for reason in reasons
    ]
    if left == reasons:
        return left
    return [*left, Reason("", Code.OVERRIDDEN, f"{override.who} allows it: {override.why}", Effect.ALLOWS)]


def _strictest(policies: Sequence[ReleasePolicy]) -> ReleasePolicy:
    burns = [policy.max_burn_1h for policy in policies if policy.max_burn_1h is not None]
    return ReleasePolicy(
        max(policy.min_remaining for policy in policies),
        min(burns, default=None),
        min((policy.on_no_data for policy in policies), key=_STRICTEST.index),
    )


def _reasons(report: BudgetReport, policy: ReleasePolicy) -> Iterator[Reason]:
    for code, message in _findings(report, policy):
        effect = _WITHOUT_DATA[policy.on_no_data] if code in WITHOUT_DATA else Effect.DENIES
        yield Reason(report.slo.name, code, message, effect)


def _findings(report: BudgetReport, policy: ReleasePolicy) -> Iterator[tuple[Code, str]]:
    if report.state is State.NO_DATA:
        yield Code.NO_DATA, report.reason
        yield from _alerts(report)
        return
    yield from _left(report, policy.min_remaining)
    if policy.max_burn_1h is not None:
        yield from _burning(report, policy.max_burn_1h)
    yield from _alerts(report)
    if report.is_stale:
        yield Code.STALE, f"the newest event {_age(report)}"
    if report.coverage_ratio is None or report.coverage_ratio < LEAST_COVERAGE:
        coverage = share(report.coverage_ratio or 0)
        yield Code.INSUFFICIENT_DATA, f"coverage is {coverage}, {LEAST_COVERAGE:.0%} is needed"


def _left(report: BudgetReport, least: Decimal) -> Iterator[tuple[Code, str]]:
    if report.state is State.EXHAUSTED:
        yield Code.EXHAUSTED, report.reason
    elif least and budget.is_low(report.counts, report.slo.objective, least):
        left = share(report.budget.remaining_ratio or 0)
        spent = f"{_bad(report, report.counts.bad)}, {report.budget.allowed_bad:.12g} allowed"
        enough = f"{float(least) * 100:.12g}% is the minimum"
        yield (
            Code.BELOW_MINIMUM,
            f"{left} of the error budget remains, {enough}: {spent} in {report.slo.window.text}",
        )


def _burning(report: BudgetReport, most: Decimal) -> Iterator[tuple[Code, str]]:
    burn, limit = report.burn_rates[BURN_WINDOW], f"{float(most):.12g} is the most"
    if burn is None:
        # Old data is said to be stale already.
        if not report.is_stale:
            yield Code.NO_DATA, f"nothing was counted in {BURN_WINDOW}, so its burn rate is unknown; {limit}"
    elif burn > float(most):  # both are the floats next to the exact numbers
        bad = _bad(report, report.bad_events[BURN_WINDOW])
        yield Code.BURN_TOO_HIGH, f"the budget burns at {_above(burn, float(most))} over 1h, {limit}: {bad}"


def _alerts(report: BudgetReport) -> Iterator[tuple[Code, str]]:
    """Pages that are active; a ticket is no reason to stop."""
    for alert in report.alerts:
        if alert.is_active and alert.rule.severity is Severity.PAGE:
            yield Code.ALERT_ACTIVE, alert_reason(alert)


def _bad(report: BudgetReport, number: int) -> str:
    event = "slice" if report.slo.indicator.timeslice_s else "event"
    return f"{number} bad {event}{'' if number == 1 else 's'}"


def _above(number: float, limit: float) -> str:
    """A number in three digits, or in as many as it takes to be above its limit."""
    short = f"{number:.3g}"
    return short if float(short) > limit else f"{number:.12g}"


def _age(report: BudgetReport) -> str:
    if report.data_age_seconds is None:
        return "ends after now: was the clock set back?"
    return f"is {report.data_age_seconds:.0f} s old, more than {report.slo.max_data_age_ns / 1e9:.0f} s"
