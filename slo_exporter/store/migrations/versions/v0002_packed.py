"""Packed cells, time slices that are not final, definitions of the API, corrections, an audit, fencing."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add to what there is; every count stays where it is."""
    _writers()
    _slos()
    _cells()
    _deeds()


def _writers() -> None:
    op.add_column("writers", sa.Column("epoch", sa.Text, nullable=False, server_default=""))
    for name in ("seq", "judged_s", "final_s"):
        op.add_column("writers", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    # Receipts of an earlier run must not look like those of a later one.
    op.execute(
        "UPDATE writers SET seq = coalesce((SELECT max(seq) FROM receipts WHERE receipts.writer_id = writers.id), 0)"
    )


def _slos() -> None:
    op.add_column("slos", sa.Column("source", sa.Text, nullable=False, server_default="file"))
    op.add_column("slos", sa.Column("document", sa.Text))
    op.add_column("slos", sa.Column("declared_ns", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        "UPDATE slos SET declared_ns ="
        " coalesce((SELECT max(started_ns) FROM generations WHERE generations.slo_id = slos.id), 0)"
    )


def _cells() -> None:
    op.create_table(
        "packed",
        sa.Column("generation_id", sa.Integer, sa.ForeignKey("generations.id"), primary_key=True),
        sa.Column("group_id", sa.Integer, sa.ForeignKey("groups.id"), primary_key=True),
        sa.Column("writer_id", sa.Integer, sa.ForeignKey("writers.id"), primary_key=True),
        sa.Column("grid_s", sa.Integer, primary_key=True),
        sa.Column("chunk_s", sa.BigInteger, primary_key=True),
        sa.Column("counts", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "open_slices",
        sa.Column("generation_id", sa.Integer, sa.ForeignKey("generations.id"), primary_key=True),
        sa.Column("group_id", sa.Integer, sa.ForeignKey("groups.id"), primary_key=True),
        sa.Column("writer_id", sa.Integer, sa.ForeignKey("writers.id"), primary_key=True),
        sa.Column("start_s", sa.BigInteger, primary_key=True),
        sa.Column("sums", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _deeds() -> None:
    op.create_table(
        "corrections",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("slo_id", sa.Integer, sa.ForeignKey("slos.id"), nullable=False),
        sa.Column("generation_id", sa.Integer, sa.ForeignKey("generations.id"), nullable=False),
        sa.Column("from_s", sa.BigInteger, nullable=False),
        sa.Column("to_s", sa.BigInteger, nullable=False),
        sa.Column("asked_from_ns", sa.BigInteger, nullable=False),
        sa.Column("asked_to_ns", sa.BigInteger, nullable=False),
        sa.Column("made_ns", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("good", sa.BigInteger, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
    )
    op.create_index("corrections_by_generation", "corrections", ["generation_id"])
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at_ns", sa.BigInteger, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("slo", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("audit_by_age", "audit", ["at_ns"])
