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

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate, compress, repeat
from typing import Final

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.column import Column, Numbers
from slo_exporter.web.metrics.exemplars import Exemplar
from slo_exporter.web.metrics.histogram import Family
from slo_exporter.web.metrics.metric import Metric, Type
from slo_exporter.web.metrics.series import Scrape, of_requests, samples


class Format(StrEnum):
    """A format of the answer, by its content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


_ENDS: Final = {Format.TEXT: b"", Format.OPENMETRICS: b"# EOF\n"}
_PLAIN_DIGITS: Final = 6
"""Most digits before the point that Go prints without an exponent, as prometheus_client has it."""
_LEAST_EXPONENT: Final = 10.0**_PLAIN_DIGITS
_PIECE: Final = 2000
"""So many numbers are written within a millisecond or two."""


def write(scrape: Scrape, form: Format) -> bytes:
    """The scrape in a format; touches nothing that others change."""
    return b"".join(pieces(scrape, form))


def pieces(scrape: Scrape, form: Format) -> Iterator[bytes]:
    """The same piece by piece: none takes long, so that other threads get their turn."""
    columns = samples(scrape)
    for metric in CATALOGUE:
        if metric.type is Type.HISTOGRAM:
            texts = _histogram(metric.name, scrape.requests.families[metric.name], form)
        else:
            texts = _lines(metric.name, columns[metric.name])
        head = "".join(_head(metric, form))
        for text in texts:
            # A text that is no Unicode costs its own label, not the scrape.
            yield (head + text).encode(errors="replace")
            head = ""
    yield _ENDS[form]


def _head(metric: Metric, form: Format) -> Iterator[str]:
    if form is Format.TEXT:
        yield f"# HELP {metric.name} {metric.help}\n"
        yield f"# TYPE {metric.name} {Type.GAUGE if metric.type is Type.INFO else metric.type}\n"
        return
    yield f"# HELP {metric.family} {metric.help}\n"
    yield f"# TYPE {metric.family} {metric.type}\n"
    if metric.unit:
        yield f"# UNIT {metric.family} {metric.unit}\n"


def _lines(name: str, column: Column) -> Iterator[str]:
    """One line a sample, some thousand at a time; a number that is undefined has none."""
    labels, numbers = column.labels, column.numbers
    is_shown = np.isfinite(numbers)
    if not is_shown.all():
        labels, numbers = list(compress(labels, is_shown.tolist())), numbers[is_shown]
    for first in range(0, len(labels), _PIECE):
        part = slice(first, first + _PIECE)
        yield _text(name, labels[part], _numbers(numbers[part]))


def _text(name: str, labels: Sequence[str], numbers: Sequence[str]) -> str:
    """Put together by strides: there is no quicker way to write a line."""
    parts = [f"{name}{{", "", "} ", "", "\n"] if labels[0] else [f"{name} ", "", "", "", "\n"]
    parts *= len(labels)
    parts[1::5], parts[3::5] = labels, numbers
    return "".join(parts)


def _histogram(name: str, family: Family, form: Format) -> Iterator[str]:
    shown: Iterable[Iterable[Exemplar | None]] = repeat(repeat(None))
    if form is Format.OPENMETRICS:
        shown = family.exemplars.rows()
    bounds = (*(str(bound / SECOND_NS) for bound in family.bounds_ns), "+Inf")
    for series, exemplars in zip(family.series, shown, strict=False):
        labels, below = of_requests(series.labels, family.part_label, series.part), list(accumulate(series.buckets))
        lines = [
            f'{name}_bucket{{le="{bound}",{labels}}} {_number(requests_below)}{_appended(exemplar)}\n'
            for bound, requests_below, exemplar in zip(bounds, below, exemplars, strict=False)
        ]
        lines.append(f"{name}_sum{{{labels}}} {_number(series.seconds)}\n")
        lines.append(f"{name}_count{{{labels}}} {_number(below[-1])}\n")
        yield "".join(lines)


def _appended(exemplar: Exemplar | None) -> str:
    if exemplar is None:
        return ""
    labels = f'{{span_id="{exemplar.span_id}",trace_id="{exemplar.trace_id}"}}'
    seconds, nanoseconds = divmod(exemplar.end_ns, SECOND_NS)
    return f" # {labels} {_number(exemplar.duration_ns / SECOND_NS)} {seconds}.{nanoseconds:09d}"


def _numbers(numbers: Numbers) -> list[str]:
    """Finite numbers as Go prints them."""
    texts = list(map(repr, numbers.tolist()))
    for place in np.flatnonzero(numbers >= _LEAST_EXPONENT).tolist():
        texts[place] = _with_exponent(texts[place])
    return texts


def _number(value: float) -> str:
    """A finite number as Go prints it."""
    text = repr(float(value))
    return _with_exponent(text) if value >= _LEAST_EXPONENT else text


def _with_exponent(text: str) -> str:
    """A large number as Go prints it, from Python's text, which has an exponent from 1e+16 on."""
    point = text.find(".")
    if point <= _PLAIN_DIGITS:
        return text
    mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
    return f"{mantissa}e+{point - 1:02d}"
