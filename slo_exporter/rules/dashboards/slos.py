"""All SLOs at a glance: which promise needs me now?"""

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from slo_exporter.rules.dashboards import layout, look
from slo_exporter.rules.dashboards.layout import Board, Row
from slo_exporter.rules.dashboards.panels import (
    Column,
    Graph,
    Panel,
    Query,
    bent,
    count,
    lines,
    marked,
    ranked,
    rows_of,
)
from slo_exporter.rules.dashboards.queries import (
    BY_SERVICE,
    SLO_VARIABLES,
    active_for,
    at_end,
    equal,
    most,
    own_window,
)

DETAIL: Final = (
    "/d/slo-exporter-slo?var-datasource=${datasource}&var-service=${__data.fields.Service}"
    "&var-slo=${__data.fields.SLO}&${__url_time_range}"
)
SEVERITIES: Final = {"page": ("Page", look.BAD), "ticket": ("Ticket", look.WARN)}
TIERS: Final = {
    "quick": ("Quick", look.PLAIN),
    "slow": ("Slow", look.PLAIN),
    "total": ("Everything fails", look.PLAIN),
}
ADDED: Final = ("team", "owner", "cluster")
"""Labels that people often give their SLOs, or their targets; any other shows under its own name."""
DRAWN: Final = 5
"""Lines of a graph: more have colours that nobody tells apart."""
_WEIGHTS: Final = {"exhausted": 8, "at_risk": 4, "no_data": 2, "insufficient_data": 1}
"""How far up a state puts an SLO; within one, those with less budget left come first."""


def board() -> Dashboard:
    """Make the dashboard."""
    services, _ = SLO_VARIABLES
    return Board(
        uid="slo-exporter-slos",
        title="SLOs at a glance",
        about="Which promise needs me now? Worst first; click an SLO for its detail.",
        variables=[layout.some("service", "Service", services)],
        rows=[
            Row(4, [(15, _states()), (9, _alert_count())]),
            Row(11, [(24, _all())]),
            Row(9, [(12, _alerts()), (12, _burns())]),
            Row(9, [(24, _budgets())]),
        ],
        shows="now-6h",
    ).dashboard()


def _states() -> Panel:
    counted = [
        Query(f"sum({most('slo_state', BY_SERVICE, equal('state', state))})", word, colour)
        for state, (word, colour) in look.STATES.items()
    ]
    return count("SLOs by state", "How many SLOs are in each state; the first ones need somebody.", *counted)


def _alert_count() -> Panel:
    counted = [
        Query(f"sum({most('slo_alert_active', BY_SERVICE, equal('severity', severity))})", f"{word}s", colour)
        for severity, (word, colour) in SEVERITIES.items()
    ]
    about = "Alerts that are active now; a page wants somebody at once, a ticket within days."
    return count("Active alerts", about, *counted)


def _rank() -> str:
    budget = most("slo_error_budget_remaining_ratio", BY_SERVICE)
    return f"({budget} or 0 * {_holds('no_data')})" + "".join(
        f" - {weight} * {_holds(state)}" for state, weight in _WEIGHTS.items()
    )


def _holds(state: str) -> str:
    return most("slo_state", BY_SERVICE, equal("state", state), without="state")


def _all() -> Panel:
    return rows_of(
        "All SLOs, worst first",
        "One row an SLO; an empty cell is a number that is not defined, such as the budget of an SLO without events.",
        [
            Column(of="state", title="State", width=125, words=look.STATES, filled=True),
            Column(of="service", title="Service", width=130),
            Column(of="slo", title="SLO", link=DETAIL),
            Column(
                of="B", title="Budget left", unit="percentunit", decimals=1, steps=look.BUDGET, bar=1, cut=look.LEFT
            ),
            Column(of="C", title="Burn 5 min", width=105, unit="none", decimals=2, steps=look.BURN),
            Column(of="D", title="Burn 1 h", width=95, unit="none", decimals=2, steps=look.BURN),
            Column(of="E", title="Budget lasts", width=120, unit="dtdurations", decimals=0, cut=look.LASTS),
            Column(of="F", title="SLI", width=95, unit="percentunit", decimals=2),
            Column(of="G", title="Objective", width=95, unit="percentunit"),
            Column(of="window", title="Window", width=80),
            Column(of="H", title="Coverage", width=95, unit="percentunit", decimals=0, steps=look.COVERAGE),
            *(Column(of=label, title=label.capitalize()) for label in ADDED),
        ],
        Query(f"{most('slo_state', BY_SERVICE)} == 1"),
        Query(most("slo_error_budget_remaining_ratio", BY_SERVICE)),
        Query(most("slo_burn_rate", BY_SERVICE, equal("window", "5m"), without="window")),
        Query(most("slo_burn_rate", BY_SERVICE, equal("window", "1h"), without="window")),
        Query(most("slo_error_budget_exhaustion_seconds", BY_SERVICE)),
        Query(own_window("slo_sli_ratio", BY_SERVICE)),
        Query(most("slo_objective_ratio", BY_SERVICE)),
        Query(most("slo_coverage_ratio", BY_SERVICE)),
        Query(most("slo_info", BY_SERVICE, without="objective")),
        Query(_rank()),
        ranked_by="J",
    )


def _budgets() -> Panel:
    metric = "slo_error_budget_remaining_ratio"
    lowest = f"{most(metric, BY_SERVICE)} and bottomk({DRAWN}, {at_end(metric, BY_SERVICE)})"
    panel = lines(
        "Budget left, the five lowest",
        "Share of each error budget that is left, cut at −100 %; orange: at risk below, red: overspent below.",
        Query(lowest, "{{service}} / {{slo}}"),
    )
    panel = panel.unit("percentunit").decimals(1).min(-1).max(1).mappings(list(look.LEFT))
    return _limited(panel, {0: look.BAD, look.AT_RISK_RATIO: look.WARN})


def _burns() -> Panel:
    chosen = ("slo_burn_rate", BY_SERVICE, equal("window", "1h"))
    highest = f"{most(*chosen)} and topk({DRAWN}, {at_end(*chosen)})"
    panel = lines(
        "Burn rate of the last hour, the five highest",
        "Speed at which budgets are spent; above the line, at 1, a budget does not last its window.",
        Query(highest, "{{service}} / {{slo}}"),
    )
    return _limited(bent(panel).unit("none").decimals(2).min(0), {1: look.WARN})


def _limited(panel: Graph, steps: dict[float | None, str]) -> Panel:
    return marked(ranked(panel, "last"), steps)


def _alerts() -> Panel:
    active = f"{most('slo_alert_active', BY_SERVICE)} == 1"
    burn = most("slo_burn_rate", BY_SERVICE, equal("window", "1h"), without="window")
    return rows_of(
        "Alerts that are active now",
        "One row an alert; quick and slow are how fast its budget goes; the time counts within the range shown.",
        [
            Column(of="severity", title="Severity", width=80, words=SEVERITIES, filled=True),
            Column(of="tier", title="Tier", width=125, words=TIERS),
            Column(of="service", title="Service", width=110),
            Column(of="slo", title="SLO", link=DETAIL),
            Column(of="B", title="Active for", width=105, unit="dtdurations", decimals=0),
            Column(of="C", title="Burn 1 h", width=80, unit="none", decimals=2, steps=look.BURN),
            Column(of="D", title="Fires above", width=100, unit="none", decimals=2),
        ],
        Query(active),
        Query(active_for(BY_SERVICE)),
        Query(f"({active}) * ignoring (severity, tier) group_left () {burn}"),
        Query(f"{most('slo_alert_burn_rate_threshold', BY_SERVICE)} and ({active})"),
        ranked_by="severity",
    ).no_value("None is active; whether alerts are known at all is said above.")
