"""A store and the ledger beside it, kept in step as the daemon does."""

from collections.abc import Mapping, Sequence

import numpy as np
from builders import NOON_NS, slo

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.counting import SLICE_S, Delta
from slo_exporter.slo.corrections import Correction
from slo_exporter.slo.ledger import Entry
from slo_exporter.slo.windows import Range
from slo_exporter.store.database import database_of
from slo_exporter.store.store import Audit, Declaration, Opened, Store

NOON_S = NOON_NS // SECOND_NS
DAY_NS = 86400 * SECOND_NS
FOREVER_NS = 1000 * DAY_NS
Counts = tuple[int, int, int]


def declared(*names: str, service: str = "chat") -> list[Declaration]:
    """SLOs of files."""
    return [Declaration(slo(name, service=service), None) for name in names]


def audit(at_ns: int = NOON_NS, detail: str = "network", action: str = "correct") -> Audit:
    """Somebody did something."""
    return Audit(at_ns, "ann", action, "chat", "a", detail)


def entry(width: int, counts: Mapping[tuple[int, int], Counts]) -> Entry:
    """What a commit adds: counts by row and start of the slice."""
    starts = sorted({start for _, start in counts})
    table = np.zeros((len(starts), width, 3), dtype=np.int64)
    newest = np.full(width, np.iinfo(np.int64).min, dtype=np.int64)
    for (row, start), one in counts.items():
        table[starts.index(start), row] += one
        newest[row] = max(newest[row], start * SECOND_NS)
    return Entry.of(Delta(np.array(starts, dtype=np.int64), table, newest))


class Books:
    """
    One server: its store, its ledger.

    Args:
        url: the database.
        declarations: what is counted.
        now_ns: when it is opened.
    """

    def __init__(self, url: str, declarations: Sequence[Declaration], now_ns: int = NOON_NS) -> None:
        self.url = url
        self.declarations = list(declarations)
        self.store = Store(database_of(url, "a test"))
        self.open(now_ns)

    def open(self, now_ns: int, *audits: Audit) -> Opened:
        """Open, and load: again, if it is open."""
        self.store.open(now_ns)
        return self.load(now_ns, *audits)

    def load(self, now_ns: int, *audits: Audit) -> Opened:
        """Load."""
        self.opened = self.store.load(self.declarations, now_ns, audits)
        self.ledger = self.opened.ledger
        return self.opened

    def again(self, now_ns: int = NOON_NS) -> "Books":
        """After a kill -9 and a start: nothing of this process is left."""
        self.store.close()
        self.store = Store(database_of(self.url, "a test"))
        self.open(now_ns)
        return self

    def count(self, counts: Mapping[tuple[int, int], Counts]) -> None:
        """Commit counts by row and start of the slice."""
        added = entry(len(self.declarations), counts)
        with self.store.transaction(self.store.next_seq()) as transaction:
            transaction.count(added, self.ledger)
        self.ledger.add(added)

    def correct(self, row: int, from_s: int, to_s: int, now_ns: int = NOON_NS) -> Range:
        """Correct a range; the range it covers."""
        span = self.ledger.corrected_range(row, from_s * SECOND_NS, to_s * SECOND_NS, now_ns)
        correction = Correction(row, span)
        with self.store.transaction(self.store.next_seq()) as transaction:
            transaction.correct(correction, self.ledger, audit(now_ns))
        self.ledger.correct(correction)
        return span

    def age(self, now_ns: int, *, calls: int = 4, retention_ns: int = FOREVER_NS) -> int:
        """Let time pass: fold memory, and SQL; how many rows were packed."""
        self.ledger.timeline.fold(now_ns)
        return sum(self.store.tidy(now_ns, retention_ns).folded_rows for _ in range(calls))

    def total(self, row: int = 0) -> Counts:
        """Effective counts of all time."""
        good, total, excluded = self.ledger.timeline.total[row].tolist()
        return (good, total, excluded)

    def rows(self, table: str) -> list[tuple[object, ...]]:
        """What SQL holds."""
        with self.store._database.transaction() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table}")]  # noqa: S608

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()


def slices(first_s: int, number: int) -> range:
    """Starts of some slices."""
    return range(first_s, first_s + number * SLICE_S, SLICE_S)
