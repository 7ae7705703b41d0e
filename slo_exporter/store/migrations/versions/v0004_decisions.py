"""Alerts that are active, releases, and decisions over them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Nothing of what is there changes."""
    op.create_table(
        "alerts",
        sa.Column("slo_id", sa.Integer, sa.ForeignKey("slos.id"), primary_key=True),
        sa.Column("severity", sa.Text, primary_key=True),
        sa.Column("tier", sa.Text, primary_key=True),
        sa.Column("since_ns", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "releases",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("made_ns", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_index("releases_by_time", "releases", ["at_ns"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("override", sa.Text),
        sa.Column("answer", sa.Text, nullable=False),
    )
    op.create_index("decisions_by_time", "decisions", ["at_ns"])
