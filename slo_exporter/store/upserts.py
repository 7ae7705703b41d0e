"""
Many rows in one statement, in the way that each database does it best.

SQLite takes a prepared statement many times over; PostgreSQL takes one
statement with a column of values each (``unnest``), so that a commit costs one
round trip a table. The SQL is compiled once: of a small commit's time that is
a third.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

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
    else:
        names = [column.name for column in RECEIPTS.columns]
        found = connection.execute(_NEW_RECEIPTS, [dict(zip(names, row, strict=True)) for row in rows])
    return frozenset(bytes(digest) for digest in found.scalars())


def _put_sqlite(connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
    connection.exec_driver_sql(_sqlite_upsert(table), list(rows))


def _put_postgresql(connection: sa.Connection, table: sa.Table, rows: Rows) -> None:
    connection.exec_driver_sql(_postgresql_upsert(table), _columns(table, rows))


_PUT: Final[Mapping[str, _Put]] = {"sqlite": _put_sqlite, "postgresql": _put_postgresql}
_NEW_RECEIPTS: Final = sqlite.insert(RECEIPTS).on_conflict_do_nothing().returning(RECEIPTS.c.digest)


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
