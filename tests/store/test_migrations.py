"""A database of schema 0001: the same answers after the migration."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from books import NOON_S, Books, declared
from builders import NOON_NS, slo

from slo_exporter.sli.admission import Role
from slo_exporter.store import migrating
from slo_exporter.store.database import database_of
from slo_exporter.store.errors import UnusableError
from slo_exporter.store.schema import METADATA, VERSION

COUNTS = {"good": 1, "total": 3, "excluded": 2}
ROWS = {
    "writers": [{"id": 1, "name": "main"}],
    "slos": [
        {"id": 1, "service": "chat", "name": "a", "objective": "0.99", "window": "30d", "retired_ns": None},
        {"id": 2, "service": "chat", "name": "old", "objective": "0.9", "window": "7d", "retired_ns": 5},
    ],
    "generations": [
        {"id": 1, "slo_id": 1, "number": 1, "indicator": "another", "started_ns": 7},
        {"id": 2, "slo_id": 1, "number": 2, "indicator": slo().indicator.normal_form(), "started_ns": NOON_NS - 9},
        {"id": 3, "slo_id": 2, "number": 1, "indicator": "old", "started_ns": 3},
    ],
    "slices": [
        {"generation_id": generation, "group_id": 0, "writer_id": 1, "start_s": start, **COUNTS}
        for generation in (1, 2)
        for start in (NOON_S - 86400, NOON_S - 1000, NOON_S - 5)
    ],
    "totals": [
        {"slo_id": 1, "group_id": 0, "writer_id": 1, "good": 6, "total": 18, "excluded": 12, "newest_ns": NOON_NS - 1}
    ],
    "receipts": [
        {"digest": bytes([n]) * 16, "writer_id": 1, "seq": n, "received_ns": NOON_NS, "refused": 0} for n in (40, 41)
    ],
    "engines": [{"service": "chat", "learnt_ns": 1}],
    "uptime": [{"writer_id": 1, "from_ns": NOON_NS - 10**12, "to_ns": NOON_NS}],
}


@pytest.fixture
def old_url(database_url: str) -> Iterator[str]:
    """The URL of a database that 0001 made and wrote to."""
    engine = sa.create_engine(database_url)
    config = Config()
    config.set_main_option("script_location", str(migrating._MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        tables = sa.MetaData()
        tables.reflect(connection)
        for name, rows in ROWS.items():
            connection.execute(tables.tables[name].insert(), rows)
            if connection.dialect.name == "postgresql" and "id" in rows[0]:
                # It would have counted, had the rows come one by one.
                connection.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), {len(rows)})")
    yield database_url
    engine.dispose()


def test_a_database_of_0001_answers_as_before(old_url: str) -> None:
    """Counts, totals, generations, engines, uptime; numbers of transactions go on."""
    books = Books(old_url, declared("a"))

    assert books.total() == (3, 9, 6)
    assert books.ledger.totals.tolist() == [[6, 18, 12]]
    assert books.ledger.newest_ns.tolist() == [NOON_NS - 1]
    assert books.ledger.started_ns == (NOON_NS - 9,)
    assert books.ledger.uptime.until_ns == NOON_NS
    assert books.opened.roles == {("chat", Role.ENGINE)}
    assert books.opened.slices.since_ns == [NOON_NS - 9]
    assert books.store.next_seq() > 41
    books.close()


def test_a_database_of_0001_is_written_on(old_url: str) -> None:
    """Its rows are counted on, folded and corrected."""
    books = Books(old_url, declared("a"))
    books.count({(0, NOON_S - 5): (1, 1, 0), (0, NOON_S - 86400): (1, 1, 0)})
    books.age(NOON_NS)
    books.correct(0, NOON_S - 5, NOON_S)

    assert books.total() == (3, 7, 10)
    assert books.again().total() == (3, 7, 10)
    books.close()


def test_the_migrations_make_the_schema(database_url: str) -> None:
    """Table by table, column by column; its version is the one that a start looks for."""
    database = database_of(database_url, "a test")
    database.open()
    with database.transaction() as connection:
        found = sa.MetaData()
        found.reflect(connection)
        versions = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
    database.close()

    def shape(metadata: sa.MetaData) -> dict[str, object]:
        return {
            name: (
                {(c.name, bool(c.nullable), c.primary_key) for c in table.columns},
                {(index.name, tuple(column.name for column in index.columns)) for index in table.indexes},
            )
            for name, table in metadata.tables.items()
            if name != "alembic_version"
        }

    assert versions == [VERSION]
    assert shape(METADATA) == shape(found)


def test_a_newer_schema_is_left_alone(database_url: str) -> None:
    """A database of a newer program is refused, by version, and not touched."""
    database = database_of(database_url, "a test")
    database.open()
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database.close()

    with pytest.raises(UnusableError, match=r"schema 9999.*newer slo-exporter"):
        database.open()
    database.close()
