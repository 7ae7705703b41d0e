"""
From what the board knows to samples, by metric name of the catalogue.

Pure: values of one instant in, labelled numbers out. A number that is
undefined leaves no sample.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Final

from slo_exporter.sli.records import Outcome
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.report import BudgetReport, State
from slo_exporter.web import wording
from slo_exporter.web.board import Readings
from slo_exporter.web.metrics.catalogue import LONGEST_LABEL, Metric
from slo_exporter.web.metrics.requests import RequestSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Everything that one scrape shows."""

    reports: Sequence[BudgetReport]
    totals: Sequence[tuple[Slo, Counts]]
    requests: RequestSnapshot
    readings: Readings
    version: str
    ready: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """One number and its labels."""

    labels: Mapping[str, str]
    value: float


_Values = Iterable[tuple[tuple[str, ...], float | None]]
"""Label values in the order of the catalogue, and the number if there is one."""


def samples(metric: Metric, scrape: Scrape) -> list[Sample]:
    """The samples of a metric that is no histogram."""
    if metric.name == "slo_info":
        return [_slo_info(report.slo) for report in scrape.reports]
    return [
        Sample(dict(zip(metric.labels, labels, strict=True)), value)
        for labels, value in _values(metric.name, scrape)
        if value is not None and isfinite(value)
    ]


def _values(name: str, scrape: Scrape) -> _Values:
    if name in _OF_REPORT:
        return ((report.slo.key, _OF_REPORT[name](report)) for report in scrape.reports)
    if name in _OF_WINDOWS:
        return chain.from_iterable(_by_window(report, _OF_WINDOWS[name](report)) for report in scrape.reports)
    if name in _OF_SCRAPE:
        return _OF_SCRAPE[name](scrape)
    return scrape.readings.get(name, {}).items()


_OF_REPORT: Final[Mapping[str, Callable[[BudgetReport], float | None]]] = {
    "slo_objective_ratio": lambda report: float(report.slo.objective),
    "slo_window_seconds": lambda report: report.slo.window.seconds,
    "slo_error_budget_remaining_ratio": lambda report: report.budget.remaining_ratio,
    "slo_error_budget_remaining_events": lambda report: report.budget.remaining_events,
    "slo_error_budget_exhaustion_seconds": lambda report: report.exhausts_in_seconds,
    "slo_coverage_ratio": lambda report: report.coverage_ratio,
}

_OF_WINDOWS: Final[Mapping[str, Callable[[BudgetReport], Mapping[str, float | None]]]] = {
    "slo_sli_ratio": lambda report: report.slis,
    "slo_burn_rate": lambda report: report.burn_rates,
}


def _by_window(report: BudgetReport, numbers: Mapping[str, float | None]) -> _Values:
    """By window text; the SLO's own window under its own text, once if it is one of the others."""
    named = {report.slo.window.text if window == "window" else window: number for window, number in numbers.items()}
    return (((*report.slo.key, window), number) for window, number in named.items())


def _states(scrape: Scrape) -> _Values:
    for report in scrape.reports:
        for state in State:
            yield (*report.slo.key, state), float(report.state is state)


def _events(scrape: Scrape) -> _Values:
    for slo, counts in scrape.totals:
        for outcome, events in (("good", counts.good), ("bad", counts.bad), ("excluded", counts.excluded)):
            yield (*slo.key, outcome), events


def _requests(scrape: Scrape) -> _Values:
    for series in scrape.requests.series:
        for outcome, requests in zip(Outcome, series.outcomes, strict=True):
            yield (*series.labels, outcome.name.lower()), requests


_OF_SCRAPE: Final[Mapping[str, Callable[[Scrape], _Values]]] = {
    "slo_state": _states,
    "slo_events_total": _events,
    "inference_requests_total": _requests,
    "slo_exporter_build_info": lambda scrape: [((scrape.version,), 1)],
    "slo_exporter_ready": lambda scrape: [((), scrape.ready)],
    "slo_exporter_label_overflow_total": lambda scrape: [((), scrape.requests.overflowed)],
}


def _slo_info(slo: Slo) -> Sample:
    own = {"service": slo.service, "slo": slo.name, "objective": wording.exact(slo.objective)}
    own["window"] = slo.window.text
    return Sample(own | dict(_user_labels(slo.labels, own)), 1)


def _user_labels(labels: Mapping[str, str], taken: Iterable[str]) -> Iterator[tuple[str, str]]:
    """
    The labels of a definition under names that Prometheus takes and nothing else has.

    ``pyrra.dev/team`` becomes ``pyrra_dev_team``; a name that is taken gets the
    prefix ``label_``.
    """
    used = set(taken)
    for name, text in sorted(labels.items()):
        # Names that begin with two underscores are Prometheus' own.
        label = re.sub(r"^(?=\d)|^__+", "label_", re.sub(r"[^a-zA-Z0-9_]", "_", name))
        while label in used:
            label = f"label_{label}"
        used.add(label)
        yield label, text[:LONGEST_LABEL]
