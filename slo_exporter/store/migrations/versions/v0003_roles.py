"""What services are: not only that they have an engine."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Keep every engine that is known."""
    op.create_table(
        "roles",
        sa.Column("service", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("learnt_ns", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO roles (service, role, learnt_ns) SELECT service, 'engine', learnt_ns FROM engines")
    op.drop_table("engines")
