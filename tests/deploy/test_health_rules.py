"""The alerts on our own health: right for Prometheus, about what exists, and explained."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_exporter.ingest.otlp.refusals import REASONS
from slo_exporter.web.metrics.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules/slo-exporter.rules.yml"
TESTS = sorted((ROOT / "rules/tests").glob("*.test.yml"))
RUNBOOKS = (ROOT / "docs/runbooks.md").read_text()

METRICS = {metric.name: metric for metric in CATALOGUE}
TARGET_LABELS = {"job", "instance"}
SELECTOR = re.compile(r"\b(up|(?:slo|inference|gpu)_[a-z0-9_]+)(?:\{([^}]*)\})?")

Run = Callable[..., str]


def alerts() -> list[dict[str, Any]]:
    """Every rule of the file."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


each_alert = pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])


# As for tests/system: further programs, separated by colons; each has its promtool beside it.
NEWER = [program for program in os.environ.get("SLO_EXPORTER_PROMETHEUS", "").split(":") if program]
PROMTOOLS = ["promtool", *(str(Path(program).with_name("promtool")) for program in NEWER)]


@pytest.fixture(params=PROMTOOLS)
def promtool(request: pytest.FixtureRequest, require: Callable[[str], Path]) -> Run:
    """Run promtool, of each Prometheus that there is; what it says."""
    program = require(request.param)

    def run(*arguments: str | Path) -> str:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_promtool_has_nothing_against_the_rules(promtool: Run) -> None:
    """They parse, and none stands twice."""
    assert f"SUCCESS: {len(alerts())} rules found" in promtool("check", "rules", "--lint=all", RULES)


def test_alerts_fire_on_their_faults_only(promtool: Run) -> None:
    """rules/tests: each on its fault, then no more; none in a healthy hour."""
    assert TESTS
    promtool("test", "rules", *TESTS)


def test_prometheus_loads_the_rules_as_compose_mounts_them(promtool: Run, tmp_path: Path) -> None:
    """The configuration is right, and its pattern finds the rules and not their tests."""
    shutil.copy(ROOT / "deploy/prometheus.yml", tmp_path)
    shutil.copytree(ROOT / "rules", tmp_path / "rules")

    said = promtool("check", "config", tmp_path / "prometheus.yml")

    assert "1 rule files found" in said
    assert f"SUCCESS: {len(alerts())} rules found" in said


def selectors(expr: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of an expression, each with the labels that it is asked for."""
    for name, matchers in SELECTOR.findall(expr):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))


@each_alert
def test_alerts_ask_for_metrics_that_exist(alert: dict[str, Any]) -> None:
    """Names and labels stand in the catalogue; `up` is Prometheus' own."""
    asked = [(name, labels) for name, labels in selectors(alert["expr"]) if name != "up"]
    grouped = {
        label for part in re.findall(r"(?:without|ignoring) \(([^)]*)\)", alert["expr"]) for label in part.split(", ")
    }

    assert asked or alert["alert"] == "SloExporterDown"
    assert [name for name, _ in asked if name not in METRICS] == []
    assert [labels for name, labels in asked if not labels <= TARGET_LABELS | set(METRICS[name].labels)] == []
    assert grouped <= {label for name, _ in asked for label in METRICS[name].labels}


@each_alert
def test_alerts_say_how_urgent_they_are_and_what_to_do(alert: dict[str, Any]) -> None:
    """A severity, a sentence, an explanation, and a section of docs/runbooks.md."""
    said = alert["annotations"]

    assert alert["labels"]["severity"] in ("page", "ticket")
    assert said["summary"].endswith((".", "?"))
    assert said["description"].endswith(".")
    assert said["runbook"] == f"docs/runbooks.md#{alert['alert'].lower()}"


def test_runbooks_have_a_section_for_each_alert_and_no_other() -> None:
    """In the same order, with the same severity."""
    sections = re.findall(r"^## (\w+)\n\n`(\w+)` · ", RUNBOOKS, re.MULTILINE)

    assert sections == [(alert["alert"], alert["labels"]["severity"]) for alert in alerts()]
    assert len(sections) == RUNBOOKS.count("\n## ")


def test_runbooks_link_to_sections_that_exist() -> None:
    """Links within the page."""
    anchors = {heading.lower() for heading in re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE)}

    assert set(re.findall(r"\]\(#([^)]+)\)", RUNBOOKS)) <= anchors


def test_runbooks_explain_every_reason_to_refuse_a_span() -> None:
    """The label of the alert leads to a row of the table."""
    assert [reason for reason in REASONS if f"`{reason}`" not in RUNBOOKS] == []


def test_every_alert_is_seen_firing_and_silent() -> None:
    """rules/tests has both for each, the silence at the end."""
    tests = [test for path in TESTS for test in yaml.safe_load(path.read_text())["tests"]]
    cases = [case for test in tests for case in test.get("alert_rule_test", ())]
    fired = {case["alertname"] for case in cases if case.get("exp_alerts")}
    ended = {case["alertname"] for case in cases if not case.get("exp_alerts")}

    assert fired == ended == {alert["alert"] for alert in alerts()}
