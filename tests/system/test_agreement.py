"""
What PromQL makes of the counters is what the exporter says itself, over hours of history.

SLO_EXPORTER_PROMETHEUS names further Prometheus programs, separated by colons.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest
from prometheus_process import Prometheus
from scraped_history import CORRECT_AFTER_S, LASTS_S, Event, History
from serving import serving

from slo_exporter.clock import SECOND_NS
from slo_exporter.rules.counters import Counters, step
from slo_exporter.rules.promql import selector
from slo_exporter.slo import budget
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.report import BudgetReport, State
from slo_exporter.slo.windows import BURN_WINDOWS, duration_ns

PROGRAMS = ["prometheus", *filter(None, os.environ.get("SLO_EXPORTER_PROMETHEUS", "").split(":"))]
WINDOWS = {text: seconds for text, seconds in BURN_WINDOWS.items() if seconds < LASTS_S}
EVENT_SLOS: Mapping[str, Callable[[Event], bool]] = {
    "latency": lambda event: event.is_fast and event.is_ok,
    "availability": lambda event: event.is_ok,
}
"""Those that PromQL can follow, and what is good."""
EVERY_S = 300
"""Between the instants that are compared: on the grid of each window, where windows of both sides begin together."""


class Scraped:
    """A history that is over, and every Prometheus that scraped it."""

    def __init__(self, folder: Path, running: ExitStack, find: Callable[[str], Path]) -> None:
        self.history = History(folder)
        port = int(running.enter_context(serving(self.history)).rpartition(":")[2])
        self.prometheus = {name: _scraping(folder / f"{n}", find(name), port) for n, name in enumerate(PROGRAMS)}
        for one in self.prometheus.values():
            running.callback(one.stop)
            one.start()
        self.history.live()
        for one in self.prometheus.values():
            one.until(lambda: self.history.is_read(len(PROGRAMS)))
            one.until(lambda one=one: one.query("slo_coverage_ratio", self.history.ends_s))

    def instants(self, window_s: int) -> list[int]:
        """Those at which the exporter was up, and had been for a whole window before."""
        first, last = self.history.began_s + window_s + EVERY_S, self.history.ends_s
        return [at for at in range(first, last + 1, EVERY_S) if at in self.history.said]

    def course(self, program: str, query: str, window_s: int) -> dict[int, float]:
        """What a query that gives one series gives at those instants."""
        instants = self.instants(window_s)
        course = self.prometheus[program].course(query, instants[0], instants[-1], EVERY_S)
        assert len(course) == 1, f"{query} gives {len(course)} series"
        (values,) = course.values()
        return {at: values[at] for at in instants if at in values}

    def said(self, slo: str, at: int) -> BudgetReport:
        """What the exporter said of an SLO."""
        return self.history.said[at][slo]

    def scraped_s(self, at: int) -> int:
        """When the scrape was that one sees at an instant."""
        return max(second for second in self.history.said if second <= at)

    def counts(self, slo: str, after_s: int, until_s: int) -> Counts:
        """Events that ended in between."""
        good = [EVENT_SLOS[slo](event) for event in self.history.events if after_s < event.end_s <= until_s]
        return Counts(sum(good), len(good))


def _scraping(folder: Path, program: Path, port: int) -> Prometheus:
    folder.mkdir()
    # Its own samples, such as up, are of now: what is older is out of order beside them.
    storage = {"tsdb": {"out_of_order_time_window": "12h"}}
    job = {"params": {"reader": [folder.name]}, "honor_timestamps": True}
    return Prometheus(program, folder, port, job=job, more={"storage": storage})


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory, require: Callable[[str], Path]) -> Iterator[Scraped]:
    """One history; each Prometheus has scraped all of it."""
    with ExitStack() as running:
        yield Scraped(tmp_path_factory.mktemp("history"), running, require)


every_program = pytest.mark.parametrize("program", PROGRAMS)
every_slo = pytest.mark.parametrize("slo", EVENT_SLOS)
pytestmark = pytest.mark.timeout(120)


def series(slo: str, outcome: str, suffix: str = "") -> str:
    """The lifetime total of an SLO's events."""
    return f'slo_events_total{{service="chat",slo="{slo}",outcome="{outcome}"}}{suffix}'


def grown(slo: str, outcome: str, window: str) -> str:
    """By how much it grew, to the last event."""
    return f"{series(slo, outcome)} - {series(slo, outcome, f' offset {window}')}"


@every_program
@every_slo
def test_differences_of_the_counters_are_the_counts_of_each_window(scraped: Scraped, program: str, slo: str) -> None:
    """To the last event, across idle times, an outage and a restart; so burn rates are equal to the last bit."""
    for text, window_s in WINDOWS.items():
        good, bad = (scraped.course(program, grown(slo, outcome, text), window_s) for outcome in ("good", "bad"))
        assert list(bad) == scraped.instants(window_s)
        for at in bad:
            report = scraped.said(slo, at)
            assert bad[at] == report.bad_events[text], (text, at)
            burn = budget.burn_rate(Counts(int(good[at]), int(good[at] + bad[at])), report.slo.objective)
            assert burn == report.burn_rates[text], (text, at)


def unfolded(counters: Counters, expr: str, window: str) -> str:
    """An expression of the rules on counters, with what they record written out: no rule was evaluated back then."""
    for recording in counters.recordings({window: window}):
        expr = expr.replace(selector(recording.name, **counters.matchers), f"({recording.expr})")
    return expr


def bounds(scraped: Scraped, slo: str, at: int, window_s: int) -> tuple[float, float] | None:
    """
    Between what the rules may put the burn rate of ``(at - window_s, at]``; None where they need not know any.

    1. They look at the counters every so often, and see what was scraped last: of
       what came in before the first look and after the last one, nothing is sure.
    2. `increase` stretches each counter's growth to the edges of the window, or,
       where the counter was 0 shortly before, less far, or not at all.
    """
    begin, step_s = at - window_s, duration_ns(step(window_s)) // SECOND_NS
    first, last = begin // step_s * step_s + step_s, at // step_s * step_s
    whole = scraped.counts(slo, begin, at)
    edges = scraped.counts(slo, begin, scraped.scraped_s(first)), scraped.counts(slo, scraped.scraped_s(last), at)
    bad, good = (sum(counts) for counts in zip(*((edge.bad, edge.good) for edge in edges), strict=True))
    if whole.total == bad + good:
        return None
    stretched, budget_share = window_s / (last - first), float(1 - scraped.said(slo, at).slo.objective)
    least = (whole.bad - bad) / whole.total
    most = whole.bad / (whole.total - good) if whole.bad else 0.0
    return least / stretched / budget_share * ROUNDED_DOWN, most * stretched / budget_share / ROUNDED_DOWN


ROUNDED_DOWN = 1 - 1e-12
"""Prometheus counts in floats."""


@every_program
@every_slo
def test_increase_agrees_but_for_what_a_scrape_hides(scraped: Scraped, program: str, slo: str) -> None:
    """Burn rates as the rules on the counters have them."""
    counters, widths = Counters(scraped.history.slo(slo)), []
    for text, window_s in WINDOWS.items():
        burns = scraped.course(program, unfolded(counters, counters.burn_rate(text), text), window_s)
        for at, burn in burns.items():
            ours = scraped.said(slo, at).burn_rates[text]
            least, most = bounds(scraped, slo, at, window_s) or (burn, burn)
            assert least <= burn <= most, (text, at)
            if ours:
                widths.append((most - least) / ours)
                assert most == least or least <= ours <= most, (text, at)
    # A bound that lets everything through would prove nothing.
    assert median(widths) < 0.05


@every_program
@every_slo
def test_the_budget_of_the_rules_on_counters_is_ours(scraped: Scraped, program: str, slo: str) -> None:
    """But for what a scrape hides, again, which is little of hours."""
    counters, own = Counters(scraped.history.slo(slo)), scraped.history.slo(slo).window
    budgets = scraped.course(program, unfolded(counters, counters.remaining(), own.text), own.seconds)
    assert list(budgets) == scraped.instants(own.seconds)
    for at, left in budgets.items():
        between = bounds(scraped, slo, at, own.seconds)
        assert between is not None
        assert 1 - between[1] <= left <= 1 - between[0], at
        assert scraped.said(slo, at).budget.remaining_ratio == pytest.approx(left, abs=between[1] - between[0])


def said_of(report: BudgetReport) -> dict[tuple[str, str], float]:
    """Every number of an SLO that is defined, by metric and, where it has one, window or state."""
    own = report.slo.window.text
    texts = {text: text for text in report.burn_rates if text != "window"} | {own: "window"}
    of_windows = {"slo_burn_rate": report.burn_rates, "slo_sli_ratio": report.slis}
    numbers: dict[tuple[str, str], float | None] = {
        ("slo_error_budget_remaining_ratio", ""): report.budget.remaining_ratio,
        ("slo_error_budget_remaining_events", ""): report.budget.remaining_events,
        ("slo_error_budget_exhaustion_seconds", ""): report.exhausts_in_seconds,
        ("slo_coverage_ratio", ""): report.coverage_ratio,
        **{(name, text): by[key] for name, by in of_windows.items() for text, key in texts.items()},
        **{("slo_state", state): float(report.state is state) for state in State},
    }
    return {name: value for name, value in numbers.items() if value is not None}


GAUGES = "slo_(burn_rate|sli_ratio|error_budget_.*|coverage_ratio|state)"


@every_program
@pytest.mark.parametrize("slo", ["latency", "availability", "corrected", "sliced"])
def test_gauges_are_what_the_exporter_said(scraped: Scraped, program: str, slo: str) -> None:
    """Every sample of every gauge, to the last bit, and none of what was undefined."""
    kept: dict[int, dict[tuple[str, str], float]] = {at: {} for at in scraped.history.said}
    selector = f'{{__name__=~"{GAUGES}",slo="{slo}"}}[1d]'
    for one in scraped.prometheus[program].ask("query", query=selector, time=f"{scraped.history.ends_s}")["result"]:
        name = (one["metric"]["__name__"], one["metric"].get("window") or one["metric"].get("state", ""))
        for at, value in one["values"]:
            kept[int(at)][name] = float(value)
    assert kept == {at: said_of(reports[slo]) for at, reports in scraped.history.said.items()}


@every_program
def test_a_correction_is_in_the_gauges_and_not_in_the_counters(scraped: Scraped, program: str) -> None:
    """Two SLOs that differ in it alone: counters never fall, budgets take back what was corrected."""
    for outcome in ("good", "bad"):
        of_both = [scraped.course(program, series(slo, outcome), 0) for slo in ("corrected", "latency")]
        assert of_both[0] == of_both[1]
    left = [
        scraped.course(program, f'slo_error_budget_remaining_ratio{{slo="{slo}"}}', 0)
        for slo in ("corrected", "latency")
    ]
    made_s = scraped.history.began_s + CORRECT_AFTER_S
    assert all(left[0][at] == left[1][at] for at in left[0] if at < made_s)
    assert left[0][made_s] > left[1][made_s]
