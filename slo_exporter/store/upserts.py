"""
Many rows in one statement, in the way that each database does it best.

SQLite takes many rows of values: its driver lets other threads have the
interpreter at each step of a statement, and gets it back when they like.
PostgreSQL takes a column of values each (``unnest``), so that a commit costs one
round trip a table. The SQL is made once, and SQLite's driver gets it directly:
of a small commit's time the way through SQLAlchemy is two thirds.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Final, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from slo_exporter.store.schema import RECEIPTS

Rows: TypeAlias = Sequence[tuple[int | str | bytes, ...]]
"""Whole rows, in the order of the table's columns; no key twice."""

_AT_ONCE: Final = 50
"""Rows of a statement of SQLite; each number of them is a statement of its own, which the driver keeps."""
_T = TypeVar("_T")
_Put: TypeAlias = Callable[[sa.Connection, sa.Table, Rows], None]


def put(connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
    """Insert *rows*; where a key stands already, replace its values."""
    if rows:
        _PUT[connection.dialect.name](connection, table, rows)


def put_receipts(connection: sa.Connection, rows: Rows) -> frozenset[bytes]:
    """Insert receipts whose digests are new, in their order; those digests."""
    if not rows:
        return frozenset()
    if connection.dialect.name == "postgresql":
        found = connection.exec_driver_sql(_new_receipts(), _columns(RECEIPTS, rows))
        return frozenset(bytes(digest) for digest in found.scalars())
    known = _sqlite_known(connection, [row[0] for row in rows])
    new = [row for row in rows if row[0] not in known]
    put(connection, RECEIPTS, new)
    return frozenset(bytes(row[0]) for row in new)  # type: ignore[arg-type]  # a digest


def _sqlite_known(connection: sa.Connection, digests: Sequence[int | str | bytes]) -> frozenset[bytes]:
    """Those of *digests* that have a receipt; nobody else writes meanwhile."""
    driver, known = _driver(connection), set[bytes]()
    for some in _chunks(digests):
        known.update(digest for (digest,) in driver.execute(_sqlite_receipts(len(some)), some))
    return frozenset(known)


def _chunks(of: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (of[at : at + _AT_ONCE] for at in range(0, len(of), _AT_ONCE))


def update(connection: sa.Connection, statement: sa.Update, values: Mapping[str, object]) -> int:
    """Run an update that binds all its values by name; how many rows it changed."""
    if connection.dialect.name == "postgresql":
        return connection.execute(statement, values).rowcount
    text, names = _sqlite_text(statement)
    cursor = _driver(connection).execute(text, [values[name] for name in names])
    rows = cursor.rowcount
    cursor.close()
    return rows


def _driver(connection: sa.Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - tells mypy
    return driver


def _put_sqlite(connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
    driver = _driver(connection)
    for some in _chunks(rows):
        driver.execute(_sqlite_upsert(table, len(some)), list(chain.from_iterable(some))).close()


def _put_postgresql(connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
    connection.exec_driver_sql(_postgresql_upsert(table), _columns(table, rows))


_PUT: Final[Mapping[str, _Put]] = {"sqlite": _put_sqlite, "postgresql": _put_postgresql}


@cache
def _sqlite_receipts(digests: int) -> str:
    return f"SELECT digest FROM {RECEIPTS.name} WHERE digest IN ({','.join('?' * digests)})"  # noqa: S608 - a name of our own schema


@cache
def _sqlite_text(statement: sa.Update) -> tuple[str, Sequence[str]]:
    """SQL with a question mark for each value, and the names of the values in their order."""
    compiled = statement.compile(dialect=sqlite.dialect())
    return str(compiled), tuple(compiled.positiontup or ())


@cache
def _sqlite_upsert(table: sa.Table, rows: int) -> str:
    names = ", ".join(column.name for column in table.columns)
    row = f"({','.join('?' * len(table.columns))})"
    return f"INSERT INTO {table.name} ({names}) VALUES {','.join([row] * rows)} {_on_conflict(table)}"  # noqa: S608 - names of our own schema


@cache
def _postgresql_upsert(table: sa.Table) -> str:
    return f"{_insert(table)} {_on_conflict(table)}"


def _on_conflict(table: sa.Table) -> str:
    key = ", ".join(column.name for column in table.primary_key.columns)
    changed = ", ".join(f"{column.name} = excluded.{column.name}" for column in table.columns if not column.primary_key)
    return f"ON CONFLICT ({key}) DO UPDATE SET {changed}"


@cache
def _new_receipts() -> str:
    return f"{_insert(RECEIPTS)} ON CONFLICT DO NOTHING RETURNING digest"


def _insert(table: sa.Table) -> str:
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - takes 2 MiB, and SQLite needs none of it

    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped
    names = ", ".join(column.name for column in table.columns)
    arrays = ", ".join(f"%s::{column.type.compile(dialect)}[]" for column in table.columns)
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays})"  # noqa: S608 - names of our own schema


def _columns(table: sa.Table, rows: Rows) -> tuple[str | list[int | str | bytes], ...]:
    """A column of values each; numbers as PostgreSQL's text of an array, which the driver need not look through."""
    return tuple(
        "{" + ",".join(map(str, values)) + "}" if isinstance(column.type, sa.Integer) else list(values)
        for column, values in zip(table.columns, zip(*rows, strict=True), strict=True)
    )
