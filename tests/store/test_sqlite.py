"""A SQLite file: held by one, migrated whole, and honest about what went wrong."""

import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from slo_exporter.store import sqlite as sqlite_module
from slo_exporter.store.errors import StaleError, UnavailableError, UnknownError, UnusableError
from slo_exporter.store.schema import METADATA, SLICES, VERSION, WRITERS
from slo_exporter.store.sqlite import SqliteDatabase
from slo_exporter.store.tidying import Tidier


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database lies."""
    return tmp_path / "counts.db"


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    """An open database."""
    opened = SqliteDatabase(f"sqlite:///{path}", "pid 1, since noon")
    opened.open()
    yield opened
    opened.close()


def put(database: SqliteDatabase, name: str) -> None:
    """Write a row in a transaction."""
    with database.transaction() as connection:
        connection.execute(sa.insert(WRITERS).values(name=name))


def names(path: Path) -> list[str]:
    """The rows that another connection finds."""
    connection = sqlite3.connect(path)
    found = [row[0] for row in connection.execute("SELECT name FROM writers ORDER BY name")]
    connection.close()
    return found


def test_an_empty_database_gets_the_whole_schema(database: SqliteDatabase) -> None:
    """The migrations make exactly the tables of the schema."""
    with database.transaction() as connection:
        found = sa.MetaData()
        found.reflect(connection)

    def shape(metadata: sa.MetaData) -> dict[str, set[tuple[str, bool, bool]]]:
        return {
            name: {(c.name, bool(c.nullable), c.primary_key) for c in table.columns}
            for name, table in metadata.tables.items()
            if name != "alembic_version"
        }

    assert shape(METADATA) == shape(found)


def test_the_schema_is_of_the_newest_migration(database: SqliteDatabase) -> None:
    """What the migrations leave is the version that a start looks for."""
    with database.transaction() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all() == [VERSION]


def test_a_commit_is_on_the_disk_when_it_returns(database: SqliteDatabase, path: Path) -> None:
    """WAL with synchronous=FULL, seen by another connection at once."""
    put(database, "main")

    assert names(path) == ["main"]
    with database.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_second_server_is_told_who_holds_the_database(database: SqliteDatabase, path: Path) -> None:
    """One writer per database; the other one learns which."""
    put(database, "main")
    second = SqliteDatabase(f"sqlite:///{path}", "another")

    with pytest.raises(UnusableError, match=r"in use by pid 1, since noon"):
        second.open()


def test_a_link_to_a_held_database_is_the_same_database(database: SqliteDatabase, path: Path) -> None:
    """A second path to the file does not get around the lock."""
    put(database, "main")
    link = path.with_name("link.db")
    link.symlink_to(path)

    with pytest.raises(UnusableError, match="in use"):
        SqliteDatabase(f"sqlite:///{link}", "another").open()


def test_a_closed_database_can_be_opened_by_another(database: SqliteDatabase, path: Path) -> None:
    """Closing lets go of the lock."""
    database.close()
    second = SqliteDatabase(f"sqlite:///{path}", "another")
    second.open()

    put(second, "main")

    assert names(path) == ["main"]
    second.close()


def test_a_newer_schema_is_left_alone(database: SqliteDatabase, path: Path) -> None:
    """A database of a newer program is refused, by version, and not touched."""
    database.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()

    with pytest.raises(UnusableError, match=r"schema 9999.*newer slo-exporter"):
        SqliteDatabase(f"sqlite:///{path}", "another").open()


def test_a_file_that_is_no_database_is_named(path: Path) -> None:
    """Something else under that name is an error that names it, and stays as it is."""
    path.write_bytes(b"not a database, and longer than the header of one " * 40)
    opened = SqliteDatabase(f"sqlite:///{path}", "a test")

    with pytest.raises(UnusableError, match=f"{path} is no SQLite database"):
        opened.open()
    opened.close()

    assert path.read_bytes().startswith(b"not a database")


def test_a_half_migration_does_not_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that breaks off leaves the database as it was."""
    real = sqlite_module.migrate

    def break_off(connection: sa.Connection) -> None:
        real(connection)
        raise RuntimeError("power cut")

    monkeypatch.setattr(sqlite_module, "migrate", break_off)
    broken = SqliteDatabase(f"sqlite:///{path}", "a test")
    with pytest.raises(RuntimeError):
        broken.open()
    broken.close()

    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()


def test_a_failed_block_leaves_nothing(database: SqliteDatabase, path: Path) -> None:
    """An error inside a transaction takes all of it back, and the next one works."""

    def break_off() -> None:
        with database.transaction() as connection:
            connection.execute(sa.insert(WRITERS).values(name="half"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()

    put(database, "whole")

    assert names(path) == ["whole"]


def test_a_locked_database_is_unavailable(database: SqliteDatabase, path: Path) -> None:
    """Somebody else's lock makes a commit fail cleanly, and only while it lasts."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="locked"):
        put(database, "lost")
    other.execute("ROLLBACK")
    other.close()

    put(database, "kept")

    assert names(path) == ["kept"]


def test_a_full_database_is_unavailable(database: SqliteDatabase, path: Path) -> None:
    """A full disk makes a commit fail cleanly, and only while it lasts."""
    with database.transaction() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
    with pytest.raises(UnavailableError, match="full"):
        put(database, "x" * 1_000_000)

    put(database, "kept")  # the failed connection went, and its limit with it

    assert names(path) == ["kept"]


def test_a_file_moved_away_is_unavailable_until_it_is_back(database: SqliteDatabase, path: Path) -> None:
    """A commit into a file that the next start would not find is refused."""
    away = path.with_name("away.db")
    path.rename(away)
    with pytest.raises(UnavailableError, match="moved, removed or replaced"):
        put(database, "lost")
    assert not path.exists()
    away.rename(path)

    put(database, "kept")

    assert names(path) == ["kept"]


def test_a_file_replaced_under_us_is_unavailable(database: SqliteDatabase, path: Path) -> None:
    """Another file under the name is not the database that was opened."""
    path.rename(path.with_name("away.db"))
    path.write_bytes(b"")

    with pytest.raises(UnavailableError, match="replaced"):
        put(database, "lost")


def test_a_file_that_vanishes_during_commit_is_unknown(database: SqliteDatabase, path: Path) -> None:
    """A commit whose file is gone when it returns is not acknowledged."""

    def lose_the_file() -> None:
        with database.transaction() as connection:
            connection.execute(sa.insert(WRITERS).values(name="somewhere"))
            path.rename(path.with_name("away.db"))

    with pytest.raises(UnknownError):
        lose_the_file()


def test_a_write_ahead_log_removed_under_us_loses_nothing(database: SqliteDatabase, path: Path) -> None:
    """What was committed before is brought back into place, and the next commit is sound."""
    put(database, "before")
    path.with_name("counts.db-wal").unlink()
    with pytest.raises(UnavailableError, match="moved, removed or replaced"):
        put(database, "lost")

    put(database, "after")

    assert names(path) == ["after", "before"]


def test_a_lock_file_that_was_removed_is_taken_again(database: SqliteDatabase, path: Path) -> None:
    """Removing the lock file does not let a second server in for longer than one commit."""
    path.with_name("counts.db.lock").unlink()
    put(database, "main")

    with pytest.raises(UnusableError, match="in use by pid 1"):
        SqliteDatabase(f"sqlite:///{path}", "another").open()


def test_a_server_whose_lock_was_stolen_stops(database: SqliteDatabase, path: Path) -> None:
    """When a second server got in, the first one does not write on."""
    path.with_name("counts.db.lock").unlink()
    second = SqliteDatabase(f"sqlite:///{path}", "another")
    second.open()

    with pytest.raises(UnusableError, match="in use by another"):
        put(database, "lost")

    second.close()


def test_a_full_disk_at_first_start_is_unavailable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock file that cannot be made for want of space is no reason to give up."""

    def no_space(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sqlite_module.os, "open", no_space)

    with pytest.raises(UnavailableError, match="No space left"):
        SqliteDatabase(f"sqlite:///{path}", "a test").open()


def test_a_server_that_opens_again_keeps_its_lock(database: SqliteDatabase, path: Path) -> None:
    """Opening what is open is how a server starts from what SQL says."""
    put(database, "main")
    database.open()

    with pytest.raises(UnusableError, match="in use by pid 1"):
        SqliteDatabase(f"sqlite:///{path}", "another").open()
    assert names(path) == ["main"]


def test_opening_again_does_not_take_another_file(database: SqliteDatabase, path: Path) -> None:
    """A file that was put in the place of ours is not ours."""
    path.rename(path.with_name("away.db"))

    with pytest.raises(UnavailableError, match="moved, removed or replaced"):
        database.open()

    assert not path.exists()


def test_a_row_of_something_that_is_gone_is_stale(database: SqliteDatabase) -> None:
    """A foreign key without its row: the database is not the one that was loaded."""
    with pytest.raises(StaleError, match="something else than before"), database.transaction() as connection:
        connection.execute(
            sa.insert(SLICES).values(generation_id=1, group_id=0, writer_id=1, start_s=5, good=0, total=0, excluded=0)
        )


def test_a_fault_of_ours_is_not_taken_for_the_database(database: SqliteDatabase) -> None:
    """It would be tried for ever."""
    with pytest.raises(sa.exc.IntegrityError), database.transaction() as connection:
        connection.execute(sa.insert(WRITERS), [{"name": "twice"}, {"name": "twice"}])


def free_pages(path: Path) -> int:
    """Pages of the file that hold nothing."""
    connection = sqlite3.connect(path)
    (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
    connection.close()
    return int(pages)


def test_a_file_can_shrink(database: SqliteDatabase) -> None:
    """It is made so that free pages can be given back, a few at a time."""
    with database.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2


def test_a_file_of_an_earlier_version_can_shrink_from_now_on(path: Path) -> None:
    """One that is small is rewritten once, at the first start."""
    old = sqlite3.connect(path)
    old.execute("PRAGMA journal_mode=WAL").close()
    old.execute("CREATE TABLE mine (x)").close()
    old.close()

    opened = SqliteDatabase(f"sqlite:///{path}", "a test")
    opened.open()

    with opened.transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    opened.close()


def test_free_pages_are_given_back(database: SqliteDatabase, path: Path) -> None:
    """All but a share of them that will be needed again, not all at once."""
    put(database, "x" * 4_000_000)
    with database.transaction() as connection:
        connection.execute(sa.delete(WRITERS))
    free = free_pages(path)

    tidier = Tidier()
    for _ in range(30):
        with database.transaction() as connection:
            tidier.tidy(connection, 0, 0)

    assert free > 900
    assert free_pages(path) < 50
