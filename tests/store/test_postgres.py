"""A PostgreSQL server: held by one session, and honest about what went wrong."""

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from books import NOON_S, Books, declared, entry
from builders import NOON_NS
from cutting_proxy import Cut, CuttingProxy
from postgres_server import PostgresServer

from slo_exporter.store.database import shown
from slo_exporter.store.errors import StaleError, UnavailableError, UnknownError, UnusableError
from slo_exporter.store.postgres import PostgresDatabase
from slo_exporter.store.schema import WRITERS
from slo_exporter.store.transaction import Receipt

HOLDER = "slo-exporter 1.2.3, pid 1 on a-host-with-a-rather-long-name, since noon"
DIGEST = b"0123456789abcdef"


@pytest.fixture
def name(postgres: PostgresServer) -> str:
    """A fresh database of the server."""
    return str(sa.make_url(postgres.new_database()).database)


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[CuttingProxy]:
    """What stands between us and the server."""
    cutting = CuttingProxy(postgres.port)
    yield cutting
    cutting.close()


@pytest.fixture
def database(postgres: PostgresServer, name: str) -> Iterator[PostgresDatabase]:
    """An open database."""
    opened = PostgresDatabase(postgres.url(name), HOLDER)
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def books(postgres: PostgresServer, name: str, proxy: CuttingProxy) -> Iterator[Books]:
    """A server behind the proxy."""
    opened = Books(postgres.url(name, proxy.port), declared("a"))
    yield opened
    opened.close()


def put(database: PostgresDatabase, name: str) -> None:
    """Write a row in a transaction."""
    with database.transaction() as connection:
        connection.execute(sa.insert(WRITERS).values(name=name))


def names(postgres: PostgresServer, name: str) -> list[object]:
    """The rows that another session finds."""
    return [row[0] for row in postgres.execute("SELECT name FROM writers ORDER BY name", name)]


def end_sessions(postgres: PostgresServer, name: str) -> None:
    """Cut every session of a database."""
    postgres.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608


# Who holds it


def test_a_second_server_is_told_who_holds_the_database(
    database: PostgresDatabase, postgres: PostgresServer, name: str
) -> None:
    """One writer per database; the other one learns which, and waits a moment only."""
    second = PostgresDatabase(postgres.url(name), "another")

    with pytest.raises(UnusableError, match=r"in use by slo-exporter 1\.2\.3, pid 1 .* from 127\.0\.0\.1, since 20"):
        second.open()
    second.close()

    put(database, "main")
    assert names(postgres, name) == ["main"]


def test_a_closed_database_can_be_opened_by_another(
    database: PostgresDatabase, postgres: PostgresServer, name: str
) -> None:
    """Closing lets go of the lock."""
    database.close()
    second = PostgresDatabase(postgres.url(name), "another")
    second.open()

    put(second, "main")

    assert names(postgres, name) == ["main"]
    second.close()


def test_databases_of_one_server_have_locks_of_their_own(database: PostgresDatabase, postgres: PostgresServer) -> None:
    """Two servers share a PostgreSQL."""
    second = PostgresDatabase(postgres.new_database(), "another")
    second.open()

    put(second, "main")
    put(database, "main")

    second.close()


def test_a_session_of_ours_that_was_lost_is_ended(
    database: PostgresDatabase, postgres: PostgresServer, name: str
) -> None:
    """The server did not notice yet that its connection is gone: we know that it was ours."""
    lost = database._connection
    assert lost is not None
    database._connection = None

    put(database, "main")

    assert names(postgres, name) == ["main"]
    lost.invalidate()
    lost.close()


def test_a_server_whose_lock_was_taken_stops(database: PostgresDatabase, postgres: PostgresServer, name: str) -> None:
    """When a second server got in while we were away, the first one does not write on."""
    end_sessions(postgres, name)
    with pytest.raises(UnavailableError):
        put(database, "lost")
    second = PostgresDatabase(postgres.url(name), "another")
    second.open()

    with pytest.raises(UnusableError, match="in use by another"):
        put(database, "lost")

    second.close()


# What a start makes of errors


@pytest.mark.parametrize(
    ("user", "database", "expected"),
    [
        ("nobody_there", "postgres", 'role "nobody_there" does not exist'),
        ("postgres", "no_such", 'database "no_such" does not exist'),
        ("powerless", "guarded", "permission denied"),
    ],
)
def test_what_waiting_does_not_help_is_said(postgres: PostgresServer, user: str, database: str, expected: str) -> None:
    """One line, without the password."""
    postgres.execute("DROP DATABASE IF EXISTS guarded")
    postgres.execute("DROP ROLE IF EXISTS powerless")
    postgres.execute("CREATE ROLE powerless LOGIN")
    postgres.execute("CREATE DATABASE guarded")
    url = f"postgresql+psycopg://{user}:geheim@127.0.0.1:{postgres.port}/{database}"
    opened = PostgresDatabase(url, "a test")

    with pytest.raises(UnusableError, match=expected) as caught:
        opened.open()
    opened.close()

    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there_is_waited_for() -> None:
    """It may start later."""
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1/x.*refused"):
        PostgresDatabase("postgresql+psycopg://me:geheim@127.0.0.1:1/x", "a test").open()


def test_a_standby_is_waited_for(postgres: PostgresServer, name: str) -> None:
    """What takes no writes now may become the primary."""
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    opened = PostgresDatabase(postgres.url(name), "a test")
    with pytest.raises(UnavailableError, match="read-only"):
        opened.open()

    postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    opened.open()

    opened.close()


def test_an_encoding_that_cannot_hold_every_name_is_refused(postgres: PostgresServer) -> None:
    """A service may have any name."""
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    opened = PostgresDatabase(postgres.url("latin"), "a test")

    with pytest.raises(UnusableError, match="UTF8"):
        opened.open()
    opened.close()


def test_tables_of_somebody_else_are_left_alone(postgres: PostgresServer, name: str) -> None:
    """A migration that cannot be made leaves nothing behind."""
    postgres.execute("CREATE TABLE slos (mine text)", name)
    opened = PostgresDatabase(postgres.url(name), "a test")

    with pytest.raises(UnusableError, match='"slos" already exists'):
        opened.open()
    opened.close()

    assert postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", name) == [("slos",)]


# While it runs


def test_a_commit_is_flushed_when_it_returns(database: PostgresDatabase) -> None:
    """Whatever the server's own default is; and no statement waits longer than clients do."""
    with database.transaction() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "5s"
        assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "2s"


def test_a_failed_block_leaves_nothing(database: PostgresDatabase, postgres: PostgresServer, name: str) -> None:
    """An error inside a transaction takes all of it back, and the next one works."""

    def break_off() -> None:
        with database.transaction() as connection:
            connection.execute(sa.insert(WRITERS).values(name="half"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()

    put(database, "whole")

    assert names(postgres, name) == ["whole"]


def test_a_statement_that_failed_unnoticed_is_no_commit(database: PostgresDatabase) -> None:
    """COMMIT of a failed transaction is answered by ROLLBACK, and by no error."""

    def swallow() -> None:
        with database.transaction() as connection:
            connection.execute(sa.insert(WRITERS).values(name="lost"))
            with pytest.raises(sa.exc.ProgrammingError):
                connection.exec_driver_sql("SELECT nonsense FROM nowhere")

    with pytest.raises(UnavailableError, match="a statement failed"):
        swallow()


def test_a_fault_of_ours_is_not_taken_for_the_database(database: PostgresDatabase) -> None:
    """It would be tried for ever."""
    with pytest.raises(sa.exc.DataError), database.transaction() as connection:
        connection.execute(sa.insert(WRITERS).values(name="a\0b"))


def test_a_session_that_is_ended_costs_one_try(database: PostgresDatabase, postgres: PostgresServer, name: str) -> None:
    """In the middle of a transaction: nothing of it is there, and the next one connects again."""

    def be_ended() -> None:
        with database.transaction() as connection:
            connection.execute(sa.insert(WRITERS).values(name="lost"))
            end_sessions(postgres, name)
            connection.execute(sa.insert(WRITERS).values(name="lost too"))

    with pytest.raises(UnavailableError):
        be_ended()

    put(database, "kept")

    assert names(postgres, name) == ["kept"]


def test_a_locked_table_is_unavailable(database: PostgresDatabase, postgres: PostgresServer, name: str) -> None:
    """Somebody else's lock makes a commit fail cleanly, in two seconds, and only while it lasts."""
    with psycopg.connect(postgres.url(name).replace("+psycopg", "")) as other:
        other.execute("LOCK TABLE writers")
        with pytest.raises(UnavailableError, match="lock timeout"):
            put(database, "lost")
        other.rollback()

    put(database, "kept")

    assert names(postgres, name) == ["kept"]


def test_a_server_that_crashed_is_waited_for(books: Books, postgres: PostgresServer) -> None:
    """What was committed is there when it comes back, what was not is not."""
    books.count({(0, NOON_S): (1, 1, 0)})
    postgres.stop("immediate")
    try:
        with pytest.raises(UnavailableError):
            books.count({(0, NOON_S): (1, 1, 0)})
        with pytest.raises(UnavailableError):
            books.store.transaction(books.store.next_seq()).__enter__()
    finally:
        postgres.start()

    books.count({(0, NOON_S): (1, 1, 0)})

    assert books.again().total() == (2, 2, 0)


def test_a_database_put_back_from_a_copy_is_stale(books: Books, postgres: PostgresServer, name: str) -> None:
    """A failover that forgot commits: what memory holds is worth nothing."""
    books.count({(0, NOON_S): (1, 1, 0)})
    end_sessions(postgres, name)
    postgres.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")
    with pytest.raises(UnavailableError):
        books.count({(0, NOON_S): (1, 1, 0)})
    books.count({(0, NOON_S): (1, 1, 0)})
    end_sessions(postgres, name)
    postgres.execute(f"DROP DATABASE {name}")
    postgres.execute(f"ALTER DATABASE {name}_copy RENAME TO {name}")
    with pytest.raises(UnavailableError):
        books.count({(0, NOON_S): (1, 1, 0)})

    with pytest.raises(StaleError, match="older state"):
        books.count({(0, NOON_S): (1, 1, 0)})

    books.open(NOON_NS)
    assert books.total() == (1, 1, 0)


# A COMMIT without an answer


def claim_and_count(books: Books, seq: int) -> bool:
    """An export: its receipt and its effect; True if it counts."""
    added = entry(1, {(0, NOON_S): (1, 1, 0)})
    with books.store.transaction(seq) as transaction:
        counts = transaction.claim({DIGEST: Receipt(NOON_NS, 0)}).counts
        if counts:
            transaction.count(added, books.ledger)
    if counts:
        books.ledger.add(added)
    return bool(counts)


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_a_commit_that_was_cut_is_repeated(books: Books, proxy: CuttingProxy, cut: Cut) -> None:
    """Whether it came through or not, it counts once, and a repetition of the body does not."""
    seq, proxy.cut = books.store.next_seq(), cut
    with pytest.raises(UnknownError):
        claim_and_count(books, seq)

    assert claim_and_count(books, seq)
    assert not claim_and_count(books, books.store.next_seq())

    assert books.total() == (1, 1, 0)
    assert books.again().total() == (1, 1, 0)


def test_a_commit_that_came_through_must_be_repeated(books: Books, proxy: CuttingProxy) -> None:
    """Going on without it would write old absolute values over it."""
    proxy.cut = Cut.AFTER
    with pytest.raises(UnknownError):
        claim_and_count(books, books.store.next_seq())

    with pytest.raises(StaleError, match="not repeated"):
        books.count({(0, NOON_S): (5, 5, 0)})

    books.open(NOON_NS)
    books.count({(0, NOON_S): (5, 5, 0)})
    assert books.again().total() == (6, 6, 0)


def test_a_commit_that_did_not_come_through_may_be_forgotten(books: Books, proxy: CuttingProxy) -> None:
    """Its client comes again."""
    proxy.cut = Cut.BEFORE
    with pytest.raises(UnknownError):
        claim_and_count(books, books.store.next_seq())

    books.count({(0, NOON_S): (5, 5, 0)})

    assert books.again().total() == (5, 5, 0)


def test_a_correction_that_was_cut_is_made_once(books: Books, proxy: CuttingProxy) -> None:
    """Loading anew tells."""
    books.count({(0, NOON_S): (1, 2, 0)})
    proxy.cut = Cut.AFTER
    with pytest.raises(UnknownError):
        books.correct(0, NOON_S, NOON_S + 5)
    with pytest.raises(StaleError):
        books.count({(0, NOON_S): (1, 1, 0)})

    books.open(NOON_NS)
    books.count({(0, NOON_S): (1, 1, 0)})

    assert books.total() == (0, 0, 3)
    assert books.again().total() == (0, 0, 3)


def test_a_load_that_was_cut_is_loaded_anew(books: Books, proxy: CuttingProxy) -> None:
    """It may have declared something else than memory counts."""
    proxy.cut = Cut.AFTER
    books.declarations = declared("a", "b")
    with pytest.raises(UnknownError):
        books.load(NOON_NS)
    with pytest.raises(StaleError):
        books.store.transaction(books.store.next_seq()).__enter__()

    books.open(NOON_NS)

    assert len(books.rows("slos")) == 2


def test_a_fold_that_was_cut_changes_no_answer(books: Books, proxy: CuttingProxy) -> None:
    """Whoever asks next reads what is there."""
    books.count({(0, NOON_S + 5 * n): (1, 1, 0) for n in range(30)})
    later = NOON_NS + 3 * 3600 * 10**9
    books.ledger.timeline.fold(later)
    proxy.cut = Cut.AFTER
    with pytest.raises(UnknownError):
        books.age(later)

    books.count({(0, NOON_S): (1, 1, 0)})
    books.age(later)

    assert books.again(later).total() == (31, 31, 0)


# What people see


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql+psycopg://me:ge%40heim@host:1/x", "postgresql+psycopg://me:***@host:1/x"),
        ("postgresql+psycopg://host/x?password=geheim&user=me", "postgresql+psycopg://host/x?user=me"),
        ("sqlite:///slo-exporter.db", "sqlite:///slo-exporter.db"),
    ],
)
def test_a_password_is_not_shown(url: str, expected: str) -> None:
    """Neither where it usually stands nor in the query."""
    assert shown(url) == expected
