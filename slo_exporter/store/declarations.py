"""
SLO definitions and their generations (docs/laws.md, law 6).

Changing only the objective or the window keeps history. Changing what is
counted starts a new generation and keeps the old one. An SLO that is declared
no more is retired: its counts stay, and the same indicator revives it. Active
alerts are of a generation that counts: they end with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.definition import Slo
from slo_exporter.store.schema import ALERTS, AUDIT, GENERATIONS, SLOS, WRITERS

CURRENT: Final = (
    sa.select(sa.func.max(GENERATIONS.c.id))
    .join(SLOS, SLOS.c.id == GENERATIONS.c.slo_id)
    .where(SLOS.c.retired_ns.is_(None))
    .group_by(GENERATIONS.c.slo_id)
)
"""Ids of the generations that count now: the newest of each SLO that is not retired."""
_JUDGED: Final = sa.select(sa.func.coalesce(sa.func.max(WRITERS.c.judged_s), 0))
"""Every time slice that ends here or before was judged."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """An SLO that is to be counted."""

    slo: Slo
    document: str | None
    """JSON text of its definition when it was made over the API; None when a file has it."""


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A definition made over the API, as it was written."""

    service: str
    name: str
    document: str


@dataclass(frozen=True, slots=True)
class Audit:
    """Who did what: kept as long as counts are."""

    at_ns: int
    who: str
    action: str
    """``put``, ``delete``, ``correct``, ``reload``, ``release``, ``decide`` or ``override``."""
    service: str
    slo: str
    detail: str


@dataclass(frozen=True, slots=True)
class Definition:
    """An SLO as the database knows it."""

    slo_id: int
    generation_id: int
    number: int
    """Of its current generation, from 1."""
    started_ns: int
    """When its current generation started."""
    declared_ns: int
    """Since when it is counted without a break: its generation started, or it was revived."""


_Row: TypeAlias = sa.Row[Any]


def documents(connection: sa.Connection) -> tuple[StoredDocument, ...]:
    """
    Definitions made over the API that are not retired, in the order in which they were first made.

    Those wait among them whose name a file took over.
    """
    made = SLOS.c.document.is_not(None) & SLOS.c.retired_ns.is_(None)
    query = sa.select(SLOS.c.service, SLOS.c.name, SLOS.c.document).where(made).order_by(SLOS.c.id)
    return tuple(StoredDocument(*row) for row in connection.execute(query))


def declare(connection: sa.Connection, declarations: Sequence[Declaration], now_ns: int) -> tuple[Definition, ...]:
    """Make *declarations* the current definitions; one answer per declaration, in their order."""
    known = {(row.service, row.name): row for row in connection.execute(sa.select(SLOS))}
    newest = _newest_generations(connection)
    judged_ns = int(connection.execute(_JUDGED).scalar_one()) * SECOND_NS
    definitions = tuple(
        _declare(connection, one, known.pop(one.slo.key, None), newest, _since_ns(one, now_ns, judged_ns))
        for one in declarations
    )
    _retire(connection, (row.id for row in known.values() if row.retired_ns is None), now_ns)
    return definitions


def write(connection: sa.Connection, audits: Iterable[Audit]) -> None:
    """Put down who did what; a NUL, which PostgreSQL does not take, becomes U+FFFD."""
    for audit in audits:
        texts = {name: stored(getattr(audit, name)) for name in ("who", "action", "service", "slo", "detail")}
        connection.execute(sa.insert(AUDIT).values(at_ns=audit.at_ns, **texts))


def stored(text: str) -> str:
    """*text* as every database takes it."""
    return text.replace("\0", "\ufffd")


def _newest_generations(connection: sa.Connection) -> Mapping[int, _Row]:
    """By SLO id."""
    newest = sa.select(sa.func.max(GENERATIONS.c.id)).group_by(GENERATIONS.c.slo_id)
    query = sa.select(GENERATIONS).where(GENERATIONS.c.id.in_(newest))
    return {row.slo_id: row for row in connection.execute(query)}


def _since_ns(declaration: Declaration, now_ns: int, judged_ns: int) -> int:
    """From when on it counts: a clock that was set back gives it no time slice that was judged before it was there."""
    return max(now_ns, judged_ns) if declaration.slo.indicator.timeslice_s else now_ns


def _declare(
    connection: sa.Connection,
    declaration: Declaration,
    known: _Row | None,
    newest: Mapping[int, _Row],
    now_ns: int,
) -> Definition:
    slo_id = _new(connection, declaration, now_ns) if known is None else int(known.id)
    generation = newest.get(slo_id)
    indicator = declaration.slo.indicator.normal_form()
    if generation is None or generation.indicator != indicator:
        number = 1 if generation is None else generation.number + 1
        _update(connection, known, slo_id, {**_values(declaration, known), "retired_ns": None, "declared_ns": now_ns})
        _end_alerts(connection, [] if known is None else [slo_id])
        values = {"slo_id": slo_id, "number": number, "indicator": indicator, "started_ns": now_ns}
        started = connection.execute(sa.insert(GENERATIONS).values(values).returning(GENERATIONS.c.id))
        return Definition(slo_id, started.scalar_one(), number, now_ns, now_ns)
    declared_ns = now_ns if known is None or known.retired_ns is not None else int(known.declared_ns)
    _update(connection, known, slo_id, {**_values(declaration, known), "retired_ns": None, "declared_ns": declared_ns})
    return Definition(slo_id, generation.id, generation.number, generation.started_ns, declared_ns)


def _values(declaration: Declaration, known: _Row | None) -> dict[str, str | None]:
    document = declaration.document
    if document is None and known is not None and known.retired_ns is None:
        document = known.document  # it waits behind the file; of a retired one nothing does
    return {
        "objective": str(declaration.slo.objective),
        "window": declaration.slo.window.text,
        "source": "file" if declaration.document is None else "api",
        "document": document,
    }


def _new(connection: sa.Connection, declaration: Declaration, now_ns: int) -> int:
    service, name = declaration.slo.key
    values = {"service": service, "name": name, **_values(declaration, None), "declared_ns": now_ns}
    return int(connection.execute(sa.insert(SLOS).values(values).returning(SLOS.c.id)).scalar_one())


def _update(connection: sa.Connection, known: _Row | None, slo_id: int, values: Mapping[str, object]) -> None:
    """Write what changed: at most starts, nothing did."""
    if known is not None and any(getattr(known, name) != value for name, value in values.items()):
        connection.execute(sa.update(SLOS).where(SLOS.c.id == slo_id).values(values))


def _retire(connection: sa.Connection, gone: Iterable[int], now_ns: int) -> None:
    rows = [{"gone": slo_id} for slo_id in gone]
    if rows:
        statement = sa.update(SLOS).where(SLOS.c.id == sa.bindparam("gone")).values(retired_ns=now_ns)
        connection.execute(statement, rows)
    _end_alerts(connection, [row["gone"] for row in rows])


def _end_alerts(connection: sa.Connection, slo_ids: Sequence[int]) -> None:
    if slo_ids:
        connection.execute(
            sa.delete(ALERTS).where(ALERTS.c.slo_id == sa.bindparam("ended")), [{"ended": slo_id} for slo_id in slo_ids]
        )
