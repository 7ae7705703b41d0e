"""The files of rules/: as the generator makes them, right for Prometheus, about what exists, and explained."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_exporter.ingest.otlp.refusals import REASONS
from slo_exporter.rules import __main__ as generator
from slo_exporter.rules import operator
from slo_exporter.rules.committed import COMMITTED
from slo_exporter.slo.alerting import STANDARD
from slo_exporter.web.metrics.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "rules").glob("*.rules.yml"))
TESTS = sorted((ROOT / "rules/tests").glob("*.test.yml"))
RUNBOOKS = (ROOT / "docs/runbooks.md").read_text()

METRICS = {metric.name: metric for metric in CATALOGUE}
TARGET_LABELS = {"job", "instance", "pod", "container", "endpoint", "node", "namespace"}
RULE_LABELS = {"alertname", "alertstate", "severity", "tier", "long_window", "short_window", "window", "team"}
SELECTOR = re.compile(r"(?<![\"\w])(up|(?:slo|inference|gpu)_[a-z0-9_]+)\b(?:\{([^}]*)\})?(?!\")")

Run = Callable[..., str]


def rules() -> list[dict[str, Any]]:
    """Every rule of every file, in the order of the files."""
    read = [yaml.safe_load((ROOT / "rules" / name).read_text()) for name in COMMITTED]
    return [rule for file in read for group in file["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """Those that alert."""
    return [rule for rule in rules() if "alert" in rule]


def name_of(rule: dict[str, Any]) -> str:
    """An id for pytest."""
    labels = rule.get("labels", {})
    return "-".join([rule.get("alert") or rule["record"], labels.get("severity", ""), labels.get("tier", "")])


RECORDED = {rule["record"]: rule["expr"] for rule in rules() if "record" in rule}
each_rule = pytest.mark.parametrize("rule", rules(), ids=name_of)
each_alert = pytest.mark.parametrize("alert", alerts(), ids=name_of)


def test_the_files_are_what_the_generator_makes(tmp_path: Path) -> None:
    """After a change: python -m slo_exporter.rules rules."""
    made = tmp_path / "rules"
    made.mkdir()

    generator.main(made)

    assert {path.name: path.read_text() for path in FILES} == {path.name: path.read_text() for path in made.iterdir()}
    assert (tmp_path / operator.PLACE).read_text() == (ROOT / operator.PLACE).read_text()


def test_promtool_has_nothing_against_the_rules(promtool: Run) -> None:
    """They parse, and none stands twice."""
    said = promtool("check", "rules", "--lint=all", *FILES)

    assert sum(map(int, re.findall(r"SUCCESS: (\d+) rules found", said))) == len(rules())


def test_alerts_fire_on_their_faults_only(promtool: Run) -> None:
    """rules/tests: each on its fault, then no more; none in a healthy hour. Series of others, too."""
    assert TESTS
    promtool("test", "rules", *TESTS)


def test_prometheus_loads_the_rules_as_compose_mounts_them(promtool: Run, tmp_path: Path) -> None:
    """The configuration is right, and its pattern finds the rules and not their tests."""
    shutil.copy(ROOT / "deploy/prometheus.yml", tmp_path)
    shutil.copytree(ROOT / "rules", tmp_path / "rules")

    said = promtool("check", "config", tmp_path / "prometheus.yml")

    assert f"{len(COMMITTED)} rule files found" in said


def selectors(expr: str) -> Iterator[tuple[str, set[str]]]:
    """The metrics of an expression, each with the labels that it is asked for."""
    for name, matchers in SELECTOR.findall(expr):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))


def expanded(expr: str) -> str:
    """The expression with what our own recordings stand for."""
    return re.sub(r"\bslo:[a-z_]+:[a-z_]+", lambda found: RECORDED.get(found[0], found[0]), expr)


@each_rule
def test_rules_ask_for_metrics_that_exist(rule: dict[str, Any]) -> None:
    """Names and labels stand in the catalogue; `up` is Prometheus' own."""
    expr = re.sub(r'"[^"]*"(?=[,)])', '""', expanded(rule["expr"]))
    asked = [(name, labels) for name, labels in selectors(expr) if name != "up"]
    grouped = {
        label for part in re.findall(r"(?:without|ignoring) \(([^)]*)\)", rule["expr"]) for label in part.split(", ")
    }

    assert asked or rule.get("alert") in ("SloExporterDown", "SloExporterGpusDown")
    assert [name for name, _ in asked if name not in METRICS] == []
    assert [labels for name, labels in asked if not labels <= TARGET_LABELS | set(METRICS[name].labels)] == []
    known = {label for name, _ in asked for label in METRICS[name].labels}
    assert {label for label in grouped if not label.startswith("sloth_")} <= known | TARGET_LABELS | RULE_LABELS


def test_the_prometheus_operator_gets_every_rule() -> None:
    """The same groups, in an object of its own kind."""
    made = yaml.safe_load((ROOT / operator.PLACE).read_text())
    groups = [group for name in COMMITTED for group in yaml.safe_load((ROOT / "rules" / name).read_text())["groups"]]

    assert (made["apiVersion"], made["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert made["spec"] == {"groups": groups}


@each_alert
def test_an_update_of_the_exporter_fires_no_alert_again(alert: dict[str, Any]) -> None:
    """Alerts on SLOs and GPUs lack what changes with a process."""
    ours = alert["alert"].startswith("SloExporter")
    kept = re.search(r"max without \(instance, pod, (?:container, endpoint|window)[,)]", expanded(alert["expr"]))

    assert bool(kept) != ours


@each_alert
def test_alerts_say_how_urgent_they_are_and_what_to_do(alert: dict[str, Any]) -> None:
    """A severity, a sentence, an explanation, and a section of docs/runbooks.md."""
    said = alert["annotations"]

    assert alert["labels"]["severity"] in ("page", "ticket")
    assert said["summary"].endswith((".", "?"))
    assert said["description"].endswith((".", "{{ end }}"))
    assert said["runbook"] == f"docs/runbooks.md#{alert['alert'].lower()}"


def test_every_pair_of_windows_has_an_alert() -> None:
    """As the exporter judges them itself."""
    shown = {
        (labels["severity"], labels["tier"], labels["long_window"], labels["short_window"])
        for labels in (alert["labels"] for alert in alerts())
        if "long_window" in labels
    }

    assert shown == {(burn.severity, burn.tier, burn.long, burn.short) for burn in STANDARD}


def test_runbooks_have_a_section_for_each_alert_and_no_other() -> None:
    """In the same order, with the same severities."""
    severities: dict[str, list[str]] = {}
    for alert in alerts():
        severities.setdefault(alert["alert"], []).append(alert["labels"]["severity"])
    wanted = [(name, " ".join(f"`{severity}`" for severity in dict.fromkeys(of))) for name, of in severities.items()]

    assert re.findall(r"^## (\w+)\n\n((?:`\w+` ?)+) · ", RUNBOOKS, re.MULTILINE) == wanted
    assert len(wanted) == RUNBOOKS.count("\n## ")


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
