"""One SLO in detail: how much may still fail, how fast is it spent, since when, and by what?"""

from typing import Final

from grafana_foundation_sdk.models.dashboard import AnnotationQuery, Dashboard, DynamicConfigValue

from slo_exporter.rules.dashboards import layout, look
from slo_exporter.rules.dashboards.layout import Board, Row
from slo_exporter.rules.dashboards.panels import (
    DASHED,
    SOURCE,
    Column,
    Graph,
    Panel,
    Query,
    bars,
    bent,
    lines,
    marked,
    number,
    ranked,
    rows_of,
    stacked,
    word,
)
from slo_exporter.rules.dashboards.queries import (
    ONE_SLO,
    SLO_VARIABLES,
    active_for,
    as_one,
    equal,
    most,
    own_window,
    rate,
)
from slo_exporter.rules.dashboards.slos import SEVERITIES, TIERS
from slo_exporter.slo.alerting import STANDARD, Burn
from slo_exporter.slo.windows import BURN_WINDOWS

OUTCOMES: Final = {"good": look.GOOD, "bad": look.BAD, "excluded": look.QUIET}
ACTIVE: Final = {"0": ("Quiet", look.GOOD), "1": ("Active", look.BAD)}
WINDOWS: Final = {"5m": 1, "1h": 2, "6h": 2, "3d": 3}
"""Lookback windows that tell a spike from a trend, and the width of each line: long ones are darker, wider, below."""
NEAR: Final[look.Steps] = {None: look.GOOD, 0.5: look.WARN, 1: look.BAD}
"""Of the burn rate at which an alert fires."""


class Events(AnnotationQuery):
    """Marks in time; what Grafana's Prometheus source asks for stands beside its schema."""

    def __init__(self, name: str, expr: str, colour: str, **more: object) -> None:
        super().__init__(name=name, datasource=SOURCE, expr=expr, icon_color=colour)
        self._more = more

    def to_json(self) -> dict[str, object]:
        """With the source's own keys."""
        return {**super().to_json(), "step": "60s", **self._more}


def board() -> Dashboard:
    """Make the dashboard."""
    services, slos = SLO_VARIABLES
    return Board(
        uid="slo-exporter-slo",
        title="One SLO",
        about="How much may still fail, how fast is it spent, and since when?",
        variables=[layout.one("service", "Service", services), layout.one("slo", "SLO", slos)],
        rows=[
            Row(4, [*[*_left(), *_pace()]]),
            Row(9, [(12, _budget()), (12, _sli())], "Budget"),
            Row(9, [(12, _burn()), (12, _alerts())], "Burn and alerts"),
            Row(8, [(12, _events()), (12, _bad_events())], "Events, releases, coverage"),
            Row(6, [(12, _releases()), (12, _coverage())]),
        ],
        annotations=[
            Events(
                "Releases",
                f"{most('slo_release_timestamp_seconds', equal('service', '$service'))} * 1000",
                look.BLUE,
                titleFormat="Release {{version}}",
                useValueForTime=True,
            ),
            Events(
                "Alerts",
                f"{most('slo_alert_active', ONE_SLO)} == 1",
                look.BAD,
                titleFormat="Alert: {{severity}}, {{tier}}",
            ),
        ],
        shows="now-6h",
    ).dashboard()


def _left() -> list[tuple[int, Panel]]:
    """What holds, and what may still fail."""
    state = Query(f"{most('slo_state', ONE_SLO)} == 1", "{{state}}")
    left = number(
        "Budget left",
        "Share of the error budget that is left; negative is overspent.",
        Query(most("slo_error_budget_remaining_ratio", ONE_SLO)),
        steps=look.BUDGET,
    )
    events = number(
        "Bad events left",
        "Bad events that the budget still allows.",
        Query(most("slo_error_budget_remaining_events", ONE_SLO)),
        steps=look.OVERSPENT,
    )
    return [
        (4, word("State", "What holds of this SLO now.", state, look.STATES)),
        (4, left.unit("percentunit").decimals(1).mappings(list(look.LEFT))),
        (4, events.unit("short").decimals(0)),
    ]


def _pace() -> list[tuple[int, Panel]]:
    """How fast that goes, and what was reached."""
    burn = Query(most("slo_burn_rate", ONE_SLO, equal("window", "1h")))
    speed = number("Burn, last hour", "At 1 the budget lasts its window exactly.", burn, steps=look.BURN)
    lasts = number(
        "Budget lasts",
        "Time until the budget is spent at the burn of the last hour; – while nothing burns.",
        Query(most("slo_error_budget_exhaustion_seconds", ONE_SLO)),
    )
    sli = number(
        "SLI in its window",
        "Share of good events in the window of the SLO, and what was promised.",
        Query(own_window("slo_sli_ratio", ONE_SLO), "Reached", look.PLAIN),
        Query(most("slo_objective_ratio", ONE_SLO), "Promised", look.QUIET),
    )
    return [
        (3, speed.unit("none").decimals(2)),
        (3, lasts.unit("dtdurations").mappings(list(look.LASTS)).no_value("–")),
        (6, sli.unit("percentunit").decimals(2)),
    ]


def _budget() -> Panel:
    panel = lines(
        "Budget left",
        "Share of the error budget that is left; below the orange line it is at risk, below the red one overspent.",
        Query(most("slo_error_budget_remaining_ratio", ONE_SLO), "Budget left", look.BLUE),
    )
    return marked(panel.unit("percentunit").max(1), {0: look.BAD, look.AT_RISK_RATIO: look.WARN})


def _sli() -> Panel:
    return (
        lines(
            "SLI against its objective",
            "Share of good events in the last hour and in the window of the SLO; the promise holds in the window.",
            Query(own_window("slo_sli_ratio", ONE_SLO), "In its window", look.BLUE),
            Query(most("slo_sli_ratio", ONE_SLO, equal("window", "1h")), "Last hour", look.SHADES[0]),
            Query(most("slo_sli_ratio", ONE_SLO, equal("window", "5m")), "Last 5 min", look.QUIET),
            Query(most("slo_objective_ratio", ONE_SLO), "Objective", look.BAD, dashed=True),
        )
        .unit("percentunit")
        .max(1)
        .override_by_name("In its window", [_wide(3)])
        .override_by_name("Last 5 min", [_wide(1)])
    )


def _wide(pixels: int) -> DynamicConfigValue:
    return DynamicConfigValue("custom.lineWidth", pixels)


def _burn() -> Panel:
    windows = [Query(most("slo_burn_rate", ONE_SLO, equal("window", window)), window) for window in reversed(WINDOWS)]
    factor = most("slo_alert_burn_rate_threshold", ONE_SLO)
    panel = lines(
        "Burn rate by window, and where alerts begin",
        "Speed at which the budget is spent; an alert needs its long and its short window above its dashed line.",
        *windows,
        Query(factor, "{{severity}}, {{tier}}"),
    )
    for (window, width), colour in zip(WINDOWS.items(), look.SHADES, strict=False):
        panel.override_by_name(window, [look.fixed(colour), _wide(width)])
    return _with_limits(ranked(bent(panel).unit("none").decimals(2).min(0), "last"))


def _with_limits(panel: Graph) -> Panel:
    for severity, (_, colour) in SEVERITIES.items():
        panel.override_by_regexp(f"{severity}, .*", [*DASHED, look.fixed(colour)])
    return panel


def _near(burn: Burn) -> str:
    """Burn of the calmer window over the rate that fires; nothing without enough bad events."""
    threshold = most(
        "slo_alert_burn_rate_threshold", ONE_SLO, equal("severity", burn.severity), equal("tier", burn.tier)
    )
    both = f'window=~"{burn.long}|{burn.short}"'
    calmer = f"min without (window) ({most('slo_burn_rate', ONE_SLO, both)})"
    bad = most("slo_bad_events", ONE_SLO, equal("window", burn.long), without="window")
    are_enough = f"({bad} >= bool {most('slo_alert_min_bad_events', ONE_SLO)})"
    near = f"{calmer} * {are_enough} / ignoring (severity, tier) group_right () {threshold}"
    return f'label_replace({near}, "windows", "{burn.long}, {burn.short}", "", "")'


def _events() -> Panel:
    counted = as_one(rate("slo_events_total", ONE_SLO))
    panel = stacked(
        "Events a second",
        "Events that were counted; of an SLO on time slices they come when a slice is final.",
        Query(counted, "{{outcome}}"),
    ).unit("short")
    for outcome, colour in OUTCOMES.items():
        panel.override_by_name(outcome, [look.fixed(colour)])
    return panel


def _alerts() -> Panel:
    return rows_of(
        "Alerts, and how near each is",
        "Burn of an alert's calmer window, as share of where it fires: 100 %; 0 without enough bad events.",
        [
            Column(of="A", title="Now", width=75, words=ACTIVE, filled=True),
            Column(of="severity", title="Severity", width=80, words=SEVERITIES),
            Column(of="tier", title="Tier", width=125, words=TIERS),
            Column(of="windows", title="Windows", width=80),
            Column(of="B", title="How near", unit="percentunit", decimals=0, steps=NEAR, bar=1),
            Column(of="C", title="Fires above", width=105, unit="none", decimals=2),
            Column(of="D", title="Active for", width=105, unit="dtdurations", decimals=0),
        ],
        Query(most("slo_alert_active", ONE_SLO)),
        Query(" or ".join(map(_near, STANDARD))),
        Query(most("slo_alert_burn_rate_threshold", ONE_SLO)),
        Query(active_for(ONE_SLO)),
        hidden=("service", "slo"),
    )


def _releases() -> Panel:
    return rows_of(
        "What releases cost",
        "The newest releases, marked on all graphs, and the share of the budget that went in the 24 h after each.",
        [
            Column(of="version", title="Release"),
            Column(of="A", title="When", width=170, unit="dateTimeAsIso"),
            Column(of="B", title="Budget spent", width=120, unit="percentunit", decimals=0, steps=look.COST),
        ],
        Query(f"{most('slo_release_timestamp_seconds', equal('service', '$service'))} * 1000"),
        Query(most("slo_release_budget_spent_ratio", ONE_SLO)),
        hidden=("service", "slo"),
    ).no_value("No release has been told.")


def _bad_events() -> Panel:
    of_each = [Query(most("slo_bad_events", ONE_SLO, equal("window", window)), window) for window in BURN_WINDOWS]
    return (
        bars(
            "Bad events by window",
            "Bad events in each lookback window, and in that of the SLO.",
            *of_each,
            Query(own_window("slo_bad_events", ONE_SLO), "SLO"),
            steps={None: look.BLUE},
        )
        .unit("locale")
        .decimals(0)
    )


def _coverage() -> Panel:
    panel = lines(
        "Coverage",
        "Share of the window in which we were watching; below the line there is too little data to decide.",
        Query(most("slo_coverage_ratio", ONE_SLO), "Coverage", look.BLUE),
    )
    return marked(panel.unit("percentunit").min(0).max(1), {0.9: look.UNSURE})
