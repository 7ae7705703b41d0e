"""
Whatever happens to the committer, its time slices are judged by what was sent while it was up.

The oracle keeps every request and every interval of accepting; the committer
goes through SQL, heartbeats, suspensions and restarts inside slices.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from builders import LATENESS_NS, ManualClock, Request, export, slo
from committing import ForgetfulDatabase, committer_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from timeslices import MS, Asked, Record, S
from trying import examples

from slo_exporter.daemon.committer import Committer
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.sli.indicator import DEFAULT_RULES
from slo_exporter.sli.records import Outcome
from slo_exporter.slo.budget import Counts
from slo_exporter.store.errors import StaleError, UnknownError

ASKED = (
    Asked((("p90", ("e2e",), "<=", "80ms", Fraction(80 * MS)),), 10, None, DEFAULT_RULES),
    Asked((("rate", (), ">=", "0.2/s", Fraction(1, 5)),), 15, None, DEFAULT_RULES),
    Asked((("max", ("e2e",), "<=", "75ms", Fraction(75 * MS)),), 60, None, DEFAULT_RULES),
)
SLOS = tuple(
    replace(slo(f"s{row}", window="1d", objective="0.5"), indicator=asked.indicator, objective=Decimal("0.5"))
    for row, asked in enumerate(ASKED)
)


@dataclass
class World:
    """The committer on a database, and beside it everything that happened."""

    url: str
    clock: ManualClock = field(default_factory=ManualClock)
    sent: list[Record] = field(default_factory=list)
    bodies: list[Export] = field(default_factory=list)
    up: list[tuple[int, int]] = field(default_factory=list)
    judged_s: int = 0
    final_s: int = 0
    committer: Committer = field(init=False)

    def __post_init__(self) -> None:
        """Start for the first time."""
        self.since_ns = self.clock.ns
        self.begin()

    def begin(self) -> None:
        """Start the process."""
        self.committer = committer_of(self.url, SLOS, self.clock)
        self.committer.open()
        self.up.append((self.clock.ns, self.clock.ns))

    def alive(self) -> None:
        """A commit or a heartbeat says that it was accepting until now."""
        self.up[-1] = (self.up[-1][0], self.clock.ns)

    def send(self, ages_s: Sequence[float]) -> None:
        """Requests that ended so long ago, every third one slow and every fifth one failed."""
        requests = [
            Request(
                end_ns=self.clock.ns - int(age * S),
                e2e_ms=50 + 40 * (i % 3 == 0),
                outcome=Outcome.ERROR if i % 5 == 4 else Outcome.OK,
                span=len(self.sent) + i + 1,
            )
            for i, age in enumerate(ages_s)
        ]
        self.sent += [
            {"end_ns": r.end_ns, "e2e": int(r.e2e_ms * MS), "outcome": r.outcome, "completion_tokens": None}
            for r in requests
        ]
        self.bodies.append(export(requests, received_ns=self.clock.ns))
        self.committer.commit([self.bodies[-1]], self.committer.next_seq())
        self.alive()

    def repeat(self, back: int) -> None:
        """Send an earlier body again, unless its receipt may be gone."""
        body = self.bodies[-1 - back % len(self.bodies)] if self.bodies else None
        if body is not None and self.clock.ns - body.received_ns < 1300 * S:
            self.committer.commit([body], self.committer.next_seq())
            self.alive()

    def live(self, seconds: int) -> None:
        """Let time pass, with a heartbeat every five seconds."""
        for _ in range(0, seconds, 5):
            self.idle(5)

    def idle(self, seconds: int) -> None:
        """Let time pass at once, with one heartbeat after it."""
        self.clock.forward(seconds)
        self.committer.heartbeat()
        self.alive()
        self.judged_s = max(self.judged_s, (self.clock.ns - 30 * S) // S)
        self.final_s = max(self.final_s, (self.clock.ns - LATENESS_NS - 30 * S) // S)

    def suspend(self, seconds: int) -> None:
        """The database takes no commits for a while."""
        self.committer.suspend()
        self.clock.forward(seconds)
        self.committer.resume()
        self.up.append((self.clock.ns, self.clock.ns))

    def restart(self, seconds: int) -> None:
        """Die without a word, and start again later."""
        self.committer.close()
        self.clock.forward(seconds)
        self.begin()

    def expected(self, row: int) -> tuple[list[int], list[int]]:
        """Good and total verdicts of the window, and the final ones among them."""
        asked, counts, finals = ASKED[row], [0, 0], [0, 0]
        first_s = self.since_ns // S // asked.width_s * asked.width_s
        for start_s in range(first_s, self.judged_s - asked.width_s + 1, asked.width_s):
            end_s = start_s + asked.width_s
            inside = [one for one in self.sent if start_s * S <= one["end_ns"] < end_s * S]
            verdict = asked.verdict(inside, self.up_ns(start_s * S, end_s * S))
            for tally in (counts, finals) if end_s <= self.final_s else (counts,):
                tally[0] += verdict is True
                tally[1] += verdict is not None
        return counts, finals

    def up_ns(self, start_ns: int, end_ns: int) -> int:
        """For how long of a range it was accepting."""
        return sum(max(0, min(end, end_ns) - max(start, start_ns)) for start, end in self.up)


MOVES = st.one_of(
    st.tuples(st.just("send"), st.lists(st.floats(0, 590), min_size=1, max_size=8)),
    st.tuples(st.just("send"), st.lists(st.floats(0, 20), min_size=1, max_size=8)),
    st.tuples(st.just("live"), st.sampled_from([5, 10, 35, 90, 300])),
    st.tuples(st.just("idle"), st.sampled_from([1, 3, 11, 64, 800])),
    st.tuples(st.just("repeat"), st.integers(0, 5)),
    st.tuples(st.just("suspend"), st.sampled_from([1, 4, 20, 200])),
    st.tuples(st.just("restart"), st.sampled_from([0, 1, 8, 30, 700])),
)
SCRIPT: list[tuple[str, object]] = [
    ("send", [0.0, 1.0, 2.0]),
    ("live", 90),
    ("send", [5.0, 40.0, 80.0]),
    ("restart", 8),
    ("repeat", 1),
    ("send", [0.0, 30.0, 60.0, 61.0]),
    ("idle", 64),
    ("live", 300),
    ("suspend", 20),
    ("send", [300.0, 400.0]),
    ("live", 300),
    ("restart", 700),
    ("send", [1.0, 2.0, 3.0, 4.0, 5.0]),
    ("live", 90),
    ("live", 300),
    ("live", 300),
]


def play(world: World, script: Sequence[tuple[str, object]]) -> None:
    """Do what the script says; compare after every move."""
    for move, value in script:
        getattr(world, move)(value)
        assert world.committer.loaded is not None
        ledger = world.committer.loaded.ledger
        for row, report in enumerate(world.committer.reports(world.clock.ns)):
            counts, finals = world.expected(row)
            assert [report.counts.good, report.counts.total] == counts, (row, move, value)
            assert ledger.totals[row].tolist() == [*finals, 0], (row, move, value)


@given(st.lists(MOVES, max_size=14))
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
def test_slices_are_judged_by_what_was_sent(script: list[tuple[str, object]]) -> None:
    """Verdicts and what is final, through SQLite, after every move."""
    with TemporaryDirectory() as folder:
        world = World(f"sqlite:///{Path(folder) / 'counts.db'}")
        try:
            play(world, script)
        finally:
            world.committer.close()


def test_slices_are_judged_alike_in_either_database(database_url: str) -> None:
    """One long script, with late requests, a suspension and restarts inside slices."""
    world = World(database_url)
    try:
        play(world, SCRIPT)
    finally:
        world.committer.close()


def test_an_hour_that_nobody_lived_through_has_no_verdict(database_url: str) -> None:
    """A clock set ahead and back: a slice without requests is bad under rate, but only where we were up."""
    world = World(database_url)
    try:
        for ahead_s in (3600, -3600, 0):
            world.live(300)
            world.clock.step(ahead_s)
        world.live(900)
        [total] = [report.counts.total for report in world.committer.reports(world.clock.ns)[1:2]]
    finally:
        world.committer.close()

    assert 0 < total <= 1800 // ASKED[1].width_s


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_heartbeat_of_unknown_outcome_judges_once(fault: str, tmp_path: Path) -> None:
    """Whether its COMMIT came through or not: verdicts and what is final are told once."""
    url = f"sqlite:///{tmp_path / 'counts.db'}"
    world = World(url)
    world.committer.close()
    database = ForgetfulDatabase(url, "a test")
    world.committer = committer_of(database, SLOS, world.clock)
    world.committer.open()
    world.clock.forward(20)
    world.send([1.0, 2.0, 3.0])
    for seconds in (60, 700):
        world.clock.forward(seconds)
        database.fault = fault
        with pytest.raises(UnknownError):
            world.committer.heartbeat()
        try:
            world.committer.heartbeat()
        except StaleError:
            world.committer.open()
            world.committer.heartbeat()
    told = _told(world)
    world.committer.close()

    world.committer = committer_of(url, SLOS, world.clock)
    world.committer.open()
    again = _told(world)
    world.committer.close()

    assert told == again
    assert told[0] == (Counts(0, 1), [0, 1, 0])


@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("how", ["heartbeat", "commit"])
def test_uptime_of_unknown_outcome_is_the_same_after_a_restart(how: str, fault: str, tmp_path: Path) -> None:
    """The slice in which the database went away had us up for nine seconds of ten: it has a verdict, once."""
    url, clock = f"sqlite:///{tmp_path / 'counts.db'}", ManualClock()
    database = ForgetfulDatabase(url, "a test")
    committer = committer_of(database, SLOS, clock)
    committer.open()
    _beat(committer, clock, 4)
    clock.forward(9)
    requests = export([Request(end_ns=clock.ns - S)])
    seq, database.fault = committer.next_seq(), fault
    with pytest.raises(UnknownError):
        committer.heartbeat() if how == "heartbeat" else committer.commit([requests], seq)
    committer.suspend()
    clock.forward(1)
    committer.resume()
    committer.commit([requests], committer.next_seq() if how == "heartbeat" else seq)
    _beat(committer, clock, 12)
    told = committer.reports(clock.ns)[0].counts
    committer.close()

    committer = committer_of(url, SLOS, clock)
    committer.open()
    _beat(committer, clock, 140)
    assert committer.loaded is not None
    assert (told, committer.loaded.ledger.totals[0].tolist()) == (Counts(1, 1), [1, 1, 0])
    committer.close()


def test_an_slo_made_while_the_clock_is_behind_has_no_older_verdict(tmp_path: Path) -> None:
    """What is final of it is what its windows hold: slices judged before it was made are not its own."""
    clock = ManualClock()
    committer = committer_of(f"sqlite:///{tmp_path / 'counts.db'}", SLOS[:2], clock)
    committer.open()
    _beat(committer, clock, 60)
    clock.step(-240)
    _beat(committer, clock, 1)

    made = replace(SLOS[1], name="made")
    committer.redefine(lambda definitions: definitions.with_files((*SLOS[:2], made)))
    _beat(committer, clock, 300)
    committer.suspend()
    clock.forward(3600)
    committer.heartbeat()

    assert committer.loaded is not None
    counts = committer.reports(clock.ns, made.key)[0].counts
    assert committer.loaded.ledger.totals[2].tolist() == [counts.good, counts.total, 0]
    # From the watermark, 270 s after the start, to the last whole slice, which begins at 1545 s; 15 s each.
    assert counts.total == (1545 - 270) // 15 + 1
    committer.close()


def _beat(committer: Committer, clock: ManualClock, times: int) -> None:
    """Let time pass, with a heartbeat every five seconds."""
    for _ in range(times):
        clock.forward(5)
        committer.heartbeat()


def _told(world: World) -> list[tuple[Counts, list[int]]]:
    """Verdicts in the window and lifetime totals, by SLO."""
    assert world.committer.loaded is not None
    counts = [report.counts for report in world.committer.reports(world.clock.ns)]
    return list(zip(counts, world.committer.loaded.ledger.totals.tolist(), strict=True))
