"""
What one pass over an export collects, however the export is written.

The decoders differ in how they come to a span; what makes a span acceptable,
where it is put and how a refused one is told is here, once.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np

from slo_exporter.ingest.otlp.columns import Cells, attributes_of, enums_of, services_of, words_of
from slo_exporter.ingest.otlp.errors import TooLargeError
from slo_exporter.ingest.otlp.refusals import FUTURE_NS, LARGEST_PART, LOCATIONS_TOLD, Limits, Refusals
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import texts_of

MOST_PARTS: Final = 2**19
"""Resources, scopes and spans of an export; 16 MiB hold 430,000 of the smallest valid spans."""

NO_PARENT: Final = bytes(8)

_SERVICE: Final = "service.name"
_INT64_MAX: Final = 2**63 - 1
_INTERNAL: Final = 1
_KINDS: Final = range(1, 6)
_STATUSES: Final = range(3)

Row = tuple[bytes, bytes, bytes, int, int, int, int, str]
"""An accepted span without its attributes: trace id, span id, parent id, start, end, kind, status, name."""
_Part = TypeVar("_Part")


class Walk:
    """
    Collects the resources, scopes and spans of one body.

    Attributes:
        limits: what a span must keep to.
        rows: the accepted spans.
        columns: their attributes, by asked-for key and row.
        resource_columns: the same of the resources.
        resources: how many resources were met.

    Args:
        span_keys: attribute keys asked for on spans.
        resource_keys: attribute keys asked for on resources.
        now_ns: when the export is judged.
        lateness_ns: a span that ended longer ago is refused.
    """

    def __init__(
        self, span_keys: frozenset[str], resource_keys: frozenset[str], *, now_ns: int, lateness_ns: int
    ) -> None:
        self.limits = Limits(oldest_ns=now_ns - lateness_ns, newest_ns=now_ns + FUTURE_NS)
        self.rows: list[Row] = []
        self.columns: dict[str, Cells] = {key: {} for key in span_keys}
        self.resource_columns: dict[str, Cells] = {key: {} for key in resource_keys | {_SERVICE}}
        self.resources = 0
        self._resource_keys = resource_keys
        self._lateness_ns = lateness_ns
        self._parts = 0
        self._scopes: list[tuple[str, int, int]] = []
        self._refused: Counter[str] = Counter()
        self._locations: dict[str, list[str]] = {}

    def bounded(self, parts: Sequence[_Part]) -> Sequence[_Part]:
        """
        Count *parts*, resources, scopes or spans, before anything is made of them.

        Raises:
            TooLargeError: with them there are over `MOST_PARTS`.
        """
        self._parts += len(parts)
        if self._parts > MOST_PARTS:
            raise TooLargeError(f"the body has over {MOST_PARTS} resources, scopes and spans")
        return parts

    def refuse(self, reason: str, place: str) -> None:
        """Note a span that is not accepted, a key of `REASONS`, and where it stands."""
        self._refused[reason] += 1
        places = self._locations.setdefault(reason, [])
        if len(places) < LOCATIONS_TOLD:
            places.append(place)

    def close_scope(self, name: str, first_row: int) -> None:
        """Say that all rows from *first_row* on stand in this scope of the newest resource."""
        self._scopes.append((name, self.resources - 1, len(self.rows) - first_row))

    def refusals(self) -> Refusals:
        """What was not accepted."""
        return Refusals(
            total=len(self.rows) + self._refused.total(),
            lateness_ns=self._lateness_ns,
            by_reason=dict(self._refused),
            locations={reason: tuple(places) for reason, places in self._locations.items()},
        )

    def batch(self) -> SpanBatch:
        """The accepted spans in columns."""
        rows = len(self.rows)
        trace, span, parent, start, end, kind, status, name = zip(*self.rows, strict=True) if rows else ((),) * 8
        names, owners, counts = zip(*self._scopes, strict=True) if self._scopes else ((),) * 3
        in_scope = np.repeat(np.arange(len(counts)), np.array(counts, dtype=np.int64))
        in_resource = np.array(owners, dtype=np.int64)[in_scope]
        resource = attributes_of(self.resource_columns, self.resources)
        return SpanBatch(
            trace_id=words_of(trace).reshape(-1, 2),
            span_id=words_of(span),
            parent_id=words_of(parent),
            # A start beyond int64 lies after any end all the same.
            start_ns=np.minimum(np.array(start, dtype=np.uint64), np.uint64(_INT64_MAX)).astype(np.int64),
            end_ns=np.array(end, dtype=np.int64),
            kind=enums_of(kind, _KINDS, _INTERNAL),
            status=enums_of(status, _STATUSES, 0),
            name=texts_of(name),
            scope=texts_of(names).take(in_scope),
            service=services_of(resource.get(_SERVICE), self.resources).take(in_resource),
            attributes=attributes_of(self.columns, rows),
            resource={key: c.take(in_resource) for key, c in resource.items() if key in self._resource_keys},
        )


def small(head: _Part, size: int) -> _Part:
    """
    Give a resource or scope of *size* bytes back.

    Raises:
        TooLargeError: it is over `LARGEST_PART`.
    """
    if size > LARGEST_PART:
        raise TooLargeError(f"a resource or scope is over {LARGEST_PART} bytes")
    return head
