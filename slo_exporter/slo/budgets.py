"""
The arithmetic of `budget` for many SLOs at once: the same floats, to the last bit.

Whole numbers below `_EXACT`, their products and differences are floats without
an error, and IEEE 754 rounds the quotient of two floats as Python rounds that of
two whole numbers: once, to the nearest. What is larger `budget` works out, one
by one. Undefined is NaN, which no defined number is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.counting import GOOD, TOTAL
from slo_exporter.sli.records import Ints, Mask
from slo_exporter.slo import budget
from slo_exporter.slo.budget import Counts

Floats: TypeAlias = NDArray[np.float64]

LOW_BUDGET: Final = Decimal("0.25")
"""Below this remaining ratio an SLO is at risk (docs/laws.md, law 2)."""

_EXACT: Final = 2.0**50
"""Four times a product below it, which `LOW_BUDGET` takes, is still whole in a float."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """The objectives of some SLOs, and 1 − each of them as a ratio of whole numbers."""

    decimals: tuple[Decimal, ...]
    share: Floats
    """Shape (s,): numerators; no more than `_EXACT`."""
    whole: Floats
    """Shape (s,): denominators; no more than `_EXACT`."""

    @classmethod
    def of(cls, decimals: Sequence[Decimal]) -> "Objectives":
        """Those of the SLOs in their order."""
        ratios = [[min(part, _EXACT) for part in budget.allowed_share(objective)] for objective in decimals]
        share, whole = np.array(ratios, dtype=np.float64).reshape(-1, 2).T
        return cls(tuple(decimals), share, whole)

    def take(self, rows: Ints) -> "Objectives":
        """Those of some SLOs, by row."""
        return Objectives(tuple(self.decimals[row] for row in rows.tolist()), self.share[rows], self.whole[rows])


@dataclass(frozen=True, slots=True)
class Budgets:
    """What `budget` says of some SLOs over windows of which the last is each SLO's own; NaN where that is None."""

    slis: Floats
    """Shape (w, s)."""
    burn_rates: Floats
    """Shape (w, s); those of the own windows are the `consumed_ratio` too."""
    allowed_bad: Floats
    """Shape (s,), as all that follow: of the own windows."""
    remaining_events: Floats
    remaining_ratio: Floats
    is_exhausted: Mask
    is_low: Mask
    """Less than `LOW_BUDGET` remains."""


def budgets(counts: Ints, objectives: Objectives) -> Budgets:
    """The budgets of SLOs from their counts, shape (w, s, 3), the own windows last."""
    total = counts[..., TOTAL].astype(np.float64)
    bad = (counts[..., TOTAL] - counts[..., GOOD]).astype(np.float64)
    allowed, spent = objectives.share * total, objectives.whole * bad
    left = allowed[-1] - spent[-1]
    parts, part = LOW_BUDGET.as_integer_ratio()[::-1]
    found = Budgets(
        slis=_ratio(counts[..., GOOD].astype(np.float64), total),
        burn_rates=_ratio(spent, allowed),
        allowed_bad=allowed[-1] / objectives.whole,
        remaining_events=left / objectives.whole,
        remaining_ratio=_ratio(left, allowed[-1]),
        is_exhausted=spent[-1] > allowed[-1],
        is_low=left * parts < part * allowed[-1],
    )
    # No product is larger, and none that reaches the bound is rounded below it.
    for window, row in np.argwhere(objectives.whole * total >= _EXACT).tolist():
        _one_by_one(found, counts, objectives.decimals[row], window, row)
    return found


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """NaN where there is nothing to divide by."""
    ratio: Floats = np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
    return ratio


def _one_by_one(found: Budgets, counts: Ints, objective: Decimal, window: int, row: int) -> None:
    """Put exact numbers in the place of those that floats may have got wrong."""
    exact = Counts(*counts[window, row].tolist())
    found.slis[window, row] = budget.sli(exact)
    found.burn_rates[window, row] = budget.burn_rate(exact, objective)
    if window == len(counts) - 1:
        left = budget.budget(exact, objective)
        found.allowed_bad[row], found.remaining_events[row] = left.allowed_bad, left.remaining_events
        found.remaining_ratio[row] = left.remaining_ratio
        found.is_exhausted[row] = budget.is_exhausted(exact, objective)
        found.is_low[row] = budget.is_low(exact, objective, LOW_BUDGET)
