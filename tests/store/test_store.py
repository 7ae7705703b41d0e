"""The store on either database: what it is told is there after a kill -9, once."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from books import DAY_NS, NOON_S, Books, audit, declared, entry, slices
from builders import NOON_NS, slo

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.admission import Role, Roles
from slo_exporter.sli.counting import Delta
from slo_exporter.sli.records import MISSING
from slo_exporter.slo.budget import Counts
from slo_exporter.slo.corrections import CorrectionMade
from slo_exporter.slo.judging import SliceChange
from slo_exporter.slo.ledger import Entry
from slo_exporter.slo.windows import Range
from slo_exporter.store.database import database_of
from slo_exporter.store.errors import StaleError
from slo_exporter.store.store import Declaration, Store, StoredDocument
from slo_exporter.store.transaction import Receipt

HOUR_NS = 3600 * SECOND_NS
Open = Callable[..., Books]


@pytest.fixture
def opened(database_url: str) -> Iterator[Open]:
    """Open books on the one database of a test."""
    made: list[Books] = []

    def open_them(declarations: Sequence[Declaration], now_ns: int = NOON_NS) -> Books:
        made.append(Books(database_url, declarations, now_ns))
        return made[-1]

    yield open_them
    for books in made:
        books.close()


@pytest.fixture
def books(opened: Open) -> Iterator[Books]:
    """A server with two SLOs."""
    return opened(declared("a", "b"))


def test_counts_survive(books: Books) -> None:
    """Slices, totals and the newest event are there after a kill -9."""
    books.count({(0, NOON_S): (3, 4, 1), (1, NOON_S): (0, 1, 0)})
    books.count({(0, NOON_S): (1, 1, 0)})

    after = books.again()

    assert after.total(0) == (4, 5, 1)
    assert after.total(1) == (0, 1, 0)
    assert after.ledger.totals.tolist() == [[4, 5, 1], [0, 1, 0]]
    assert after.ledger.newest_ns.tolist() == [NOON_NS, NOON_NS]


def test_huge_counts_are_exact(books: Books) -> None:
    """Up to what 64 bits hold, in rows and packed."""
    huge = 2**62 + 1
    books.count({(0, NOON_S): (huge - 2, huge, 7)})
    assert books.again().total() == (huge - 2, huge, 7)

    later = NOON_NS + 2 * HOUR_NS
    after = books.again(later)
    assert after.age(later) == 1
    after = after.again(later)

    assert after.total() == (huge - 2, huge, 7)


def test_a_second_entry_in_a_transaction_is_refused(books: Books) -> None:
    """Absolute values on the same ledger would forget the first one."""
    one = entry(2, {(0, NOON_S): (1, 1, 0)})

    with books.store.transaction(books.store.next_seq()) as transaction:
        transaction.count(one, books.ledger)
        with pytest.raises(RuntimeError, match="second entry"):
            transaction.count(one, books.ledger)

    assert books.again().total() == (1, 1, 0)


def test_a_body_is_claimed_once(books: Books) -> None:
    """A digest with a receipt does not count again, and its first answer is known."""
    receipts = {bytes([n]) * 16: Receipt(NOON_NS, n) for n in (3, 1, 2)}
    with books.store.transaction(books.store.next_seq()) as transaction:
        assert transaction.claim(receipts).counts == receipts.keys()

    with books.store.transaction(books.store.next_seq()) as transaction:
        claim = transaction.claim({**receipts, b"new" * 5 + b"!": Receipt(NOON_NS, 9)})

    assert claim.counts == {b"new" * 5 + b"!"}
    assert claim.refused == {digest: receipt.refused for digest, receipt in receipts.items()}


def test_receipts_go_by_age(books: Books) -> None:
    """One that is too old to matter counts again."""
    receipts = {b"a" * 16: Receipt(NOON_NS, 0), b"b" * 16: Receipt(NOON_NS + 1, 0)}
    with books.store.transaction(books.store.next_seq()) as transaction:
        transaction.claim(receipts)
        transaction.delete_receipts(NOON_NS + 1)

    with books.store.transaction(books.store.next_seq()) as transaction:
        assert transaction.claim(receipts).counts == {b"a" * 16}


def engines(*services: str) -> Roles:
    """Services with an engine."""
    return frozenset((service, Role.ENGINE) for service in services)


def test_roles_and_uptime_survive(books: Books) -> None:
    """Both are put down as often as one likes."""
    for end in (1, 2):
        with books.store.transaction(books.store.next_seq()) as transaction:
            transaction.learn(engines("chat", "Ünicode ☃"), NOON_NS)
            transaction.accepting(NOON_NS, NOON_NS + end * SECOND_NS)

    after = books.again()

    assert after.opened.roles == engines("chat", "Ünicode ☃")
    assert after.ledger.uptime.until_ns == NOON_NS + 2 * SECOND_NS


def test_a_service_that_no_database_could_keep_is_not_remembered(books: Books) -> None:
    """NUL, and a key too long for an index: the rest of the commit is not lost for it."""
    with books.store.transaction(books.store.next_seq()) as transaction:
        transaction.learn(engines("a\0b", "ü" * 1500, "c"), NOON_NS)
        transaction.count(entry(2, {(0, NOON_S): (1, 1, 0)}), books.ledger)

    after = books.again()

    assert after.opened.roles == engines("c")
    assert after.total() == (1, 1, 0)


# Definitions


def test_another_objective_keeps_history(opened: Open) -> None:
    """What is counted is the same."""
    books = opened(declared("a"))
    books.count({(0, NOON_S): (1, 2, 0)})

    books.declarations = [Declaration(slo("a", objective="0.5", window="7d"), None)]
    books.load(NOON_NS)

    assert books.total() == (1, 2, 0)
    assert books.opened.slices.since_ns == [NOON_NS]


def test_another_indicator_starts_a_generation(opened: Open) -> None:
    """Slices begin anew, lifetime totals go on, and the old counts are kept."""
    books = opened(declared("a"))
    books.count({(0, NOON_S): (1, 2, 0)})

    books.declarations = [Declaration(slo("a", "e2e <= 1ms"), None)]
    opening = books.load(NOON_NS + 9)

    assert books.total() == (0, 0, 0)
    assert books.ledger.totals.tolist() == [[1, 2, 0]]
    assert books.ledger.newest_ns.tolist() == [MISSING]
    assert opening.slices.since_ns == [NOON_NS + 9]
    assert opening.generations == [2]
    assert len(books.rows("slices")) == 1


def test_a_retired_slo_is_revived(opened: Open) -> None:
    """Its counts are back, and it is counted without a break since then only."""
    books = opened(declared("a", "b"))
    books.count({(1, NOON_S): (1, 2, 0)})
    books.declarations = declared("a")
    books.load(NOON_NS + 1)

    books.declarations = declared("a", "b")
    opening = books.load(NOON_NS + 2)

    assert books.total(1) == (1, 2, 0)
    assert books.ledger.started_ns == (NOON_NS, NOON_NS)
    assert opening.slices.since_ns == [NOON_NS, NOON_NS + 2]


def test_definitions_of_the_api_are_kept(opened: Open) -> None:
    """With their documents, until they are retired; also behind a file that took the name over."""
    made = [Declaration(slo(name), f'{{"name": "{name}"}}') for name in ("x", "y")]
    books = opened([*declared("a"), *made])
    books.count({(1, NOON_S): (1, 1, 0)})
    assert books.again().store.documents() == (
        StoredDocument("chat", "x", '{"name": "x"}'),
        StoredDocument("chat", "y", '{"name": "y"}'),
    )

    books.declarations = [*declared("x"), made[1]]
    after = books.again()
    assert after.total() == (1, 1, 0)
    assert [found.name for found in after.store.documents()] == ["x", "y"]

    after.declarations = [made[0]]
    after.load(NOON_NS)
    assert after.total() == (1, 1, 0)
    assert [found.name for found in after.store.documents()] == ["x"]


def test_who_changed_definitions_is_put_down(books: Books) -> None:
    """In the transaction that declares; what PostgreSQL cannot keep is replaced."""
    books.load(NOON_NS, audit(detail="first\0", action="put"), audit(NOON_NS + 1, action="delete"))

    found = [row[1:] for row in books.rows("audit")]

    assert found == [
        (NOON_NS, "ann", "put", "chat", "a", "first\ufffd"),
        (NOON_NS + 1, "ann", "delete", "chat", "a", "network"),
    ]


# Time slices


def change(width: int, **changed: object) -> SliceChange:
    """A change of time slices, without verdicts."""
    none = Delta(np.zeros(0, dtype=np.int64), np.zeros((0, width, 3), dtype=np.int64), np.full(width, MISSING))
    values = {"sums": {}, "done": (), "judged_s": 0, "final_s": 0, "refused": 0} | changed
    return SliceChange(counts=none, totals=np.zeros((width, 3), dtype=np.int64), **values)  # type: ignore[arg-type]


def test_sums_of_open_slices_survive(books: Books) -> None:
    """With the watermarks; those that became final are gone."""
    first = change(2, sums={(0, NOON_S): np.array([1, -2, 2**62]), (1, NOON_S): np.array([7])})
    second = change(
        2, sums={(0, NOON_S): np.array([5, 6, 7])}, done=((1, NOON_S), (1, NOON_S + 60)), judged_s=9, final_s=8
    )
    for one in (first, second):
        with books.store.transaction(books.store.next_seq()) as transaction:
            transaction.slices(one)

    opening = books.again().opened.slices

    assert {key: sums.tolist() for key, sums in opening.sums.items()} == {(0, NOON_S): [5, 6, 7]}
    assert (opening.judged_s, opening.final_s) == (9, 8)


def test_sums_of_a_slo_that_is_gone_are_dropped(books: Books) -> None:
    """Nobody will judge them: when it comes back, it is counted from then on."""
    with books.store.transaction(books.store.next_seq()) as transaction:
        transaction.slices(change(2, sums={(0, NOON_S): np.array([1]), (1, NOON_S): np.array([7])}))
    books.declarations = declared("b")
    assert list(books.load(NOON_NS).slices.sums) == [(0, NOON_S)]

    books.declarations = declared("a", "b")

    assert list(books.load(NOON_NS).slices.sums) == [(1, NOON_S)]


def test_lifetime_totals_take_what_the_entry_says(books: Books) -> None:
    """A verdict that is not final is in its slice, and not yet in the totals."""
    counts = entry(2, {(0, NOON_S): (0, 1, 0)}).counts
    added = Entry(counts, np.array([[0, 0, 0], [1, 1, 0]]))
    with books.store.transaction(books.store.next_seq()) as transaction:
        transaction.count(added, books.ledger)

    after = books.again()

    assert after.total() == (0, 1, 0)
    assert after.ledger.totals.tolist() == [[0, 0, 0], [1, 1, 0]]


# Folding


def test_old_rows_are_packed(books: Books) -> None:
    """Rows become packed cells, answers stay, and a late slice is found in its packed cell."""
    counts = {(row, start): (row + 1, 3, 1) for start in slices(NOON_S, 120) for row in (0, 1)}
    books.count(counts)
    later = NOON_NS + 3 * HOUR_NS

    assert books.age(later) == 240
    assert books.rows("slices") == []
    books.count({(0, NOON_S + 5): (1, 1, 0)})

    assert books.total() == (121, 361, 120)
    after = books.again(later)
    assert after.total() == (121, 361, 120)
    assert after.total(1) == (240, 360, 120)
    assert after.age(later) == 1
    assert after.again(later).total() == (121, 361, 120)


def test_folding_again_finds_nothing(books: Books) -> None:
    """It is idempotent, down to the bytes."""
    books.count({(0, start): (1, 1, 0) for start in slices(NOON_S, 60)})
    later = NOON_NS + 3 * HOUR_NS
    books.age(later)
    packed = books.rows("packed")

    assert books.age(later) == 0
    assert books.rows("packed") == packed


def test_a_late_slice_after_a_clock_was_set_back_counts_once(books: Books) -> None:
    """SQL packed it, memory was loaded with an earlier clock and holds 5 s slices there."""
    books.count({(0, start): (1, 1, 0) for start in slices(NOON_S, 60)})
    books.age(NOON_NS + 5 * HOUR_NS)

    after = books.again(NOON_NS + 300 * SECOND_NS)
    for start in slices(NOON_S, 60):
        after.count({(0, start): (0, 1, 0)})

    assert after.total() == (60, 120, 0)
    assert after.again(NOON_NS + 300 * SECOND_NS).total() == (60, 120, 0)


def test_sql_never_folds_before_memory(books: Books) -> None:
    """What memory holds as a 5 s slice is a row, whatever the caller says."""
    books.count({(0, start): (1, 1, 0) for start in slices(NOON_S, 10)})

    for _ in range(4):
        books.store.tidy(NOON_NS + 5 * HOUR_NS, DAY_NS)

    assert len(books.rows("slices")) == 10


def test_every_slo_has_its_turn(opened: Open) -> None:
    """A call folds some, 144 calls all: 12 minutes of heartbeats."""
    books = opened(declared(*(f"s{n}" for n in range(300))))
    books.count({(row, NOON_S): (1, 1, 0) for row in range(300)})
    later = NOON_NS + 3 * HOUR_NS
    books.ledger.timeline.fold(later)

    folded = [books.store.tidy(later, DAY_NS).folded_rows for _ in range(100)]

    assert set(folded) == {3}
    assert books.rows("slices") == []


def test_what_is_older_than_retention_is_pruned(opened: Open) -> None:
    """Counts, uptime, the audit, and generations that nothing refers to; totals stay."""
    books = opened(declared("a", "b"))
    books.count({(0, NOON_S): (1, 1, 0), (1, NOON_S): (1, 1, 0)})
    with books.store.transaction(books.store.next_seq()) as transaction:
        transaction.accepting(NOON_NS, NOON_NS + SECOND_NS)
    books.declarations = declared("a")
    books.load(NOON_NS, audit(action="delete"))

    later = NOON_NS + 150 * DAY_NS
    books.age(later, retention_ns=100 * DAY_NS, calls=8)
    later += HOUR_NS
    books.age(later, retention_ns=100 * DAY_NS, calls=8)

    assert [books.rows(table) for table in ("slices", "packed", "uptime", "audit")] == [[], [], [], []]
    assert len(books.rows("generations")) == 1
    assert len(books.rows("totals")) == 2
    books.declarations = declared("a", "b")
    books.load(later)
    assert books.ledger.totals.tolist() == [[1, 1, 0], [1, 1, 0]]


def test_a_short_retention_does_not_forget_who_did_what(books: Books) -> None:
    """The audit and corrections are kept 100 days at least."""
    books.count({(0, NOON_S): (1, 1, 0)})
    books.correct(0, NOON_S, NOON_S + 5)

    books.age(NOON_NS + 99 * DAY_NS, retention_ns=DAY_NS, calls=8)

    assert len(books.rows("audit")) == len(books.rows("corrections")) == 1


# Corrections


def test_a_correction_survives(books: Books) -> None:
    """What was in its range is excluded, what comes later too; raw counts and totals stay."""
    books.count({(0, start): (1, 2, 3) for start in slices(NOON_S, 4)})
    span = books.correct(0, NOON_S, NOON_S + 10)
    books.count({(0, NOON_S + 5): (1, 1, 1), (1, NOON_S): (1, 1, 0)})
    assert span == Range(NOON_S, NOON_S + 10)
    assert books.total() == (2, 4, 18)

    after = books.again()

    assert after.total() == (2, 4, 18)
    assert after.total(1) == (1, 1, 0)
    assert after.ledger.totals.tolist() == [[5, 9, 13], [1, 1, 0]]
    assert after.ledger.corrections == books.ledger.corrections
    after.count({(0, NOON_S): (0, 1, 0)})
    assert after.again().total() == (2, 4, 19)


def test_correcting_twice_changes_nothing(books: Books) -> None:
    """Nor do corrections that overlap."""
    books.count({(0, start): (1, 2, 0) for start in slices(NOON_S, 4)})
    books.correct(0, NOON_S, NOON_S + 15)
    books.correct(0, NOON_S + 5, NOON_S + 15)

    assert books.total() == (1, 2, 6)
    assert books.again().total() == (1, 2, 6)


def test_packed_cells_are_corrected(books: Books) -> None:
    """In cells as wide as they are by then, and with what comes late."""
    later = NOON_NS + 3 * HOUR_NS
    books.count({(0, start): (1, 2, 0) for start in slices(NOON_S, 240)})
    books.age(later)
    span = books.correct(0, NOON_S + 7, NOON_S + 11, later)
    assert span == Range(NOON_S, NOON_S + 60)
    books.count({(0, NOON_S + 10): (1, 1, 0)})

    assert books.total() == (228, 456, 25)
    assert books.again(later).total() == (228, 456, 25)
    even_later = later + 40 * HOUR_NS
    after = books.again(even_later)
    after.age(even_later)
    assert after.again(even_later).total() == (228, 456, 25)


def test_a_correction_says_who_asked_for_what(books: Books) -> None:
    """With the audit."""
    books.count({(1, NOON_S): (1, 3, 0)})
    books.correct(1, NOON_S, NOON_S + 5)

    (found,) = books.again().opened.corrections[1]

    assert found == CorrectionMade(
        span=Range(NOON_S, NOON_S + 5),
        asked_from_ns=NOON_NS,
        asked_to_ns=NOON_NS + 5 * SECOND_NS,
        why="network",
        who="ann",
        made_ns=NOON_NS,
        removed=Counts(1, 3),
    )
    assert [row[1:] for row in books.rows("audit")] == [(NOON_NS, "ann", "correct", "chat", "a", "network")]


# Fencing


def test_a_store_that_was_not_opened_is_stale(database_url: str) -> None:
    """So the daemon opens it."""
    with pytest.raises(StaleError):
        Store(database_of(database_url, "a test")).documents()


def steal(books: Books, assignment: str) -> None:
    """Write to the database as another server would."""
    with books.store._database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE writers SET {assignment} WHERE name = 'main'")  # noqa: S608


@pytest.mark.parametrize("assignment", ["epoch = 'another'", "seq = seq - 1", "seq = seq + 2"])
def test_a_database_that_somebody_else_changed_is_stale(books: Books, assignment: str) -> None:
    """Another server wrote, or commits were lost: nothing is written until it was loaded anew."""
    books.count({(0, NOON_S): (1, 1, 0)})
    steal(books, assignment)
    with pytest.raises(StaleError):
        books.count({(0, NOON_S): (1, 1, 0)})

    books.open(NOON_NS)
    books.count({(0, NOON_S): (1, 1, 0)})

    assert books.again().total() == (2, 2, 0)


def test_a_schema_that_is_gone_is_stale(books: Books) -> None:
    """An empty database under the same name: opening makes it ours again."""
    books.count({(0, NOON_S): (1, 1, 0)})
    with books.store._database.transaction() as connection:
        for table in ("totals", "slices", "packed", "open_slices", "corrections", "generations", "alerts", "slos"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        for table in (
            "receipts",
            "releases",
            "decisions",
            "uptime",
            "writers",
            "groups",
            "roles",
            "audit",
            "alembic_version",
        ):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    with pytest.raises(StaleError):
        books.count({(0, NOON_S): (1, 1, 0)})

    books.open(NOON_NS)

    assert books.total() == (0, 0, 0)
    books.count({(0, NOON_S): (1, 1, 0)})
    assert books.again().total() == (1, 1, 0)
