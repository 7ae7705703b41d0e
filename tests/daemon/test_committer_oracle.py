"""
Whatever happens to the committer, every window says what was sent.

The oracle keeps a plain list of events and knows only the sentences of docs/laws.md,
law 3; the committer goes through SQLite, folds and restarts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

from builders import ManualClock, Request, export, slo
from committing import committer_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trying import examples

from slo_exporter.daemon.committer import Committer
from slo_exporter.ingest.otlp.export import Export

SECOND = 10**9
GRIDS = (5, 30, 60, 300, 1200, 3600, 7200)
WINDOWS = {"5m": 300, "30m": 1800, "1h": 3600, "2h": 7200, "6h": 21600, "1d": 86400, "3d": 259200}
SLOS = (slo("month", window="30d"), slo("week", "e2e <= 40ms", objective="0.9", window="7d"))
LIMITS_MS = (80, 40)


@dataclass
class World:
    """The committer, and beside them everything that was ever sent."""

    path: Path
    clock: ManualClock = field(default_factory=ManualClock)
    sent: list[Request] = field(default_factory=list)
    bodies: list[Export] = field(default_factory=list)
    committer: Committer = field(init=False)

    def __post_init__(self) -> None:
        """Open the committer for the first time."""
        self.committer = self.opened()

    def opened(self) -> Committer:
        """A committer on the database, as a start finds it."""
        committer = committer_of(f"sqlite:///{self.path}", SLOS, self.clock)
        committer.open()
        return committer

    def send(self, ages_s: Sequence[float]) -> None:
        """Send requests that ended so long ago, half of them slow, in one new body."""
        requests = [
            Request(end_ns=self.clock.ns - int(age * SECOND), e2e_ms=30 + 30 * (i % 3), span=len(self.sent) + i + 1)
            for i, age in enumerate(ages_s)
        ]
        self.sent.extend(requests)
        self.bodies.append(export(requests, received_ns=self.clock.ns))
        self.committer.commit([self.bodies[-1]], self.committer.next_seq())

    def repeat(self, back: int) -> None:
        """Send an earlier body again, unless its receipt may be gone."""
        body = self.bodies[-1 - back % len(self.bodies)] if self.bodies else None
        if body is not None and self.clock.ns - body.received_ns < 1300 * SECOND:
            self.committer.commit([body], self.committer.next_seq())

    def restart(self) -> None:
        """Die without a word and start again."""
        self.committer.close()
        self.committer = self.opened()

    def window(self, seconds: int, limit_ms: float) -> tuple[int, int]:
        """Good and total events of a window, by law 3, event by event."""
        grid = max(g for g in GRIDS if g == 5 or g * 50 <= seconds)
        start = (self.clock.ns - seconds * SECOND) // (grid * SECOND) * grid * SECOND
        end = (self.clock.ns // (5 * SECOND) + 1) * 5 * SECOND
        inside = [request for request in self.sent if start <= request.end_ns < end]
        return sum(request.e2e_ms <= limit_ms for request in inside), len(inside)


moves = st.one_of(
    st.tuples(st.just("send"), st.lists(st.floats(-60, 600), min_size=1, max_size=6)),
    st.tuples(st.just("wait"), st.sampled_from([1, 4, 7, 31, 250, 1500, 4000, 20_000, 90_000, 400_000])),
    st.tuples(st.just("repeat"), st.integers(0, 5)),
    st.tuples(st.just("beat"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)


def play(world: World, move: str, value: object) -> None:
    """Do one move."""
    match move, value:
        case "send", list(ages):
            world.send(ages)
        case "wait", int(seconds):
            world.clock.forward(seconds)
        case "repeat", int(back):
            world.repeat(back)
        case "beat", _:
            world.committer.heartbeat()
        case _:
            world.restart()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(moves, min_size=1, max_size=25))
def test_every_window_says_what_was_sent(script: list[tuple[str, object]]) -> None:
    """Sent in any order, late, twice, across folds and restarts: each window is exact."""
    with TemporaryDirectory() as folder:
        world = World(Path(folder) / "counts.db")
        for move, value in script:
            play(world, move, value)
        assert world.committer.loaded is not None
        reports = world.committer.loaded.ledger.reports(world.clock.ns)
        world.committer.close()

    for report, limit_ms in zip(reports, LIMITS_MS, strict=True):
        budget = 1 - Fraction(report.slo.objective)
        for text, seconds in {**WINDOWS, "window": report.slo.window.seconds}.items():
            good, total = world.window(seconds, limit_ms)
            burn = Fraction(total - good, total) / budget if total else None
            assert report.burn_rates[text] == (None if burn is None else float(burn)), text
        assert (report.counts.good, report.counts.total) == world.window(report.slo.window.seconds, limit_ms)
