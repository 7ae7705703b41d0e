"""Rules for the SLOs of given files."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from builders import slo
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from slo_exporter.rules.model import Alert, RuleFile
from slo_exporter.rules.own import For, Source, ambiguous, rule_file, uncountable
from slo_exporter.rules.promql import label_names, number
from slo_exporter.rules.text import text
from slo_exporter.sli import condition
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.indicator import Indicator
from slo_exporter.sli.vocabulary import GPUS
from slo_exporter.slo.alerting import AlertPolicy
from slo_exporter.slo.definition import Slo

Run = Callable[..., str]

ODD = replace(slo("p99.each-minute", service="b.c", objective="0.9995", window="4w"), labels={
    "team": "llm",
    "tier": "gold",
    "pyrra.dev/owner": 'a "b" \\ c',
    "on": "yes",
    "template": "{{ $value }}",
})  # fmt: skip
EVERY = frozenset(For)
each_source = pytest.mark.parametrize("source", list(Source))


def alerts_of(file: RuleFile) -> list[Alert]:
    """Those that alert."""
    return [rule for rule in file.rules if isinstance(rule, Alert)]


@each_source
def test_promtool_has_nothing_against_generated_rules(source: Source, promtool: Run, tmp_path: Path) -> None:
    """Odd names, labels that need quotes, windows of each unit, an SLO without alerts."""
    silent = replace(slo("quiet", window="3d"), alerts=AlertPolicy.silent())
    slos = [slo(), ODD, silent, slo("short", window="1h"), slo("half", objective="0.5", window="100d")]
    path = tmp_path / "own.rules.yml"
    path.write_text(text(rule_file(slos, source, EVERY)))

    assert "SUCCESS" in promtool("check", "rules", "--lint=all", path)


@each_source
def test_the_text_is_the_values(source: Source) -> None:
    """What YAML reads back is what was made: every name, expression and label."""
    made = rule_file([ODD], source, EVERY)
    read = [rule for group in yaml.safe_load(text(made))["groups"] for rule in group["rules"]]

    assert [rule.get("alert") or rule["record"] for rule in read] == [rule.name for rule in made.rules]
    assert [rule["expr"].rstrip("\n") for rule in read] == [rule.expr for rule in made.rules]
    of_rules = [
        {**({"severity": rule.severity.value} if isinstance(rule, Alert) else {}), **rule.labels} for rule in made.rules
    ]
    assert [rule.get("labels", {}) for rule in read] == of_rules


@each_source
def test_the_order_of_files_does_not_matter(source: Source) -> None:
    """The same SLOs give the same text."""
    assert text(rule_file([slo(), ODD], source, EVERY)) == text(rule_file([ODD, slo()], source, EVERY))


@each_source
def test_alerts_carry_the_labels_of_the_author(source: Source) -> None:
    """So that they route; a name of ours gets a prefix."""
    for alert in alerts_of(rule_file([ODD], source, EVERY)):
        assert alert.labels["team"] == "llm"
        assert alert.labels["label_tier"] == "gold"
        assert alert.labels["pyrra_dev_owner"] == 'a "b" \\ c'
        assert alert.labels["sloth_id"] == "b.c-p99.each-minute"


def test_thresholds_are_written_in() -> None:
    """Of 28 days, as short as they are exact."""
    burns = [
        alert for alert in alerts_of(rule_file([ODD], Source.GAUGES, {For.ALERTS})) if "long_window" in alert.labels
    ]

    assert [alert.labels["long_window"] for alert in burns] == ["1h", "6h", "1d", "3d"]
    for alert, factor in zip(burns, ("13.44", "5.6", "2.8", "1"), strict=True):
        assert alert.expr.count(f"\n    > {factor}\n") == 2


def test_what_the_author_left_out_is_left_out() -> None:
    """No alert where none is wanted; no threshold that cannot be reached."""
    silent = replace(slo(), alerts=AlertPolicy.silent())
    lenient = slo(objective="0.5")

    assert alerts_of(rule_file([silent], Source.GAUGES, EVERY)) == []
    tiers = [alert.labels.get("long_window", "") for alert in alerts_of(rule_file([lenient], Source.GAUGES, EVERY))]
    assert tiers == ["", "3d", ""]


@pytest.mark.parametrize(
    ("wanted", "prefixes"),
    [
        ({For.ALERTS}, {"Slo"}),
        ({For.SLOTH}, {"slo"}),
        ({For.PYRRA}, {"pyr"}),
    ],
)
def test_only_what_was_asked_for(wanted: set[For], prefixes: set[str]) -> None:
    """Gauges need nothing else."""
    assert {rule.name[:3] for rule in rule_file([slo()], Source.GAUGES, wanted).rules} == prefixes


def test_counters_read_nothing_but_the_counters() -> None:
    """No gauge of ours stands in their rules."""
    made = text(rule_file([slo()], Source.COUNTERS, EVERY))

    assert "slo_events_total" in made
    assert not any(name in made for name in ("slo_burn_rate", "slo_sli_ratio", "slo_bad_events", "slo_objective_ratio"))


def test_sloth_ids_that_are_the_same_are_found() -> None:
    """Dashboards could not tell the two apart."""
    slos = [slo("b-c", service="a"), slo("c", service="a-b"), slo("d", service="a-b")]

    assert list(ambiguous(slos)) == [
        "a-b/c and a/b-c have the same sloth_id 'a-b-c'; rename one of them, or leave out --for sloth"
    ]


def test_group_names_differ() -> None:
    """Prometheus refuses a file in which one stands twice."""
    made = rule_file([slo("b-c", service="a"), slo("c", service="a-b")], Source.COUNTERS, {For.ALERTS})
    names = [group.name for group in made.groups]

    assert len(set(names)) == len(names) == 4


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
"""What an author's label may say: every character that UTF-8 can write."""


@given(TEXTS)
def test_labels_of_every_character_are_read_back(label: str) -> None:
    """By YAML, on series and on alerts."""
    made = rule_file([replace(slo(), labels={"owner": label})], Source.GAUGES, EVERY)
    read = [rule for group in yaml.safe_load(text(made))["groups"] for rule in group["rules"]]

    assert [rule["labels"]["owner"] for rule in read] == [rule.labels["owner"] for rule in made.rules]
    assert {rule["labels"]["owner"] for rule in read if "record" in rule} == {label}


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, min_size=20, max_size=20))
@example(["\U0001f600", "a\u2028b", "\x85", "\x7f", "\ufeff", "\ufffe", "\U0010ffff", "{{ $value }}", "\x00", "é"])
def test_promtool_loads_labels_of_every_character(promtool: Run, tmp_path: Path, labels: list[str]) -> None:
    """Among them what JSON escapes as two, and what YAML takes for the end of a line."""
    slos = [replace(slo(f"s{number}"), labels={"owner": label}) for number, label in enumerate(labels)]
    path = tmp_path / "own.rules.yml"
    path.write_text(text(rule_file(slos, Source.GAUGES, {For.ALERTS, For.PYRRA})), encoding="utf-8")

    assert "SUCCESS" in promtool("check", "rules", path)


ON_GPUS = replace(
    slo("up", service="gpus"),
    indicator=Indicator(GpuSelector("gpus"), condition.parse("min(up) >= 100%", GPUS), timeslice_s=60),
)


def test_gpus_have_no_counters_to_add_up() -> None:
    """Every node has its own; other SLOs have."""
    assert [said.split(" is on ")[0] for said in uncountable([slo(), ON_GPUS])] == ["gpus/up"]


def held(promtool: Run, folder: Path, of: Slo, source: Source, series: dict[str, str], firing: dict[str, bool]) -> None:
    """Evaluate the rules of an SLO every minute, and say at which times its page fires."""
    (folder / "own.rules.yml").write_text(text(rule_file([of], source, {For.ALERTS})))
    test = {
        "rule_files": ["own.rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{severity="page", tier="quick"})',
                        "eval_time": at,
                        "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                    }
                    for at, fires in firing.items()
                ],
            }
        ],
    }
    (folder / "own.test.yml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", folder / "own.test.yml")


MINE = 'service="chat", slo="latency", tier="prod"'
SERVED = {
    "slo_exporter_ready": "1x100",
    f'slo_burn_rate{{{MINE}, window="1h"}}': "50x10 stale",
    f'slo_burn_rate{{{MINE}, window="5m"}}': "50x10 stale",
    f'slo_bad_events{{{MINE}, window="1h"}}': "50x10 stale",
    f"slo_objective_ratio{{{MINE}}}": "0.9x100",
}
ACTIVE = 'slo_alert_active{service="chat", slo="latency", severity="page", tier="quick"}'


@pytest.mark.parametrize(
    ("more", "firing"),
    [
        ({ACTIVE: "1x40 0x60"}, {"5m": True, "40m": True, "42m": False}),
        ({ACTIVE: "1x10 stale"}, {"5m": True, "12m": False}),
        ({"slo_exporter_ready": "1x10 stale"}, {"5m": True, "30m": True, "90m": True}),
        ({"slo_exporter_ready": "1x10 _x80 1x10", ACTIVE: "1x10 _x80 0x10"}, {"80m": True, "92m": False}),
    ],
    ids=["until it says so", "deleted", "away", "back, and calm"],
)
def test_an_alert_is_held_by_the_exporter(
    more: dict[str, str], firing: dict[str, bool], promtool: Run, tmp_path: Path
) -> None:
    """For as long as it says so, or does not answer; a label of the target that is called as ours is none."""
    held(promtool, tmp_path, slo(), Source.GAUGES, SERVED | more, firing)


def test_counters_hold_an_alert_for_six_hours(promtool: Run, tmp_path: Path) -> None:
    """Without events; nothing there knows what the exporter says."""
    series = {
        'slo_events_total{service="chat", slo="latency", outcome="good"}': "0x600",
        'slo_events_total{service="chat", slo="latency", outcome="bad"}': "0+10x30 300x600",
    }

    held(promtool, tmp_path, slo(), Source.COUNTERS, series, {"20m": True, "3h": True, "6h": True, "7h": False})


def test_counters_end_an_alert_that_the_long_window_denies(promtool: Run, tmp_path: Path) -> None:
    """Though the short one is empty: good events, and silence before they leave the hour."""
    series = {
        'slo_events_total{service="chat", slo="latency", outcome="good"}': "0x30 0+100x10 1000x100",
        'slo_events_total{service="chat", slo="latency", outcome="bad"}': "0+10x30 300x120",
    }

    held(promtool, tmp_path, slo(), Source.COUNTERS, series, {"20m": True, "100m": False})


@given(st.decimals(min_value=Decimal("0.0001"), max_value=Decimal("0.9999"), places=4))
def test_numbers_are_the_nearest_floats(exact: Decimal) -> None:
    """0.001, not 0.0010000000000000009."""
    assert float(number(1 - exact)) == float(1 - exact)
    assert len(number(1 - exact)) <= 6


@given(st.dictionaries(st.text(max_size=8), st.just("x"), max_size=6))
def test_label_names_are_prometheus_own(labels: dict[str, str]) -> None:
    """Whatever an author writes: one each, none of ours, none reserved."""
    names = [name for name, _ in label_names(labels, ["service", "tier"])]

    assert len(set(names)) == len(labels)
    assert all(name.isascii() and name.isidentifier() and not name.startswith("__") for name in names)
    assert not {"service", "tier"} & set(names)


def test_a_slo_without_rules_makes_no_group() -> None:
    """Nothing asked for is nothing written."""

    def groups(of: Slo) -> int:
        return len(rule_file([of], Source.GAUGES, frozenset()).groups)

    assert groups(slo()) == 0
