"""Releases and decisions while the daemon runs: kept by the writer, shown from memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
import pytest_asyncio
from builders import NOON_NS, ManualClock, Request, export, slo
from committing import ForgetfulDatabase, WatchedInbox, committer_of
from submitting import submit
from test_board import board_of

from slo_exporter.daemon.editor import Editor
from slo_exporter.daemon.writer import Writer
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.release import Asked, Decision, DecisionMade, Override, check
from slo_exporter.slo.releases import Release
from slo_exporter.store.database import Database
from slo_exporter.web.board import NotNowError

SECOND = 10**9
RELEASE = Release(id=0, service="chat", version="v1", at_ns=NOON_NS, made_ns=NOON_NS, who="ci", note="")
MADE = DecisionMade(
    id=0, at_ns=NOON_NS, who="ci", service="chat", decision=Decision.ALLOW, override=None, answer='{"allowed": true}'
)


class Daemon:
    """A committer, its writer and its editor."""

    def __init__(self, database: Database | str, clock: ManualClock, *slos: Slo) -> None:
        self.inbox = WatchedInbox()
        self.clock = clock
        self.committer = committer_of(database, slos or [slo()], clock)
        self.editor = Editor(self.committer, self.inbox, clock, tuple)
        self.writer = Writer(self.committer, self.inbox, clock, lambda: None)
        self.board = board_of(self.committer, clock)
        self.writer.open()
        self.writer.start()

    async def send(self, span: int, *, bad: bool = False, age_s: int = 1) -> None:
        """Send one request."""
        request = Request(end_ns=self.clock.ns - age_s * SECOND, span=span, e2e_ms=900 if bad else 50)
        await submit(self.inbox, export([request], received_ns=self.clock.ns))

    def rows(self, table: str) -> list[tuple[object, ...]]:
        """What SQL holds, once the writer is gone."""
        self.committer._store._database.open()
        with self.committer._store._database.transaction() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table}")]  # noqa: S608

    async def stop(self) -> None:
        """Drain."""
        self.inbox.close()
        await asyncio.to_thread(self.writer.join)


@pytest_asyncio.fixture
async def start(database_url: str, clock: ManualClock) -> AsyncIterator[Callable[..., Daemon]]:
    """Start a daemon on the one database; stop it with its `stop`."""
    started: list[Daemon] = []

    def start_it(database: Database | str = database_url, *slos: Slo) -> Daemon:
        started.append(Daemon(database, clock, *slos))
        return started[-1]

    yield start_it
    for one in started:
        await one.stop()


async def test_what_is_kept_is_shown_at_once_and_after_a_restart(start: Callable[..., Daemon]) -> None:
    """By the board, under its number."""
    daemon = start()
    release, is_new = await daemon.editor.put_release(RELEASE)
    made = await daemon.editor.put_decision(MADE)

    for _ in range(2):
        assert is_new
        assert list(daemon.board.releases("chat")) == [release]
        assert daemon.board.release(release.id) == release
        assert daemon.board.decision(made.id) == made
        assert [one.id for one in daemon.board.decisions("chat")] == [made.id]
        await daemon.stop()
        daemon = start()


async def test_who_did_it_is_put_down(start: Callable[..., Daemon]) -> None:
    """Release, decision and override are three things."""
    daemon = start()
    await daemon.editor.put_release(replace(RELEASE, note="canary"))
    await daemon.editor.put_release(RELEASE)  # the same one
    await daemon.editor.put_decision(MADE)
    await daemon.editor.put_decision(replace(MADE, override="outage", who="ann"))
    await daemon.stop()

    told = [(row[2], row[3], row[4], row[6]) for row in daemon.rows("audit")]
    daemon.committer.close()

    assert told == [
        ("ci", "release", "chat", "v1: canary"),
        ("ci", "decide", "chat", "allow"),
        ("ann", "override", "chat", "outage"),
    ]
    assert daemon.editor.writes == {("release", "ok"): 2, ("decide", "ok"): 2}


async def test_while_the_database_is_away_nothing_is_kept(start: Callable[..., Daemon]) -> None:
    """Whoever asks hears it; what is known is still shown."""
    daemon = start()
    kept, _ = await daemon.editor.put_release(RELEASE)
    daemon.inbox.refuse("database")

    with pytest.raises(NotNowError, match="database"):
        await daemon.editor.put_release(replace(RELEASE, version="v2"))
    with pytest.raises(NotNowError, match="database"):
        await daemon.editor.put_decision(MADE)

    assert list(daemon.board.releases()) == [kept]
    assert daemon.editor.writes["release", "unavailable"] == daemon.editor.writes["decide", "unavailable"] == 1


@pytest.mark.parametrize(("fault", "is_new"), [("before", True), ("after", False)])
async def test_a_commit_of_unknown_outcome_is_asked_again(
    start: Callable[..., Daemon],
    tmp_path: object,
    fault: str,
    is_new: bool,  # noqa: FBT001 - a table
) -> None:
    """SQL tells: the same release is then kept once, whether or not the first try was."""
    database = ForgetfulDatabase(f"sqlite:///{tmp_path}/forgetful.db", "a test")
    daemon = start(database)
    database.fault = fault

    with pytest.raises(NotNowError):
        await daemon.editor.put_release(RELEASE)
    await asyncio.wait_for(daemon.inbox.accepting.wait(), 20)
    daemon.inbox.accepting.clear()
    while daemon.inbox.refusing:  # the event may be the one of the start
        await asyncio.wait_for(daemon.inbox.accepting.wait(), 20)

    assert (await daemon.editor.put_release(RELEASE))[1] is is_new
    assert [one.version for one in daemon.board.releases()] == ["v1"]


async def test_a_release_is_charged_with_what_fails_after_it(start: Callable[..., Daemon]) -> None:
    """As time passes; a correction is seen at once."""
    daemon = start()
    for span in range(1, 10):
        await daemon.send(span)
    release, _ = await daemon.editor.put_release(RELEASE)
    daemon.clock.forward(20)
    await daemon.send(10, bad=True)

    (cost,) = daemon.board.costs(release, daemon.clock.ns)
    assert (cost.counts.bad, cost.counts.total, cost.spent_ratio) == (1, 1, 10.0)

    await daemon.editor.correct("chat", "latency", NOON_NS + 10 * SECOND, NOON_NS + 20 * SECOND, "drill", "ci")
    assert daemon.board.costs(release, daemon.clock.ns)[0].spent_ratio is None


async def test_metrics_show_the_newest_releases(start: Callable[..., Daemon], database_url: str) -> None:
    """Five of each service that has SLOs, with what they cost each; a version that went out twice stands once."""
    daemon = start(database_url, slo(), slo("ttft", "ttft <= 1s"), slo(service="other"))
    await daemon.send(1, bad=True, age_s=30)
    for number in range(7):
        made = replace(RELEASE, version=f"v{number}", at_ns=NOON_NS - (60 - number) * SECOND)
        await daemon.editor.put_release(made)
    await daemon.editor.put_release(replace(RELEASE, version="v6", at_ns=NOON_NS - 5 * SECOND))
    await daemon.editor.put_release(replace(RELEASE, service="gone", version="v1"))

    readings = daemon.board.readings()

    at = {version: at for (service, version), at in readings["slo_release_timestamp_seconds"].items()}
    assert list(at) == ["v6", "v5", "v4", "v3"]
    assert at["v6"] == NOON_NS / SECOND - 5
    # The SLO was counted from noon on: nobody knows what came before.
    assert readings["slo_release_budget_spent_ratio"] == {}
    daemon.clock.forward(60)
    await daemon.editor.put_release(replace(RELEASE, version="v9", at_ns=NOON_NS + 30 * SECOND))
    await daemon.send(2, bad=True)
    assert daemon.board.readings()["slo_release_budget_spent_ratio"] == {("chat", "latency", "v9"): 50.0}


async def test_every_check_is_counted(start: Callable[..., Daemon]) -> None:
    """By how it ended; all four are there from the start."""
    daemon = start()
    name = "slo_exporter_release_checks_total"
    assert set(daemon.board.readings()[name].values()) == {0}
    reports = daemon.board.reports(daemon.clock.ns, "chat")

    daemon.board.checked(check(reports))
    daemon.board.checked(check(reports, Asked(), Override("ann", "outage")))

    counted = daemon.board.readings()[name]
    assert counted == {("allow",): 0, ("deny",): 0, ("undecided",): 1, ("overridden",): 1}


async def test_a_service_is_reported_on_alone(start: Callable[..., Daemon], database_url: str) -> None:
    """Its SLOs, none of another one's, and none of one that there is not."""
    daemon = start(database_url, slo(), slo(service="other"), slo("ttft"))

    names = [report.slo.key for report in daemon.board.reports(NOON_NS, "chat")]

    assert names == [("chat", "latency"), ("chat", "ttft")]
    assert list(daemon.board.reports(NOON_NS, "nobody")) == []
