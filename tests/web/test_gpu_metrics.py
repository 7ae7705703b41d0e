"""gpu_*, host_* and cgroup_* at /metrics."""

import re

import gpu_views
import pytest
from boards import LedgerBoard
from busy import client_of, gpu_readings
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from test_metrics_openmetrics import OPENMETRICS, official, scrape_of

from slo_exporter.web.board import Readings
from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.exposition import Format, write
from slo_exporter.web.metrics.metric import Metric, Type
from slo_exporter.web.metrics.requests import RequestMetrics

OF_GPUS = [metric for metric in CATALOGUE if metric.name.startswith("gpu_")]
UUID = gpu_views.uuid(0)


def text_of(values: Readings, headers: dict[str, str] | None = None) -> str:
    """What /metrics shows of these readings."""
    return client_of(LedgerBoard(values=values)).get("/metrics", headers=headers or {}).text


@pytest.mark.parametrize("metric", OF_GPUS, ids=lambda metric: metric.name)
def test_every_series_of_a_gpu_says_which_first(metric: Metric) -> None:
    """The daemon puts gpu and uuid before all other label values, but after a group."""
    assert metric.labels[:2] == ("gpu", "uuid") or metric.labels == ("group", "gpu", "uuid")


def test_readings_reach_prometheus_with_labels_in_the_order_of_the_catalogue() -> None:
    """A value is the same number at /metrics, under the labels that the catalogue names."""
    key = ("0", UUID, "sw_power_cap", "counter")
    text = text_of({"gpu_clock_event_seconds_total": {key: 2.5}})
    assert f'gpu_clock_event_seconds_total{{gpu="0",reason="sw_power_cap",source="counter",uuid="{UUID}"}} 2.5' in text


def test_what_is_unknown_has_no_series() -> None:
    """A GPU that is lost has gpu_up with the reason, its identity, and no measured value."""
    text = text_of(gpu_views.readings(gpu_views.read(gpu_views.failed(0))))
    families = {family.name for family in parse_text(text) if family.name.startswith("gpu_")}
    assert families == {"gpu_up", "gpu_info", "gpu_group_info", "gpu_xid_errors", "gpu_xid_last_timestamp_seconds"}
    assert f'gpu_up{{gpu="0",reason="lost",uuid="{UUID}"}} 0.0' in text


def test_a_value_that_is_none_is_not_shown() -> None:
    """NaN and infinity of one GPU take nothing else away."""
    values = {("0", "a"): float("nan"), ("1", "b"): float("inf"), ("2", "c"): 300.0}
    shown = [line for line in text_of({"gpu_power_watts": values}).splitlines() if line.startswith("gpu_power_watts")]
    assert shown == ['gpu_power_watts{gpu="2",uuid="c"} 300.0']


def test_info_is_info_in_openmetrics_and_a_gauge_in_text() -> None:
    """Its value is 1 in both."""
    readings = gpu_views.readings(gpu_views.read(gpu_views.healthy()))
    assert "# TYPE gpu_info gauge\n" in text_of(readings)
    openmetrics = text_of(readings, OPENMETRICS)
    assert "# TYPE gpu info\n" in openmetrics
    assert re.search(r'^gpu_info\{architecture="hopper",compute_capability="9.0",.*\} 1\.0$', openmetrics, re.MULTILINE)


def test_units_are_named_in_openmetrics() -> None:
    """After the name of the family, which a counter's samples extend by _total."""
    readings = gpu_views.readings(gpu_views.read(gpu_views.healthy()))
    units = dict(re.findall(r"^# UNIT (\S+) (\S+)$", text_of(readings, OPENMETRICS), re.MULTILINE))
    expected = {
        "gpu_power_watts": "watts",
        "gpu_energy_joules": "joules",
        "gpu_temperature_celsius": "celsius",
        "gpu_clock_hertz": "hertz",
        "gpu_memory_used_bytes": "bytes",
        "gpu_pcie_bytes": "bytes",
        "gpu_busy_seconds": "seconds",
        "gpu_sm_active_ratio": "ratio",
        "host_cpu_seconds": "seconds",
    }
    assert {family: units.get(family) for family in expected} == expected
    assert "gpu_nvlink_links" not in units


def test_counters_end_in_total_and_have_families_without() -> None:
    """The strict parser takes them for counters."""
    readings = gpu_views.readings(gpu_views.read(gpu_views.healthy()))
    types = {family.name: family.type for family in parse_openmetrics(text_of(readings, OPENMETRICS))}
    counters = {metric.family for metric in OF_GPUS if metric.type is Type.COUNTER and metric.name in readings}
    assert {types[family] for family in counters} == {"counter"}
    assert not any(family.endswith("_total") for family in types)


texts = ["chat", 'a"b\\c\nd', "", "网 {}%s", "x\\"]


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("process", texts)
def test_labels_are_escaped_as_the_official_client_does(form: Format, process: str) -> None:
    """The name of a process is anybody's choice: byte for byte."""
    key = ("0", UUID, "4711", process)
    board = LedgerBoard(values={"gpu_process_memory_bytes": {key: 1.0, ("1", *key[1:]): 2.0}})
    written = write(scrape_of(board, RequestMetrics()), form)
    assert written == official(written, form)
    [family] = [f for f in parse_text(text_of(board.values)) if f.name == "gpu_process_memory_bytes"]
    assert {sample.labels["process"] for sample in family.samples} == {process}


@pytest.mark.parametrize("form", Format)
def test_a_full_host_is_written_as_the_official_client_does(form: Format) -> None:
    """Sixteen GPUs with every value, byte for byte."""
    values = gpu_readings(*(gpu_views.healthy(gpu) for gpu in range(15)), gpu_views.failed(15))
    written = write(scrape_of(LedgerBoard(values=values), RequestMetrics()), form)
    assert written == official(written, form)
    assert written.count(b'gpu="14"') > 90
