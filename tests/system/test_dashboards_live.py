"""Every query of our dashboards, asked of a real Prometheus that scrapes a server with the demo and its GPUs."""

import json
import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from dashboard_queries import Asked, queries, substituted
from prometheus_process import Prometheus
from server_process import Server

from slo_exporter.config.settings import DEMO_SLOS

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
HOPELESS = """\
  - name: hopeless
    objective: 99%
    window: 30d
    indicator: {requests: {}, good: e2e <= 1ms}
"""
"""Everything fails it: an SLO with active alerts, beside those of the demo."""
VARIABLES = {
    "slos.json": {"service": ".*"},
    "slo.json": {"service": "chat", "slo": "hopeless"},
    "inference.json": {"service": ".*", "model": ".*", "view": ".*", "slo": "latency"},
    "gpus.json": {"instance": ".*"},
    "gpu.json": {"instance": ".*", "gpu": "0"},
    "exporter.json": {"job": ".*", "instance": ".*"},
}
MAY_BE_EMPTY = {
    "gpu_xid_errors_total.* > 0": "the simulated GPUs are well at first",
    "gpu_xid_last_timestamp_seconds": "the simulated GPUs are well at first",
    "slo_exporter_nvml_call": "simulated GPUs call no library",
    "slo_exporter_nvml_errors_total": "simulated GPUs call no library",
    "slo_exporter_nvml_restarts_total.* > 0": "no process that reads GPUs had to be replaced",
    'prompt_tokens="(?:<=8k|<=32k|>32k)"': "the demo seldom has a prompt of more than 2 k tokens",
    "cgroup_": "the kernel of this machine may not tell, or have no limit",
    "slo_exporter_exports_refused_total": "the database is there",
    "slo_exporter_spans_refused_total": "the demo sends nothing that has to be refused",
}
"""Queries that need not give anything here, by what stands in them, and why."""
ENOUGH_S = 25.0

each = pytest.mark.parametrize("name", VARIABLES)


@dataclass
class Demo(Server):
    """A server with the demo, its SLOs and its GPUs."""

    def __post_init__(self) -> None:
        """Add them to the configuration."""
        super().__post_init__()
        self.slos.write_text(DEMO_SLOS.read_text() + HOPELESS)
        with self.config.open("a") as config:
            config.write("gpu: {source: simulated, groups: {chat: {gpus: [0, 1]}}}\n")
        self.environment = {}

    def command(self, *more: str) -> list[str]:
        """How to start it."""
        return super().command("--demo", *more)


@pytest.fixture(scope="module")
def prometheus(require: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has seen a release, a question, a broken export and some seconds of traffic."""
    folder = tmp_path_factory.mktemp("dashboards")
    server = Demo(folder).start()
    one = Prometheus(require("prometheus"), folder, server.api)
    try:
        one.start()
        server.write("POST", "/api/v1/releases", {"service": "chat", "version": "1.4.0"})
        with pytest.raises(urllib.error.HTTPError, match="415"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.http}/v1/traces", b"broken")
        yield one
    finally:
        one.stop()
        server.kill()


def may_be_empty(asked: Asked) -> bool:
    """Whether there is a reason to give nothing here."""
    return any(re.search(part, asked.expr) for part in MAY_BE_EMPTY)


def annotations(name: str) -> list[Asked]:
    """What a dashboard asks for marks in time."""
    listed = json.loads((DASHBOARDS / name).read_text())["annotations"].get("list", [])
    return [Asked(one["name"], substituted(one["expr"], VARIABLES[name])) for one in listed]


def test_the_table_of_variables_is_of_all_dashboards() -> None:
    """None is left out."""
    assert {path.name for path in DASHBOARDS.glob("*.json")} == set(VARIABLES)


@pytest.mark.timeout(90)
@each
def test_every_query_gives_what_its_panel_shows(prometheus: Prometheus, name: str) -> None:
    """No error, no NaN, and something, unless there is a reason for nothing."""
    waiting = [*queries(DASHBOARDS / name, VARIABLES[name]), *annotations(name)]
    deadline = time.monotonic() + ENOUGH_S
    while True:
        answers = [
            (asked, prometheus.until(lambda asked=asked: [prometheus.query(asked.expr)])[0]) for asked in waiting
        ]
        assert not [asked for asked, found in answers if any(math.isnan(value) for value in found.values())]
        waiting = [asked for asked, found in answers if not found and not may_be_empty(asked)]
        if not waiting:
            return
        assert time.monotonic() < deadline, waiting
        time.sleep(0.5)


@pytest.mark.timeout(90)
@each
def test_every_variable_has_something_to_choose(prometheus: Prometheus, name: str) -> None:
    """``label_values(series, label)``, as Grafana asks for it."""
    for variable in json.loads((DASHBOARDS / name).read_text())["templating"]["list"]:
        if variable["type"] != "query":
            continue
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        assert found, variable["query"]
        chosen, label = {"match[]": substituted(found[1], dict.fromkeys(VARIABLES[name], ".*"))}, found[2]
        assert prometheus.until(lambda chosen=chosen, label=label: prometheus.ask(f"label/{label}/values", **chosen))
