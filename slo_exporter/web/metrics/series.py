"""
From what the board knows to numbers, by metric name of the catalogue.

Pure: values of one instant in, labelled numbers out. A number that is
undefined is None. Labels are written out here, once per SLO and not once per
sample: most of a scrape is the same few labels again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from slo_exporter.insight.labels import LONGEST_LABEL, Labels
from slo_exporter.sli.records import Outcome
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.report import AlertReport, BudgetReport, State
from slo_exporter.web import wording
from slo_exporter.web.board import Readings
from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.requests import RequestSeries, RequestSnapshot, TokenSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Everything that one scrape shows."""

    reports: Sequence[BudgetReport]
    totals: Sequence[tuple[Slo, Counts]]
    requests: RequestSnapshot
    readings: Readings
    version: str
    ready: bool


Rows = Iterable[tuple[str, float | None]]
"""Labels as they are written, by name, and the number if there is one."""


def samples(scrape: Scrape) -> Mapping[str, Rows]:
    """By metric name the samples of everything that is no histogram; to be read once."""
    reports = [(_of_slo(report.slo), report) for report in scrape.reports]
    windows = [(_of_windows(labels, report), report) for labels, report in reports]
    return {
        **{metric.name: _read(scrape.readings.get(metric.name, {}), metric.labels) for metric in CATALOGUE},
        **{name: _each(reports, number) for name, number in _OF_REPORT.items()},
        **{name: _each_window(windows, numbers) for name, numbers in _OF_WINDOWS.items()},
        "slo_info": ((_info(report.slo), 1) for report in scrape.reports),
        "slo_state": _states(reports),
        "slo_alert_active": _alerts(scrape.reports, lambda alert: alert.is_active),
        "slo_alert_burn_rate_threshold": _alerts(scrape.reports, _threshold),
        "slo_events_total": _events(scrape),
        "inference_requests_total": _requests(scrape.requests.series),
        "inference_tokens_total": _tokens(scrape.requests.tokens),
        "slo_exporter_build_info": [(written({"version": scrape.version}), 1)],
        "slo_exporter_ready": [("", scrape.ready)],
        "slo_exporter_label_overflow_total": [("", scrape.requests.overflowed)],
    }


def written(labels: Mapping[str, str]) -> str:
    """Labels in the order of their names, as both formats write them."""
    return ",".join([f'{name}="{_escaped(labels[name])}"' for name in sorted(labels)])


def of_requests(labels: Labels, name: str = "", part: str | None = None) -> str:
    """The labels of a service, model and view, and one more that tells a part of them."""
    service, model, view = map(_escaped, labels)
    pairs = {"model": model, "service": service, "view": view} | ({name: part} if part else {})
    return ",".join([f'{key}="{pairs[key]}"' for key in sorted(pairs)])


_OUTCOMES: Final = tuple(outcome.name.lower() for outcome in Outcome)

_OF_REPORT: Final[Mapping[str, Callable[[BudgetReport], float | None]]] = {
    "slo_objective_ratio": lambda report: float(report.slo.objective),
    "slo_window_seconds": lambda report: report.slo.window.seconds,
    "slo_error_budget_remaining_ratio": lambda report: report.budget.remaining_ratio,
    "slo_error_budget_remaining_events": lambda report: report.budget.remaining_events,
    "slo_error_budget_exhaustion_seconds": lambda report: report.exhausts_in_seconds,
    "slo_coverage_ratio": lambda report: report.coverage_ratio,
    # Of total failure it may be more than of burns, which have it from the policy.
    "slo_alert_min_bad_events": lambda report: min(
        (alert.rule.min_bad_events for alert in report.alerts), default=None
    ),
}

_OF_WINDOWS: Final[Mapping[str, Callable[[BudgetReport], Mapping[str, float | None]]]] = {
    "slo_sli_ratio": lambda report: report.slis,
    "slo_burn_rate": lambda report: report.burn_rates,
    "slo_bad_events": lambda report: report.bad_events,
}


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _of_slo(slo: Slo) -> str:
    return f'service="{_escaped(slo.service)}",slo="{_escaped(slo.name)}"'


def _of_windows(labels: str, report: BudgetReport) -> Mapping[str, str]:
    """Labels by window; the SLO's own window under its own text, once if it is one of the others."""
    texts = {window: window for window in report.burn_rates if window != "window"}
    if report.slo.window.text not in texts:
        texts["window"] = _escaped(report.slo.window.text)
    return {window: f'{labels},window="{text}"' for window, text in texts.items()}


def _read(reading: Mapping[tuple[str, ...], float], names: Sequence[str]) -> Rows:
    """In the order of the labels: that of the reading is the one in which things happened."""
    if not names:
        return [("", value) for value in reading.values()]
    # As `written` has it, but what a metric's labels have in common is made once: a host has thousands of series.
    order = itemgetter(*sorted(range(len(names)), key=names.__getitem__))
    form = ",".join([f'{name}="%s"' for name in sorted(names)])
    return [(form % order(_all_escaped(values)), value) for values, value in sorted(reading.items())]


def _all_escaped(labels: tuple[str, ...]) -> tuple[str, ...]:
    """The labels as they are, unless one of them needs escaping."""
    text = "".join(labels)
    if "\\" in text or "\n" in text or '"' in text:
        return tuple(map(_escaped, labels))
    return labels


def _each(reports: Sequence[tuple[str, BudgetReport]], number: Callable[[BudgetReport], float | None]) -> Rows:
    return ((labels, number(report)) for labels, report in reports)


def _each_window(
    windows: Sequence[tuple[Mapping[str, str], BudgetReport]],
    numbers_of: Callable[[BudgetReport], Mapping[str, float | None]],
) -> Rows:
    for labels, report in windows:
        numbers = numbers_of(report)
        for window, label in labels.items():
            yield label, numbers[window]


def _states(reports: Sequence[tuple[str, BudgetReport]]) -> Rows:
    for labels, report in reports:
        for state in State:
            yield f'{labels},state="{state}"', report.state is state


def _alerts(reports: Sequence[BudgetReport], number: Callable[[AlertReport], float | None]) -> Rows:
    for report in reports:
        service, slo = _escaped(report.slo.service), _escaped(report.slo.name)
        for alert in report.alerts:
            rule = alert.rule
            yield f'service="{service}",severity="{rule.severity}",slo="{slo}",tier="{rule.tier}"', number(alert)


def _threshold(alert: AlertReport) -> float | None:
    factor = alert.rule.factor
    return None if factor is None else float(factor)


def _events(scrape: Scrape) -> Rows:
    for slo, counts in scrape.totals:
        labels = _of_slo(slo)
        yield f'outcome="good",{labels}', counts.good
        yield f'outcome="bad",{labels}', counts.bad
        yield f'outcome="excluded",{labels}', counts.excluded


def _requests(every: Iterable[RequestSeries]) -> Rows:
    for series in every:
        service, model, view = map(_escaped, series.labels)
        for outcome, requests in zip(_OUTCOMES, series.outcomes, strict=True):
            yield f'model="{model}",outcome="{outcome}",service="{service}",view="{view}"', requests


def _tokens(every: Iterable[TokenSeries]) -> Rows:
    for series in every:
        yield f'kind="{series.kind}",{of_requests(series.labels)}', series.tokens


def _info(slo: Slo) -> str:
    own = {"service": slo.service, "slo": slo.name, "objective": wording.exact(slo.objective)}
    own["window"] = slo.window.text
    return written(own | dict(_user_labels(slo.labels, own)))


def _user_labels(labels: Mapping[str, str], taken: Iterable[str]) -> Iterator[tuple[str, str]]:
    """
    The labels of a definition under names that Prometheus takes and nothing else has.

    ``pyrra.dev/team`` becomes ``pyrra_dev_team``; a name that is taken gets the
    prefix ``label_``.
    """
    used = set(taken)
    for name, text in sorted(labels.items()):
        # Names that begin with two underscores are Prometheus' own.
        label = re.sub(r"^(?=\d|$)|^__+", "label_", re.sub(r"[^a-zA-Z0-9_]", "_", name))
        while label in used:
            label = f"label_{label}"
        used.add(label)
        yield label, text[:LONGEST_LABEL]
