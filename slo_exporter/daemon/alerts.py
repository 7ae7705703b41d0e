"""
Alerts of the SLOs that are counted: judged at every heartbeat, in SQL before in memory.

While the database is away, or exports are refused, there is no heartbeat, and
nothing changes. Nor does it while the clock cannot be right.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

import numpy as np
import structlog

from slo_exporter.clock import SECOND_NS
from slo_exporter.daemon.definitions import Key
from slo_exporter.daemon.loaded import Loaded
from slo_exporter.sli.records import MISSING, Ints
from slo_exporter.slo.alert_book import AlertChange, AlertId, counts_by_window
from slo_exporter.slo.alerting import KEYS, AlertKey
from slo_exporter.slo.report import alert_end, alert_reason, alert_report
from slo_exporter.store.store import Store

FIRED: Final = "fired"
RESOLVED: Final = "resolved"
MOST_LINES: Final = 20
"""So many changes of a kind are told one by one at a time; the counter and the API tell all."""
AHEAD_NS: Final = 60 * SECOND_NS
"""So far ahead of us may a span end; what is further is a clock that was set."""
_Told: TypeAlias = tuple[str, Key, AlertKey, str]
"""Fired or resolved, which SLO, which alert, and why."""
_SQL_SAYS: Final = "a commit of unknown outcome turned out to be in the database"

_log = structlog.get_logger(__name__)


class Alerts:
    """
    Evaluates alerts, keeps what changed, and tells it.

    Args:
        store: where active alerts are kept.
        lock: held while what is loaded changes.
    """

    def __init__(self, store: Store, lock: threading.Lock) -> None:
        self._store = store
        self._lock = lock
        self._changes: Counter[tuple[AlertKey, str]] = Counter()
        self._corrected: set[Key] = set()
        """SLOs whose alerts are to be judged by what a correction left."""

    def evaluate(self, loaded: Loaded, now_ns: int, aged_ns: int, corrected: int | None = None) -> None:
        """
        Make active what the counts call for, and no more.

        Args:
            loaded: what is counted.
            now_ns: the wall clock.
            aged_ns: the same, but hardly ahead of the time that really passed.
            corrected: row of an SLO whose events were just corrected.

        Raises:
            UnavailableError: nothing changed in memory; where SQL may say otherwise, the next transaction finds out.
        """
        if corrected is not None:
            self._corrected.add(loaded.ledger.slos[corrected].key)
        if not _is_clock_right(loaded.ledger.newest_ns, now_ns, aged_ns):
            return
        rows = [row for row, slo in enumerate(loaded.ledger.slos) if slo.key in self._corrected]
        lookback = loaded.ledger.lookback(now_ns)
        change = loaded.alerts.evaluate(lookback, now_ns, rows)
        if change:
            told = list(_first(loaded, change, lookback))
            with self._store.transaction(self._store.next_seq()) as transaction:
                transaction.alerts(change)
            with self._lock:
                loaded.alerts.apply(change)
            self._count(FIRED, (key for _, key in change.fired))
            self._count(RESOLVED, (key for _, key in change.resolved))
            _tell(told, {FIRED: len(change.fired), RESOLVED: len(change.resolved)})
        self._corrected.clear()

    def switched(self, before: Loaded | None, after: Loaded) -> None:
        """Tell what became of alerts when everything was loaded anew; at the start nothing changed."""
        if before is None:
            return
        were, are = _named(before), _named(after)
        counted = set(_generations(after))
        ended, began = sorted(were.keys() - are.keys()), sorted(are.keys() - were.keys())
        gone = [
            (RESOLVED, *one, _SQL_SAYS if (one[0], were[one]) in counted else "what it was about is counted no more")
            for one in ended
        ]
        self._count(RESOLVED, (key for _, key in ended))
        self._count(FIRED, (key for _, key in began))
        told = [*gone[:MOST_LINES], *((FIRED, *one, _SQL_SAYS) for one in began[:MOST_LINES])]
        _tell(told, {FIRED: len(began), RESOLVED: len(ended)})

    def readings(self) -> Mapping[tuple[str, ...], float]:
        """How often alerts changed, by severity, tier and ``fired`` or ``resolved``."""
        return {
            (key[0].value, key[1].value, change): self._changes[key, change]
            for key in KEYS
            for change in (FIRED, RESOLVED)
        }

    def _count(self, what: str, keys: Iterable[AlertKey]) -> None:
        self._changes.update((key, what) for key in keys)


def _is_clock_right(newest_ns: Ints, now_ns: int, aged_ns: int) -> bool:
    """
    Nothing says that the wall clock was set.

    Behind, it is contradicted by events that ended later than it says. Ahead, by
    the time that passed, until events say the same as it does, or it has caught up.
    """
    newest = int(np.max(newest_ns, initial=MISSING))
    is_behind = newest > now_ns + AHEAD_NS
    is_ahead = now_ns > aged_ns + AHEAD_NS and newest < now_ns - AHEAD_NS
    return not (is_behind or is_ahead)


def _first(loaded: Loaded, change: AlertChange, lookback: Mapping[str, Ints]) -> Iterator[_Told]:
    """What is told one by one, said before it becomes true."""
    for what, those in ((FIRED, change.fired), (RESOLVED, change.resolved)):
        for row, key in islice(those, MOST_LINES):
            yield what, loaded.ledger.slos[row].key, key, _reason(loaded, (row, key), lookback, change.at_ns)


def _tell(told: Iterable[_Told], totals: Mapping[str, int]) -> None:
    """Log changes one by one, and how many more of each kind there are."""
    for what, (service, slo), (severity, tier), reason in told:
        say = _log.warning if what == FIRED else _log.info
        say(f"alert_{what}", service=service, slo=slo, severity=severity.value, tier=tier.value, reason=reason)
    for what, total in totals.items():
        if total > MOST_LINES:
            say = _log.warning if what == FIRED else _log.info
            say(f"alerts_{what}", more=total - MOST_LINES, hint="GET /api/v1/alerts lists all that are active")


def _named(loaded: Loaded) -> Mapping[tuple[Key, AlertKey], int]:
    """The generation of what active alerts are about, by the name of their SLO."""
    slos, numbers = loaded.ledger.slos, loaded.generations
    return {(slos[row].key, key): numbers[row] for row, since in loaded.alerts.active.items() for key in since}


def _generations(loaded: Loaded) -> Iterator[tuple[Key, int]]:
    """What is counted."""
    return ((slo.key, number) for slo, number in zip(loaded.ledger.slos, loaded.generations, strict=True))


def _reason(loaded: Loaded, one: AlertId, lookback: Mapping[str, Ints], now_ns: int) -> str:
    """Why it fires, or, of one that is active, why it ends."""
    row, key = one
    rule = loaded.alerts.rules[row].get(key)
    if rule is None:
        return "the SLO has this alert no more"
    since_ns = loaded.alerts.active.get(row, {}).get(key)
    objective, counts = loaded.ledger.slos[row].objective, counts_by_window(lookback, row)
    report = alert_report(rule, objective, counts, now_ns if since_ns is None else since_ns, now_ns)
    return alert_reason(report) if since_ns is None else alert_end(report)
