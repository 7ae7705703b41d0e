"""
Whatever happens to the committer, seconds of GPUs are counted once and judged with all the rest.

The oracle keeps every row and every interval of accepting; the committer goes
through SQL, heartbeats, suspensions, lost answers and restarts inside slices.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from builders import LATENESS_NS, ManualClock, Request, export, slo
from committing import ForgetfulDatabase, committer_of
from gpu_seconds import SHARE, AskedOfGpus, S, Second, gpu_indicator, seconds_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trying import examples

from slo_exporter.daemon.committer import Committer
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.definition import Slo
from slo_exporter.store.errors import StaleError, UnavailableError, UnknownError

ASKED = (
    AskedOfGpus((("mean", ("utilization",), ">=", "40%", Fraction(SHARE * 2, 5)),), 10, None),
    AskedOfGpus((("min", ("up",), ">=", "100%", Fraction(SHARE)),), 60, None, (("group", ("chat",)),)),
    AskedOfGpus((("p90", ("utilization",), "<=", "0.5", Fraction(SHARE, 2)),), 15, None, (("gpu", ("2",)),)),
)
SLOS = (
    slo("requests", window="1d", objective="0.5"),
    *(
        replace(slo(f"g{row}", window="1d"), indicator=asked.indicator, objective=Decimal("0.5"))
        for row, asked in enumerate(ASKED)
    ),
)


@dataclass
class World:
    """The committer on a database, and beside it everything that happened."""

    url: str
    clock: ManualClock = field(default_factory=ManualClock)
    seen: list[Second] = field(default_factory=list)
    up: list[tuple[int, int]] = field(default_factory=list)
    requests: int = 0
    judged_s: int = 0
    final_s: int = 0
    committer: Committer = field(init=False)
    random: Random = field(default_factory=lambda: Random(5))

    def __post_init__(self) -> None:
        """Start for the first time."""
        self.since_ns = self.clock.ns
        self.database = ForgetfulDatabase(self.url, "a test") if self.url.startswith("sqlite") else self.url
        self.begin()

    def begin(self) -> None:
        """Start the process."""
        self.committer = committer_of(self.database, SLOS, self.clock)
        self.committer.open()
        self.up.append((self.clock.ns, self.clock.ns))

    def alive(self) -> None:
        """A commit or a heartbeat says that it was accepting until now."""
        self.up[-1] = (self.up[-1][0], self.clock.ns)

    def rows(self, seconds: int) -> list[Second]:
        """What three GPUs did in the last seconds; one may have failed, or tell nothing."""
        rows = []
        for gpu in range(3):
            is_up = self.random.choice((SHARE, SHARE, SHARE, 0, None))
            for age in range(seconds):
                busy = self.random.choice((None, 0, SHARE * 2 // 5, SHARE // 2, SHARE)) if is_up else None
                rows.append({"gpu": gpu, "end_ns": self.clock.ns - age * S, "up": is_up, "utilization": busy})
        return rows

    def commit(self, rows: Sequence[Second], *, with_requests: bool) -> None:
        """Count rows, alone or in the transaction of an export."""
        exports = []
        if with_requests:
            self.requests += 1
            exports = [export([Request(end_ns=self.clock.ns, span=self.requests)], received_ns=self.clock.ns)]
        seq, gpus = self.committer.next_seq(), seconds_of(rows)
        fault = getattr(self.database, "fault", None)
        if fault is None:
            self.committer.commit(exports, seq, gpus)
        else:
            with pytest.raises(UnknownError):
                self.committer.commit(exports, seq, gpus)
            self.committer.commit(exports, seq, gpus)
        self.seen += rows
        self.alive()

    def tell(self, seconds: int) -> None:
        """Seconds of GPUs alone."""
        self.commit(self.rows(seconds), with_requests=False)

    def share(self, seconds: int) -> None:
        """Seconds of GPUs in the transaction of an export."""
        self.commit(self.rows(seconds), with_requests=True)

    def lose(self, fault: str) -> None:
        """The answer of a COMMIT is lost, and the transaction repeated."""
        if isinstance(self.database, ForgetfulDatabase):
            self.database.fault = fault
        self.commit(self.rows(5), with_requests=self.random.random() < 0.5)

    def live(self, seconds: int) -> None:
        """Let time pass: every five seconds what GPUs did, then a heartbeat."""
        for _ in range(0, seconds, 5):
            self.clock.forward(5)
            self.tell(5)
            self.beat()

    def idle(self, seconds: int) -> None:
        """Let time pass in which nothing is told of GPUs."""
        self.clock.forward(seconds)
        self.beat()

    def beat(self) -> None:
        """Judge."""
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

    def expected(self, asked: AskedOfGpus) -> tuple[list[int], list[int]]:
        """Good and total verdicts of the window, and the final ones among them."""
        counts, finals = [0, 0], [0, 0]
        first_s = self.since_ns // S // asked.width_s * asked.width_s
        for start_s in range(first_s, self.judged_s - asked.width_s + 1, asked.width_s):
            end_s = start_s + asked.width_s
            inside = [row for row in self.seen if start_s * S <= row["end_ns"] < end_s * S]
            verdict = asked.verdict(inside, self.up_ns(start_s * S, end_s * S))
            for tally in (counts, finals) if end_s <= self.final_s else (counts,):
                tally[0] += verdict is True
                tally[1] += verdict is not None
        return counts, finals

    def up_ns(self, start_ns: int, end_ns: int) -> int:
        """For how long of a range it was accepting."""
        return sum(max(0, min(end, end_ns) - max(start, start_ns)) for start, end in self.up)

    def agrees(self, step: object) -> None:
        """Windows and lifetime totals, request by request and slice by slice."""
        assert self.committer.loaded is not None
        totals = self.committer.loaded.ledger.totals.tolist()
        reports = self.committer.reports(self.clock.ns)
        assert (reports[0].counts, totals[0][1]) == (Counts(self.requests, self.requests), self.requests), step
        for row, asked in enumerate(ASKED, 1):
            counts, finals = self.expected(asked)
            assert [reports[row].counts.good, reports[row].counts.total] == counts, (row, step)
            assert totals[row] == [*finals, 0], (row, step)


MOVES = st.one_of(
    st.tuples(st.just("tell"), st.sampled_from([1, 5, 40])),
    st.tuples(st.just("share"), st.sampled_from([1, 5])),
    st.tuples(st.just("lose"), st.sampled_from(["before", "after"])),
    st.tuples(st.just("live"), st.sampled_from([5, 35, 120])),
    st.tuples(st.just("idle"), st.sampled_from([1, 11, 64, 800])),
    st.tuples(st.just("suspend"), st.sampled_from([1, 4, 20])),
    st.tuples(st.just("restart"), st.sampled_from([0, 1, 8, 700])),
)
SCRIPT: list[tuple[str, object]] = [
    ("tell", 1),
    ("live", 120),
    ("share", 5),
    ("lose", "before"),
    ("restart", 8),
    ("live", 90),
    ("lose", "after"),
    ("suspend", 20),
    ("live", 65),
    ("restart", 0),
    ("idle", 64),
    ("tell", 40),
    ("live", 90),
    ("idle", 800),
    ("live", 35),
]


def play(world: World, script: Sequence[tuple[str, object]]) -> None:
    """Do what the script says; compare after every move."""
    for move, value in script:
        getattr(world, move)(value)
        world.agrees((move, value))


@given(st.lists(MOVES, max_size=10), st.integers(0, 99))
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
def test_seconds_of_gpus_are_judged_as_they_were(script: list[tuple[str, object]], seed: int) -> None:
    """Verdicts and what is final, through SQLite, after every move."""
    with TemporaryDirectory() as folder:
        world = World(f"sqlite:///{Path(folder) / 'counts.db'}", random=Random(seed))
        try:
            play(world, script)
        finally:
            world.committer.close()


def test_seconds_of_gpus_are_judged_alike_in_either_database(database_url: str) -> None:
    """One long script, with lost answers, a suspension and restarts inside slices."""
    world = World(database_url)
    try:
        play(world, SCRIPT)
    finally:
        world.committer.close()


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_commit_that_was_not_repeated_counts_no_second_twice(fault: str, tmp_path: Path) -> None:
    """Loaded anew, memory says what SQL says, whichever of the two it is."""
    world = World(f"sqlite:///{tmp_path / 'counts.db'}")
    world.clock.forward(8)
    rows = [{"gpu": 0, "end_ns": world.clock.ns, "utilization": SHARE}]
    world.database.fault = fault
    with pytest.raises(UnknownError):
        world.committer.commit([], world.committer.next_seq(), seconds_of(rows))
    try:
        world.committer.heartbeat()
    except StaleError:
        world.committer.open()
    world.clock.forward(40)
    world.committer.heartbeat()

    counts = world.committer.reports(world.clock.ns)[1].counts
    world.committer.close()

    assert counts.total == (1 if fault == "after" else 0)
    world.begin()
    assert world.committer.loaded is not None
    sums = [total.tolist() for key, total in world.committer.loaded.slices._sums.items() if key[0] == 1]
    world.committer.close()
    assert sums == ([[1, 1, SHARE]] if fault == "after" else [])


Opened = Callable[[Sequence[Slo]], Committer]


def test_without_an_slo_on_gpus_their_seconds_are_not_countable(opened: Opened, clock: ManualClock) -> None:
    """Nothing is written for them."""
    batch = seconds_of([{"end_ns": clock.ns, "utilization": 1}])
    assert opened(SLOS[:1]).countable(batch) is None
    assert opened(SLOS).countable(batch) is batch


def test_a_second_from_before_the_clock_was_set_back_is_not_counted(opened: Opened, clock: ManualClock) -> None:
    """More than a minute ahead it would enter a slice that is yet to come."""
    committer = opened(SLOS)
    ends = (clock.ns + 61 * S, clock.ns + 60 * S, clock.ns)
    left = committer.countable(seconds_of([{"end_ns": end, "up": SHARE} for end in ends]))
    assert left is not None
    assert left.end_ns.tolist() == list(ends[1:])
    assert committer.countable(seconds_of([{"end_ns": ends[0], "up": SHARE}])) is None
    assert committer.counts["gpu_records_ahead"] == 2


def test_seconds_for_a_final_slice_are_refused_and_counted(opened: Opened, clock: ManualClock) -> None:
    """As records of requests are."""
    committer = opened(SLOS)
    for _ in range(10):
        clock.forward(100)
        committer.heartbeat()
    late = {"gpu": 0, "end_ns": clock.ns - LATENESS_NS - 60 * S, "up": SHARE, "utilization": SHARE}
    committer.commit([], committer.next_seq(), seconds_of([late]))
    assert committer.counts["late_slice_records"] == 2


def test_an_slo_on_gpus_has_history_and_keeps_it_over_a_new_objective(opened: Opened, clock: ManualClock) -> None:
    """It is an SLO as every other: the same indicator goes on, another starts anew."""
    committer = opened(SLOS)
    for _ in range(20):
        clock.forward(5)
        rows = [{"end_ns": clock.ns - age * S, "utilization": SHARE // 2} for age in range(5)]
        committer.commit([], committer.next_seq(), seconds_of(rows))
        committer.heartbeat()
    before = committer.reports(clock.ns, SLOS[1].key)[0]
    assert before.counts.total == before.counts.good > 0
    assert before.coverage_ratio == 1

    stricter = replace(SLOS[1], objective=Decimal("0.9"))
    assert opened([stricter]).reports(clock.ns)[0].counts == before.counts
    other = replace(SLOS[1], indicator=gpu_indicator("mean(utilization) >= 41%", 10))
    assert opened([other]).reports(clock.ns)[0].counts == Counts(0, 0)


def test_what_fails_before_the_commit_changes_nothing(
    opened: Opened, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same seconds can be counted later, under another number."""
    committer = opened(SLOS)
    clock.forward(9)
    batch = seconds_of([{"end_ns": clock.ns, "utilization": SHARE}])

    def fail(*_: object) -> None:
        raise UnavailableError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(committer, "_write", fail)
        with pytest.raises(UnavailableError):
            committer.commit([], committer.next_seq(), batch)
    committer.commit([], committer.next_seq(), batch)

    assert committer.loaded is not None
    assert [sums.tolist() for key, sums in committer.loaded.slices._sums.items() if key[0] == 1] == [[1, 1, SHARE]]
