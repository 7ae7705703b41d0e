"""
Which services' failures cannot be seen.

Some engines write no span for a request that failed. Where nothing else of the
service tells of HTTP responses, its availability is 100 % whatever happens.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.sli.records import LONGEST_SERVICE, Layer, Mask, RequestBatch, View

_HOUR_NS: Final = 3600 * 10**9
"""What was seen longer ago says nothing of now."""
_PATIENCE_NS: Final = 60 * 10**9
"""An engine speaks so long before it is said to be alone: exporters send every few seconds."""
_MOST: Final = 10_000
"""Services remembered; of others nothing is said."""


@dataclass(slots=True)
class _Seen:
    """Event times of a service, in ns."""

    first_ns: int
    engine_ns: int
    http_ns: int


class Sight:
    """
    Sees engines and HTTP servers at work.

    Args:
        silent: frameworks that write no span for a request that failed.
    """

    def __init__(self, silent: Collection[str]) -> None:
        self._silent = frozenset(silent)
        self._seen: dict[str, _Seen] = {}

    def add(self, requests: RequestBatch) -> None:
        """Take note of requests, shadowed ones among them."""
        of_server = requests.view == View.SERVER
        engines = (
            of_server & np.isin(requests.layer, (Layer.ENGINE, Layer.PREFILL)) & requests.framework.among(self._silent)
        )
        for service, ended_ns in _newest(requests, engines).items():
            seen = self._of(service, ended_ns)
            if seen is not None:
                seen.engine_ns = max(seen.engine_ns, ended_ns)
        for service, ended_ns in _newest(requests, of_server & requests.yields).items():
            seen = self._of(service, ended_ns)
            if seen is not None:
                seen.http_ns = max(seen.http_ns, ended_ns)

    def is_blind(self, service: str, now_ns: int) -> bool:
        """Its engine speaks, and nothing that would tell of a failure."""
        seen = self._seen.get(service)
        if seen is None or seen.engine_ns < now_ns - _HOUR_NS:
            return False
        return seen.http_ns < now_ns - _HOUR_NS and seen.engine_ns - seen.first_ns >= _PATIENCE_NS

    def _of(self, service: str, ended_ns: int) -> _Seen | None:
        if service not in self._seen and len(self._seen) < _MOST:
            self._seen[service] = _Seen(ended_ns, 0, 0)
        return self._seen.get(service)


def _newest(requests: RequestBatch, mask: Mask) -> Mapping[str, int]:
    """When the newest request among *mask* of each service ended."""
    rows = np.flatnonzero(mask)
    rows = rows[np.argsort(requests.service.codes[rows], kind="stable")]
    codes, heads = np.unique(requests.service.codes[rows], return_index=True)
    if not codes.size:
        return {}
    newest = np.maximum.reduceat(requests.end_ns[rows], heads)
    named = (
        (requests.service.values[code], ended) for code, ended in zip(codes.tolist(), newest.tolist(), strict=True)
    )
    return {name: ended for name, ended in named if len(name) <= LONGEST_SERVICE}
