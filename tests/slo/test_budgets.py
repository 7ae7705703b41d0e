"""Columns say what the scalar arithmetic says, to the last bit."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.slo import budget
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.budgets import LOW_BUDGET, Objectives, budgets

objectives = st.one_of(
    st.sampled_from([Decimal("0.99"), Decimal("0.999"), Decimal("0.5"), Decimal("0.9995")]),
    st.decimals("1e-12", "0.999999999999", allow_nan=False),
    # Rounded to 28 digits the largest of them would be 1, which no objective is.
    st.integers(1, 10**40 - 1).map(lambda digits: Decimal(digits).scaleb(-40)).filter(lambda one: one < 1),
)
events = st.one_of(st.integers(0, 50), st.integers(0, 2**40), st.integers(0, 2**62))


@st.composite
def counted(draw: st.DrawFn) -> tuple[Decimal, list[Counts]]:
    """An objective, and the counts of its SLO in three windows."""
    totals = draw(st.lists(events, min_size=3, max_size=3))
    return draw(objectives), [Counts(draw(st.integers(0, total)), total, draw(events)) for total in totals]


@given(st.lists(counted(), max_size=8))
def test_every_number_is_the_float_that_the_scalar_arithmetic_gives(slos: list[tuple[Decimal, list[Counts]]]) -> None:
    """Bit for bit, however large the counts and however long the objectives are."""
    table = [[(c.good, c.total, c.excluded) for c in counts] for _, counts in slos]
    counts = np.array(table, dtype=np.int64).reshape(-1, 3, 3).transpose(1, 0, 2)
    found = budgets(counts, Objectives.of([objective for objective, _ in slos]))
    for row, (objective, of_slo) in enumerate(slos):
        assert _plain(found.slis[:, row]) == [budget.sli(c) for c in of_slo]
        assert _plain(found.burn_rates[:, row]) == [budget.burn_rate(c, objective) for c in of_slo]
        own = budget.budget(of_slo[-1], objective)
        numbers = (found.allowed_bad[row], found.remaining_events[row], found.remaining_ratio[row])
        assert _plain(np.array(numbers)) == [own.allowed_bad, own.remaining_events, own.remaining_ratio]
        assert _plain(found.burn_rates[-1:, row]) == [own.consumed_ratio]
        assert found.is_exhausted[row] == budget.is_exhausted(of_slo[-1], objective)
        assert found.is_low[row] == budget.is_low(of_slo[-1], objective, LOW_BUDGET)


@pytest.mark.parametrize("bad", [0, 1, 2**52, 2**61])
def test_products_that_no_float_holds_are_exact(bad: int) -> None:
    """One bad event too many among 2**62 is still one too many."""
    counts = Counts(2**62 - bad, 2**62)
    objective = Decimal(1) - Decimal(bad) / Decimal(2**62) if bad else Decimal("0.9999999999999999999999")
    found = budgets(np.array([[[counts.good, counts.total, 0]]]), Objectives.of([objective]))
    assert found.is_exhausted[0] == budget.is_exhausted(counts, objective)
    assert _plain(found.remaining_ratio) == [budget.budget(counts, objective).remaining_ratio]


def test_some_rows_are_those_rows() -> None:
    """In the order asked for."""
    every = Objectives.of([Decimal("0.9"), Decimal("0.99"), Decimal("0.999")])
    some = every.take(np.array([2, 0]))
    assert some.decimals == (Decimal("0.999"), Decimal("0.9"))
    assert (some.share.tolist(), some.whole.tolist()) == ([1, 1], [1000, 10])


def _plain(numbers: np.ndarray) -> list[float | None]:
    return [None if np.isnan(number) else number for number in numbers.tolist()]
