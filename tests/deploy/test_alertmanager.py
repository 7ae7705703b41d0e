"""deploy/alertmanager.yml: right for every Alertmanager, and it sends alerts where they belong."""

import itertools
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_exporter.slo.alerting import Severity, Tier

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy/alertmanager.yml"
SAMPLE: dict[str, Any] = yaml.safe_load(CONFIG.read_text())
SOON_S = 20.0

# As for tests/system: further programs, separated by colons; each has its amtool beside it.
NEWER = [program for program in os.environ.get("SLO_EXPORTER_ALERTMANAGER", "").split(":") if program]
AMTOOLS = ["amtool", *(str(Path(program).with_name("amtool")) for program in NEWER)]

SLO = {"service": "chat", "slo": "latency"}
PAGE, TICKET = {"severity": "page"}, {"severity": "ticket"}
LLM = {"team": "llm"}
ROUTED: list[tuple[dict[str, str], str]] = [
    (SLO | PAGE | LLM, "llm-pager"),
    (SLO | PAGE | {"team": "search"}, "pager"),
    (SLO | PAGE, "pager"),
    (SLO | TICKET | LLM, "tickets"),
    (SLO | TICKET, "tickets"),
    ({"alertname": "SloExporterDown"} | PAGE, "pager"),
    ({"alertname": "SloExporterDropsExports"} | TICKET, "tickets"),
    ({"alertname": "OfSomebodyElse"}, "tickets"),
]


@pytest.fixture(params=AMTOOLS)
def amtool(request: pytest.FixtureRequest, require: Callable[[str], Path]) -> Callable[..., str]:
    """Run amtool, of each Alertmanager that there is; what it says."""
    program = require(request.param)

    def run(*arguments: str | Path) -> str:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_amtool_has_nothing_against_it(amtool: Callable[..., str]) -> None:
    """It parses, and every route leads to a receiver that there is."""
    said = amtool("check-config", CONFIG)

    assert "SUCCESS" in said
    assert f"{len(SAMPLE['inhibit_rules'])} inhibit rules" in said


def test_alerts_go_where_they_belong(amtool: Callable[..., str]) -> None:
    """By severity, and the pages of a team with a rota of its own to that team; what is unknown is a ticket."""
    routed = [
        amtool(
            "config", "routes", "test", f"--config.file={CONFIG}", *(f"{key}={text}" for key, text in labels.items())
        )
        for labels, _ in ROUTED
    ]

    assert [said.strip() for said in routed] == [receiver for _, receiver in ROUTED]


def test_the_pages_of_a_team_come_from_the_rules_for_every_slo(
    amtool: Callable[..., str], require: Callable[[str], Path], tmp_path: Path
) -> None:
    """Its label is on what they fire, and by it the page goes to its rota."""
    labels = {"service": "chat", "slo": "s", "severity": "page", "tier": "quick", "team": "llm"}
    mine = 'service="chat", slo="s"'
    series = {
        f'slo_info{{{mine}, team="llm"}}': 1,
        f'slo_burn_rate{{{mine}, window="1h"}}': 50,
        f'slo_burn_rate{{{mine}, window="5m"}}': 50,
        f'slo_bad_events{{{mine}, window="1h"}}': 50,
        f'slo_alert_burn_rate_threshold{{{mine}, severity="page", tier="quick"}}': 14,
        f"slo_alert_min_bad_events{{{mine}}}": 5,
    }
    firing = ", ".join(f"{key}={json.dumps(said)}" for key, said in labels.items())
    case = {
        "expr": f"count by ({', '.join(labels)}) (ALERTS)",
        "eval_time": "3m",
        "exp_samples": [{"labels": f"{{{firing}}}", "value": 1}],
    }
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": f"{value}x9"} for name, value in series.items()],
        "promql_expr_test": [case],
    }
    path = tmp_path / "team.test.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ROOT / "rules/slos.rules.yml")], "tests": [test]}))
    done = subprocess.run([require("promtool"), "test", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    said = amtool(
        "config", "routes", "test", f"--config.file={CONFIG}", *(f"{key}={said}" for key, said in labels.items())
    )
    assert said.strip() == "llm-pager"


def test_what_is_wrong_with_one_slo_is_one_notification() -> None:
    """Alerts on SLOs are grouped by service and SLO, at any severity."""
    (route,) = [one for one in SAMPLE["route"]["routes"] if one["matchers"] == ['slo=~".+"']]

    assert route["group_by"] == ["service", "slo"]
    assert not any("group_by" in child for child in route["routes"])


def test_its_receivers_are_placeholders_on_this_machine() -> None:
    """Whoever forgets to fill them in tells nobody else."""
    urls = [hook["url"] for receiver in SAMPLE["receivers"] for hook in receiver["webhook_configs"]]

    assert len(urls) == len(SAMPLE["receivers"])
    assert all(url.startswith("http://127.0.0.1:") for url in urls)


def test_it_speaks_of_severities_and_tiers_that_there_are() -> None:
    """The words are those of slo/alerting.py."""
    texts = [
        text for rule in SAMPLE["inhibit_rules"] for side in ("source", "target") for text in rule[f"{side}_matchers"]
    ]
    said = {
        key: set("|".join(text.split('"')[1] for text in texts if text.startswith(key)).split("|"))
        for key in ("severity", "tier")
    }

    assert said == {"severity": set(Severity), "tier": set(Tier)}


# The second of them is silenced by the first: alerts are taken in in order, so all before them are in.
LAST = [{"service": "last", "slo": "last", "tier": "quick"} | labels for labels in (PAGE, TICKET)]


class Alertmanager:
    """A real one with the sample's configuration, on loopback."""

    def __init__(self, program: Path, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        command = [
            program,
            f"--config.file={CONFIG}",
            f"--storage.path={folder}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--cluster.listen-address=",
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def ask(self, path: str, body: object = None) -> Any:
        """What its API answers."""
        request = urllib.request.Request(f"{self.url}/api/v2/{path}")  # noqa: S310 - loopback
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=SOON_S) as answer:  # noqa: S310 - loopback
            return json.loads(answer.read() or "null")

    def starts(self) -> None:
        """Wait until it answers."""
        for left in range(int(SOON_S / 0.05), -1, -1):
            try:
                self.ask("status")
            except urllib.error.URLError:
                assert left, "Alertmanager did not start"
                time.sleep(0.05)
            else:
                return

    def inhibited(self, *alerts: dict[str, str]) -> list[bool]:
        """Fire them all, and of each say whether nobody is told of it; then they are over."""
        fired = [{"labels": {"alertname": "Burn", **labels}} for labels in (*alerts, *LAST)]
        self.ask("alerts", fired)
        for left in range(int(SOON_S / 0.05), -1, -1):
            silent = {
                frozenset(one["labels"].items()): bool(one["status"]["inhibitedBy"]) for one in self.ask("alerts")
            }
            found = [silent.get(frozenset(one["labels"].items()), False) for one in fired]
            if found[-1]:
                break
            assert left, "Alertmanager did not take the alerts in"
            time.sleep(0.05)
        self.ask(
            "alerts", [{**one, "endsAt": "2020-01-01T00:00:00Z", "startsAt": "2020-01-01T00:00:00Z"} for one in fired]
        )
        return found[: len(alerts)]


@pytest.fixture(scope="module", params=["prometheus-alertmanager", *NEWER])
def alertmanager(
    request: pytest.FixtureRequest, require: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Alertmanager]:
    """Every Alertmanager that there is."""
    one = Alertmanager(require(request.param), tmp_path_factory.mktemp("alertmanager"))
    one.starts()
    yield one
    one.process.kill()
    one.process.wait()


TIERS = [
    {"severity": severity, "tier": tier}
    for severity, tier in (("page", "total"), *itertools.product(("page", "ticket"), ("quick", "slow")))
]


def test_of_one_slo_only_the_most_urgent_alert_is_told(alertmanager: Alertmanager) -> None:
    """Total, else a quick page, else a slow one, else a quick ticket, else a slow one."""
    for first in range(len(TIERS)):
        fired = [SLO | labels for labels in TIERS[first:]]

        assert alertmanager.inhibited(*fired) == [False, *[True] * (len(fired) - 1)]


@pytest.mark.parametrize(
    "other", [{"service": "embed"}, {"slo": "availability"}, {"group": "llama"}, {"node": "gpu-7"}], ids=str
)
def test_another_slo_is_not_silenced(alertmanager: Alertmanager, other: dict[str, str]) -> None:
    """Each service, SLO, group and node has alerts of its own."""
    fired = [SLO | TIERS[0], SLO | other | {"severity": "ticket", "tier": "quick"}]

    assert alertmanager.inhibited(*fired) == [False, False]


def test_the_exporter_silences_no_objective_and_no_ticket_of_its_own(alertmanager: Alertmanager) -> None:
    """Labels that both sides lack are equal to Alertmanager: only what says so is silenced."""
    fired = [
        {"alertname": "SloExporterDown", "instance": "a:1"} | PAGE,
        {"alertname": "SloExporterOverflows", "instance": "a:1"} | TICKET,
        SLO | TICKET | {"tier": "slow"},
    ]

    assert alertmanager.inhibited(*fired) == [False, False, False]


def test_an_exporter_that_takes_no_exports_is_told_once(alertmanager: Alertmanager) -> None:
    """That it refuses them too is no news, unless it is another one that does."""
    fired = [
        {"alertname": "SloExporterNotReady", "instance": "a:1"} | PAGE,
        {"alertname": "SloExporterRefusesExports", "instance": "a:1"} | PAGE,
        {"alertname": "SloExporterRefusesExports", "instance": "b:1"} | PAGE,
    ]

    assert alertmanager.inhibited(*fired) == [False, True, False]


def test_a_gpu_that_is_gone_is_told_once(alertmanager: Alertmanager) -> None:
    """Its tickets are no news, those of the GPU beside it are."""
    host = {"node": "n1"}
    fired = [
        {"alertname": "GpuLost", "uuid": "GPU-1"} | host | PAGE,
        {"alertname": "GpuThrottled", "uuid": "GPU-1"} | host | TICKET,
        {"alertname": "GpuThrottled", "uuid": "GPU-2"} | host | TICKET,
        {"alertname": "GpusUnread"} | host | TICKET,
    ]

    assert alertmanager.inhibited(*fired) == [False, True, False, False]


def rules() -> Iterator[tuple[str, dict[str, str]]]:
    """Every alert that is shipped, with the labels that its rule gives it."""
    for file in (ROOT / "rules").glob("*.rules.yml"):
        for group in yaml.safe_load(file.read_text())["groups"]:
            yield from ((rule["alert"], rule.get("labels", {})) for rule in group["rules"] if "alert" in rule)


def test_it_speaks_of_alerts_that_there_are() -> None:
    """A name in a matcher is that of a shipped alert, and every one of those has a severity."""
    shipped = dict(rules())
    matchers = [
        text for rule in SAMPLE["inhibit_rules"] for side in ("source", "target") for text in rule[f"{side}_matchers"]
    ]
    named = [re.compile(text.split('"')[1]) for text in matchers if text.startswith("alertname=~")]

    assert [sum(bool(name.fullmatch(alert)) for alert in shipped) for name in named] == [2, 2, 2]
    assert {labels["severity"] for labels in shipped.values()} == set(Severity)
