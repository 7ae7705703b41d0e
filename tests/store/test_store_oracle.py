"""Any history of commits, folds, corrections and restarts against a dict of 5 s slices."""

from itertools import count

import pytest
from books import Books, declared
from builders import NOON_NS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trying import examples

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.windows import BURN_WINDOWS, range_of
from slo_exporter.store import tidying

WIDTH = 2
WINDOWS_S = (*BURN_WINDOWS.values(), 30 * 86400)
Cell = tuple[int, int, int]

_rows = st.integers(0, WIDTH - 1)
_counts = st.tuples(st.integers(0, 3), st.integers(3, 9), st.integers(0, 2))
_commits = st.dictionaries(st.tuples(_rows, st.integers(0, 130)), _counts, min_size=1, max_size=6)
_ages_s = st.one_of(st.integers(0, 600), st.integers(0, 6 * 3600), st.integers(0, 12 * 86400))
_steps = st.one_of(
    st.tuples(st.just("commit"), _commits),
    st.tuples(st.just("wait"), _ages_s),
    st.tuples(st.just("correct"), st.tuples(_rows, _ages_s, st.integers(1, 2000))),
    st.tuples(st.just("restart"), st.booleans()),
)
_numbers = count()


class Oracle:
    """What a store should say: a dict of 5 s slices, and which of them are corrected."""

    def __init__(self) -> None:
        self.raw: dict[tuple[int, int], Cell] = {}
        self.corrected: list[tuple[int, int, int]] = []

    def add(self, counts: dict[tuple[int, int], Cell]) -> None:
        """Add raw counts."""
        for key, one in counts.items():
            good, total, excluded = self.raw.get(key, (0, 0, 0))
            self.raw[key] = (good + one[0], total + one[1], excluded + one[2])

    def between(self, row: int, start_s: int, end_s: int) -> Cell:
        """Effective counts of one SLO in a range."""
        cells = [self._effective(key) for key in self.raw if key[0] == row and start_s <= key[1] < end_s]
        good, total, excluded = (sum(column) for column in zip(*cells, strict=True)) if cells else (0, 0, 0)
        return (good, total, excluded)

    def _effective(self, key: tuple[int, int]) -> Cell:
        row, start = key
        good, total, excluded = self.raw[key]
        if any(row == of and from_s <= start < to_s for of, from_s, to_s in self.corrected):
            return (0, 0, excluded + total)
        return (good, total, excluded)


def check(books: Books, oracle: Oracle, now_ns: int) -> None:
    """Every window, and all of it."""
    for row in range(WIDTH):
        for seconds in WINDOWS_S:
            span = range_of(seconds, now_ns)
            found = books.ledger.timeline.between(span)[row].tolist()
            assert tuple(found) == oracle.between(row, span.start, span.end), (row, seconds)
        assert books.total(row) == oracle.between(row, 0, 2**62)
        raw = [cell for key, cell in oracle.raw.items() if key[0] == row]
        assert books.ledger.totals[row].tolist() == [sum(cell[n] for cell in raw) for n in range(3)]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_steps, min_size=3, max_size=14))
def test_any_history_is_told_right(
    database_url: str, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[str, object]]
) -> None:
    """Before and after a restart, whatever was folded and corrected meanwhile."""
    monkeypatch.setattr(tidying, "_CALLS_A_TURN", 1)
    # SLOs of earlier examples are retired: they share the database, and are no trouble.
    books, oracle = Books(database_url, declared("a", "b", service=f"chat-{next(_numbers)}")), Oracle()
    now_ns = NOON_NS
    for step in [*steps, ("restart", True)]:
        match step:
            case ("commit", counts):
                newest_s = now_ns // SECOND_NS // 5 * 5
                late = {(row, newest_s - 5 * ago): one for (row, ago), one in counts.items()}  # type: ignore[attr-defined]
                books.count(late)
                oracle.add(late)
            case ("wait", int(seconds)):
                now_ns += seconds * SECOND_NS
                books.age(now_ns, calls=1)
            case ("correct", (int(row), int(ago), int(width))):
                from_s = now_ns // SECOND_NS - ago
                span = books.correct(row, from_s, min(from_s + width, now_ns // SECOND_NS + 1), now_ns)
                oracle.corrected.append((row, span.start, span.end))
            case ("restart", folds):
                books.again(now_ns)
                if folds:
                    books.age(now_ns, calls=1)
        check(books, oracle, now_ns)
    books.close()
