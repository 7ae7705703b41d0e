"""
Four histories on which rules that average ratios go wrong: ours, and our own numbers, are right.

1. 719 busy hours, then one in which 10 of 10 fail.
2. An hour without traffic.
3. An outcome that has never been counted.
4. Half of the history is missing, and two replicas are scraped.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from builders import NOON_NS, slo

from slo_exporter.clock import SECOND_NS
from slo_exporter.rules.own import For, Source, rule_file
from slo_exporter.rules.text import text
from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.ledger import Entry, Ledger, Opening
from slo_exporter.slo.report import BudgetReport, State
from slo_exporter.slo.uptime import Uptime
from slo_exporter.slo.windows import Window

HOUR_S = 3600
MONTH = slo("availability", "outcome == ok", objective="0.999")
TWO_DAYS = replace(MONTH, window=Window("2d", 2 * 86_400))
SLOTH = 'sloth_id="chat-availability", sloth_service="chat", sloth_slo="availability"'
OURS = 'service="chat", slo="availability"'

Run = Callable[..., str]


def answers(
    promtool: Run,
    folder: Path,
    of: Slo,
    series: dict[str, str],
    expected: dict[str, float | None],
    *,
    at: str,
    step: str,
) -> None:
    """Evaluate the counters' rules over *series*, a sample an hour or as *step* says, and compare."""
    made = rule_file([of], Source.COUNTERS, frozenset(For))
    (folder / "own.rules.yml").write_text(text(made))
    test = {
        "rule_files": ["own.rules.yml"],
        "evaluation_interval": "1h" if at != "720h" else "12h",
        "tests": [
            {
                "interval": step,
                "input_series": [
                    {"series": f"slo_events_total{{{OURS}, {labels}}}", "values": values}
                    for labels, values in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": name,
                        "eval_time": at,
                        "exp_samples": [] if value is None else [{"labels": _labels(name), "value": value}],
                    }
                    for name, value in expected.items()
                ],
            }
        ],
    }
    (folder / "own.test.yml").write_text(yaml.safe_dump(test))
    promtool("test", "rules", folder / "own.test.yml")


def _labels(expr: str) -> str:
    (name,) = re.findall(r"slo:[\w:]+", expr)
    window = name.partition("ratio_rate")[2]
    own = OURS if name == "slo:coverage:ratio" else SLOTH
    further = f', sloth_window="{window}"' if window else ""
    return f"{name if expr == name else ''}{{{own}{further}}}"


def report(of: Slo, hours: Sequence[tuple[int, int]], *, up: Sequence[tuple[int, int]] = ()) -> BudgetReport:
    """
    Our own numbers.

    Args:
        of: the SLO.
        hours: good and bad events of each hour, the last one ending now.
        up: from which to which of these hours we were accepting; without it all the time.
    """
    start_s = NOON_NS // SECOND_NS - len(hours) * HOUR_S
    spans = up or [(0, len(hours))]
    ledger = Ledger(
        Opening(
            slos=[of],
            started_ns=[start_s * SECOND_NS],
            totals=np.zeros((1, 3), dtype=np.int64),
            newest_ns=np.full(1, MISSING, dtype=np.int64),
            uptime=Uptime([((start_s + a * HOUR_S) * SECOND_NS, (start_s + b * HOUR_S) * SECOND_NS) for a, b in spans]),
        )
    )
    slices = np.array([start_s + hour * HOUR_S + HOUR_S // 2 for hour in range(len(hours))], dtype=np.int64)
    counts = np.array([[(good, good + bad, 0)] for good, bad in hours], dtype=np.int64)
    ledger.add(Entry.of(Delta(slices, counts, np.array([NOON_NS - SECOND_NS], dtype=np.int64))))
    return ledger.reports(NOON_NS)[0]


def test_an_hour_weighs_what_came_in_it(promtool: Run, tmp_path: Path) -> None:
    """719 million good events and ten bad ones spend 0.0014 % of the budget."""
    series = {'outcome="good"': "0+1000000x719 719000000", 'outcome="bad"': "0x719 10"}

    answers(
        promtool,
        tmp_path,
        MONTH,
        series,
        {"floor(slo:period_error_budget_remaining:ratio * 1e6)": 999_986},
        at="720h",
        step="1h",
    )


def test_our_hour_weighs_what_came_in_it() -> None:
    """The same from the ledger, to the event."""
    told = report(MONTH, [(10**6, 0)] * 719 + [(0, 10)])

    assert told.budget.remaining_ratio == pytest.approx(1 - 10 / 719_000.01, abs=1e-12)
    assert told.state is State.OK


def test_an_idle_hour_weighs_nothing(promtool: Run, tmp_path: Path) -> None:
    """Its own ratio is absent, not NaN, and the budget stays whole."""
    series = {'outcome="good"': "0+1000x288 288000x12 288000+1000x288", 'outcome="bad"': "0x600"}
    expected = {"slo:period_error_budget_remaining:ratio": 1.0}

    answers(promtool, tmp_path, MONTH, series, {**expected, "slo:sli_error:ratio_rate1h": None}, at="25h", step="5m")
    answers(promtool, tmp_path, MONTH, series, {**expected, "slo:sli_error:ratio_rate1h": 0.0}, at="49h", step="5m")


def test_our_idle_hour_weighs_nothing() -> None:
    """No burn rate where nothing came; the month is whole."""
    told = report(MONTH, [*[(1000, 0)] * 24, (0, 0)])

    assert told.burn_rates["30m"] is None
    assert told.budget.remaining_ratio == 1.0


def test_an_outcome_that_was_never_counted_is_none(promtool: Run, tmp_path: Path) -> None:
    """Without a series of bad events everything was good; an alert could fire."""
    answers(
        promtool,
        tmp_path,
        MONTH,
        {'outcome="good"': "0+1000x288"},
        {"slo:period_error_budget_remaining:ratio": 1.0, "slo:sli_error:ratio_rate5m": 0.0},
        at="24h",
        step="5m",
    )


def test_our_outcomes_are_counted_from_the_start() -> None:
    """A day of good events is a whole budget."""
    assert report(MONTH, [(12_000, 0)] * 24).budget.remaining_ratio == 1.0


def test_a_gap_gives_no_budget_back(promtool: Run, tmp_path: Path) -> None:
    """24 of 48 hours are missing; what is known says half, from two replicas that are scraped, once."""
    bad, good = "0+1x144 _x288 433+1x144", "0+1999x144 _x288 865567+1999x144"
    series = {f'outcome="{name}", instance="{i}"': v for name, v in (("good", good), ("bad", bad)) for i in "ab"}

    answers(
        promtool,
        tmp_path,
        TWO_DAYS,
        series,
        {
            "round(slo:period_error_budget_remaining:ratio, 0.01)": 0.5,
            "round(slo:coverage:ratio, 0.01)": 0.5,
            "slo:error_budget:ratio": 0.001,
        },
        at="48h",
        step="5m",
    )


def test_our_gap_is_not_enough_data() -> None:
    """The same burn, and a coverage that says how much is known."""
    told = report(TWO_DAYS, [(1999, 1)] * 12 + [(0, 0)] * 24 + [(1999, 1)] * 12, up=[(0, 12), (36, 48)])

    assert told.budget.remaining_ratio == pytest.approx(0.5)
    assert told.coverage_ratio == pytest.approx(0.5, abs=0.01)
    assert told.state is State.INSUFFICIENT_DATA


def test_a_pod_that_takes_over_goes_on(promtool: Run, tmp_path: Path) -> None:
    """Half of the time another instance is scraped; 10 % of 1000 failed before, none after: 5 % of all."""
    series = {
        'outcome="good", instance="a"': "0+9x288 _x288",
        'outcome="bad", instance="a"': "0+1x288 _x288",
        'outcome="good", instance="b"': "_x288 2592+10x288",
        'outcome="bad", instance="b"': "_x288 288x288",
    }

    answers(
        promtool, tmp_path, TWO_DAYS, series, {"round(slo:sli_error:ratio_rate30d, 0.001)": 0.05}, at="48h", step="5m"
    )
