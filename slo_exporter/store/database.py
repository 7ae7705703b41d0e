"""
One database, one writer: what SQLite and PostgreSQL have in common.

| file | is |
|---|---|
| `sqlite.py` | a file, held by a lock file beside it |
| `postgres.py` | a server, held by an advisory lock of one session |

Whichever it is, a transaction is whole or not there, what COMMIT returned from
stays, and an error says whether trying again makes sense (`errors.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from slo_exporter.store.errors import StoreError


class Database(Protocol):
    """A database that this process alone writes to."""

    def open(self) -> None:
        """
        Take the lock, connect, bring the schema up to date; again where it is open.

        Raises:
            UnavailableError: not at the moment; try again.
            UnusableError: held by another server, made by a newer program, not ours to use.
        """
        ...

    def transaction(self, *, patience_s: float | None = None) -> AbstractContextManager[sa.Connection]:
        """
        One transaction, committed at the end of the block; connects again where that is needed.

        Args:
            patience_s: how long one statement may take; None: the few seconds
                that clients wait.

        Raises:
            UnavailableError: nothing was committed.
            UnknownError: COMMIT itself failed.
            StaleError: the schema is gone.
            UnusableError: another server holds it now.
        """
        ...

    def close(self) -> None:
        """Let go of the connection and the lock; safe to repeat."""
        ...


@contextmanager
def translated(
    disconnect: Callable[[], None], meaning: Callable[[BaseException | None], StoreError | None]
) -> Iterator[None]:
    """
    Any exception ends the connection, and with it an open transaction; what the driver raised is told in our words.

    Args:
        disconnect: ends the connection.
        meaning: of an error of the driver; None if it is a fault of ours, or no error of the driver.
    """
    try:
        yield
    except BaseException as error:
        disconnect()
        # Some errors come without SQLAlchemy around them: of the pragmas of a new connection.
        told = meaning(error.orig if isinstance(error, DBAPIError) else error)
        if told is None:
            raise
        raise told from error


def database_of(url: str, holder: str) -> Database:
    """
    The database that *url* names; nothing is opened yet.

    Args:
        url: SQLAlchemy URL, ``sqlite:///path`` or ``postgresql+psycopg://…``.
        holder: who we are, for a second server that finds it held.
    """
    if sa.make_url(url).get_backend_name() == "postgresql":
        from slo_exporter.store.postgres import PostgresDatabase  # noqa: PLC0415 - psycopg takes 8 MiB

        return PostgresDatabase(url, holder)
    from slo_exporter.store.sqlite import SqliteDatabase  # noqa: PLC0415 - one of them is needed

    return SqliteDatabase(url, holder)


def shown(url: str) -> str:
    """*url* without its password, for people."""
    parsed = sa.make_url(url)
    secret = [key for key in parsed.query if "password" in key]
    return parsed.difference_update_query(secret).render_as_string(hide_password=True)
