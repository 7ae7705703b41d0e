"""The series that Pyrra's dashboards read: one for each SLO and name, by the label ``slo`` alone."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from slo_exporter.rules.model import Recording
from slo_exporter.rules.promql import EXACT, Wanted, number
from slo_exporter.slo.definition import Slo


class Numbers(Protocol):
    """PromQL of the numbers of one SLO, or of all of them."""

    def good_share(self) -> str:
        """The SLI of the compliance window."""

    def events_a_second(self, outcomes: Wanted) -> str:
        """Over five minutes, by outcome."""


def of_every_slo(gauges: Numbers) -> Iterator[Recording]:
    """Recordings of all SLOs that the exporter serves."""
    yield Recording(name="pyrra_objective", expr=_named("max", "slo_objective_ratio"))
    yield Recording(name="pyrra_window", expr=_named("max", "slo_window_seconds"))
    yield Recording(name="pyrra_availability", expr=_named("min", gauges.good_share()))
    yield Recording(name="pyrra_requests:rate5m", expr=_named("sum", gauges.events_a_second(("good", "bad"))))
    yield Recording(name="pyrra_errors:rate5m", expr=_named("sum", gauges.events_a_second("bad")))


def of_one_slo(numbers: Numbers, slo: Slo, labels: Mapping[str, str]) -> Iterator[Recording]:
    """Recordings of one SLO, its objective written in."""
    mine = {**labels, "slo": f"{slo.service}/{slo.name}"}
    requests, errors = numbers.events_a_second(("good", "bad")), numbers.events_a_second("bad")
    for name, expr in {
        "pyrra_objective": f"vector({number(slo.objective)})",
        "pyrra_window": f"vector({slo.window.seconds})",
        "pyrra_availability": f"round(min({numbers.good_share()}), {EXACT})",
        "pyrra_requests:rate5m": f"sum({requests})",
        # An outcome without a series is none.
        "pyrra_errors:rate5m": f"sum({errors}) or 0 * sum({requests})",
    }.items():
        yield Recording(name=name, expr=expr, labels=mine)


def _named(operator: str, expr: str) -> str:
    return f'{operator} by (slo) (label_join({expr}, "slo", "/", "service", "slo"))'
