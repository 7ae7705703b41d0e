"""
A PostgreSQL server: one session that holds a lock, writes, and notices that it is gone.

Rules of this module:

1. The session that writes holds the advisory lock: with the connection the
   lock is lost, and the fence (`fence.py`) tells whether anybody used that.
2. Whether COMMIT worked is known only when it returned. Until the old session
   is gone, and its lock with it, the outcome is open: a new session waits.
3. A server that is away, starting, full, or a standby is worth waiting for. A
   wrong password is not, when it is wrong from the start.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg.pq import TransactionStatus
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from slo_exporter.store.database import shown, translated
from slo_exporter.store.errors import StaleError, StoreError, UnavailableError, UnknownError, UnusableError
from slo_exporter.store.migrating import migrate

_LOCK: Final = int.from_bytes(b"slo-expo")
"""Key of the advisory lock: one a database, whatever the schema in it."""
_LONGEST_NAME: Final = 63
"""Bytes of an application_name."""
_OPENING_S: Final = 600.0
"""A migration of a large database may take so long."""
_CONNECT: Final = {
    "connect_timeout": 3,
    "target_session_attrs": "read-write",  # of several hosts the primary one; a standby takes no commits
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8000,
    "client_encoding": "utf8",
}
"""A server that vanished is noticed within some 10 s; the URL's query may say otherwise."""
_SESSION: Final = """
SET synchronous_commit = on;
SET statement_timeout = '5s';
SET lock_timeout = '2s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
"""
"""
Shorter than any client's patience (SDKs: 10 s). COMMIT is not under
statement_timeout. The server's own keepalives let go of the lock of a machine
that vanished within half a minute.
"""
_HOLDER: Final = """
SELECT a.pid, a.application_name, a.client_addr, a.backend_start
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND l.classid::bigint = %s AND l.objid::bigint = %s
"""
_HOPELESS: Final = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba\.conf entry|permission denied"
    r"|not permitted|certificate|invalid .*(option|value)|does not support SSL"
)
"""
What a refused connection says that trying again does not help.

libpq gives no SQLSTATE here. In another language of the server (lc_messages)
nothing matches, and the server waits with the message in its log.
"""
_GONE: Final = ("42P01", "42703", "3F000", "23503")
"""Undefined table, column or schema, a foreign key without its row: not the database that was loaded."""


class PostgresDatabase:
    """A database of a PostgreSQL server, written to by one session of this process."""

    def __init__(self, url: str, holder: str) -> None:
        """
        Name the database; nothing is connected yet.

        Args:
            url: ``postgresql+psycopg://user:password@host/name``.
            holder: who we are, for a second server that finds it held.
        """
        parsed = sa.make_url(url)
        self.name = shown(url)
        self._application = holder.encode("ascii", "replace")[:_LONGEST_NAME].decode()
        usual = {key: value for key, value in _CONNECT.items() if key not in parsed.query}
        self._engine = sa.create_engine(
            parsed,
            poolclass=NullPool,
            use_native_hstore=False,
            connect_args={**usual, "application_name": self._application},
        )
        sa.event.listen(self._engine, "connect", _configure)
        self._connection: sa.Connection | None = None
        self._held_by: int | None = None
        """Process id of the session that has, or had, our lock."""
        self._was_open = False

    def open(self) -> None:
        """
        Connect, take the lock, bring the schema up to date; again where it is open.

        Raises:
            UnavailableError: away, starting up, a standby; try again.
            UnusableError: held by another server, made by a newer program, not ours to use.
        """
        with self.transaction(patience_s=_OPENING_S) as connection:
            if connection.exec_driver_sql("SHOW server_encoding").scalar() != "UTF8":
                raise UnusableError(f"database {self.name} must have the encoding UTF8")
            migrate(connection)
        self._was_open = True

    def close(self) -> None:
        """End the session, and with it the lock; safe to repeat."""
        self._disconnect()

    @contextmanager
    def transaction(self, *, patience_s: float | None = None) -> Iterator[sa.Connection]:
        """
        One transaction, committed at the end of the block.

        Raises:
            UnavailableError: nothing was committed.
            UnknownError: COMMIT itself failed.
            StaleError: the schema is gone.
            UnusableError: another server holds it now.
        """
        with translated(self._disconnect, self._meaning):
            connection = self._connect()
            begun = connection.begin()
            if patience_s is not None:
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {round(patience_s * 1000)}")
            yield connection
            self._commit(connection, begun)

    def _commit(self, connection: sa.Connection, begun: sa.RootTransaction) -> None:
        if _driver(connection).info.transaction_status == TransactionStatus.INERROR:
            # COMMIT would answer ROLLBACK, and that is no error to the driver.
            raise UnavailableError(f"database {self.name}: a statement failed")
        try:
            begun.commit()
        except (SQLAlchemyError, psycopg.Error) as error:
            raise UnknownError(f"the outcome of COMMIT on {self.name} is unknown: {_line(error)}") from error

    def _meaning(self, error: BaseException | None) -> StoreError | None:
        """What *error* of the driver means; None if it is a fault of ours, or no error of the driver."""
        if not isinstance(error, psycopg.Error):
            return None
        message = f"database {self.name}: {_line(error)}"
        if not self._was_open:
            hopeless = _HOPELESS.search(str(error)) if error.sqlstate is None else _is_refusal(error)
            return (UnusableError if hopeless else UnavailableError)(message)
        if error.sqlstate in _GONE:
            return StaleError(f"{message}: it holds something else than before")
        if isinstance(error, psycopg.OperationalError | psycopg.InternalError | psycopg.errors.InsufficientPrivilege):
            return UnavailableError(message)
        return None

    def _connect(self) -> sa.Connection:
        if self._connection is None:
            connection = self._connection = self._engine.connect()
            self._take_lock(connection)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _take_lock(self, connection: sa.Connection) -> None:
        """Take the lock, or wait for the session of a server that ended a moment ago."""
        with connection.begin():
            is_ours = connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).scalar()
            if not is_ours:
                self._end_own_session(connection)
        if not is_ours:
            try:
                with connection.begin():
                    connection.exec_driver_sql("SELECT pg_advisory_lock(%s)", (_LOCK,))
            except DBAPIError as error:
                if isinstance(error.orig, psycopg.errors.LockNotAvailable):
                    raise self._in_use(connection) from None
                raise
        self._held_by = _driver(connection).info.backend_pid

    def _end_own_session(self, connection: sa.Connection) -> None:
        """End a session that we lost, and of which the server does not know yet."""
        for pid, application, *_ in _holders(connection):
            if pid == self._held_by and application == self._application:
                connection.exec_driver_sql("SELECT pg_terminate_backend(%s)", (pid,))

    def _in_use(self, connection: sa.Connection) -> StoreError:
        with connection.begin():
            for pid, application, address, since in _holders(connection):
                who = f"{application or 'another server'} (session {pid} from {address or 'its own host'}"
                when = "" if since is None else f", since {since.isoformat(timespec='seconds')}"
                return UnusableError(f"database {self.name} is in use by {who}{when})")
        return UnavailableError(f"database {self.name} was in use until a moment ago")


def _holders(connection: sa.Connection) -> list[tuple[Any, ...]]:
    """Sessions that hold the lock, at most one: process id, application_name, address, start."""
    found = connection.exec_driver_sql(_HOLDER, (_LOCK >> 32, _LOCK & 0xFFFFFFFF))
    return [tuple(row) for row in found]


def _configure(connection: psycopg.Connection[Any], _record: object) -> None:
    connection.autocommit = True
    connection.execute(_SESSION)
    connection.autocommit = False


def _driver(connection: sa.Connection) -> psycopg.Connection[Any]:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101 - tells mypy
    return driver


def _is_refusal(error: psycopg.Error) -> bool:
    """True when a start failed on something that stays: no permission, somebody else's tables."""
    return not isinstance(error, psycopg.OperationalError | psycopg.errors.ReadOnlySqlTransaction)


def _line(error: BaseException) -> str:
    """The driver's message in one line, without the statement."""
    driver = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(driver).split())
