"""
From what the board knows to numbers, by metric name of the catalogue.

Pure: values of one instant in, labelled numbers out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from slo_exporter.insight.labels import Labels
from slo_exporter.sli.records import Outcome
from slo_exporter.slo.snapshot import Standing
from slo_exporter.web.board import Readings
from slo_exporter.web.metrics import slos
from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.column import Column, escaped, written
from slo_exporter.web.metrics.requests import RequestSeries, RequestSnapshot, TokenSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Everything that one scrape shows."""

    standing: Standing | None
    """Where every SLO stands; None before the counts were loaded."""
    requests: RequestSnapshot
    readings: Readings
    version: str
    ready: bool


def samples(scrape: Scrape) -> Mapping[str, Column]:
    """By metric name the samples of everything that is no histogram."""
    return {
        **{metric.name: _read(scrape.readings.get(metric.name, {}), metric.labels) for metric in CATALOGUE},
        **({} if scrape.standing is None else slos.samples(scrape.standing)),
        "inference_requests_total": Column.of(_requests(scrape.requests.series)),
        "inference_tokens_total": Column.of(_tokens(scrape.requests.tokens)),
        "slo_exporter_build_info": Column.of([(written({"version": scrape.version}), 1)]),
        "slo_exporter_ready": Column.of([("", scrape.ready)]),
        "slo_exporter_label_overflow_total": Column.of([("", scrape.requests.overflowed)]),
    }


def of_requests(labels: Labels, name: str = "", part: str | None = None) -> str:
    """The labels of a service, model and view, and one more that tells a part of them."""
    service, model, view = map(escaped, labels)
    pairs = {"model": model, "service": service, "view": view} | ({name: part} if part else {})
    return ",".join([f'{key}="{pairs[key]}"' for key in sorted(pairs)])


_OUTCOMES: Final = tuple(outcome.name.lower() for outcome in Outcome)


def _read(reading: Mapping[tuple[str, ...], float], names: Sequence[str]) -> Column:
    """In the order of the labels: that of the reading is the one in which things happened."""
    if not names:
        return Column.of(("", value) for value in reading.values())
    # As `written` has it, but what a metric's labels have in common is made once: a host has thousands of series.
    order = itemgetter(*sorted(range(len(names)), key=names.__getitem__))
    form = ",".join([f'{name}="%s"' for name in sorted(names)])
    return Column.of((form % order(_all_escaped(values)), value) for values, value in sorted(reading.items()))


def _all_escaped(labels: tuple[str, ...]) -> tuple[str, ...]:
    """The labels as they are, unless one of them needs escaping."""
    text = "".join(labels)
    if "\\" in text or "\n" in text or '"' in text:
        return tuple(map(escaped, labels))
    return labels


def _requests(every: Iterable[RequestSeries]) -> Iterator[tuple[str, float]]:
    for series in every:
        service, model, view = map(escaped, series.labels)
        for outcome, requests in zip(_OUTCOMES, series.outcomes, strict=True):
            yield f'model="{model}",outcome="{outcome}",service="{service}",view="{view}"', requests


def _tokens(every: Iterable[TokenSeries]) -> Iterator[tuple[str, float]]:
    for series in every:
        yield f'kind="{series.kind}",{of_requests(series.labels)}', series.tokens
