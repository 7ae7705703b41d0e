"""
Which requests of an export count: each once, and not where another span stands for them.

State: what services are, spans and requests counted lately. Exports are
admitted one after the other, whatever commit they share: all at once only
where that makes no difference. Admission is tentative until `keep`, and `undo`
takes it back.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

from slo_exporter.sli.halves import Halves
from slo_exporter.sli.records import LONGEST_SERVICE, Layer, Mask, Outcome, RequestBatch, View, Words, concat
from slo_exporter.sli.seen import Seen, mix
from slo_exporter.sli.texts import Texts

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

_PREFILL: Final = int(Layer.PREFILL)
_OK: Final = int(Outcome.OK)

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
        taken = _Taken()
        taken.unlearnt += self._learn(exports[0][1])
        group = self._as_one(exports)
        if group is not None:
            self._take(group, taken)
        else:
            for position, (requests, roles) in enumerate(exports):
                taken.unlearnt += self._learn(roles) if position else 0
                self._take(_Group(requests), taken)
        return taken.admitted(self._learnt)

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

    def _as_one(self, exports: Sequence[tuple[RequestBatch, Roles]]) -> "_Group | None":
        """
        The exports as one, where that makes no difference; what the first one shows of services is learnt.

        It does where another one shows something new of a service, where a span
        or a request id comes in two of them, and where a request may be half of
        another one.
        """
        if len(exports) == 1:
            return _Group(exports[0][0])
        known = self._roles | self._learnt if self._learnt else self._roles
        if not all(roles <= known for _, roles in exports):
            return None
        group = _Group.of([requests for requests, _ in exports])
        requests = group.requests
        is_mixed = _repeats(requests.fingerprint) or _repeats(requests.request_key) or self._halves.may_pair(requests)
        return None if is_mixed else group

    def _take(self, group: "_Group", taken: "_Taken") -> None:
        """Admit one export, or several that are as good as one."""
        spans = taken.without_repeats(group, self._new_spans(group.requests))
        taken.spans += len(group) - len(spans)
        self._halves.note(spans.requests)
        is_behind = self._is_behind(spans.requests)
        alone = spans
        if is_behind is not None:
            taken.behind.append(spans.requests.take(is_behind))
            alone = spans.take(~is_behind)
        is_new, prefillers = self._new_requests(alone.requests)
        taken.unlearnt += self._learn(prefillers)
        new = taken.without_repeats(alone, is_new)
        taken.requests += len(alone) - len(new)
        taken.counted.append(self._shadow(new))

    def _learn(self, roles: Roles) -> int:
        """Remember what services are; how many roles there is no room for."""
        new = sorted(role for role in roles - self._roles - self._learnt if len(role[0]) <= LONGEST_SERVICE)
        room = MOST_ROLES - len(self._roles) - len(self._learnt)
        self._learnt |= frozenset(new[:room])
        return max(0, len(new) - room)

    def _new_spans(self, requests: RequestBatch) -> Mask:
        return self.spans.admit(requests.fingerprint, requests.start_ns, requests.end_ns)

    def _new_requests(self, requests: RequestBatch) -> tuple[Mask, Roles]:
        """Which were not seen under their id, nor are half of what counted; what their halves show of services."""
        new, prefillers = self._halves.admit(requests)
        named = (requests.request_key != 0) & new
        some = np.count_nonzero(named)
        if some == len(requests):
            new = self.requests.admit(requests.request_key, requests.start_ns, requests.end_ns)
        elif some:
            columns = requests.request_key, requests.start_ns, requests.end_ns
            new[named] = self.requests.admit(*(column[named] for column in columns))
        return new, frozenset((service, Role.PREFILL) for service in prefillers)

    def _known(self, services: Texts, role: Role) -> list[str]:
        """Those of *services* that are of a role."""
        each = dict.fromkeys(services.values)
        return [name for name in each if (name, role) in self._roles or (name, role) in self._learnt]

    def _is_behind(self, requests: RequestBatch) -> Mask | None:
        """Engines whose requests something else counts, if any."""
        behind = [
            requests.is_engine & (requests.view == view) & requests.service.among(known)
            for view, role in FRONT_OF.items()
            if (known := self._known(requests.service, role))
        ]
        if requests.has(Layer.PREFILL):
            prefill = requests.service.among(self._known(requests.service, Role.PREFILL))
            behind.append((requests.layer == _PREFILL) & prefill & ~self._halves.writes(requests))
        if not behind:
            return None
        is_behind: Mask = np.logical_or.reduce(behind)
        return is_behind if np.count_nonzero(is_behind) else None

    def _shadow(self, group: "_Group") -> RequestBatch:
        """
        An engine is silent about failures: of its HTTP spans only those count.

        And of those not the ones that an engine's request tells of, which counts itself.
        """
        requests = group.requests
        if not requests.has(Layer.HTTP):
            return requests
        yields = requests.yields
        engines = {*self._known(requests.service, Role.ENGINE), *self._known(requests.service, Role.BELOW)}
        is_shadow = yields & (requests.outcome == _OK) & requests.service.among(engines)
        pairs = yields & (requests.pair_key != 0)
        if pairs.any():
            others = ~yields
            told_by = np.concatenate([group.own(requests.request_key)[others], group.own(requests.fingerprint)[others]])
            is_shadow |= pairs & np.isin(group.own(requests.pair_key), told_by)
        return replace(requests, shadowed=is_shadow)


@dataclass(frozen=True, slots=True)
class _Group:
    """An export, or several that are admitted as one."""

    requests: RequestBatch
    export: Words | None = None
    """Of which export each row is; None where there is one."""

    def __len__(self) -> int:
        return len(self.requests)

    @classmethod
    def of(cls, exports: Sequence[RequestBatch]) -> "_Group":
        """Exports one after the other."""
        sizes = [len(requests) for requests in exports]
        return cls(concat(exports), np.repeat(np.arange(len(exports), dtype=np.uint64), sizes))

    def take(self, rows: Mask) -> "_Group":
        """Some of the rows."""
        return _Group(self.requests.take(rows), None if self.export is None else self.export[rows])

    def own(self, keys: Words) -> Words:
        """Keys that are equal within one export alone."""
        return keys if self.export is None else mix(keys, self.export)


@dataclass(slots=True)
class _Taken:
    """What was admitted so far."""

    counted: list[RequestBatch] = field(default_factory=list)
    behind: list[RequestBatch] = field(default_factory=list)
    repeated: Counter[str] = field(default_factory=Counter)
    spans: int = 0
    requests: int = 0
    """Repeated ones, as `spans`."""
    unlearnt: int = 0

    def without_repeats(self, group: _Group, new: Mask) -> _Group:
        """The new ones; of the others, how often each service repeated itself."""
        if np.count_nonzero(new) == len(new):
            return group
        services = group.requests.service
        codes = services.codes[~new]
        self.repeated.update(services.values[code] for code in codes.tolist() if code >= 0)
        return group.take(new)

    def admitted(self, roles: Roles) -> Admitted:
        """All of it."""
        counted = concat(self.counted)
        return Admitted(
            requests=counted,
            behind=concat(self.behind) if self.behind else counted.take(slice(0)),
            roles=roles,
            repeated_spans=self.spans,
            repeated_requests=self.requests,
            repeated=self.repeated,
            unlearnt_roles=self.unlearnt,
        )


def _repeats(keys: Words) -> bool:
    """Whether any key but 0 is there twice."""
    ascending = np.sort(keys)
    is_again = ascending[1:] == ascending[:-1]
    return bool(np.count_nonzero(is_again)) and bool(ascending[1:][is_again].any())
