"""
Every query of the dashboards of Sloth and Pyrra gives what it should, on the series that our rules make.

SLO_EXPORTER_PEERS names the folder that holds them, SLO_EXPORTER_PROMETHEUS
further Prometheus programs, separated by colons.
"""

import json
import os
import threading
import time
import urllib.error
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

import grpc
import pytest
from otlp_load import EXPORT, numbered_export
from prometheus_process import Prometheus
from server_process import Server

from slo_exporter.slo.windows import BURN_WINDOWS

PEERS = os.environ.get("SLO_EXPORTER_PEERS", "")
PROGRAMS = ["prometheus", *filter(None, os.environ.get("SLO_EXPORTER_PROMETHEUS", "").split(":"))]
RULES = [str(Path(__file__).parents[2] / "rules" / f"{name}.rules.yml") for name in ("slos", "sloth", "pyrra")]
SLOS = """\
apiVersion: slo-exporter/v1
service: chat
slos:
  - {name: latency, objective: 99%, window: 30d, indicator: {requests: {}, good: e2e <= 80ms}}
  - {name: availability, objective: 99.9%, window: 7d, indicator: {requests: {}, good: outcome == ok}}
"""
QUIET = """\
apiVersion: slo-exporter/v1
service: quiet
slos:
  - {name: latency, objective: 99.95%, window: 28d, indicator: {requests: {}, good: e2e <= 80ms}}
"""
"""A service that nobody calls: no number of it is known but its promise."""
CALLED = {"chat-latency": "chat/latency", "chat-availability": "chat/availability"}
PROMISED = {**CALLED, "quiet-latency": "quiet/latency"}
PERCENT = {"chat-latency": "99", "chat-availability": "99.9", "quiet-latency": "99.95"}
PAUSE_S = 0.1
DETAIL = "sloth_dashboards/sloth-slo.json"
SLI = (18, "A")
"""The one panel that shows a window of choice."""

pytestmark = [
    pytest.mark.skipif(not PEERS, reason="SLO_EXPORTER_PEERS names no folder"),
    pytest.mark.timeout(120),
]
every_program = pytest.mark.parametrize("program", PROGRAMS)

Panel: TypeAlias = tuple[int, str]
"""The id of a panel, and one of its queries."""
Vector: TypeAlias = Mapping[str, float]
"""Values by ``sloth_id``, by ``slo``, or by an empty text."""


def queries(file: str) -> dict[Panel, str]:
    """All queries of a dashboard."""

    def walk(panels: list[dict[str, Any]]) -> Iterator[tuple[Panel, str]]:
        for panel in panels:
            for target in panel.get("targets", []):
                yield (panel["id"], target["refId"]), target["expr"]
            yield from walk(panel.get("panels", []))

    return dict(walk(json.loads((Path(PEERS) / file).read_text())["panels"]))


class Watched:
    """A server with traffic, and every Prometheus that scrapes it, under two names: two replicas."""

    def __init__(self, server: Server, prometheus: Mapping[str, Prometheus]) -> None:
        self._prometheus = prometheus
        self.budgets = {slo: server.get(f"/api/v1/slos/{slo}/budget") for slo in PROMISED.values()}
        """What the API says of each SLO; of steady traffic it says so at any time."""
        hour = int(time.time()) // 3600 * 3600 + 3600
        self.to_s = hour
        """The end of the time range: subqueries by the hour see what is known now."""

    def ask(self, program: str, query: str, **variables: str) -> Vector:
        """The answer to a query of a dashboard, its variables filled in; the same at the end of a graph."""
        month = datetime.fromtimestamp(self.to_s, UTC).month
        # What Grafana knows beside the names of its variables.
        query = query.replace("${__to:date:M}", f"{month}")
        query = Template(query).substitute(variables, min_burning_rate="1", __rate_interval="1m")
        prometheus = self._prometheus[program]
        now = _vector(prometheus.ask("query", query=query, time=f"{self.to_s}")["result"])
        span = {"start": f"{self.to_s - 60}", "end": f"{self.to_s}", "step": "30"}
        drawn = prometheus.ask("query_range", query=query, **span)["result"]
        assert _vector([{**one, "value": one["values"][-1]} for one in drawn]) == now
        return now

    def burn(self, of: str, window: str = "5m") -> float:
        """The burn rate of an SLO, by ``sloth_id``."""
        return float(self.budgets[PROMISED[of]]["burn_rate"][window])

    def sli(self, of: str, window: str) -> float:
        """Good events of all, in a window."""
        return 1 - self.burn(of, window) * (1 - self.objective(of))

    def left(self, of: str) -> float:
        """What is left of its budget."""
        return float(self.budgets[PROMISED[of]]["budget"]["remaining_ratio"])

    def objective(self, of: str) -> float:
        """What it promises."""
        return float(self.budgets[PROMISED[of]]["objective"])

    def month(self, of: str) -> float:
        """What is left of a month's budget after one hour like the last."""
        return 1 - self.burn(of, "1h") / self._hours

    @property
    def ideal(self) -> float:
        """What is left of it when it is spent evenly: every full hour of the month, 0:00 included, has a share."""
        to = datetime.fromtimestamp(self.to_s, UTC)
        return 1 - (24 * (to.day - 1) + to.hour + 1) / self._hours

    @property
    def _hours(self) -> int:
        """Of the month."""
        to = datetime.fromtimestamp(self.to_s, UTC)
        return 24 * monthrange(to.year, to.month)[1]


def _vector(series: list[dict[str, Any]]) -> Vector:
    found = [(one["metric"].get("sloth_id") or one["metric"].get("slo", ""), one) for one in series]
    assert len({name for name, _ in found}) == len(found), f"more than one series of an SLO: {series}"
    return {name: float(one["value"][1]) for name, one in found}


@contextmanager
def traffic(server: Server) -> Iterator[None]:
    """Requests, two of five slow, for as long as the block runs."""
    stop = threading.Event()

    def send() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
            number = 0
            while not stop.wait(PAUSE_S):
                number += 1
                channel.unary_unary(EXPORT)(numbered_export(number), timeout=20, wait_for_ready=True)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[Watched]:
    """The rules have been evaluated on some seconds of traffic."""
    folder = tmp_path_factory.mktemp("peers")
    server = Server(folder)
    server.slos.write_text(SLOS)
    (folder / "quiet.yaml").write_text(QUIET)
    server.config.write_text(server.config.read_text().replace("[slos.yaml]", "[slos.yaml, quiet.yaml]"))
    with ExitStack() as running:
        running.callback(server.kill)
        server.start()
        prometheus = {name: _scraping(folder / f"{n}", require(name), server) for n, name in enumerate(PROGRAMS)}
        running.enter_context(traffic(server))
        for one in prometheus.values():
            running.callback(one.stop)
            one.start()
        for one in prometheus.values():
            one.until(lambda one=one: one.query('ALERTS{severity="ticket",alertstate="firing",slo="latency"}'))
            one.until(lambda one=one: one.query("pyrra_errors:rate5m > 0"))
        yield Watched(server, prometheus)


def _scraping(folder: Path, program: Path, server: Server) -> Prometheus:
    folder.mkdir()
    # So that the end of the hour sees what is scraped now.
    flags = ("--query.lookback-delta=2h",)
    replicas, rules = ("127.0.0.1", "localhost"), {"rule_files": RULES}
    return Prometheus(program, folder, server.api, hosts=replicas, more=rules, flags=flags)


@every_program
def test_sloths_overview(watched: Watched, program: str) -> None:
    """Counts, the average burn, and one series for each SLO that has events."""
    burning = {of: watched.burn(of) for of in CALLED}
    over = {of: burn for of, burn in burning.items() if burn > 1}
    expected: dict[Panel, Vector] = {
        (104, "A"): {"": len(PROMISED)},
        (105, "A"): {"": 2},
        (106, "A"): {"": sum(burning.values()) / len(burning)},
        (107, "A"): {"": 1},
        (108, "A"): {"": 1},
        (56, "A"): over,
        (38, "A"): over,
        (100, "A"): burning,
        (110, "A"): {of: watched.left(of) for of in CALLED},
    }
    asked = queries("sloth_dashboards/sloth-overview.json")
    assert {panel: watched.ask(program, query) for panel, query in asked.items()} == approximately(expected)
    assert set(over) == {"chat-latency"}


@every_program
@pytest.mark.parametrize("of", CALLED)
def test_sloths_detail(watched: Watched, program: str, of: str) -> None:
    """Every panel of an SLO, the month's among them."""
    burn, is_burning = watched.burn(of), float(of == "chat-latency")
    over = {one: watched.burn(one) for one in CALLED if watched.burn(one) > 1}
    expected: dict[Panel, Vector] = {
        (38, "A"): over,
        (56, "A"): over,
        (15, "A"): {of: watched.objective(of)},
        SLI: {"": watched.sli(of, "5m")},
        (18, "B"): {of: watched.objective(of)},
        (10, "A"): {of: 1},
        (11, "A"): {of: burn},
        (76, "A"): {of: watched.month(of)},
        (12, "A"): {of: watched.left(of)},
        (66, "A"): {of: watched.month(of)},
        (66, "B"): {"": watched.ideal},
        (87, "A"): {of: burn} if burn else {},
        (13, "A"): {"": is_burning},
        (14, "A"): {"": is_burning},
    }
    asked, variables = queries(DETAIL), variables_of(of, "5m")
    assert {panel: watched.ask(program, query, **variables) for panel, query in asked.items()} == approximately(
        expected
    )


@every_program
@pytest.mark.parametrize("of", CALLED)
def test_sloths_detail_has_every_window(watched: Watched, program: str, of: str) -> None:
    """30d is the SLO's own window, whatever its length."""
    for window in (*BURN_WINDOWS, "30d"):
        found = watched.ask(program, queries(DETAIL)[SLI], **variables_of(of, window))
        assert found == pytest.approx({"": watched.sli(of, "window" if window == "30d" else window)}), window


def variables_of(of: str, window: str) -> dict[str, str]:
    """What is chosen above the dashboard."""
    service, _, slo = CALLED[of].partition("/")
    return {"service": service, "slo": slo, "sli_window": window}


@every_program
@pytest.mark.parametrize("of", PROMISED)
def test_sloths_legend_names_the_objective(watched: Watched, program: str, of: str) -> None:
    """In percent, as people write it."""
    series = watched._prometheus[program].ask("query", query=f'sloth_slo_info{{sloth_id="{of}"}}')["result"]
    assert [one["metric"]["sloth_objective"] for one in series] == [PERCENT[of]]


@every_program
def test_pyrras_list(watched: Watched, program: str) -> None:
    """Each SLO once, and no number of one that nobody calls."""
    numbers = {slo: watched.budgets[slo] for slo in PROMISED.values()}
    days = {"30d": 30, "7d": 7, "28d": 28}
    expected: dict[Panel, Vector] = {
        (2, "A"): {slo: float(budget["objective"]) for slo, budget in numbers.items()},
        (2, "B"): {slo: 86400 * days[budget["window"]] for slo, budget in numbers.items()},
        (2, "C"): {slo: numbers[slo]["sli"] for slo in CALLED.values()},
        (2, "D"): {slo: numbers[slo]["budget"]["remaining_ratio"] for slo in CALLED.values()},
    }
    asked = queries("pyrra_dashboards/list.json")
    assert {panel: watched.ask(program, query) for panel, query in asked.items()} == approximately(expected)


BROKEN = (4, "A")
"""The panel "Rate" sums a range: no Prometheus takes that, whatever series there are."""


@every_program
@pytest.mark.parametrize("slo", CALLED.values())
def test_pyrras_detail(watched: Watched, program: str, slo: str) -> None:
    """Every panel but the one that cannot work anywhere."""
    budget = watched.budgets[slo]
    asked = queries("pyrra_dashboards/detail.json")
    with pytest.raises(urllib.error.HTTPError) as refused:
        watched.ask(program, asked.pop(BROKEN), slo=slo)
    with refused.value as answer:
        assert "expected type instant vector" in json.loads(answer.read())["error"]

    left = {slo: budget["budget"]["remaining_ratio"]}
    expected: dict[Panel, Vector] = {
        (7, "A"): {slo: float(budget["objective"])},
        (9, "A"): {slo: 86400 * float(budget["window"][:-1])},
        (8, "A"): {slo: budget["sli"]},
        (2, "A"): left,
        (6, "A"): left,
    }
    errors = watched.ask(program, asked.pop((5, "A")), slo=slo)
    assert {panel: watched.ask(program, query, slo=slo) for panel, query in asked.items()} == approximately(expected)

    # Traffic has no steady pace here, but a steady share of errors.
    requests = watched.ask(program, "sum(pyrra_requests:rate5m{slo='$slo'})", slo=slo)
    assert errors[""] == pytest.approx((1 - budget["sli"]) * requests[""], rel=0.2)


def approximately(expected: Mapping[Panel, Vector]) -> dict[Panel, Any]:
    """Equal but for what floats lose on the way through PromQL."""
    return {panel: pytest.approx(vector, rel=1e-6, abs=1e-9) for panel, vector in expected.items()}
