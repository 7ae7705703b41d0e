from collections.abc import Callable
from decimal import Decimal

import pytest

from slo_exporter.sli.condition import parse
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import Window, duration_ns


@pytest.fixture(scope="session")
def make_slo() -> Callable[..., Slo]:
    """An SLO of the service ``chat``: 99 % of requests within 80 ms over 30 days."""
    return _slo


def _slo(name: str = "latency", objective: str = "0.99", window: str = "30d", max_data_age: str = "15m") -> Slo:
    return Slo(
        service="chat",
        name=name,
        objective=Decimal(objective),
        window=Window(window, duration_ns(window) // 10**9),
        indicator=Indicator(Selector("chat"), parse("e2e <= 80ms")),
        max_data_age_ns=duration_ns(max_data_age),
    )
