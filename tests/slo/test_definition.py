from collections.abc import Callable
from decimal import Decimal

import pytest

from slo_exporter.slo.definition import Slo


@pytest.mark.parametrize("objective", ["0", "1", "-0.1", "1.1", "99", "NaN", "sNaN", "Infinity", "-Infinity"])
def test_an_objective_is_strictly_between_nothing_and_all(make_slo: Callable, objective: str) -> None:
    """0 asks for nothing, 1 leaves no budget, and what is no number is refused."""
    with pytest.raises(ValueError, match="must be strictly between 0 and 1"):
        make_slo(objective=objective)


@pytest.mark.parametrize("objective", ["0.000001", "0.5", "0.99999"])
def test_an_objective_is_kept_exactly(make_slo: Callable, objective: str) -> None:
    """It stays the Decimal that its author wrote."""
    assert make_slo(objective=objective).objective == Decimal(objective)


def test_service_and_name_are_the_key(make_slo: Callable) -> None:
    """Names repeat across services only."""
    assert make_slo("latency").key == ("chat", "latency")


def test_data_may_be_a_quarter_of_an_hour_old(make_slo: Callable) -> None:
    """That is the default of ``max_data_age``."""
    slo = make_slo()
    plain = Slo(service="chat", name="a", objective=slo.objective, window=slo.window, indicator=slo.indicator)
    assert plain.max_data_age_ns == 15 * 60 * 10**9
