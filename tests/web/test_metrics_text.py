"""/metrics, as Prometheus reads it."""

import math
import subprocess
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import pytest
from boards import NOW_NS, LedgerBoard
from builders import ManualClock, slo
from busy import client_of, make_requests
from prometheus_client.parser import text_string_to_metric_families
from serving import serving
from starlette.testclient import TestClient

from slo_exporter.sli.records import MISSING
from slo_exporter.slo.snapshot import Standing
from slo_exporter.web.api.app import create
from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.metric import Type
from slo_exporter.web.metrics.requests import RequestMetrics

Value = Callable[..., float | None]


def parse(text: str) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """Samples by name and labels, read by the official parser."""
    series: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = frozenset(sample.labels.items())
            assert labels not in series.setdefault(sample.name, {}), f"{sample.name}{sample.labels} appears twice"
            series[sample.name][labels] = sample.value
    return series


@pytest.fixture
def value(client: TestClient) -> Value:
    """Looks up one sample of the busy board."""
    series = parse(client.get("/metrics").text)
    return lambda name, **labels: series.get(name, {}).get(frozenset(labels.items()))


def sample_names() -> set[str]:
    """What the catalogue lets appear."""
    names: set[str] = set()
    for metric in CATALOGUE:
        suffixes = ("_bucket", "_sum", "_count") if metric.type is Type.HISTOGRAM else ("",)
        names.update(metric.name + suffix for suffix in suffixes)
    return names


def test_a_busy_board_shows_the_catalogue_and_nothing_else(client: TestClient) -> None:
    """Every row of the catalogue has a sample, and every sample a row."""
    assert set(parse(client.get("/metrics").text)) == sample_names()


def test_every_series_carries_the_labels_of_its_row(client: TestClient) -> None:
    """Label names are those of the catalogue; only slo_info and buckets add some."""
    series = parse(client.get("/metrics").text)
    for metric in CATALOGUE:
        for labels in series.get(metric.name, {}):
            names = {name for name, _ in labels}
            assert set(metric.labels) <= names if metric.name == "slo_info" else set(metric.labels) == names


def test_types_are_those_of_the_catalogue(client: TestClient) -> None:
    """The TYPE line says what the catalogue says; info is a gauge in this format."""
    text = client.get("/metrics").text
    for metric in CATALOGUE:
        shown = "gauge" if metric.type is Type.INFO else metric.type
        assert f"# TYPE {metric.name} {shown}\n" in text


def test_content_type_is_text_format_0_0_4(client: TestClient) -> None:
    """Prometheus is told which format it reads."""
    assert client.get("/metrics").headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_numbers_are_finite(client: TestClient) -> None:
    """Neither NaN nor infinity is shown, not even where the board hands one over."""
    series = parse(client.get("/metrics").text)
    assert all(math.isfinite(number) for numbers in series.values() for number in numbers.values())


def test_an_slo_without_events_has_no_ratio(value: Value) -> None:
    """Undefined is absent: no SLI, burn rate or remaining budget, only a state."""
    embed = {"service": "embed", "slo": "latency"}
    assert value("slo_sli_ratio", **embed, window="7d") is None
    assert value("slo_burn_rate", **embed, window="1h") is None
    assert value("slo_error_budget_remaining_ratio", **embed) is None
    assert value("slo_error_budget_exhaustion_seconds", **embed) is None
    assert value("slo_state", **embed, state="no_data") == 1
    assert value("slo_events_total", **embed, outcome="excluded") == 4


def test_remaining_budget_is_signed(value: Value) -> None:
    """An overspent budget is negative, not clamped to 0."""
    search = {"service": "search", "slo": "ttft"}
    assert value("slo_error_budget_remaining_ratio", **search) == -1
    assert value("slo_error_budget_remaining_events", **search) == -50
    assert value("slo_error_budget_exhaustion_seconds", **search) == 0


@pytest.mark.parametrize(
    ("service", "slo", "state"),
    [
        ("chat", "latency", "ok"),
        ("chat", "availability", "at_risk"),
        ("search", "ttft", "exhausted"),
        ("batch", "nightly", "insufficient_data"),
        ("embed", "latency", "no_data"),
    ],
)
def test_exactly_one_state_holds(value: Value, service: str, slo: str, state: str) -> None:
    """The state that holds is 1, the four others are 0."""
    states = ("no_data", "exhausted", "insufficient_data", "at_risk", "ok")
    shown = {name: value("slo_state", service=service, slo=slo, state=name) for name in states}
    assert shown == {name: float(name == state) for name in states}


def test_a_window_that_equals_a_lookback_window_is_one_series(client: TestClient) -> None:
    """An SLO over 3d has seven windows, one over 30d has eight."""
    burn_rates = parse(client.get("/metrics").text)["slo_burn_rate"]
    windows = {
        service: sorted(dict(labels)["window"] for labels in burn_rates if ("service", service) in labels)
        for service in ("search", "batch")
    }
    assert windows["search"] == sorted(["5m", "30m", "1h", "2h", "6h", "1d", "3d"])
    assert windows["batch"] == sorted(["5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d"])


def test_user_labels_never_clash(value: Value) -> None:
    """Labels of a definition get names that are free and that Prometheus takes."""
    assert (
        value(
            "slo_info",
            service="batch",
            slo="nightly",
            objective="0.9",
            window="30d",
            label_service="x",
            label_x="y",
            pyrra_dev_team='a"b\\c\nd',
        )
        == 1
    )


def test_user_labels_that_become_equal_stay_apart() -> None:
    """``a.b`` and ``a-b`` do not become one label."""
    board = LedgerBoard([replace(slo(), labels={"a.b": "1", "a-b": "2"})], [(1, 0, 0)])
    info = next(iter(parse(client_of(board).get("/metrics").text)["slo_info"]))
    assert {("a_b", "2"), ("label_a_b", "1")} <= info


def test_an_slo_that_is_gone_leaves_no_series() -> None:
    """Without SLOs there is no slo_ family at all, not even its HELP."""
    text = client_of(LedgerBoard()).get("/metrics").text
    assert "slo_exporter_ready 1.0" in text
    assert "slo_objective_ratio" not in text


def test_metrics_are_shown_while_not_ready() -> None:
    """Prometheus sees that the server is not ready instead of nothing."""
    response = client_of(LedgerBoard(unready="the database is away")).get("/metrics")
    assert response.status_code == 200
    assert "slo_exporter_ready 0.0" in response.text


def test_histogram_is_cumulative(value: Value) -> None:
    """80 ms lies in the 0.1 s bucket and in every wider one."""
    duration = "inference_request_duration_seconds"
    m = {"service": "chat", "model": "m", "view": "server"}
    assert value(f"{duration}_bucket", **m, le="0.05") == 0
    assert value(f"{duration}_bucket", **m, le="0.1") == 1
    assert value(f"{duration}_bucket", **m, le="+Inf") == 1
    assert value(f"{duration}_sum", **m) == 0.08
    assert value(f"{duration}_count", **m) == 1


def test_hostile_label_texts_come_back_whole() -> None:
    """Quotes, backslashes, newlines and other alphabets survive the format."""
    hostile = 'a"b\\c\nd{e="f"} 网\t#'
    requests = RequestMetrics()
    requests.add(make_requests([hostile], [hostile], [MISSING]))
    series = parse(client_of(LedgerBoard(), requests).get("/metrics").text)["inference_requests_total"]
    assert all({("service", hostile), ("model", hostile)} <= labels for labels in series)


def test_many_slos_are_all_shown() -> None:
    """Each SLO has one objective."""
    slos = [slo(f"s{number}", window="1d") for number in range(50)]
    series = parse(client_of(LedgerBoard(slos, [(9, 1, 0)] * 50)).get("/metrics").text)
    assert len(series["slo_objective_ratio"]) == 50


@dataclass
class SlowBoard(LedgerBoard):
    """A board whose numbers take as long as a test likes."""

    asked: Event = field(default_factory=Event)
    answered: Event = field(default_factory=Event)

    def standing(self, now_ns: int) -> Standing:
        """Say so when the test does."""
        self.asked.set()
        assert self.answered.wait(20)
        return super().standing(now_ns)


def test_a_slow_scrape_holds_nobody_up() -> None:
    """While a scrape is being made the loop answers others."""
    board = SlowBoard([slo()], [(1, 0, 0)])
    app = create(board, RequestMetrics(), ManualClock(NOW_NS))
    with serving(app) as url, ThreadPoolExecutor(1) as client:
        scrape = client.submit(get, f"{url}/metrics")
        assert board.asked.wait(20)
        assert get(f"{url}/healthz") == "ok\n"
        assert not scrape.done()
        board.answered.set()
        assert "slo_objective_ratio" in scrape.result()


def get(url: str) -> str:
    """The body of an answer."""
    with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - loopback
        return str(answer.read().decode())


def test_promtool_finds_nothing_to_say(client: TestClient, require: Callable[[str], Path]) -> None:
    """Prometheus' own linter accepts names, types and help texts."""
    text = client.get("/metrics").content
    linted = subprocess.run([require("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (linted.returncode, linted.stderr.decode()) == (0, "")
