"""
The two halves of a request, when they come in different exports.

An engine that prefilled for another one looks like one that answered with a
single token. When the other half comes, with the same id and prompt, the first
one's service is known for what it is; from then on only second halves count.
"""

from typing import Final

import numpy as np

from slo_exporter.sli.records import Ints, Layer, Mask, RequestBatch, Texts, Words

_UNNAMED: Final = "unknown_service"
"""Of services without a name nothing is learnt: everything else without one would be hidden with it."""
_MOST: Final = 10_000
"""First halves remembered: their other half follows within seconds."""


class Halves:
    """What may have been first halves lately."""

    def __init__(self) -> None:
        self._keys: Words = np.zeros(0, dtype=np.uint64)
        self._tokens: Ints = np.zeros(0, dtype=np.int64)
        self._services: Ints = np.zeros(0, dtype=np.int64)
        self._names: dict[str, int] = {}

    def admit(self, requests: RequestBatch) -> tuple[Mask, frozenset[str]]:
        """
        Which rows are not the second half of a request that counted, and which services prefill for others.

        A second half in the service of the first one is the same request again.
        """
        new, prefillers = np.ones(len(requests), dtype=np.bool_), set[str]()
        if len(self._keys):
            names = list(self._names)
            is_second = (requests.layer == Layer.ENGINE) & np.isin(requests.pair_key, self._keys)
            for row in np.flatnonzero(is_second).tolist():
                service = self._first_of(requests, row)
                if service is not None:
                    new[row] = names[service] != requests.service.at(row)
                    prefillers |= {names[service]} if new[row] else set()
        self._remember(requests)
        return new, frozenset(name for name in prefillers if not name.startswith(_UNNAMED))

    def _first_of(self, requests: RequestBatch, row: int) -> int | None:
        """The service of the first half of a request with the same prompt, the newest."""
        is_other = self._keys == requests.pair_key[row]
        others = np.flatnonzero(is_other & (self._tokens == requests.number("prompt_tokens")[row]))
        return int(self._services[others[-1]]) if others.size else None

    def _remember(self, requests: RequestBatch) -> None:
        rows = np.flatnonzero((requests.layer == Layer.PREFILL) & (requests.pair_key != 0))[-_MOST:]
        if not rows.size:
            return
        if len(self._names) > _MOST:
            # So many services prefill for nobody: names come from the wire.
            self._keys, self._tokens, self._services, self._names = self._keys[:0], self._tokens[:0], rows[:0], {}
        self._keys = np.concatenate([self._keys, requests.pair_key[rows]])[-_MOST:]
        self._tokens = np.concatenate([self._tokens, requests.number("prompt_tokens")[rows]])[-_MOST:]
        self._services = np.concatenate([self._services, self._numbers(requests.service.take(rows))])[-_MOST:]

    def _numbers(self, services: Texts) -> Ints:
        """A number of ours for the service of each row."""
        distinct, position = np.unique(services.codes, return_inverse=True)
        names = [services.values[code] if code >= 0 else "" for code in distinct.tolist()]
        numbers = [self._names.setdefault(name, len(self._names)) for name in names]
        return np.array(numbers, dtype=np.int64)[position]
