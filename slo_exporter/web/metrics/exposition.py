"""From a scrape to the text that Prometheus reads."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family

from slo_exporter.clock import SECOND_NS
from slo_exporter.web.metrics.catalogue import CATALOGUE, Metric, Type
from slo_exporter.web.metrics.requests import BOUNDS_NS, RequestSeries
from slo_exporter.web.metrics.series import Scrape, samples

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS: Final = (*(str(bound / SECOND_NS) for bound in BOUNDS_NS), "+Inf")


class _Scraped:
    """Gives the families of one scrape to prometheus_client."""

    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape

    def collect(self) -> Iterator[Family]:
        """Families in the order of the catalogue; one without a sample is left out."""
        for metric in CATALOGUE:
            family = _family(metric, self._scrape)
            if family.samples:
                yield family


def text(scrape: Scrape) -> bytes:
    """The scrape in text format 0.0.4; touches nothing that others change."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Scraped(scrape))
    return generate_latest(registry)


def _family(metric: Metric, scrape: Scrape) -> Family:
    # The library appends these two suffixes itself.
    name = metric.name.removesuffix("_total").removesuffix("_info")
    family = Family(name, metric.help, metric.type)
    if metric.type is Type.HISTOGRAM:
        for series in scrape.requests.series:
            _add_histogram(family, dict(zip(metric.labels, series.labels, strict=True)), series)
        return family
    for sample in samples(metric, scrape):
        family.add_sample(metric.name, dict(sample.labels), sample.value)
    return family


def _add_histogram(family: Family, labels: dict[str, str], series: RequestSeries) -> None:
    counted = list(accumulate(series.buckets))
    for bound, below in zip(_BOUNDS, counted, strict=True):
        family.add_sample(f"{family.name}_bucket", labels | {"le": bound}, below)
    family.add_sample(f"{family.name}_sum", labels, series.seconds)
    family.add_sample(f"{family.name}_count", labels, counted[-1])
