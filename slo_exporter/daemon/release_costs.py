"""What releases cost, worked out once in a while: a scrape asks for the same ones again."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

from slo_exporter.clock import SECOND_NS
from slo_exporter.daemon.committer import Committer
from slo_exporter.slo.ledger import Ledger
from slo_exporter.slo.releases import Cost, Release, costs
from slo_exporter.web.board import Readings

SHOWN: Final = 5
"""Releases of a service that metrics show, the newest ones."""
_FRESH_NS: Final = 5 * SECOND_NS
"""While its day runs a cost is as old as a slice is wide."""
_SETTLED: Final = 60
"""Afterwards it may be so many times older: late events are few, and corrections are seen at once."""
_MOST: Final = 20_000
"""Costs that are remembered: 6 MiB."""


class ReleaseCosts:
    """The costs of releases in what is loaded."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._ledger: Ledger | None = None
        self._known: dict[int, tuple[_Key, tuple[Cost, ...]]] = {}
        self._held = 0

    def of(self, release: Release, now_ns: int) -> tuple[Cost, ...]:
        """What *release* cost each SLO that its service has; none before the counts were loaded."""
        loaded = self._committer.loaded
        if loaded is None:
            return ()
        with self._committer.lock:
            if self._ledger is not loaded.ledger:
                self._ledger, self._held = loaded.ledger, 0
                self._known.clear()
            key = _key(loaded.ledger, release, now_ns)
            known_key, found = self._known.get(release.id, (None, ()))
            if known_key != key:
                found = costs(loaded.ledger, loaded.ledger.rows_of(release.service), release, now_ns)
                self._remember(release.id, key, found)
        return found

    def readings(self, now_ns: int) -> Readings:
        """When the newest releases of each service that has SLOs went out, and what they cost."""
        at: dict[tuple[str, ...], float] = {}
        spent: dict[tuple[str, ...], float] = {}
        for release in self._shown():
            found = self.of(release, now_ns)
            key = (release.service, release.version)
            if not found or key in at:  # the newest of those with one version
                continue
            at[key] = release.at_ns / SECOND_NS
            for cost in found:
                if cost.spent_ratio is not None:
                    spent[release.service, cost.slo.name, release.version] = cost.spent_ratio
        return {"slo_release_timestamp_seconds": at, "slo_release_budget_spent_ratio": spent}

    def _shown(self) -> Iterator[Release]:
        seen: Counter[str] = Counter()
        for release in self._committer.releases.releases():
            seen[release.service] += 1
            if seen[release.service] <= SHOWN:
                yield release

    def _remember(self, number: int, key: "_Key", found: tuple[Cost, ...]) -> None:
        """The one that was worked out longest ago goes first."""
        _, before = self._known.pop(number, (None, ()))
        self._known[number] = (key, found)
        self._held += len(found) - len(before)
        while self._held > _MOST and len(self._known) > 1:
            self._held -= len(self._known.pop(next(iter(self._known)))[1])


_Key: TypeAlias = tuple[int, int]


def _key(ledger: Ledger, release: Release, now_ns: int) -> _Key:
    """Differs once a cost has to be worked out anew; not for all releases at the same time."""
    age = now_ns // _FRESH_NS
    return (len(ledger.corrections), (age + release.id) // _SETTLED if release.is_complete(now_ns) else age)
