"""
The series that Sloth's dashboards read.

One series for each SLO and name, whatever is scraped twice: their queries divide
``on (sloth_id)``. What is undefined is absent, as in ours, and never NaN.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from slo_exporter.rules.model import Recording
from slo_exporter.rules.promql import EXACT, indented, number
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import BURN_WINDOWS

ERRORS: Final = "slo:sli_error:ratio_rate"
OWN: Final = "30d"
"""The dashboards read the compliance window by this name, whatever its length."""
_PERCENT: Final = (
    (r"0\\.([1-9])", "${1}0"),
    (r"0\\.([1-9][0-9])", "$1"),
    (r"0\\.([1-9][0-9])([0-9]+)", "$1.$2"),
    (r"0\\.0([0-9])", "$1"),
    (r"0\\.0([0-9])([0-9]+)", "$1.$2"),
)
"""Objectives from 0 to 1 as texts, and in percent."""


class Numbers(Protocol):
    """PromQL of the numbers of one SLO, or of all of them; a window of None is the compliance window."""

    def bad_share(self, window: str | None) -> str:
        """Bad events of all."""

    def burn_rate(self, window: str | None) -> str:
        """Speed of the budget."""

    def remaining(self) -> str:
        """Share of the budget that is left."""


def of_every_slo(gauges: Numbers) -> Iterator[Recording]:
    """Recordings of all SLOs that the exporter serves."""
    yield from _measured(gauges, _named, lambda expr: _named(expr, operator="min"), {})
    yield Recording(name="slo:objective:ratio", expr=_named("slo_objective_ratio"))
    yield Recording(name="slo:error_budget:ratio", expr=_rounded(f"1 - {_named('slo_objective_ratio')}"))
    yield Recording(name="slo:time_period:days", expr=_named("slo_window_seconds / 86400"))
    info = "slo_info"
    for pattern, percent in _PERCENT:
        info = f'label_replace(\n{indented(info)},\n"sloth_objective", "{percent}", "objective", "{pattern}")'
    yield Recording(
        name="sloth_slo_info",
        expr=_named(info, "sloth_objective"),
        labels={"sloth_mode": "exporter", "sloth_spec": "slo-exporter/v1", "sloth_version": "slo-exporter"},
    )


def of_one_slo(numbers: Numbers, slo: Slo, labels: Mapping[str, str]) -> Iterator[Recording]:
    """Recordings of one SLO, its objective written in."""
    mine = {**labels, **sloth_labels(slo)}
    yield from _measured(numbers, lambda expr: f"max({expr})", lambda expr: f"min({expr})", mine)
    promised = {
        "slo:objective:ratio": number(slo.objective),
        "slo:error_budget:ratio": number(1 - slo.objective),
        "slo:time_period:days": number_of_days(slo.window.seconds),
    }
    for name, value in promised.items():
        yield Recording(name=name, expr=f"vector({value})", labels=mine)
    info = {
        "sloth_mode": "exporter",
        "sloth_objective": f"{(slo.objective * 100).normalize():f}",
        "sloth_spec": "slo-exporter/v1",
        "sloth_version": "slo-exporter",
    }
    yield Recording(name="sloth_slo_info", expr="vector(1)", labels={**mine, **info})


def sloth_labels(slo: Slo) -> Mapping[str, str]:
    """By which Sloth knows an SLO."""
    return {"sloth_id": sloth_id(slo), "sloth_service": slo.service, "sloth_slo": slo.name}


def sloth_id(slo: Slo) -> str:
    """Of two SLOs it may be the same: a-b of service c, and b of service c-a."""
    return f"{slo.service}-{slo.name}"


def number_of_days(seconds: int) -> str:
    """Whole or not."""
    return f"{seconds / 86400:.12g}"


def _measured(
    numbers: Numbers, most: Callable[[str], str], least: Callable[[str], str], labels: Mapping[str, str]
) -> Iterator[Recording]:
    """Of several nodes that have the same SLO the worst: the largest error, and the least that is left."""
    for name, window in (*((text, text) for text in BURN_WINDOWS), (OWN, None)):
        ratio = _rounded(most(numbers.bad_share(window)))
        yield Recording(name=f"{ERRORS}{name}", expr=ratio, labels={**labels, "sloth_window": name})
    yield Recording(name="slo:current_burn_rate:ratio", expr=most(numbers.burn_rate("5m")), labels=labels)
    yield Recording(name="slo:period_burn_rate:ratio", expr=most(numbers.burn_rate(None)), labels=labels)
    yield Recording(name="slo:period_error_budget_remaining:ratio", expr=least(numbers.remaining()), labels=labels)


def named(expr: str) -> str:
    """With Sloth's labels beside its own."""
    labels = '"sloth_id", "-", "service", "slo"), "sloth_service", "", "service"), "sloth_slo", "", "slo")'
    return f"label_join(label_join(label_join(\n{indented(expr)},\n{labels}"


def _named(expr: str, *further: str, operator: str = "max") -> str:
    """Under Sloth's labels and no other."""
    by = ", ".join(("sloth_id", "sloth_service", "sloth_slo", *further))
    return f"{operator} by ({by}) (\n{indented(named(expr))}\n)"


def _rounded(expr: str) -> str:
    return f"round({expr}, {EXACT})"
