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

from slo_exporter.sli.records import LONGEST_SERVICE, MISSING, UNKNOWN_SERVICE, Ints, Layer, Mask, RequestBatch, Words
from slo_exporter.sli.texts import Texts

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
_MOST_PIECES: Final = 64
"""So many pieces of a ring are put together at the latest."""
_COLUMNS: Final = ("keys", "tokens", "services", "start_ns", "end_ns")
_ENGINE: Final = int(Layer.ENGINE)
_PREFILL: Final = int(Layer.PREFILL)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Halves of one kind, the newest last; what found its other half has the key 0."""

    keys: Words
    tokens: Ints
    services: Ints
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class _Ring:
    """The newest halves of a kind, in pieces that are put together when somebody looks."""

    pieces: tuple[_Piece, ...] = ()
    size: int = 0

    def with_rows(self, requests: RequestBatch, rows: Ints | slice, services: Ints) -> "_Ring":
        columns = requests.pair_key, requests.number("prompt_tokens"), services, requests.start_ns, requests.end_ns
        kept, size = self.pieces, self.size
        while kept and size - len(kept[0]) >= _MOST - len(services):
            size, kept = size - len(kept[0]), kept[1:]
        keys, tokens, services, start_ns, end_ns = columns
        new = _Piece(keys[rows], tokens[rows], services, start_ns[rows], end_ns[rows])
        ring = _Ring((*kept, new), size + len(new))
        return ring if len(ring.pieces) <= _MOST_PIECES else ring.whole()

    def whole(self) -> "_Ring":
        """The same in one piece."""
        if len(self.pieces) == 1 and self.size <= _MOST:
            return self
        columns = (np.concatenate([getattr(piece, name) for piece in self.pieces])[-_MOST:] for name in _COLUMNS)
        return _Ring((_Piece(*columns),), min(self.size, _MOST))

    def one(self) -> _Piece:
        """What a `whole` one holds."""
        return self.pieces[0]

    def without(self, at: int) -> "_Ring":
        """A `whole` one without one of its halves."""
        keys = self.one().keys.copy()
        keys[at] = 0
        return _Ring((replace(self.one(), keys=keys),), self.size)

    def same(self, requests: RequestBatch, row: int) -> Ints:
        """Where the newest halves with the id and the prompt of a request stand; a prompt must be known."""
        tokens = requests.number("prompt_tokens")[row]
        if tokens == MISSING:
            return _NO_INTS
        held = self.one()
        return np.flatnonzero((held.keys == requests.pair_key[row]) & (held.tokens == tokens))[-_MOST_LOOKED_AT:]


_EMPTY: Final = _Ring()


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
        if requests.has(Layer.PREFILL):
            self._add(self._single, requests.service, requests.layer == _PREFILL)
        if "completion_tokens" in requests.fields and requests.has(Layer.ENGINE):
            longer = (requests.layer == _ENGINE) & (requests.fields["completion_tokens"] > 1)
            self._add(self._longer, requests.service, longer)

    def _add(self, counter: Counter[str], services: Texts, mask: Mask) -> None:
        """Count the rows of each service, those without one first."""
        sizes = np.bincount(services.codes[mask] + 1, minlength=1)
        for code in np.flatnonzero(sizes).tolist():
            self._count(counter, services.values[code - 1] if code else "", int(sizes[code]))

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
        firsts, seconds = _of(requests, Layer.PREFILL), _of(requests, Layer.ENGINE)
        found = Counter[str]()
        if memory.first.size and seconds.size:
            memory.first = memory.first.whole()
            known = np.isin(requests.pair_key[seconds], memory.first.one().keys)
            found += self._find_first(requests, seconds[known], new)
        if memory.second.size and firsts.size:
            memory.second = memory.second.whole()
            known = np.isin(requests.pair_key[firsts], memory.second.one().keys)
            found += self._find_second(requests, firsts[known], new)
        self._remember(requests, firsts[new[firsts]], seconds[new[seconds]])
        return new, self._prefillers(found)

    def may_pair(self, requests: RequestBatch) -> bool:
        """Whether any of *requests* may be half of another one, of these or of what came before."""
        if requests.has(Layer.PREFILL) or len(self._memory.numbers or ()) + len(requests.service.values) > _MOST:
            return True
        if not self._memory.first.size:
            return False
        seconds = _of(requests, Layer.ENGINE)
        return bool(np.isin(requests.pair_key[seconds], self._memory.first.whole().one().keys).any())

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
            held = ring.one()
            near = [at for at in same if _follows(start, held.start_ns[at], held.end_ns[at])]
            if near:
                first = names[held.services[near[-1]]]
                self._memory.first = ring.without(near[-1])
                new[row] = first != requests.service.at(row)
                found[first] += int(new[row])
        return found

    def _find_second(self, requests: RequestBatch, rows: Ints, new: Mask) -> Counter[str]:
        """Take out first halves of what came before; their services, if those of the others are not the same."""
        names, found = list(self._memory.numbers or ()), Counter[str]()
        for row in rows.tolist():
            start, end, ring = requests.start_ns[row], requests.end_ns[row], self._memory.second
            held = ring.one()
            near = [at for at in ring.same(requests, row).tolist() if _follows(held.start_ns[at], start, end)]
            if near:
                self._memory.second = ring.without(near[0])
                service = requests.service.at(row) or ""
                new[row] = False
                found[service] += int(service != names[held.services[near[0]]])
        return found

    def _remember(self, requests: RequestBatch, firsts: Ints, seconds: Ints) -> None:
        memory = self._memory
        if len(memory.numbers or ()) > _MOST:
            # So many services are halves of nothing: names come from the wire.
            memory.first, memory.second, memory.numbers = _EMPTY, _EMPTY, {}
        if firsts.size:
            memory.first = self._with(memory.first, requests, firsts)
        if seconds.size:
            memory.second = self._with(memory.second, requests, seconds)

    def _with(self, ring: _Ring, requests: RequestBatch, rows: Ints) -> _Ring:
        rows = rows[-_MOST:]
        return ring.with_rows(requests, rows, self._numbers(requests.service.take(rows)))

    def _numbers(self, services: Texts) -> Ints:
        """A number of ours for the service of each row; names that are none share one."""
        known = self._memory.numbers if self._memory.numbers is not None else {}
        numbers = np.zeros(len(services.values) + 1, dtype=np.int64)
        codes = services.codes + 1
        for code in np.bincount(codes, minlength=1).nonzero()[0].tolist():
            name = services.values[code - 1] if code else ""
            numbers[code] = known.setdefault(name if len(name) <= LONGEST_SERVICE else "", len(known))
        return numbers[codes]


def _of(requests: RequestBatch, layer: Layer) -> Ints:
    """Rows of *layer* with an id that two engines share."""
    if not requests.has(layer):
        return _NO_INTS
    rows: Ints = ((requests.layer == int(layer)) & (requests.pair_key != 0)).nonzero()[0]
    return rows


def _follows(start_ns: int, first_start_ns: int, first_end_ns: int) -> bool:
    return bool(first_start_ns - EARLIEST_NS <= start_ns <= first_end_ns + AT_ONCE_NS)
