"""
Which services' failures cannot be seen.

Some engines write no span for a request that failed. Where nothing else of the
service tells of HTTP responses, its availability is 100 % whatever happens.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from slo_exporter.insight.runs import Runs
from slo_exporter.sli.distinct import distinct
from slo_exporter.sli.records import LONGEST_SERVICE, Mask, RequestBatch, View

_HOUR_NS: Final = 3600 * 10**9
"""What was seen longer ago says nothing of now."""
_PATIENCE_NS: Final = 60 * 10**9
"""An engine speaks so long before it is said to be alone: exporters send every few seconds."""
_SERVER: Final = int(View.SERVER)
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
        of_server = requests.view == _SERVER
        speaks = of_server & requests.is_engine
        if speaks.any():
            speaks &= requests.framework.among(self._silent)
        for service, ended_ns in _newest(requests, speaks):
            seen = self._of(service, ended_ns)
            if seen is not None:
                seen.engine_ns = max(seen.engine_ns, ended_ns)
        for service, ended_ns in _newest(requests, of_server & requests.yields):
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


def _newest(requests: RequestBatch, mask: Mask) -> Iterator[tuple[str, int]]:
    """When the newest request among *mask* of each service ended; a service may be there twice."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        return
    codes, position = distinct(requests.service.codes[rows].astype(np.int64))
    runs = Runs.of(position, rows)
    newest = np.maximum.reduceat(requests.end_ns[runs.rows], runs.firsts)
    for code, ended_ns in zip(codes.tolist(), newest.tolist(), strict=True):
        # Rows without a service have code -1.
        if code >= 0 and len(requests.service.values[code]) <= LONGEST_SERVICE:
            yield requests.service.values[code], ended_ns
