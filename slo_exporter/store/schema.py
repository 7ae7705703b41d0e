"""
The tables, as the newest migration leaves them.

Counts are keyed by writer and group from the start: replicas will be several
writers of one database, fan-out children are groups. Times are nanoseconds
since the epoch (``_ns``), slice starts whole seconds (``_s``).

The counts of a slice are the sum over its writers, and over its row and its
packed cell. What a correction takes out stands under a writer of its own
(docs/adr/0005-packed-rows.md).
"""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy import UniqueConstraint as Unique

VERSION: Final = "0004"
"""The newest migration."""

METADATA: Final = MetaData()

WRITERS: Final = Table(
    "writers",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("epoch", Text, nullable=False, comment="new at every open: who has it may write"),
    Column("seq", BigInteger, nullable=False, comment="of the newest committed transaction"),
    Column("judged_s", BigInteger, nullable=False, comment="time slices that end here or before were judged"),
    Column("final_s", BigInteger, nullable=False, comment="time slices that end here or before are final"),
)
GROUPS: Final = Table(
    "groups",
    METADATA,
    Column("id", Integer, primary_key=True, comment="0 is the SLO itself"),
    Column("name", Text, nullable=False, unique=True),
)
SLOS: Final = Table(
    "slos",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("service", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("objective", Text, nullable=False, comment="decimal text, exact"),
    Column("window", Text, nullable=False),
    Column("retired_ns", BigInteger, comment="declared no more since; counts are kept"),
    Column("source", Text, nullable=False, comment="file or api"),
    Column("document", Text, comment="JSON text of a definition made over the API"),
    Column("declared_ns", BigInteger, nullable=False, comment="counted without a break since"),
    Unique("service", "name"),
)
GENERATIONS: Final = Table(
    "generations",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("slo_id", ForeignKey("slos.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("indicator", Text, nullable=False, comment="normal form; another one is another generation"),
    Column("started_ns", BigInteger, nullable=False),
    Unique("slo_id", "number"),
)
SLICES: Final = Table(
    "slices",
    METADATA,
    Column("generation_id", ForeignKey("generations.id"), primary_key=True),
    Column("group_id", ForeignKey("groups.id"), primary_key=True),
    Column("writer_id", ForeignKey("writers.id"), primary_key=True),
    Column("start_s", BigInteger, primary_key=True, comment="5 s slices"),
    Column("good", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("excluded", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
PACKED: Final = Table(
    "packed",
    METADATA,
    Column("generation_id", ForeignKey("generations.id"), primary_key=True),
    Column("group_id", ForeignKey("groups.id"), primary_key=True),
    Column("writer_id", ForeignKey("writers.id"), primary_key=True),
    Column("grid_s", Integer, primary_key=True, comment="width of a cell"),
    Column("chunk_s", BigInteger, primary_key=True, comment="start of the first of 120 cells"),
    Column("counts", LargeBinary, nullable=False, comment="see packing.py"),
)
OPEN_SLICES: Final = Table(
    "open_slices",
    METADATA,
    Column("generation_id", ForeignKey("generations.id"), primary_key=True),
    Column("group_id", ForeignKey("groups.id"), primary_key=True),
    Column("writer_id", ForeignKey("writers.id"), primary_key=True),
    Column("start_s", BigInteger, primary_key=True, comment="time slices that are not final"),
    Column("sums", LargeBinary, nullable=False, comment="int64, little-endian"),
    sqlite_with_rowid=False,
)
TOTALS: Final = Table(
    "totals",
    METADATA,
    Column("slo_id", ForeignKey("slos.id"), primary_key=True),
    Column("group_id", ForeignKey("groups.id"), primary_key=True),
    Column("writer_id", ForeignKey("writers.id"), primary_key=True),
    Column("good", BigInteger, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("excluded", BigInteger, nullable=False),
    Column("newest_ns", BigInteger, nullable=False, comment="end of the newest counted event"),
    sqlite_with_rowid=False,
)
RECEIPTS: Final = Table(
    "receipts",
    METADATA,
    Column("digest", LargeBinary(16), primary_key=True, comment="BLAKE2b-128 of the decompressed body"),
    Column("writer_id", ForeignKey("writers.id"), nullable=False),
    Column("seq", BigInteger, nullable=False, comment="the writer's number of the transaction"),
    Column("received_ns", BigInteger, nullable=False),
    Column("refused", Integer, nullable=False, comment="spans that the answer refused: a repetition hears the same"),
    Index("receipts_by_age", "received_ns"),
    sqlite_with_rowid=False,
)
ROLES: Final = Table(
    "roles",
    METADATA,
    Column("service", Text, primary_key=True),
    Column("role", Text, primary_key=True, comment="what its spans have shown: engine, below, prefill"),
    Column("learnt_ns", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
UPTIME: Final = Table(
    "uptime",
    METADATA,
    Column("writer_id", ForeignKey("writers.id"), primary_key=True),
    Column("from_ns", BigInteger, primary_key=True),
    Column("to_ns", BigInteger, nullable=False, comment="the receivers were accepting until then"),
    sqlite_with_rowid=False,
)
CORRECTIONS: Final = Table(
    "corrections",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("slo_id", ForeignKey("slos.id"), nullable=False),
    Column("generation_id", ForeignKey("generations.id"), nullable=False),
    Column("from_s", BigInteger, nullable=False, comment="what it covers, cell edges"),
    Column("to_s", BigInteger, nullable=False),
    Column("asked_from_ns", BigInteger, nullable=False, comment="what was asked for"),
    Column("asked_to_ns", BigInteger, nullable=False),
    Column("made_ns", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("good", BigInteger, nullable=False, comment="what it took out when it was made"),
    Column("total", BigInteger, nullable=False),
    Index("corrections_by_generation", "generation_id"),
)
AUDIT: Final = Table(
    "audit",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("at_ns", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("action", Text, nullable=False, comment="put, delete, correct or reload"),
    Column("service", Text, nullable=False),
    Column("slo", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Index("audit_by_age", "at_ns"),
)
ALERTS: Final = Table(
    "alerts",
    METADATA,
    Column("slo_id", ForeignKey("slos.id"), primary_key=True),
    Column("severity", Text, primary_key=True),
    Column("tier", Text, primary_key=True),
    Column("since_ns", BigInteger, nullable=False, comment="active since; a row goes when it ends"),
    sqlite_with_rowid=False,
)
RELEASES: Final = Table(
    "releases",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("service", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("at_ns", BigInteger, nullable=False, comment="when it went out"),
    Column("made_ns", BigInteger, nullable=False, comment="when that was told"),
    Column("who", Text, nullable=False),
    Column("note", Text, nullable=False),
    Index("releases_by_time", "at_ns"),
)
DECISIONS: Final = Table(
    "decisions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("at_ns", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("decision", Text, nullable=False, comment="allow, deny or undecided"),
    Column("override", Text, comment="why it was overridden; null when it was not"),
    Column("answer", Text, nullable=False, comment="JSON text of what was answered: the decision with its inputs"),
    Index("decisions_by_time", "at_ns"),
)
