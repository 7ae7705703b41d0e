"""
One database, one writer: opening, locking, migrating, noticing that it is gone.

Rules of this module:

1. Every transaction is BEGIN IMMEDIATE on a driver connection that never
   begins one by itself: a half migration or a half commit cannot stay.
2. WAL with synchronous=FULL: what COMMIT returned from is on the disk.
3. A file that was moved, removed or replaced under us (database or its
   write-ahead log) is a dead database: a commit into an unlinked file would be
   forgotten at the next start. The same goes for the lock.
"""

import contextlib
import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from slo_exporter.store.errors import UnavailableError, UnknownError, UnusableError
from slo_exporter.store.schema import VERSION

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_BUSY_S: Final = 1.0
"""How long SQLite waits for a lock: shorter than any client's patience (SDKs: 10 s)."""


class Database:
    """A SQLite database file, held by this process alone."""

    def __init__(self, url: str, holder: str) -> None:
        """
        Name the database; nothing is opened yet.

        Args:
            url: SQLAlchemy URL of a file, ``sqlite:///path``.
            holder: who we are, for a second server that finds it held.
        """
        self.path = Path(sa.make_url(url).database or "").resolve()
        self._wal = self.path.with_name(self.path.name + "-wal")
        self._lock_path = self.path.with_name(self.path.name + ".lock")
        self._holder = holder
        self._engine = sa.create_engine(url, poolclass=NullPool, connect_args={"timeout": _BUSY_S})
        sa.event.listen(self._engine, "connect", _configure)
        sa.event.listen(self._engine, "begin", _begin_immediate)
        self._lock: int | None = None
        self._identity: _Identity | None = None
        self._wal_identity: _Identity | None = None
        self._connection: sa.Connection | None = None

    def open(self) -> None:
        """
        Take the lock, connect, bring the schema up to date.

        Raises:
            UnavailableError: locked or unreadable at the moment; try again.
            UnusableError: held by another server, or made by a newer program.
        """
        self._take_lock()
        with self._translated():
            connection = self._connect()
            with connection.begin():
                migrate(connection)
            self._identity = _identity(self.path)

    def close(self) -> None:
        """Close the connection and let go of the lock; safe to repeat."""
        self._disconnect()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """
        One transaction, committed at the end of the block.

        Raises:
            UnavailableError: nothing was committed.
            UnknownError: COMMIT itself failed.
        """
        with self._translated():
            self._check_lock()
            self._check_in_place()
            connection = self._connect()
            begun = connection.begin()
            self._wal_identity = self._wal_identity or _identity(self._wal)
            yield connection
            self._commit(begun)

    def _commit(self, begun: sa.RootTransaction) -> None:
        try:
            begun.commit()
            self._check_in_place()
        except (SQLAlchemyError, UnavailableError) as error:
            raise UnknownError(f"the outcome of COMMIT on {self.path} is unknown: {_cause(error)}") from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Any exception ends the connection, and with it an open transaction."""
        try:
            yield
        except BaseException as error:
            self._disconnect()
            # The pragmas of a new connection fail with the driver's own error.
            if isinstance(error, DBAPIError | sqlite3.Error):
                if _is_no_database(error):
                    raise UnusableError(
                        f"{self.path} is no SQLite database, or a damaged one: {_cause(error)}"
                    ) from error
                raise UnavailableError(f"database {self.path}: {_cause(error)}") from error
            raise

    def _connect(self) -> sa.Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection, self._wal_identity = self._connection, None, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        lock = self._open_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 500).decode(errors="replace").strip()
            os.close(lock)
            raise UnusableError(f"database {self.path} is in use by {holder or 'another server'}") from None
        self._lock = lock
        # On a full disk the lock holds all the same; it only cannot say who we are.
        with contextlib.suppress(OSError):
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{self._holder}\n".encode(), 0)

    def _open_lock(self) -> int:
        try:
            return os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            message = f"cannot lock database {self.path}: {self._lock_path}: {error.strerror}"
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise (UnavailableError if full else UnusableError)(message) from error

    def _check_lock(self) -> None:
        """Take the lock anew if its file is gone: a second server would not see ours."""
        if self._lock is not None and _identity(self._lock_path) != _identity(self._lock):
            os.close(self._lock)
            self._lock = None
        self._take_lock()

    def _check_in_place(self) -> None:
        log_is_there = self._wal_identity is None or _identity(self._wal) == self._wal_identity
        if _identity(self.path) != self._identity or not log_is_there:
            raise UnavailableError(f"database {self.path} was moved, removed or replaced; put it back or restart")


_Identity = tuple[int, int]


def _identity(file: Path | int) -> _Identity | None:
    """Device and inode; None where there is no file."""
    try:
        found = os.fstat(file) if isinstance(file, int) else file.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def migrate(connection: sa.Connection) -> None:
    """
    Bring the schema to the newest version, inside the caller's transaction.

    Raises:
        UnusableError: the schema is newer than this program.
    """
    current = _version(connection)
    if current == VERSION:
        return
    # Alembic takes 9 MiB and 150 ms, and only a new or an old database needs it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise UnusableError(
            f"the database has schema {current}, this program knows up to {VERSION}: "
            "it was made by a newer slo-exporter; run that one"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return found


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_immediate(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_no_database(error: BaseException) -> bool:
    driver = error.orig if isinstance(error, DBAPIError) else error
    return getattr(driver, "sqlite_errorcode", None) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def _cause(error: BaseException) -> str:
    return str(error.orig) if isinstance(error, DBAPIError) else str(error)
