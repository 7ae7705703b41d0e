"""
SLO definitions and their generations (docs/laws.md, law 6).

Changing only the objective or the window keeps history. Changing what is
counted starts a new generation and keeps the old one. An SLO gone from the
configuration is retired: its counts stay, and the same indicator revives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from slo_exporter.slo.definition import Slo
from slo_exporter.store.schema import GENERATIONS, SLOS


@dataclass(frozen=True, slots=True)
class Definition:
    """An SLO as the database knows it."""

    slo_id: int
    generation_id: int
    started_ns: int
    """When its current generation started."""


def declare(connection: sa.Connection, slos: Sequence[Slo], now_ns: int) -> tuple[Definition, ...]:
    """Make *slos* the current definitions; one answer per SLO, in their order."""
    definitions = tuple(_declare(connection, slo, now_ns) for slo in slos)
    declared = [definition.slo_id for definition in definitions]
    gone = SLOS.c.retired_ns.is_(None) & SLOS.c.id.not_in(declared)
    connection.execute(sa.update(SLOS).where(gone).values(retired_ns=now_ns))
    return definitions


def _declare(connection: sa.Connection, slo: Slo, now_ns: int) -> Definition:
    slo_id = _slo_id(connection, slo)
    indicator = slo.indicator.normal_form()
    newest = connection.execute(
        sa.select(GENERATIONS).where(GENERATIONS.c.slo_id == slo_id).order_by(GENERATIONS.c.number.desc()).limit(1)
    ).first()
    if newest is not None and newest.indicator == indicator:
        return Definition(slo_id, newest.id, newest.started_ns)
    number = 1 if newest is None else newest.number + 1
    values = {"slo_id": slo_id, "number": number, "indicator": indicator, "started_ns": now_ns}
    started = connection.execute(sa.insert(GENERATIONS).values(values).returning(GENERATIONS.c.id))
    return Definition(slo_id, started.scalar_one(), now_ns)


def _slo_id(connection: sa.Connection, slo: Slo) -> int:
    same = (SLOS.c.service == slo.service) & (SLOS.c.name == slo.name)
    values = {"objective": str(slo.objective), "window": slo.window.text, "retired_ns": None}
    found = connection.execute(sa.update(SLOS).where(same).values(values).returning(SLOS.c.id)).scalar()
    if found is not None:
        return int(found)
    new = sa.insert(SLOS).values(service=slo.service, name=slo.name, **values).returning(SLOS.c.id)
    return int(connection.execute(new).scalar_one())
