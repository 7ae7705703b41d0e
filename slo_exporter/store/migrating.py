"""Alembic at start, inside the transaction of whoever opens the database."""

from pathlib import Path
from typing import Final

import sqlalchemy as sa

from slo_exporter.store.errors import UnusableError
from slo_exporter.store.schema import VERSION

_MIGRATIONS: Final = Path(__file__).parent / "migrations"


def migrate(connection: sa.Connection) -> None:
    """
    Bring the schema to the newest version, inside the caller's transaction.

    Raises:
        UnusableError: the schema is newer than this program.
    """
    current = _version(connection)
    if current == VERSION:
        return
    # Alembic takes 9 MiB and 150 ms, and only a new or an old database needs it.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise UnusableError(
            f"the database has schema {current}, this program knows up to {VERSION}: "
            "it was made by a newer slo-exporter; run that one"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return found
