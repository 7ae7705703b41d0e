"""
The two halves of a request, when they come in different exports.

An engine that prefilled for another one looks like one that answered with a
single token. When the other half comes, with the same id and prompt and at once
after it, and that several times, the first one's service is known for what it
is; from then on only second halves count. An engine that often writes more than
one token does not only prefill: of such a service that is not believed.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from slo_exporter.sli.records import (
    LONGEST_SERVICE,
    MISSING,
    UNKNOWN_SERVICE,
    Ints,
    Layer,
    Mask,
    RequestBatch,
    Texts,
    Words,
)

_MOST: Final = 10_000
"""Halves remembered: the other one follows within seconds. As many services, by name."""
_MOST_LOOKED_AT: Final = 16
"""Halves with one id that are looked at for another one, the newest."""
EARLIEST_NS: Final = 1_000_000_000
AT_ONCE_NS: Final = 2_000_000_000
"""A second half starts so long before the first one did, its clock being off, or so long after its end."""
_PAIRS: Final = 3
"""Pairs that show what a service is: one may be chance."""
_WRITES: Final = 10
"""A service writes if one of so many of its requests has more than one token."""
_NO_INTS: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Ring:
    """The newest halves of a kind; what found its other half has the key 0."""

    keys: Words
    tokens: Ints
    services: Ints
    start_ns: Ints
    end_ns: Ints

    def with_rows(self, requests: RequestBatch, rows: Ints, services: Ints) -> "_Ring":
        return _Ring(
            np.concatenate([self.keys, requests.pair_key[rows]])[-_MOST:],
            np.concatenate([self.tokens, requests.number("prompt_tokens")[rows]])[-_MOST:],
            np.concatenate([self.services, services])[-_MOST:],
            np.concatenate([self.start_ns, requests.start_ns[rows]])[-_MOST:],
            np.concatenate([self.end_ns, requests.end_ns[rows]])[-_MOST:],
        )

    def without(self, at: int) -> "_Ring":
        keys = self.keys.copy()
        keys[at] = 0
        return replace(self, keys=keys)

    def same(self, requests: RequestBatch, row: int) -> Ints:
        """Where the newest halves with the id and the prompt of a request stand; a prompt must be known."""
        tokens = requests.number("prompt_tokens")[row]
        if tokens == MISSING:
            return _NO_INTS
        return np.flatnonzero((self.keys == requests.pair_key[row]) & (self.tokens == tokens))[-_MOST_LOOKED_AT:]


_EMPTY: Final = _Ring(np.zeros(0, dtype=np.uint64), _NO_INTS, _NO_INTS, _NO_INTS, _NO_INTS)


@dataclass(slots=True)
class _Memory:
    """What is tentative until it is kept; the parts are replaced, or only added to."""

    first: _Ring = _EMPTY
    second: _Ring = _EMPTY
    numbers: dict[str, int] | None = None
    """Of services in the rings, by name."""
    pairs: Mapping[str, int] = field(default_factory=dict)
    """Pairs found, by the service of the first half."""


class Halves:
    """What may have been halves of requests lately; what was admitted is tentative until `keep`."""

    def __init__(self) -> None:
        self._memory = _Memory(numbers={})
        self._kept = replace(self._memory)
        self._single = Counter[str]()
        self._longer = Counter[str]()
        """Requests of one token, and of more, by service: what it does, whether or not a commit was kept."""

    def keep(self) -> None:
        """What was admitted is counted."""
        self._kept = replace(self._memory)

    def undo(self) -> None:
        """Forget what was admitted since the last `keep`."""
        self._memory = replace(self._kept)

    def note(self, requests: RequestBatch) -> None:
        """Note which services write more than one token."""
        for counter, mask in (
            (self._single, requests.layer == Layer.PREFILL),
            (self._longer, (requests.layer == Layer.ENGINE) & (requests.number("completion_tokens") > 1)),
        ):
            if mask.any():
                codes, sizes = np.unique(requests.service.codes[mask], return_counts=True)
                for code, size in zip(codes.tolist(), sizes.tolist(), strict=True):
                    self._count(counter, requests.service.values[code] if code >= 0 else "", size)

    def _count(self, counter: Counter[str], name: str, size: int) -> None:
        if len(name) <= LONGEST_SERVICE and (name in counter or len(counter) < _MOST):
            counter[name] += size

    def writes(self, requests: RequestBatch) -> Mask:
        """Requests of services that write more than one token."""
        return requests.service.among({name for name in requests.service.values if self._writes(name)})

    def _writes(self, service: str) -> bool:
        return self._longer[service] * _WRITES > self._longer[service] + self._single[service]

    def admit(self, requests: RequestBatch) -> tuple[Mask, frozenset[str]]:
        """
        Which rows are not half of a request that counted, and which services prefill for others.

        A second half in the service of the first one is the same request again; so
        is a first half that comes after its second one.
        """
        new, memory = np.ones(len(requests), dtype=np.bool_), self._memory
        has_key = requests.pair_key != 0
        firsts = has_key & (requests.layer == Layer.PREFILL)
        seconds = has_key & (requests.layer == Layer.ENGINE)
        found = Counter[str]()
        if len(memory.first.keys) and seconds.any():
            rows = np.flatnonzero(seconds & np.isin(requests.pair_key, memory.first.keys))
            found += self._find_first(requests, rows, new)
        if len(memory.second.keys) and firsts.any():
            rows = np.flatnonzero(firsts & np.isin(requests.pair_key, memory.second.keys))
            found += self._find_second(requests, rows, new)
        self._remember(requests, firsts & new, seconds & new)
        return new, self._prefillers(found)

    def _prefillers(self, found: Counter[str]) -> frozenset[str]:
        """Of services with further pairs those that are known by now."""
        # Of services without a name nothing is learnt: everything else without one would be hidden with it.
        named = Counter({name: size for name, size in found.items() if size and not name.startswith(UNKNOWN_SERVICE)})
        if not named:
            return frozenset()
        pairs = named + Counter(self._memory.pairs)
        self._memory.pairs = pairs if len(pairs) <= _MOST else named
        return frozenset(name for name in named if pairs[name] >= _PAIRS and not self._writes(name))

    def _find_first(self, requests: RequestBatch, rows: Ints, new: Mask) -> Counter[str]:
        """Take out second halves of what came before; the services of their first halves, if others."""
        names, found = list(self._memory.numbers or ()), Counter[str]()
        for row in rows.tolist():
            start, ring = requests.start_ns[row], self._memory.first
            same = ring.same(requests, row).tolist()
            near = [at for at in same if _follows(start, ring.start_ns[at], ring.end_ns[at])]
            if near:
                first = names[ring.services[near[-1]]]
                self._memory.first = ring.without(near[-1])
                new[row] = first != requests.service.at(row)
                found[first] += int(new[row])
        return found

    def _find_second(self, requests: RequestBatch, rows: Ints, new: Mask) -> Counter[str]:
        """Take out first halves of what came before; their services, if those of the others are not the same."""
        names, found = list(self._memory.numbers or ()), Counter[str]()
        for row in rows.tolist():
            start, end, ring = requests.start_ns[row], requests.end_ns[row], self._memory.second
            near = [at for at in ring.same(requests, row).tolist() if _follows(ring.start_ns[at], start, end)]
            if near:
                self._memory.second = ring.without(near[0])
                service = requests.service.at(row) or ""
                new[row] = False
                found[service] += int(service != names[ring.services[near[0]]])
        return found

    def _remember(self, requests: RequestBatch, firsts: Mask, seconds: Mask) -> None:
        memory = self._memory
        if len(memory.numbers or ()) > _MOST:
            # So many services are halves of nothing: names come from the wire.
            memory.first, memory.second, memory.numbers = _EMPTY, _EMPTY, {}
        if firsts.any():
            memory.first = self._with(memory.first, requests, firsts)
        if seconds.any():
            memory.second = self._with(memory.second, requests, seconds)

    def _with(self, ring: _Ring, requests: RequestBatch, mask: Mask) -> _Ring:
        rows = np.flatnonzero(mask)[-_MOST:]
        return ring.with_rows(requests, rows, self._numbers(requests.service.take(rows)))

    def _numbers(self, services: Texts) -> Ints:
        """A number of ours for the service of each row; names that are none share one."""
        distinct, position = np.unique(services.codes, return_inverse=True)
        names = [services.values[code] if code >= 0 else "" for code in distinct.tolist()]
        known = self._memory.numbers if self._memory.numbers is not None else {}
        numbers = [known.setdefault(name if len(name) <= LONGEST_SERVICE else "", len(known)) for name in names]
        return np.array(numbers, dtype=np.int64)[position]


def _follows(start_ns: int, first_start_ns: int, first_end_ns: int) -> bool:
    return bool(first_start_ns - EARLIEST_NS <= start_ns <= first_end_ns + AT_ONCE_NS)
