"""Uptime and age in the face of clocks that are set."""

from builders import NOON_NS, ManualClock

from slo_exporter.daemon.accepting import Accepting

SECOND = 10**9
HOUR = 3600


def test_an_interval_goes_on_while_time_passes(clock: ManualClock) -> None:
    """Neither a slow nor a busy minute breaks it."""
    accepting = Accepting(clock)
    accepting.begin()

    for seconds in (5, 60, 0.1, 300):
        clock.forward(seconds)
        accepting.now_ns()

    assert accepting.since_ns == NOON_NS


def test_a_clock_set_ahead_begins_an_interval(clock: ManualClock) -> None:
    """The hour that nobody lived through is no uptime."""
    accepting = Accepting(clock)
    accepting.begin()
    clock.forward(5)
    clock.step(HOUR)

    assert accepting.now_ns() == accepting.since_ns == NOON_NS + (HOUR + 5) * SECOND


def test_a_clock_set_back_begins_an_interval(clock: ManualClock) -> None:
    """An interval never ends before it begins."""
    accepting = Accepting(clock)
    accepting.begin()
    clock.forward(5)
    clock.step(-HOUR)

    assert accepting.now_ns() == accepting.since_ns == NOON_NS - (HOUR - 5) * SECOND


def test_a_clock_that_drifts_breaks_nothing(clock: ManualClock) -> None:
    """A second of correction is how clocks live."""
    accepting = Accepting(clock)
    accepting.begin()
    for _ in range(10):
        clock.forward(5)
        clock.step(1)
        accepting.now_ns()

    assert accepting.since_ns == NOON_NS


def test_what_is_refused_has_no_interval(clock: ManualClock) -> None:
    """A clock that is set meanwhile does not begin one."""
    accepting = Accepting(clock)
    accepting.begin()
    accepting.end()
    clock.step(HOUR)
    accepting.now_ns()

    assert accepting.since_ns is None


def test_a_clock_set_ahead_makes_little_older(clock: ManualClock) -> None:
    """A second a call, until it is set right again."""
    accepting = Accepting(clock)
    clock.step(HOUR)
    ages = [accepting.aged_ns(accepting.now_ns()) - NOON_NS for _ in range(3)]
    clock.step(-HOUR)

    assert ages == [0, SECOND, 2 * SECOND]
    assert accepting.aged_ns(accepting.now_ns()) == NOON_NS


def test_what_a_commit_of_unknown_outcome_said_is_said_again(clock: ManualClock) -> None:
    """Until another one tells; we were accepting until then either way."""
    accepting = Accepting(clock)
    accepting.begin()
    clock.forward(3)
    accepting.doubt(clock.ns)
    accepting.end()
    clock.forward(1)
    accepting.begin()
    clock.forward(1)

    said = [[(at_ns - NOON_NS) // SECOND for at_ns in one] for one in accepting.intervals(clock.ns)]
    accepting.said()

    assert said == [[0, 3], [4, 5]]
    assert len(accepting.intervals(clock.ns)) == 1
