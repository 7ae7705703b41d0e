"""
Many rows in one statement, in the way that each database does it best.

SQLite takes a prepared statement many times over; PostgreSQL takes one
statement with a column of values each (``unnest``), so that a commit costs one
round trip a table. The SQL is compiled once, and SQLite's driver gets it
directly: of a small commit's time the way through SQLAlchemy is two thirds.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from slo_exporter.store.schema import RECEIPTS

Rows: TypeAlias = Sequence[tuple[int | str | bytes, ...]]
"""Whole rows, in the order of the table's columns; no key twice."""

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
    insert = _sqlite_receipt()
    cursor = _driver(connection).cursor()
    new = frozenset(bytes(row[0]) for row in rows if cursor.execute(insert, row).rowcount)  # type: ignore[arg-type]  # a digest
    cursor.close()
    return new


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
    _driver(connection).executemany(_sqlite_upsert(table), rows).close()


def _put_postgresql(connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
    connection.exec_driver_sql(_postgresql_upsert(table), _columns(table, rows))


_PUT: Final[Mapping[str, _Put]] = {"sqlite": _put_sqlite, "postgresql": _put_postgresql}


@cache
def _sqlite_receipt() -> str:
    return str(sqlite.insert(RECEIPTS).on_conflict_do_nothing().compile(dialect=sqlite.dialect()))


@cache
def _sqlite_text(statement: sa.Update) -> tuple[str, Sequence[str]]:
    """SQL with a question mark for each value, and the names of the values in their order."""
    compiled = statement.compile(dialect=sqlite.dialect())
    return str(compiled), tuple(compiled.positiontup or ())


@cache
def _sqlite_upsert(table: sa.Table) -> str:
    statement = sqlite.insert(table)
    on_conflict = statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: statement.excluded[name] for name in _values(table)},
    )
    return str(on_conflict.compile(dialect=sqlite.dialect()))


@cache
def _postgresql_upsert(table: sa.Table) -> str:
    key = ", ".join(column.name for column in table.primary_key.columns)
    changed = ", ".join(f"{name} = excluded.{name}" for name in _values(table))
    return f"{_insert(table)} ON CONFLICT ({key}) DO UPDATE SET {changed}"


@cache
def _new_receipts() -> str:
    return f"{_insert(RECEIPTS)} ON CONFLICT DO NOTHING RETURNING digest"


def _insert(table: sa.Table) -> str:
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - takes 2 MiB, and SQLite needs none of it

    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped
    names = ", ".join(column.name for column in table.columns)
    arrays = ", ".join(f"%s::{column.type.compile(dialect)}[]" for column in table.columns)
    return f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays})"  # noqa: S608 - names of our own schema


def _values(table: sa.Table) -> Sequence[str]:
    return [column.name for column in table.columns if not column.primary_key]


def _columns(table: sa.Table, rows: Rows) -> tuple[str | list[int | str | bytes], ...]:
    """A column of values each; numbers as PostgreSQL's text of an array, which the driver need not look through."""
    return tuple(
        "{" + ",".join(map(str, values)) + "}" if isinstance(column.type, sa.Integer) else list(values)
        for column, values in zip(table.columns, zip(*rows, strict=True), strict=True)
    )
