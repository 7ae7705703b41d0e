"""Prometheus, by our rules, says of an SLO what the exporter says itself."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml
from builders import slo

from slo_exporter.rules.own import For, Source, rule_file
from slo_exporter.rules.slos import SLOS
from slo_exporter.rules.text import text
from slo_exporter.slo import budget, burning
from slo_exporter.slo.alerting import AlertPolicy
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import BURN_WINDOWS

Run = Callable[..., str]
Drawn = tuple[Slo, Mapping[str, Counts]]


def drawn(number: int) -> Iterator[Drawn]:
    """SLOs with counts that lie around what their alerts ask for: few events, many, none, all bad."""
    random = Random(6)
    for index in range(number):
        of = slo(
            f"s{index}",
            objective=random.choice(["0.5", "0.9", "0.99", "0.999"]),
            window=random.choice(["7d", "28d", "30d", "90d"]),
        )
        policy = AlertPolicy(total_failure=random.random() < 0.8, min_bad_events=random.choice([None, None, 1, 3, 20]))
        yield replace(of, alerts=policy), _counts(random, of)


def _counts(random: Random, of: Slo) -> Mapping[str, Counts]:
    """A longer window holds what a shorter one does."""
    good = bad = 0
    found: dict[str, Counts] = {}
    scale, share = random.choice([0, 1, 3, 7, 1000]), 1 - float(of.objective)
    for window in BURN_WINDOWS:
        more = random.randint(0, 3) * scale
        wrong = round(
            more * random.choice([0.95, *(min(1.0, share * burn) for burn in (0, 0.5, 1, 3, 6, 14.4, 20, 1000))])
        )
        good, bad = good + more - wrong, bad + wrong
        found[window] = Counts(good, good + bad)
    return found


def series(of: Slo, counts: Mapping[str, Counts]) -> Iterator[tuple[str, float | None]]:
    """What /metrics shows of it."""
    mine = f'service="{of.service}", slo="{of.name}"'
    for window, count in counts.items():
        yield f'slo_burn_rate{{{mine}, window="{window}"}}', budget.burn_rate(count, of.objective)
        yield f'slo_sli_ratio{{{mine}, window="{window}"}}', budget.sli(count)
        yield f'slo_bad_events{{{mine}, window="{window}"}}', count.bad
    yield f"slo_objective_ratio{{{mine}}}", float(of.objective)
    yield f"slo_alert_min_bad_events{{{mine}}}", min((r.min_bad_events for r in of.alert_rules), default=None)
    for rule in of.alert_rules:
        which = f'{mine}, severity="{rule.severity}", tier="{rule.tier}"'
        # Total failure is the exporter's word in the rules too: it remembers since when.
        is_total = rule.factor is None and burning.holds(rule, counts, of.objective) is True
        yield f"slo_alert_active{{{which}}}", int(is_total)
        yield f"slo_alert_burn_rate_threshold{{{which}}}", None if rule.factor is None else float(rule.factor)


@pytest.mark.parametrize("source", ["served", "own"])
def test_alerts_fire_where_the_exporter_says_so(source: str, promtool: Run, tmp_path: Path) -> None:
    """Of two hundred SLOs each alert, by the rules for every SLO and by those with the numbers written in."""
    every = list(drawn(200))
    made = SLOS if source == "served" else rule_file([of for of, _ in every], Source.GAUGES, {For.ALERTS})
    fires = [
        {"labels": f'{{slo="{of.name}", severity="{rule.severity}", tier="{rule.tier}"}}', "value": 1}
        for of, counts in every
        for rule in of.alert_rules
        if burning.holds(rule, counts, of.objective)
    ]
    test = {
        "rule_files": ["made.rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": f"{value!r}x3"}
                    for of, counts in every
                    for name, value in series(of, counts)
                    if value is not None
                ],
                "promql_expr_test": [
                    {
                        "expr": 'count by (slo, severity, tier) (ALERTS{alertstate="firing", tier!=""})',
                        "eval_time": "2m",
                        "exp_samples": fires,
                    }
                ],
            }
        ],
    }
    (tmp_path / "made.rules.yml").write_text(text(made))
    (tmp_path / "made.test.yml").write_text(yaml.safe_dump(test))

    assert 80 < len(fires) < 600
    assert sum("total" in str(fire["labels"]) for fire in fires) > 10
    promtool("test", "rules", tmp_path / "made.test.yml")
