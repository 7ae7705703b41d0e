"""Rows of active alerts: since when, by SLO, severity and tier."""

from collections.abc import Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from slo_exporter.slo.alert_book import AlertChange, AlertId
from slo_exporter.slo.alerting import KEYS, AlertKey
from slo_exporter.store.declarations import Definition
from slo_exporter.store.schema import ALERTS
from slo_exporter.store.upserts import put

_BY_WORDS: Final = {(severity.value, tier.value): (severity, tier) for severity, tier in KEYS}


def read(connection: sa.Connection, definitions: Sequence[Definition]) -> Mapping[int, Mapping[AlertKey, int]]:
    """Since when the active alerts of *definitions* are, by row; what only a later version knows is left out."""
    rows = {definition.slo_id: row for row, definition in enumerate(definitions)}
    active: dict[int, dict[AlertKey, int]] = {}
    for found in connection.execute(sa.select(ALERTS)):
        row, key = rows.get(found.slo_id), _BY_WORDS.get((found.severity, found.tier))
        if row is not None and key is not None:
            active.setdefault(row, {})[key] = found.since_ns
    return active


def write(connection: sa.Connection, definitions: Sequence[Definition], change: AlertChange) -> None:
    """Write what *change* says."""

    def key_of(one: AlertId) -> tuple[int, str, str]:
        row, (severity, tier) = one
        return (definitions[row].slo_id, severity.value, tier.value)

    put(connection, ALERTS, [(*key_of(one), change.at_ns) for one in change.fired])
    if change.resolved:
        gone = [dict(zip(_KEY, key_of(one), strict=True)) for one in change.resolved]
        connection.execute(_DELETE, gone)


_KEY: Final = ("slo", "its_severity", "its_tier")
_DELETE: Final = sa.delete(ALERTS).where(
    (ALERTS.c.slo_id == sa.bindparam("slo"))
    & (ALERTS.c.severity == sa.bindparam("its_severity"))
    & (ALERTS.c.tier == sa.bindparam("its_tier"))
)
