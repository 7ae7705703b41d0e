"""Counts, definitions, receipts, uptime."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables from nothing."""
    op.create_table(
        "writers",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
    )
    op.create_table(
        "groups",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
    )
    op.create_table(
        "slos",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("objective", sa.Text, nullable=False),
        sa.Column("window", sa.Text, nullable=False),
        sa.Column("retired_ns", sa.BigInteger),
        sa.UniqueConstraint("service", "name"),
    )
    op.create_table(
        "generations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("slo_id", sa.Integer, sa.ForeignKey("slos.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("indicator", sa.Text, nullable=False),
        sa.Column("started_ns", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("slo_id", "number"),
    )
    op.create_table(
        "slices",
        sa.Column("generation_id", sa.Integer, sa.ForeignKey("generations.id"), primary_key=True),
        sa.Column("group_id", sa.Integer, sa.ForeignKey("groups.id"), primary_key=True),
        sa.Column("writer_id", sa.Integer, sa.ForeignKey("writers.id"), primary_key=True),
        sa.Column("start_s", sa.BigInteger, primary_key=True),
        sa.Column("good", sa.BigInteger, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("excluded", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "totals",
        sa.Column("slo_id", sa.Integer, sa.ForeignKey("slos.id"), primary_key=True),
        sa.Column("group_id", sa.Integer, sa.ForeignKey("groups.id"), primary_key=True),
        sa.Column("writer_id", sa.Integer, sa.ForeignKey("writers.id"), primary_key=True),
        sa.Column("good", sa.BigInteger, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("excluded", sa.BigInteger, nullable=False),
        sa.Column("newest_ns", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "receipts",
        sa.Column("digest", sa.LargeBinary(16), primary_key=True),
        sa.Column("writer_id", sa.Integer, sa.ForeignKey("writers.id"), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("received_ns", sa.BigInteger, nullable=False),
        sa.Column("refused", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("receipts_by_age", "receipts", ["received_ns"])
    op.create_table(
        "engines",
        sa.Column("service", sa.Text, primary_key=True),
        sa.Column("learnt_ns", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "uptime",
        sa.Column("writer_id", sa.Integer, sa.ForeignKey("writers.id"), primary_key=True),
        sa.Column("from_ns", sa.BigInteger, primary_key=True),
        sa.Column("to_ns", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO groups (id, name) VALUES (0, '')")
