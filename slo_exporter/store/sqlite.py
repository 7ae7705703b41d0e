"""
A SQLite file: opening, locking, migrating, noticing that it is gone.

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

from slo_exporter.store.database import translated
from slo_exporter.store.errors import StaleError, StoreError, UnavailableError, UnknownError, UnusableError
from slo_exporter.store.migrating import migrate

_BUSY_S: Final = 1.0
"""How long SQLite waits for a lock: shorter than any client's patience (SDKs: 10 s)."""
_SMALL_BYTES: Final = 64 * 2**20
"""A file made before 0002 is rewritten once, to shrink from then on, while that takes less than a second."""
_MOST_LOG_BYTES: Final = 16 * 2**20
"""The write-ahead log is cut to this after it grew."""


class SqliteDatabase:
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
        Take the lock, connect, bring the schema up to date; again where it is open.

        Raises:
            UnavailableError: locked or unreadable at the moment; try again.
            UnusableError: held by another server, or made by a newer program.
        """
        with translated(self._disconnect, self._meaning):
            if self._identity is not None:
                self._check_lock()
                self._check_in_place()
            self._take_lock()
            connection = self._connect()
            with connection.begin():
                migrate(connection)
            _shrink_from_now_on(connection)
            self._identity = _identity(self.path)

    def close(self) -> None:
        """Close the connection and let go of the lock; safe to repeat."""
        self._disconnect()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def transaction(self, *, patience_s: float | None = None) -> Iterator[sa.Connection]:  # noqa: ARG002 - a file does not make one wait
        """
        One transaction, committed at the end of the block.

        Raises:
            UnavailableError: nothing was committed.
            UnknownError: COMMIT itself failed.
            StaleError: the schema is gone.
            UnusableError: another server holds it now.
        """
        with translated(self._disconnect, self._meaning):
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

    def _meaning(self, error: BaseException | None) -> StoreError | None:
        """What *error* of the driver means; None if it is a fault of ours, or no error of the driver."""
        if not isinstance(error, sqlite3.Error):
            return None
        code = getattr(error, "sqlite_errorcode", None)
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return UnusableError(f"{self.path} is no SQLite database, or a damaged one: {error}")
        if code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY or "no such table" in str(error):
            return StaleError(f"database {self.path} holds something else than before: {error}")
        if isinstance(error, sqlite3.OperationalError | sqlite3.InternalError):
            return UnavailableError(f"database {self.path}: {error}")
        return None

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


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    # The first one only tells in a file that is made now, and before it has any content.
    for pragma in (
        "auto_vacuum=INCREMENTAL",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"journal_size_limit={_MOST_LOG_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _shrink_from_now_on(connection: sa.Connection) -> None:
    """Make a small file of an earlier version one that `tidying` can shrink."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - tells mypy
    pages, page_bytes, kind = (
        driver.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size", "auto_vacuum")
    )
    if kind == 0 and pages * page_bytes <= _SMALL_BYTES:
        # On a full disk it stays as it is.
        with contextlib.suppress(sqlite3.OperationalError):
            driver.execute("PRAGMA auto_vacuum=INCREMENTAL").close()
            driver.execute("VACUUM").close()


def _begin_immediate(connection: sa.Connection) -> None:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - tells mypy
    driver.execute("BEGIN IMMEDIATE").close()


def _cause(error: BaseException) -> str:
    return str(error.orig) if isinstance(error, DBAPIError) else str(error)
