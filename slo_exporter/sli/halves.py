"""
The two halves of a request, when they come in different exports.

An engine that prefilled for another one looks like one that was asked for a
single token. When the other half comes, with the same id and prompt, the first
one's service is known for what it is; from then on only second halves count.
"""

from typing import Final

import numpy as np

from slo_exporter.sli.records import Layer, Mask, RequestBatch

_UNNAMED: Final = "unknown_service"
"""Of services without a name nothing is learnt: everything else without one would be hidden with it."""
_MOST: Final = 10_000
"""First halves remembered: their other half follows within seconds."""


class Halves:
    """First halves seen lately, of services that are not known to prefill."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[str, int]] = {}
        """Service and prompt tokens by the key of the pair, the oldest first."""

    def admit(self, requests: RequestBatch) -> tuple[Mask, frozenset[str]]:
        """
        Which rows are not the second half of a request that counted, and which services prefill for others.

        A second half in the service of the first one is the same request again.
        """
        new, prefillers = np.ones(len(requests), dtype=np.bool_), set[str]()
        if self._first:
            keys = np.fromiter(self._first, dtype=np.uint64, count=len(self._first))
            is_second = (requests.layer == Layer.ENGINE) & np.isin(requests.pair_key, keys)
            for row in np.flatnonzero(is_second).tolist():
                service, tokens = self._first[int(requests.pair_key[row])]
                if tokens == int(requests.number("prompt_tokens")[row]):
                    new[row] = service != requests.service.at(row)
                    if new[row] and not service.startswith(_UNNAMED):
                        prefillers.add(service)
        self._remember(requests)
        return new, frozenset(prefillers)

    def _remember(self, requests: RequestBatch) -> None:
        for row in np.flatnonzero((requests.layer == Layer.PREFILL) & (requests.pair_key != 0)).tolist():
            tokens = int(requests.number("prompt_tokens")[row])
            self._first[int(requests.pair_key[row])] = (requests.service.at(row) or "", tokens)
        while len(self._first) > _MOST:
            del self._first[next(iter(self._first))]
