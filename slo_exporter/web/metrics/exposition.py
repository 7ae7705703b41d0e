"""
From a scrape to the text that Prometheus reads.

Rules of this module:

1. Both formats are byte for byte what prometheus_client writes for the same
   families, in a fraction of its time (benchmarks/scrape.py).
2. Families stand in the order of the catalogue, labels in that of their names.
3. What is undefined, NaN or infinite has no line; a family without a line has
   no HELP either.

Sources: https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import accumulate, repeat
from math import isfinite
from typing import Final

from slo_exporter.clock import SECOND_NS
from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.exemplars import Exemplar
from slo_exporter.web.metrics.histogram import Family
from slo_exporter.web.metrics.metric import Metric, Type
from slo_exporter.web.metrics.series import Rows, Scrape, of_requests, samples


class Format(StrEnum):
    """A format of the answer, by its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


_ENDS: Final = {Format.TEXT: ("",), Format.OPENMETRICS: ("# EOF", "")}
_PLAIN_DIGITS: Final = 6
"""Most digits before the point that Go prints without an exponent, as prometheus_client has it."""


def write(scrape: Scrape, form: Format) -> bytes:
    """The scrape in a format; touches nothing that others change."""
    rows = samples(scrape)
    lines: list[str] = []
    for metric in CATALOGUE:
        if metric.type is Type.HISTOGRAM:
            of_metric = list(_histogram(metric.name, scrape.requests.families[metric.name], form))
        else:
            of_metric = _lines(metric.name, rows[metric.name])
        if of_metric:
            lines.extend(_head(metric, form))
            lines.extend(of_metric)
    lines.extend(_ENDS[form])
    # A text that is no Unicode costs its own label, not the scrape.
    return "\n".join(lines).encode(errors="replace")


def _head(metric: Metric, form: Format) -> Iterator[str]:
    if form is Format.TEXT:
        yield f"# HELP {metric.name} {metric.help}"
        yield f"# TYPE {metric.name} {Type.GAUGE if metric.type is Type.INFO else metric.type}"
        return
    yield f"# HELP {metric.family} {metric.help}"
    yield f"# TYPE {metric.family} {metric.type}"
    if metric.unit:
        yield f"# UNIT {metric.family} {metric.unit}"


def _lines(name: str, rows: Rows) -> list[str]:
    """One line a sample; a number that is undefined has none."""
    return [
        f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}"
        for labels, value in rows
        if value is not None and isfinite(value)
    ]


def _histogram(name: str, family: Family, form: Format) -> Iterator[str]:
    shown: Iterable[Iterable[Exemplar | None]] = repeat(repeat(None))
    if form is Format.OPENMETRICS:
        shown = family.exemplars.rows()
    bounds = (*(str(bound / SECOND_NS) for bound in family.bounds_ns), "+Inf")
    for series, exemplars in zip(family.series, shown, strict=False):
        labels, below = of_requests(series.labels, family.part_label, series.part), list(accumulate(series.buckets))
        for bound, requests_below, exemplar in zip(bounds, below, exemplars, strict=False):
            yield f'{name}_bucket{{le="{bound}",{labels}}} {_number(requests_below)}{_appended(exemplar)}'
        yield f"{name}_sum{{{labels}}} {_number(series.seconds)}"
        yield f"{name}_count{{{labels}}} {_number(below[-1])}"


def _appended(exemplar: Exemplar | None) -> str:
    if exemplar is None:
        return ""
    labels = f'{{span_id="{exemplar.span_id}",trace_id="{exemplar.trace_id}"}}'
    seconds, nanoseconds = divmod(exemplar.end_ns, SECOND_NS)
    return f" # {labels} {_number(exemplar.duration_ns / SECOND_NS)} {seconds}.{nanoseconds:09d}"


def _number(value: float) -> str:
    """A finite number as Go prints it."""
    text = repr(float(value))
    point = text.find(".")
    if point <= _PLAIN_DIGITS or value < 0:
        return text
    mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
    return f"{mantissa}e+{point - 1:02d}"
