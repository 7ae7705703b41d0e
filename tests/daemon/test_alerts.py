"""Burn alerts inside: judged at heartbeats, kept in SQL, told once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from builders import NOON_NS, ManualClock, Request, export, slo
from committing import ForgetfulDatabase, committer_of
from structlog.testing import capture_logs

from slo_exporter.daemon.committer import Committer
from slo_exporter.slo.alerting import AlertKey, AlertPolicy, Severity, Tier
from slo_exporter.slo.corrections import CorrectionMade
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.report import State
from slo_exporter.store.errors import StaleError, UnavailableError, UnknownError
from slo_exporter.store.store import Audit

OpenCommitter = Callable[[Sequence[Slo]], Committer]
SECOND = 10**9
QUICK = (Severity.PAGE, Tier.QUICK)
TOTAL = (Severity.PAGE, Tier.TOTAL)


@pytest.fixture
def forgetful(tmp_path: Path) -> ForgetfulDatabase:
    """A database whose COMMIT may fail."""
    return ForgetfulDatabase(f"sqlite:///{tmp_path / 'counts.db'}", "a test")


def send(committer: Committer, clock: ManualClock, good: int = 0, bad: int = 0) -> None:
    """Commit requests that ended just now."""
    e2e = [50.0] * good + [90.0] * bad
    requests = [Request(end_ns=clock.ns - 1 - i, e2e_ms=ms) for i, ms in enumerate(e2e)]
    committer.commit([export(requests)], committer.next_seq())


def active(committer: Committer, clock: ManualClock) -> Mapping[AlertKey, int | None]:
    """Since when the active alerts of the first SLO are."""
    report = committer.reports(clock.ns)[0]
    return {alert.rule.key: alert.since_ns for alert in report.alerts if alert.is_active}


def changes(committer: Committer) -> Mapping[tuple[str, ...], float]:
    """How often alerts changed, where they did."""
    return {labels: count for labels, count in committer.alerts.readings().items() if count}


def fail(committer: Committer, clock: ManualClock) -> None:
    """Let nothing but failures be counted, and judge."""
    send(committer, clock, bad=10)
    committer.heartbeat()


def test_a_total_outage_pages_within_a_minute_of_the_burn_being_true(
    forgetful: ForgetfulDatabase, clock: ManualClock
) -> None:
    """Forty minutes of traffic, then nothing but failures; exact fractions of what was sent say when it burns."""
    committer = committer_of(forgetful, [slo(objective="0.999")], clock)
    committer.open()
    sent: list[tuple[int, int, int]] = []

    def tell(good: int, bad: int) -> None:
        send(committer, clock, good, bad)
        sent.append((clock.ns, good, bad))
        committer.heartbeat()

    def burns(window_s: int) -> bool:
        those = [(good, bad) for at_ns, good, bad in sent if at_ns > clock.ns - window_s * SECOND]
        good, bad = (sum(column) for column in zip(*those, strict=True))
        return Fraction(bad, good + bad) / Fraction(1, 1000) > Fraction(72, 5)

    for _ in range(40):
        clock.forward(60)
        tell(good=12, bad=0)
    assert active(committer, clock) == {}
    began_ns, burning_ns = clock.ns, None
    while QUICK not in active(committer, clock):
        clock.forward(5)
        tell(good=0, bad=1)
        if burning_ns is None and burns(300) and burns(3600) and sum(bad for *_, bad in sent) >= 5:
            burning_ns = clock.ns
        assert clock.ns - began_ns < 600 * SECOND

    assert burning_ns is not None
    assert clock.ns - burning_ns <= 60 * SECOND
    assert clock.ns - began_ns <= 120 * SECOND
    committer.close()


def test_one_failure_among_few_requests_pages_nobody(opened: OpenCommitter, clock: ManualClock) -> None:
    """It burns at 10, and is one."""
    committer = opened([slo()])
    send(committer, clock, good=9, bad=1)

    committer.heartbeat()

    assert active(committer, clock) == {}


def test_a_burn_puts_the_slo_at_risk(opened: OpenCommitter, clock: ManualClock) -> None:
    """Half of the budget is left, and it burns."""
    committer = opened([slo(objective="0.99")])
    clock.forward(3600)
    committer.heartbeat()
    send(committer, clock, good=4975)
    clock.forward(4000)
    committer.heartbeat()
    assert committer.reports(clock.ns)[0].state is State.OK

    send(committer, clock, good=15, bad=25)
    committer.heartbeat()

    report = committer.reports(clock.ns)[0]
    assert report.state is State.AT_RISK
    assert report.reason == (
        "the budget burns at 62.5 over 1h and 62.5 over 5m, a page alert (quick) is active above 14.4"
    )


def test_each_change_is_told_once(opened: OpenCommitter, clock: ManualClock) -> None:
    """In the log, with the reason, and in a counter."""
    committer = opened([slo()])
    with capture_logs() as logs:
        fail(committer, clock)
        committer.heartbeat()
        clock.forward(1)
        send(committer, clock, good=5000)
        committer.heartbeat()

    told = [(line["event"], line["severity"], line["tier"], line["reason"]) for line in logs if "tier" in line]
    assert told[0] == ("alert_fired", "page", "quick", _BURNS)
    assert ("alert_fired", "page", "total", "hardly any event was good: 0 of 10 in 5m") in told
    assert ("alert_resolved", "page", "total", "events are good again: 5,000 of 5,010 in 5m") in told
    assert (
        "alert_resolved",
        "page",
        "quick",
        "the budget burns at 0.2 over 5m, not above 14.4",
    ) in told
    assert {(line["service"], line["slo"]) for line in logs if "tier" in line} == {("chat", "latency")}
    assert len(told) == 10
    assert changes(committer)["page", "quick", "fired"] == changes(committer)["page", "quick", "resolved"] == 1
    assert sum(changes(committer).values()) == 10


_BURNS = "the budget burns at 100 over 1h and 100 over 5m, a page alert (quick) is active above 14.4"


def test_active_alerts_survive_a_restart(opened: OpenCommitter, clock: ManualClock) -> None:
    """With their time, and without being told again."""
    committer = opened([slo()])
    fail(committer, clock)
    before = active(committer, clock)

    clock.forward(5)
    committer = opened([slo()])
    with capture_logs() as logs:
        committer.heartbeat()

    assert active(committer, clock) == before == dict.fromkeys(before, NOON_NS)
    assert len(before) == 5
    assert [line for line in logs if line["event"].startswith("alert_")] == []
    assert changes(committer) == {}


def test_without_data_alerts_stay_as_they_are(opened: OpenCommitter, clock: ManualClock) -> None:
    """Nobody sent anything for half an hour: that mends nothing."""
    committer = opened([slo()])
    fail(committer, clock)

    for _ in range(30):
        clock.forward(60)
        committer.heartbeat()

    assert active(committer, clock)[QUICK] == NOON_NS
    report = committer.reports(clock.ns)[0]
    assert {alert.rule.key: alert.holds for alert in report.alerts}[QUICK] is None


def correct(committer: Committer, clock: ManualClock) -> None:
    """Take the last hour out of the first SLO."""
    assert committer.loaded is not None
    ledger = committer.loaded.ledger
    asked_ns = (clock.ns - 3600 * SECOND, clock.ns)
    span = ledger.corrected_range(0, *asked_ns, clock.ns)
    made = CorrectionMade(
        span=span,
        asked_from_ns=asked_ns[0],
        asked_to_ns=asked_ns[1],
        why="a load test",
        who="ci",
        made_ns=clock.ns,
        removed=ledger.counts(0, span),
    )
    committer.correct(
        0, made, Audit(at_ns=clock.ns, who="ci", action="correct", service="chat", slo="latency", detail="")
    )


def test_a_correction_ends_what_it_took_out(opened: OpenCommitter, clock: ManualClock) -> None:
    """At once, though no event is left to say so; another SLO's alerts stay."""
    committer = opened([slo(), slo("other")])
    fail(committer, clock)

    with capture_logs() as logs:
        correct(committer, clock)

    assert active(committer, clock) == {}
    assert [alert.is_active for alert in committer.reports(clock.ns)[1].alerts] == [True] * 5
    assert {line["reason"] for line in logs if line["event"] == "alert_resolved"} == {
        "a correction took out what it was about",
        *(f"0 bad in {window}, 5 are needed" for window in ("1h", "6h", "1d", "3d")),
    }


def test_a_correction_of_what_went_well_ends_nothing(opened: OpenCommitter, clock: ManualClock) -> None:
    """Alerts are about bad events: where it took out none, what is frozen stays."""
    committer = opened([slo()])
    fail(committer, clock)
    clock.forward(4 * 86400)
    committer.heartbeat()
    before = active(committer, clock)

    correct(committer, clock)

    assert active(committer, clock) == before != {}


def test_a_correction_stands_where_alerts_cannot_be_written(
    forgetful: ForgetfulDatabase, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They follow with the next heartbeat."""
    committer = committer_of(forgetful, [slo()], clock)
    committer.open()
    fail(committer, clock)
    fault_at_second_commit(forgetful, "before", monkeypatch)

    correct(committer, clock)
    assert committer.reports(clock.ns)[0].counts.total == 0
    assert len(active(committer, clock)) == 5
    committer.heartbeat()

    assert active(committer, clock) == {}
    committer.close()


def test_a_clock_that_is_behind_ends_nothing(opened: OpenCommitter, clock: ManualClock) -> None:
    """Its windows hold an old time, when all was well: events ended later than it says."""
    committer = opened([slo()])
    send(committer, clock, good=100)
    clock.forward(7200)
    fail(committer, clock)
    before = active(committer, clock)
    assert TOTAL in before

    clock.step(-7200)
    committer.heartbeat()
    assert active(committer, clock) == before

    clock.step(7200)
    send(committer, clock, good=1000)
    committer.heartbeat()
    assert active(committer, clock).keys() < before.keys()


def test_a_clock_that_is_behind_fires_nothing(opened: OpenCommitter, clock: ManualClock) -> None:
    """What burnt once is no news when the clock says that it burns."""
    committer = opened([slo()])
    send(committer, clock, bad=10)
    clock.forward(7200)
    send(committer, clock, good=1000)

    clock.step(-7200)
    committer.heartbeat()

    assert active(committer, clock) == {}


def test_events_a_minute_ahead_do_not_stop_the_judging(opened: OpenCommitter, clock: ManualClock) -> None:
    """A sender's clock may be so wrong."""
    committer = opened([slo()])
    requests = [Request(end_ns=clock.ns + 59 * SECOND, e2e_ms=90.0, span=i) for i in range(1, 11)]
    committer.commit([export(requests)], committer.next_seq())
    clock.forward(60)
    clock.step(-60)

    committer.heartbeat()
    clock.step(60)
    committer.heartbeat()

    assert TOTAL in active(committer, clock)


def test_a_clock_that_is_ahead_fires_nothing(opened: OpenCommitter, clock: ManualClock) -> None:
    """Half an hour with five failures at its begin looks like an outage; that half hour never was."""
    committer = opened([slo()])
    send(committer, clock, good=1000)
    clock.forward(60)
    send(committer, clock, bad=5)

    clock.step(29 * 60)
    committer.heartbeat()

    assert active(committer, clock) == {}


def test_a_clock_that_is_ahead_ends_nothing(opened: OpenCommitter, clock: ManualClock) -> None:
    """Nor does coming back."""
    committer = opened([slo()])
    for good, bad in ((0, 20), (0, 20), (1000, 0), (0, 30)):
        send(committer, clock, good=good, bad=bad)
        committer.heartbeat()
        clock.forward(1800)
    fail(committer, clock)
    before = active(committer, clock)
    assert (Severity.PAGE, Tier.SLOW) in before

    clock.step(290 * 60)
    for _ in range(5):
        clock.forward(5)
        committer.heartbeat()
    assert active(committer, clock) == before
    clock.step(-290 * 60)
    committer.heartbeat()

    assert active(committer, clock) == before


def test_a_clock_that_events_agree_with_is_right(opened: OpenCommitter, clock: ManualClock) -> None:
    """A machine that slept judges what comes when it wakes up."""
    committer = opened([slo()])

    clock.step(8 * 3600)
    fail(committer, clock)

    assert TOTAL in active(committer, clock)


def test_a_storm_is_told_in_few_lines(opened: OpenCommitter, clock: ManualClock) -> None:
    """Twenty one by one of either kind, how many more, and every one in the counter."""
    committer = opened([slo(f"s{number}") for number in range(10)])
    with capture_logs() as logs:
        fail(committer, clock)
        clock.forward(1)
        send(committer, clock, good=5000)
        committer.heartbeat()

    told = [(line["event"], line.get("more"), line["log_level"]) for line in logs if line["event"].startswith("alert")]
    assert told == [
        *[("alert_fired", None, "warning")] * 20,
        ("alerts_fired", 30, "warning"),
        *[("alert_resolved", None, "info")] * 20,
        ("alerts_resolved", 30, "info"),
    ]
    assert sum(changes(committer).values()) == 100


def test_a_storm_that_ends_with_its_slos_is_told_in_few_lines(opened: OpenCommitter, clock: ManualClock) -> None:
    """Also when everything is loaded anew."""
    committer = opened([slo(f"s{number}") for number in range(10)])
    fail(committer, clock)

    with capture_logs() as logs:
        committer.redefine(lambda definitions: definitions.with_files([slo("other")]))

    told = [line["event"] for line in logs if line["event"].startswith("alert")]
    assert told == [*["alert_resolved"] * 20, "alerts_resolved"]
    assert changes(committer)["page", "total", "resolved"] == 10


def test_alerts_that_are_turned_off_end(opened: OpenCommitter, clock: ManualClock) -> None:
    """With the next heartbeat, at a reload; counts and generation stay."""
    committer = opened([slo()])
    fail(committer, clock)

    silent = replace(slo(), alerts=AlertPolicy.silent())
    with capture_logs() as logs:
        committer.redefine(lambda definitions: definitions.with_files([silent]))
        committer.heartbeat()

    assert committer.loaded is not None
    assert not committer.loaded.alerts.active
    assert {line["reason"] for line in logs if line["event"] == "alert_resolved"} == {"the SLO has this alert no more"}
    assert committer.loaded.generations == (1,)
    assert committer.reports(clock.ns)[0].counts.total == 10


def test_alerts_end_with_what_they_were_about(opened: OpenCommitter, clock: ManualClock) -> None:
    """Another indicator counts anew; that is told."""
    committer = opened([slo()])
    fail(committer, clock)

    with capture_logs() as logs:
        committer.redefine(lambda definitions: definitions.with_files([slo(good="e2e <= 1s")]))

    assert active(committer, clock) == {}
    assert {line["reason"] for line in logs} == {"what it was about is counted no more"}
    assert changes(committer)["page", "quick", "resolved"] == 1


def fault_at_second_commit(database: ForgetfulDatabase, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heartbeat's own commit works, that of its alerts does not."""
    commit, commits = database._commit, iter(range(100))

    def failing(begun: object) -> None:
        database.fault = fault if next(commits) == 1 else None
        commit(begun)  # type: ignore[arg-type]

    monkeypatch.setattr(database, "_commit", failing)


@pytest.mark.parametrize("fault", ["before", "after"])
def test_after_an_unknown_commit_sql_says_what_is_active(
    forgetful: ForgetfulDatabase, clock: ManualClock, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory changes only after the commit; where it happened, everything is loaded anew."""
    committer = committer_of(forgetful, [slo()], clock)
    committer.open()
    send(committer, clock, bad=10)
    fault_at_second_commit(forgetful, fault, monkeypatch)

    with pytest.raises(UnknownError):
        committer.heartbeat()
    assert active(committer, clock) == {}
    if fault == "after":
        with pytest.raises(StaleError):
            committer.heartbeat()
        committer.open()
    clock.forward(5)
    committer.heartbeat()

    since_ns = NOON_NS if fault == "after" else clock.ns
    assert active(committer, clock)[QUICK] == since_ns
    assert changes(committer)["page", "quick", "fired"] == 1
    committer.close()


def test_while_the_database_is_away_nothing_changes(
    forgetful: ForgetfulDatabase, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat that cannot be committed judges nothing."""
    committer = committer_of(forgetful, [slo()], clock)
    committer.open()
    send(committer, clock, bad=10)
    monkeypatch.setattr(forgetful, "_commit", _away)

    with pytest.raises(UnavailableError):
        committer.heartbeat()

    assert active(committer, clock) == {}
    assert changes(committer) == {}
    committer.close()


def _away(_: object) -> None:
    raise UnavailableError("gone")
