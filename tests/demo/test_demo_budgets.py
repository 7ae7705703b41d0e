"""The demo's spans, objectives and alerts through the real decoder and arithmetic."""

from collections import Counter
from collections.abc import Sequence

import pytest
from demo_run import SLOS, Moment, admitted, calls_of, moments, read

from slo_exporter.config import slo_file
from slo_exporter.config.settings import DEMO_SLOS
from slo_exporter.demo.traffic import CHAT, CLIENT_GONE, CYCLE_S, FIRST_INCIDENT_S, INCIDENT_S, OK
from slo_exporter.ingest.otlp.reader import Reading
from slo_exporter.sli.counting import SLICE_S
from slo_exporter.sli.records import Outcome
from slo_exporter.slo.alerting import Severity, left_out
from slo_exporter.slo.report import BudgetReport, State

END_S = 25 * 60
CALLS = calls_of(END_S)
CHATS = [call for call in CALLS if call.route == CHAT]
INCIDENTS_S = [FIRST_INCIDENT_S + number * CYCLE_S for number in range(2)]
"""When those begin whose page ends within the time."""


@pytest.fixture(scope="module")
def reading() -> Reading:
    """The traffic, decoded."""
    return read(CALLS)


@pytest.fixture(scope="module")
def shown(reading: Reading) -> Sequence[Moment]:
    """What somebody sees who looks for 25 minutes."""
    return list(moments(admitted(reading), END_S))


def states(shown: Sequence[Moment], name: str) -> Counter[State]:
    """How often an SLO was in each state."""
    return Counter(report.state for moment in shown for report in moment.reports if report.slo.name == name)


def report_at(shown: Sequence[Moment], name: str, elapsed_s: float) -> BudgetReport:
    """On an SLO at an instant."""
    moment = shown[round(elapsed_s) // SLICE_S - 1]
    return next(report for report in moment.reports if report.slo.name == name)


def changes(shown: Sequence[Moment], severity: Severity) -> list[tuple[str, str, int]]:
    """What fired and resolved, of which SLO, and how many seconds after the start."""
    return [
        (what, SLOS[row].name, moment.elapsed_s)
        for moment in shown
        for what, those in (("resolved", moment.change.resolved), ("fired", moment.change.fired))
        for row, key in those
        if key[0] is severity
    ]


def test_no_span_of_the_demo_is_refused_or_unknown(reading: Reading) -> None:
    """Every span is a request or a probe; the probes are all of them."""
    results = reading.export.results

    assert reading.refusals.count == 0
    assert not reading.flags
    assert results["unmatched"] == 0
    assert results["probe"] == len(CALLS) - len(CHATS)


def test_each_chat_call_counts_once(reading: Reading) -> None:
    """An answered call is two spans and one request; a failed one is its HTTP span."""
    requests = admitted(reading)
    counted = requests.take(~requests.shadowed)
    outcomes = {outcome: int((counted.outcome == outcome).sum()) for outcome in Outcome}

    assert len(counted) == len(CHATS)
    assert outcomes[Outcome.OK] == sum(call.status == OK for call in CHATS)
    assert outcomes[Outcome.CANCELLED] == sum(call.status == CLIENT_GONE for call in CHATS)
    assert outcomes[Outcome.CLIENT_ERROR] == outcomes[Outcome.INCOMPLETE] == 0
    assert min(outcomes[Outcome.ERROR], outcomes[Outcome.RATE_LIMITED]) > 0


def test_no_alert_is_left_out() -> None:
    """Whoever reads `check` of the demo's SLOs is told of nothing to be done."""
    assert [
        (slo.name, why)
        for slo in slo_file.load([DEMO_SLOS])
        for _, why in left_out(slo.alerts, window_s=slo.window.seconds, objective=slo.objective)
    ] == []


def test_each_incident_pages_within_a_minute_and_resolves_before_the_next(shown: Sequence[Moment]) -> None:
    """The first page is there 90 seconds after the start; nothing but first-token pages."""
    pages = changes(shown, Severity.PAGE)

    assert [(what, name) for what, name, _ in pages[:4]] == [("fired", "first-token"), ("resolved", "first-token")] * 2
    assert {name for _, name, _ in pages} == {"first-token"}
    fired, resolved = ([at for _, _, at in pages[first:4:2]] for first in (0, 1))
    assert fired[0] <= 90
    for begins_s, fired_s, resolved_s in zip(INCIDENTS_S, fired, resolved, strict=True):
        assert begins_s < fired_s < begins_s + INCIDENT_S
        assert begins_s + INCIDENT_S < resolved_s < begins_s + 7 * 60


def test_goodput_writes_tickets_that_resolve(shown: Sequence[Moment]) -> None:
    """In the first incident, after the page; no other SLO writes one."""
    tickets = changes(shown, Severity.TICKET)

    assert {name for _, name, _ in tickets} == {"goodput"}
    assert [what for what, _, _ in tickets[:2]] == ["fired", "resolved"]
    assert FIRST_INCIDENT_S < tickets[0][2] < 120
    assert tickets[1][2] < FIRST_INCIDENT_S + CYCLE_S


def test_people_see_budgets_that_are_kept_that_run_out_and_that_recover(shown: Sequence[Moment]) -> None:
    """What is always ok, what is at risk or exhausted by turns, and nothing that is always exhausted."""
    seen = {slo.name: states(shown, slo.name) for slo in SLOS}

    for name in ("availability", "latency"):
        assert set(seen[name]) <= {State.OK, State.AT_RISK}
        assert seen[name][State.OK] > 0.8 * seen[name].total()
    for name in ("first-token", "goodput", "inter-token"):
        assert {State.OK, State.AT_RISK, State.EXHAUSTED} <= set(seen[name])
        assert 0.1 < seen[name][State.EXHAUSTED] / seen[name].total() < 0.85


def test_budgets_are_believable_soon_after_the_first_incident(shown: Sequence[Moment]) -> None:
    """Ten minutes after the start none is overspent by half, and before the next incident none by a tenth."""
    for name in (slo.name for slo in SLOS):
        later, calm = (report_at(shown, name, at).budget.remaining_ratio for at in (600, INCIDENTS_S[1]))

        assert later is not None
        assert later > -0.5
        assert calm is not None
        assert calm > -0.1


@pytest.mark.parametrize("incident", range(2))
@pytest.mark.parametrize("name", [slo.name for slo in SLOS])
def test_an_incident_raises_every_burn_rate(shown: Sequence[Moment], name: str, incident: int) -> None:
    """The last five minutes burn faster after it than before."""
    begins_s = INCIDENTS_S[incident]
    before, after = (report_at(shown, name, at).burn_rates["5m"] for at in (begins_s, begins_s + INCIDENT_S))

    assert before is not None
    assert after is not None
    assert after > 1.3 * before
