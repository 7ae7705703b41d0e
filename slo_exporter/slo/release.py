"""May we release now? A decision from budget reports, with its reasons."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slo_exporter.slo.report import LEAST_COVERAGE, BudgetReport, State, share


class Decision(StrEnum):
    """The answer. Undecided is not allowed: the data cannot say."""

    ALLOW = "allow"
    DENY = "deny"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one SLO speaks against a release, or cannot speak."""

    slo: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class ReleaseCheck:
    """A decision over the SLOs of a service."""

    decision: Decision
    reasons: tuple[Reason, ...]
    reports: tuple[BudgetReport, ...]

    @property
    def allowed(self) -> bool | None:
        """True, False, or None when undecided."""
        return {Decision.ALLOW: True, Decision.DENY: False}.get(self.decision)


DENYING: Final = frozenset({"exhausted", "below_minimum"})
"""Reason codes that deny; every other one leaves the decision open."""


def check(reports: Sequence[BudgetReport], min_remaining: float = 0.0) -> ReleaseCheck:
    """
    Decide over *reports*: any that denies denies, else any that cannot decide leaves it undecided.

    Args:
        reports: at least one.
        min_remaining: the least remaining_ratio that allows a release.

    Raises:
        ValueError: nothing to judge; a gate does not open for want of SLOs.
    """
    if not reports:
        raise ValueError("a release check needs at least one SLO")
    reasons = tuple(reason for report in reports for reason in _reasons(report, min_remaining))
    if any(reason.code in DENYING for reason in reasons):
        decision = Decision.DENY
    else:
        decision = Decision.UNDECIDED if reasons else Decision.ALLOW
    return ReleaseCheck(decision, reasons, tuple(reports))


def _reasons(report: BudgetReport, min_remaining: float) -> Iterable[Reason]:
    name = report.slo.name
    if report.state is State.NO_DATA:
        yield Reason(name, "no_data", report.reason)
        return
    remaining = report.budget.remaining_ratio
    if report.state is State.EXHAUSTED:
        yield Reason(name, "exhausted", report.reason)
    elif remaining is not None and remaining < min_remaining:
        least = f"{min_remaining * 100:.12g}%"
        yield Reason(name, "below_minimum", f"{share(remaining)} of the error budget remains, {least} is the minimum")
    if report.is_stale:
        yield Reason(name, "stale", f"the newest event is {_age(report)}")
    if report.coverage_ratio is None or report.coverage_ratio < LEAST_COVERAGE:
        coverage = share(report.coverage_ratio or 0)
        yield Reason(name, "insufficient_data", f"coverage is {coverage}, {LEAST_COVERAGE:.0%} is needed")


def _age(report: BudgetReport) -> str:
    if report.data_age_seconds is None:
        return "of unknown age"
    return f"{report.data_age_seconds:.0f} s old, more than {report.slo.max_data_age_ns / 1e9:.0f} s"
