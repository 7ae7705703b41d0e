"""
A real Prometheus scrapes a real server that counts real exports.

SLO_EXPORTER_PROMETHEUS names further Prometheus programs, separated by colons.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from otlp_load import SLOW, SPANS, Load
from prometheus_process import Prometheus
from server_process import Server

PROGRAMS = ["prometheus", *filter(None, os.environ.get("SLO_EXPORTER_PROMETHEUS", "").split(":"))]
COMPLAINTS = re.compile(
    r"error on ingesting|out.of.order|duplicate|append failed|scrape failed|level=(?:warn|error)[^\n]*scrape",
    re.IGNORECASE,
)
BUCKETS = "inference_request_duration_seconds_bucket"


@pytest.fixture(params=PROGRAMS)
def prometheus(
    request: pytest.FixtureRequest, server: Server, require: Callable[[str], Path], tmp_path: Path
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the server, not started yet."""
    folder = tmp_path / "prometheus"
    folder.mkdir()
    one = Prometheus(require(request.param), folder, server.api)
    yield one
    one.stop()


def exemplars(prometheus: Prometheus) -> list[dict[str, str]]:
    """Labels of every exemplar of the last minutes, and the bucket it is of."""
    now = time.time()
    data = prometheus.ask("query_exemplars", query=BUCKETS, start=f"{now - 300}", end=f"{now + 60}")
    return [
        {**exemplar["labels"], "le": series["seriesLabels"]["le"], "value": exemplar["value"]}
        for series in data
        for exemplar in series["exemplars"]
    ]


def totals(prometheus: Prometheus) -> dict[str, float]:
    """Lifetime events of the one SLO, by outcome."""
    series = prometheus.query('slo_events_total{service="chat",slo="latency"}')
    return {dict(labels)["outcome"]: value for labels, value in series.items()}


def only(prometheus: Prometheus, query: str) -> float:
    """The one number that a query gives."""
    ((_, value),) = prometheus.query(query).items()
    return value


@pytest.mark.timeout(150)
def test_prometheus_reads_everything_and_complains_about_nothing(server: Server, prometheus: Prometheus) -> None:
    """The target is up, numbers arrive whole, exemplars lead to our traces, the log is clean."""
    server.start()
    prometheus.start()
    with Load(server.grpc) as load:
        # Under load over several scrapes: exemplars move on in each.
        prometheus.until(lambda: sum(prometheus.query("count_over_time(up[1m])").values()) >= 4)
        shown = prometheus.until(lambda: exemplars(prometheus))
    sent = {"good": load.sent * (SPANS - SLOW), "bad": load.sent * SLOW, "excluded": 0}
    prometheus.until(lambda: totals(prometheus) == sent)

    check_numbers(prometheus)
    check_types(prometheus)
    for exemplar in shown:
        check_exemplar(exemplar, load.sent)
    assert not COMPLAINTS.findall(prometheus.log)


def check_numbers(prometheus: Prometheus) -> None:
    """What follows from the share of slow requests, at an objective of 99 %."""
    burn = 100 * SLOW / SPANS
    assert prometheus.query("min_over_time(up[1m])") == {(): 1}
    for window in ("5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"):
        assert only(prometheus, f'slo_burn_rate{{slo="latency",window="{window}"}}') == pytest.approx(burn)
    assert only(prometheus, 'slo_error_budget_remaining_ratio{slo="latency"}') == pytest.approx(1 - burn)
    assert only(prometheus, 'slo_state{slo="latency",state="exhausted"}') == 1


def check_types(prometheus: Prometheus) -> None:
    """It asked for OpenMetrics: only there a unit is named."""

    def known(metric: str) -> list[tuple[str, str]]:
        return [(one["type"], one["unit"]) for one in prometheus.ask("targets/metadata", metric=metric)]

    assert known("slo_objective_ratio") == [("gauge", "ratio")]
    assert known("slo_exporter_inflight_bytes") == [("gauge", "bytes")]
    # Older ones know a counter by its family.
    by_family, by_sample = known("slo_exporter_commit_seconds"), known("slo_exporter_commit_seconds_total")
    assert (by_family or by_sample) == [("counter", "seconds")]


def check_exemplar(exemplar: Mapping[str, str], sent: int) -> None:
    """It is one of the requests that were sent, in the bucket of its duration."""
    export, index = int(exemplar["trace_id"][:16], 16), int(exemplar["trace_id"][16:], 16)
    assert 0 < export <= sent
    assert int(exemplar["span_id"], 16) == export * SPANS + index
    assert (exemplar["le"], float(exemplar["value"])) == (("0.2", 0.2) if index <= SLOW else ("0.02", 0.02))
