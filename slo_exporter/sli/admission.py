"""
Which requests of an export count: each once, and not where another span stands for them.

State: what services are, spans and requests counted lately. Exports are
admitted one after the other, whatever commit they share; admission is
tentative until `keep`, and `undo` takes it back.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

from slo_exporter.sli.halves import Halves
from slo_exporter.sli.records import LONGEST_SERVICE, Layer, Mask, Outcome, RequestBatch, View, concat
from slo_exporter.sli.seen import Seen

MOST_ROLES: Final = 10_000
"""Roles of services remembered: names come from the wire and are kept for ever."""


class Role(StrEnum):
    """What a service is, as its spans have shown."""

    ENGINE = "engine"
    """It has an inference engine: its HTTP spans only tell of failures."""
    BELOW = "below"
    """What its engine does is counted by something in front of it."""
    PROXY = "proxy"
    """A gateway: its calls of models are counted by what asked it for them."""
    PREFILL = "prefill"
    """Its engine prefills what another one goes on with."""


FRONT_OF: Final = {View.SERVER: Role.BELOW, View.GATEWAY: Role.PROXY}
"""By view what a service is where something in front of its engines, or calls, counts."""

Roles: TypeAlias = frozenset[tuple[str, Role]]
"""Services and what they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """What a group of exports adds."""

    requests: RequestBatch
    """One row per request that counts, shadowed ones marked."""
    behind: RequestBatch
    """Rows of engines that something in front of them counts."""
    roles: Roles
    """What services turned out to be."""
    repeated_spans: int
    repeated_requests: int
    repeated: Counter[str]
    """Repeated spans and requests by service."""
    unlearnt_roles: int
    """Roles of services beyond `MOST_ROLES`."""


class Admission:
    """
    Decides what counts.

    Args:
        roles: what is already known of services.
    """

    def __init__(self, roles: Iterable[tuple[str, Role]]) -> None:
        self.spans = Seen(intervals=False)
        self.requests = Seen(intervals=True)
        self._halves = Halves()
        self._roles: Roles = frozenset(roles)
        self._learnt: Roles = frozenset()

    def know(self, roles: Iterable[tuple[str, Role]]) -> None:
        """What SQL says of services."""
        self._roles |= frozenset(roles)

    def admit(self, exports: Sequence[tuple[RequestBatch, Roles]], now_ns: int) -> Admitted:
        """
        Admit exports in order, at least one.

        Args:
            exports: requests, and what its spans showed of services, of each.
            now_ns: for the reach of what is remembered.
        """
        rows = sum(len(requests) for requests, _ in exports)
        self.spans.reserve(rows, now_ns)
        self.requests.reserve(rows, now_ns)
        counted, behind, tally, repeated = [], [], Counter[str](), Counter[str]()
        for requests, roles in exports:
            tally["unlearnt"] += self._learn(roles)
            spans = _new_rows(requests, self._new_spans(requests), repeated)
            self._halves.note(spans)
            is_behind = self._is_behind(spans)
            alone = spans.take(~is_behind) if is_behind.any() else spans
            is_new, prefillers = self._new_requests(alone)
            tally["unlearnt"] += self._learn(prefillers)
            new = _new_rows(alone, is_new, repeated)
            tally.update(spans=len(requests) - len(spans), requests=len(alone) - len(new))
            counted.append(self._shadow(new))
            behind.append(spans.take(is_behind))
        return Admitted(
            requests=concat(counted),
            behind=concat(behind),
            roles=self._learnt,
            repeated_spans=tally["spans"],
            repeated_requests=tally["requests"],
            repeated=repeated,
            unlearnt_roles=tally["unlearnt"],
        )

    def keep(self) -> None:
        """What was admitted is committed."""
        self.spans.keep()
        self.requests.keep()
        self._halves.keep()
        self._roles |= self._learnt
        self._learnt = frozenset()

    def undo(self) -> None:
        """What was admitted is refused, and may come again."""
        self.spans.undo()
        self.requests.undo()
        self._halves.undo()
        self._learnt = frozenset()

    def _learn(self, roles: Roles) -> int:
        """Remember what services are; how many roles there is no room for."""
        new = sorted(role for role in roles - self._roles - self._learnt if len(role[0]) <= LONGEST_SERVICE)
        room = MOST_ROLES - len(self._roles) - len(self._learnt)
        self._learnt |= frozenset(new[:room])
        return max(0, len(new) - room)

    def _new_spans(self, requests: RequestBatch) -> Mask:
        instant = np.zeros(len(requests), dtype=np.int64)
        return self.spans.admit(requests.fingerprint, instant, instant)

    def _new_requests(self, requests: RequestBatch) -> tuple[Mask, Roles]:
        """Which were not seen under their id, nor are half of what counted; what their halves show of services."""
        new, prefillers = self._halves.admit(requests)
        rows = np.flatnonzero((requests.request_key != 0) & new)
        if rows.size:
            named = requests.take(rows)
            new[rows] = self.requests.admit(named.request_key, named.start_ns, named.end_ns)
        return new, frozenset((service, Role.PREFILL) for service in prefillers)

    def _of_role(self, requests: RequestBatch, role: Role) -> Mask:
        known = [
            name for name in requests.service.values if (name, role) in self._roles or (name, role) in self._learnt
        ]
        return requests.service.among(known) if known else np.zeros(len(requests), dtype=np.bool_)

    def _is_behind(self, requests: RequestBatch) -> Mask:
        """Engines whose requests something else counts."""
        may_be_first: Mask = requests.layer == Layer.PREFILL
        is_engine: Mask = may_be_first | (requests.layer == Layer.ENGINE)
        if is_engine.any():
            behind = [(requests.view == view) & self._of_role(requests, role) for view, role in FRONT_OF.items()]
            is_engine &= np.logical_or.reduce(behind)
        if may_be_first.any():
            is_engine |= may_be_first & self._of_role(requests, Role.PREFILL) & ~self._halves.writes(requests)
        return is_engine

    def _shadow(self, requests: RequestBatch) -> RequestBatch:
        """
        An engine is silent about failures: of its HTTP spans only those count.

        And of those not the ones that an engine's request tells of, which counts itself.
        """
        yields = requests.yields
        if not yields.any():
            return requests
        others = requests.take(~yields)
        told = np.isin(requests.pair_key, np.concatenate([others.request_key, others.fingerprint]))
        is_told = yields & (requests.pair_key != 0) & told
        has_engine = self._of_role(requests, Role.ENGINE) | self._of_role(requests, Role.BELOW)
        is_shadow = yields & (requests.outcome == Outcome.OK) & has_engine
        return replace(requests, shadowed=is_told | is_shadow)


def _new_rows(requests: RequestBatch, new: Mask, repeated: Counter[str]) -> RequestBatch:
    """The new ones; of the others, how often each service repeated itself."""
    if new.all():
        return requests
    codes = requests.service.codes[~new]
    repeated.update(requests.service.values[code] for code in codes.tolist() if code >= 0)
    return requests.take(new)
