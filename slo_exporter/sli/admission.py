"""
Which requests of an export count: each once, and not where an engine speaks.

State: services with an engine, spans and requests counted lately. Exports are
admitted one after the other, whatever commit they share; admission is
tentative until `keep`, and `undo` takes it back.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slo_exporter.sli.records import Mask, Outcome, RequestBatch, concat
from slo_exporter.sli.seen import Seen

MOST_ENGINES: Final = 10_000
"""Services remembered as having an engine: names come from the wire and are kept for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """What a group of exports adds."""

    requests: RequestBatch
    """One row per request that counts, shadowed ones marked."""
    engines: frozenset[str]
    """Services that turned out to have an engine."""
    repeated_spans: int
    repeated_requests: int
    unlearnt_engines: int
    """Services with an engine beyond `MOST_ENGINES`."""


class Admission:
    """
    Decides what counts.

    Args:
        engines: services already known to have an inference engine.
    """

    def __init__(self, engines: Iterable[str]) -> None:
        self.spans = Seen(intervals=False)
        self.requests = Seen(intervals=True)
        self._engines = frozenset(engines)
        self._learnt: frozenset[str] = frozenset()

    def know(self, engines: Iterable[str]) -> None:
        """These services have an engine: SQL says so."""
        self._engines |= frozenset(engines)

    def admit(self, exports: Sequence[tuple[RequestBatch, frozenset[str]]], now_ns: int) -> Admitted:
        """
        Admit exports in order, at least one.

        Args:
            exports: requests, and the services whose engine spoke, of each.
            now_ns: for the reach of what is remembered.
        """
        rows = sum(len(requests) for requests, _ in exports)
        self.spans.reserve(rows, now_ns)
        self.requests.reserve(rows, now_ns)
        counted, tally = [], Counter[str]()
        for requests, engines in exports:
            tally["unlearnt"] += self._learn(engines)
            spans = requests.take(self._new_spans(requests))
            new = spans.take(self._new_requests(spans))
            tally.update(spans=len(requests) - len(spans), requests=len(spans) - len(new))
            counted.append(self._shadow(new))
        return Admitted(
            requests=concat(counted),
            engines=self._learnt,
            repeated_spans=tally["spans"],
            repeated_requests=tally["requests"],
            unlearnt_engines=tally["unlearnt"],
        )

    def keep(self) -> None:
        """What was admitted is committed."""
        self.spans.keep()
        self.requests.keep()
        self._engines |= self._learnt
        self._learnt = frozenset()

    def undo(self) -> None:
        """What was admitted is refused, and may come again."""
        self.spans.undo()
        self.requests.undo()
        self._learnt = frozenset()

    def _learn(self, engines: frozenset[str]) -> int:
        """Remember services with an engine; how many there is no room for."""
        new = sorted(engines - self._engines - self._learnt)
        room = MOST_ENGINES - len(self._engines) - len(self._learnt)
        self._learnt |= frozenset(new[:room])
        return max(0, len(new) - room)

    def _new_spans(self, requests: RequestBatch) -> Mask:
        instant = np.zeros(len(requests), dtype=np.int64)
        return self.spans.admit(requests.fingerprint, instant, instant)

    def _new_requests(self, requests: RequestBatch) -> Mask:
        new = np.ones(len(requests), dtype=np.bool_)
        rows = np.flatnonzero(requests.request_key)
        if rows.size:
            named = requests.take(rows)
            new[rows] = self.requests.admit(named.request_key, named.start_ns, named.end_ns)
        return new

    def _shadow(self, requests: RequestBatch) -> RequestBatch:
        """An engine is silent about failures: of its HTTP spans only those count."""
        known = [name for name in requests.service.values if name in self._engines or name in self._learnt]
        has_engine = requests.service.among(known)
        return replace(requests, shadowed=requests.yields & has_engine & (requests.outcome == Outcome.OK))
