"""
The two halves of a request, when they come in different exports.

An engine that prefilled for another one looks like one that answered with a
single token. When the other half comes, with the same id and prompt and at once
after it, the first one's service is known for what it is; from then on only
second halves count. An engine that writes more than one token does not only
prefill: of such a service nothing is believed.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slo_exporter.sli.records import Ints, Layer, Mask, RequestBatch, Texts, Words

_UNNAMED: Final = "unknown_service"
"""Of services without a name nothing is learnt: everything else without one would be hidden with it."""
_MOST: Final = 10_000
"""Halves remembered: the other one follows within seconds."""
_EARLIEST_NS: Final = 1_000_000_000
_LATEST_NS: Final = 2_000_000_000
"""A second half starts so long before the first one did, its clock being off, or so long after its end."""
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
        """Where halves with the id and the prompt of a request stand."""
        is_same = (self.keys == requests.pair_key[row]) & (self.tokens == requests.number("prompt_tokens")[row])
        return np.flatnonzero(is_same)


_EMPTY: Final = _Ring(np.zeros(0, dtype=np.uint64), _NO_INTS, _NO_INTS, _NO_INTS, _NO_INTS)


class Halves:
    """What may have been halves of requests lately; what was admitted is tentative until `keep`."""

    def __init__(self) -> None:
        self._first, self._second = _EMPTY, _EMPTY
        self._kept = (_EMPTY, _EMPTY)
        self._names: dict[str, int] = {}
        self._writers: set[str] = set()
        """Services that may prefill, and wrote more than one token."""

    def keep(self) -> None:
        """What was admitted is counted."""
        self._kept = (self._first, self._second)

    def undo(self) -> None:
        """Forget what was admitted since the last `keep`."""
        self._first, self._second = self._kept

    def note(self, requests: RequestBatch) -> None:
        """Note which services write more than one token."""
        writes = (requests.layer == Layer.ENGINE) & (requests.number("completion_tokens") > 1)
        if len(self._writers) < _MOST and writes.any():
            codes = np.unique(requests.service.codes[writes]).tolist()
            self._writers.update(requests.service.values[code] for code in codes if code >= 0)

    def writes(self, requests: RequestBatch) -> Mask:
        """Requests of services that write more than one token."""
        return requests.service.among(self._writers)

    def admit(self, requests: RequestBatch) -> tuple[Mask, frozenset[str]]:
        """
        Which rows are not half of a request that counted, and which services prefill for others.

        A second half in the service of the first one is the same request again; so
        is a first half that comes after its second one.
        """
        new, prefillers = np.ones(len(requests), dtype=np.bool_), set[str]()
        has_key = requests.pair_key != 0
        firsts = has_key & (requests.layer == Layer.PREFILL)
        seconds = has_key & (requests.layer == Layer.ENGINE)
        if len(self._first.keys):
            self._find_first(
                requests, np.flatnonzero(seconds & np.isin(requests.pair_key, self._first.keys)), new, prefillers
            )
        if len(self._second.keys) and firsts.any():
            self._find_second(
                requests, np.flatnonzero(firsts & np.isin(requests.pair_key, self._second.keys)), new, prefillers
            )
        self._remember(requests, firsts & new, seconds & new)
        return new, frozenset(name for name in prefillers - self._writers if not name.startswith(_UNNAMED))

    def _find_first(self, requests: RequestBatch, rows: Ints, new: Mask, prefillers: set[str]) -> None:
        names = list(self._names)
        for row in rows.tolist():
            start, ring = requests.start_ns[row], self._first
            near = [
                at for at in ring.same(requests, row).tolist() if _follows(start, ring.start_ns[at], ring.end_ns[at])
            ]
            if near:
                first = names[ring.services[near[-1]]]
                self._first = ring.without(near[-1])
                new[row] = first != requests.service.at(row)
                prefillers |= {first} if new[row] else set()

    def _find_second(self, requests: RequestBatch, rows: Ints, new: Mask, prefillers: set[str]) -> None:
        names = list(self._names)
        for row in rows.tolist():
            start, end, ring = requests.start_ns[row], requests.end_ns[row], self._second
            near = [at for at in ring.same(requests, row).tolist() if _follows(ring.start_ns[at], start, end)]
            if near:
                self._second = ring.without(near[0])
                service = requests.service.at(row) or ""
                new[row] = False
                prefillers |= {service} if service != names[ring.services[near[0]]] else set()

    def _remember(self, requests: RequestBatch, firsts: Mask, seconds: Mask) -> None:
        if len(self._names) > _MOST:
            # So many services are halves of nothing: names come from the wire.
            self._first, self._second, self._names = _EMPTY, _EMPTY, {}
        for name, mask in (("_first", firsts), ("_second", seconds)):
            rows = np.flatnonzero(mask)[-_MOST:]
            if rows.size:
                numbers = self._numbers(requests.service.take(rows))
                setattr(self, name, getattr(self, name).with_rows(requests, rows, numbers))

    def _numbers(self, services: Texts) -> Ints:
        """A number of ours for the service of each row."""
        distinct, position = np.unique(services.codes, return_inverse=True)
        names = [services.values[code] if code >= 0 else "" for code in distinct.tolist()]
        numbers = [self._names.setdefault(name, len(self._names)) for name in names]
        return np.array(numbers, dtype=np.int64)[position]


def _follows(start_ns: int, first_start_ns: int, first_end_ns: int) -> bool:
    return bool(first_start_ns - _EARLIEST_NS <= start_ns <= first_end_ns + _LATEST_NS)
