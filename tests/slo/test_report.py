from collections.abc import Callable
from decimal import Decimal

import pytest

from slo_exporter.slo.budget import Counts
from slo_exporter.slo.report import State, reason_of, state_of

OBJECTIVE = Decimal("0.99")
NOTHING, PERFECT, LITTLE, NONE_LEFT, TOO_MUCH = (
    Counts(0, 0),
    Counts(10_000, 10_000),
    Counts(9_924, 10_000),
    Counts(9_900, 10_000),
    Counts(9_899, 10_000),
)


@pytest.mark.parametrize(
    ("counts", "coverage", "state"),
    [
        (NOTHING, 1.0, State.NO_DATA),
        (NOTHING, 0.0, State.NO_DATA),
        (NOTHING, None, State.NO_DATA),
        (Counts(0, 0, 5), 1.0, State.NO_DATA),
        (TOO_MUCH, 1.0, State.EXHAUSTED),
        (TOO_MUCH, 0.1, State.EXHAUSTED),
        (TOO_MUCH, None, State.EXHAUSTED),
        (NONE_LEFT, 0.89, State.INSUFFICIENT_DATA),
        (LITTLE, 0.89, State.INSUFFICIENT_DATA),
        (PERFECT, 0.89, State.INSUFFICIENT_DATA),
        (PERFECT, 899 / 1000, State.INSUFFICIENT_DATA),
        (PERFECT, 0.0, State.INSUFFICIENT_DATA),
        (PERFECT, None, State.INSUFFICIENT_DATA),
        (NONE_LEFT, 0.9, State.AT_RISK),
        (LITTLE, 1.0, State.AT_RISK),
        (Counts(9_925, 10_000), 1.0, State.OK),
        (PERFECT, 466_560 / 518_400, State.OK),
        (PERFECT, 0.9, State.OK),
        (PERFECT, 1.0, State.OK),
    ],
)
def test_the_first_state_that_holds_is_the_state(counts: Counts, coverage: float | None, state: State) -> None:
    """no_data, exhausted, insufficient_data, at_risk, ok: in this order."""
    assert state_of(counts, OBJECTIVE, coverage) is state


def test_states_have_the_names_that_others_read() -> None:
    """In order of precedence."""
    assert [str(state) for state in State] == ["no_data", "exhausted", "insufficient_data", "at_risk", "ok"]


@pytest.mark.parametrize(
    ("state", "counts", "coverage", "says"),
    [
        (State.NO_DATA, NOTHING, 1.0, "no event was counted in 30d"),
        (State.EXHAUSTED, TOO_MUCH, 1.0, "101 bad events, 100 allowed in 30d"),
        (State.EXHAUSTED, Counts(9, 11), 1.0, "2 bad events, 0.11 allowed in 30d"),
        (State.INSUFFICIENT_DATA, PERFECT, 0.5, "coverage is 50.0%, 90% is needed"),
        (State.INSUFFICIENT_DATA, PERFECT, None, "coverage is 0.0%"),
        (State.AT_RISK, LITTLE, 1.0, "24.0% of the error budget remains, less than 25%"),
        (State.OK, PERFECT, 1.0, "100.0% of the error budget remains"),
    ],
)
def test_the_reason_says_why(
    make_slo: Callable, state: State, counts: Counts, coverage: float | None, says: str
) -> None:
    """One sentence with the numbers that decided."""
    assert says in reason_of(state, make_slo(), counts, coverage)
