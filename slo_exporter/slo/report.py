"""One SLO at one instant: every number of its budget, and its state."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import floor
from typing import Final

from slo_exporter.slo import budget
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

    @property
    def is_stale(self) -> bool:
        """The newest event is older than the SLO's ``max_data_age``."""
        return self.data_age_seconds is None or self.data_age_seconds * 1e9 > self.slo.max_data_age_ns


def share(ratio: float) -> str:
    """A ratio in percent, rounded down: what is left is never overstated."""
    return f"{floor(Decimal(repr(ratio)) * 1000) / 10:.1f}%"


def state_of(counts: Counts, objective: Decimal, coverage_ratio: float | None) -> State:
    """The state of an SLO (law 2)."""
    if not counts.total:
        return State.NO_DATA
    if budget.is_exhausted(counts, objective):
        return State.EXHAUSTED
    if coverage_ratio is None or coverage_ratio < LEAST_COVERAGE:
        return State.INSUFFICIENT_DATA
    if budget.is_low(counts, objective, LOW_BUDGET):
        return State.AT_RISK
    return State.OK


def reason_of(state: State, slo: Slo, counts: Counts, coverage_ratio: float | None) -> str:
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
        case State.AT_RISK:
            return f"{share(left.remaining_ratio or 0)} of the error budget remains, less than {LOW_BUDGET:.0%}"
        case State.OK:
            return f"{share(left.remaining_ratio or 0)} of the error budget remains"
