"""
Alerts of the SLOs that are counted: judged at every heartbeat, in SQL before in memory.

While the database is away, or exports are refused, there is no heartbeat, and
nothing changes.
"""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import structlog

from slo_exporter.daemon.definitions import Key
from slo_exporter.daemon.loaded import Loaded
from slo_exporter.sli.records import Ints
from slo_exporter.slo.alert_book import AlertChange, AlertId, counts_by_window
from slo_exporter.slo.alerting import KEYS, AlertKey
from slo_exporter.slo.report import alert_end, alert_reason, alert_report
from slo_exporter.store.store import Store

FIRED: Final = "fired"
RESOLVED: Final = "resolved"
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

    def evaluate(self, loaded: Loaded, now_ns: int) -> None:
        """
        Make active what the counts call for, and no more.

        Raises:
            UnavailableError: nothing changed in memory; where SQL may say otherwise, the next transaction finds out.
        """
        lookback = loaded.ledger.lookback(now_ns)
        change = loaded.alerts.evaluate(lookback, now_ns)
        if not change:
            return
        with self._store.transaction(self._store.next_seq()) as transaction:
            transaction.alerts(change)
        with self._lock:
            loaded.alerts.apply(change)
        self._tell(loaded, change, lookback)

    def switched(self, before: Loaded | None, after: Loaded) -> None:
        """Tell what became of alerts when everything was loaded anew; at the start nothing changed."""
        if before is None:
            return
        were, are = _named(before), _named(after)
        counted = set(_generations(after))
        for name, key in were.keys() - are.keys():
            is_counted = (name, were[name, key]) in counted
            self._say(RESOLVED, *name, key, _SQL_SAYS if is_counted else "what it was about is counted no more")
        for name, key in are.keys() - were.keys():
            self._say(FIRED, *name, key, _SQL_SAYS)

    def readings(self) -> Mapping[tuple[str, ...], float]:
        """How often alerts changed, by severity, tier and ``fired`` or ``resolved``."""
        return {
            (key[0].value, key[1].value, change): self._changes[key, change]
            for key in KEYS
            for change in (FIRED, RESOLVED)
        }

    def _tell(self, loaded: Loaded, change: AlertChange, lookback: Mapping[str, Ints]) -> None:
        for what, those, since_ns in ((FIRED, change.fired, change.at_ns), (RESOLVED, change.resolved, None)):
            for one in those:
                row, key = one
                service, slo = loaded.ledger.slos[row].key
                self._say(what, service, slo, key, _reason(loaded, one, lookback, since_ns))

    def _say(self, what: str, service: str, slo: str, key: AlertKey, reason: str) -> None:
        severity, tier = key
        self._changes[key, what] += 1
        say = _log.warning if what == FIRED else _log.info
        say(f"alert_{what}", service=service, slo=slo, severity=severity.value, tier=tier.value, reason=reason)


def _named(loaded: Loaded) -> Mapping[tuple[Key, AlertKey], int]:
    """The generation of what active alerts are about, by the name of their SLO."""
    slos, numbers = loaded.ledger.slos, loaded.generations
    return {(slos[row].key, key): numbers[row] for row, since in loaded.alerts.active.items() for key in since}


def _generations(loaded: Loaded) -> Iterator[tuple[Key, int]]:
    """What is counted."""
    return ((slo.key, number) for slo, number in zip(loaded.ledger.slos, loaded.generations, strict=True))


def _reason(loaded: Loaded, one: AlertId, lookback: Mapping[str, Ints], since_ns: int | None) -> str:
    row, key = one
    rule = loaded.alerts.rules[row].get(key)
    if rule is None:
        return "the SLO has this alert no more"
    report = alert_report(rule, loaded.ledger.slos[row].objective, counts_by_window(lookback, row), since_ns)
    return alert_end(report) if since_ns is None else alert_reason(report)
