"""
What one pass over an export collects, however the export is written.

The decoders differ in how they come to a span; what makes a span acceptable,
where it is put and how a refused one is told is here, once.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeVar

import numpy as np

from slo_exporter.ingest.otlp.columns import (
    Cells,
    Times,
    attributes_of,
    enums_of,
    mask_of,
    nanoseconds_of,
    services_of,
    times_of,
    words_of,
)
from slo_exporter.ingest.otlp.errors import TooLargeError
from slo_exporter.ingest.otlp.refusals import FUTURE_NS, LARGEST_PART, LOCATIONS_TOLD, Limits, Refusals
from slo_exporter.ingest.otlp.spans import EXCEPTION, EXCEPTION_TYPE, STATUS_DESCRIPTION, SpanBatch
from slo_exporter.sli.texts import Texts, texts_of

MOST_PARTS: Final = 2**19
"""Resources, scopes and spans of an export; 16 MiB hold 430,000 of the smallest valid spans."""

NO_PARENT: Final = bytes(8)
NO_LISTS: Final[frozenset[str]] = frozenset()
"""Of resources no list is read."""

_SERVICE: Final = "service.name"
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
        lists: keys of spans whose arrays of texts are read.
        event_names: names of the events that anything is asked of.

    Args:
        span_keys: attribute keys asked for on spans.
        resource_keys: attribute keys asked for on resources.
        events: names of events asked for.
        lists: see above.
        now_ns: when the export is judged.
        lateness_ns: a span that ended longer ago is refused.
    """

    def __init__(
        self,
        span_keys: frozenset[str],
        resource_keys: frozenset[str],
        events: frozenset[str],
        lists: frozenset[str],
        *,
        now_ns: int,
        lateness_ns: int,
    ) -> None:
        self.limits = Limits(oldest_ns=now_ns - lateness_ns, newest_ns=now_ns + FUTURE_NS)
        self.rows: list[Row] = []
        self.columns: dict[str, Cells] = {key: {} for key in span_keys}
        self.resource_columns: dict[str, Cells] = {key: {} for key in resource_keys | {_SERVICE}}
        self.resources = 0
        self.lists = lists & span_keys
        self.event_names = events | {EXCEPTION} if EXCEPTION_TYPE in span_keys else events
        self._events: dict[str, Times] = {name: {} for name in events}
        self._lost_events: list[int] = []
        self._resource_keys = resource_keys
        self._lateness_ns = lateness_ns
        self._parts = 0
        self._scopes: list[tuple[str, int, int]] = []
        self._refused: defaultdict[str, Counter[int]] = defaultdict(Counter)
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

    def tell(self, description: str | None, lost_events: int) -> None:
        """Say of the newest span what few spans have: a status message, and a number of events that it lost."""
        if description:
            self.stand_in(STATUS_DESCRIPTION, description)
        if lost_events:
            self._lost_events.append(len(self.rows) - 1)

    def happened(self, name: str, time_ns: int) -> None:
        """Note an event of the newest span; the earliest of its name stays, and 0 is no time."""
        times = self._events.get(name)
        if times is not None and time_ns:
            row = len(self.rows) - 1
            times[row] = min(time_ns, times.get(row, time_ns))

    def stand_in(self, key: str, text: str | None) -> None:
        """Fill the attribute *key* of the newest span, if it is asked for and the span itself has none."""
        cells = self.columns.get(key)
        if cells is not None and text is not None:
            cells.setdefault(len(self.rows) - 1, text)

    def refuse(self, reason: str, place: str) -> None:
        """Note a span that is not accepted, a key of `REASONS`, and where it stands."""
        self._refused[reason][self.resources - 1] += 1
        places = self._locations.setdefault(reason, [])
        if len(places) < LOCATIONS_TOLD:
            places.append(place)

    def close_scope(self, name: str, first_row: int) -> None:
        """Say that all rows from *first_row* on stand in this scope of the newest resource."""
        self._scopes.append((name, self.resources - 1, len(self.rows) - first_row))

    def refusals(self) -> Refusals:
        """What was not accepted."""
        by_reason = {reason: owners.total() for reason, owners in self._refused.items()}
        return Refusals(
            total=len(self.rows) + sum(by_reason.values()),
            lateness_ns=self._lateness_ns,
            by_reason=by_reason,
            locations={reason: tuple(places) for reason, places in self._locations.items()},
            by_service=self._refused_by_service() if by_reason else {},
        )

    def _refused_by_service(self) -> dict[tuple[str, str], int]:
        services, counts = self._services, Counter[tuple[str, str]]()
        for reason, owners in self._refused.items():
            for resource, count in owners.items():
                counts[services.values[services.codes[resource]], reason] += count
        return dict(counts)

    @cached_property
    def _services(self) -> Texts:
        """The service of each resource, once all are met."""
        named = attributes_of({_SERVICE: self.resource_columns[_SERVICE]}, self.resources)
        return services_of(named.get(_SERVICE), self.resources)

    def batch(self) -> SpanBatch:
        """The accepted spans in columns."""
        rows = len(self.rows)
        trace, span, parent, start, end, kind, status, name = zip(*self.rows, strict=True) if rows else ((),) * 8
        names, owners, counts = zip(*self._scopes, strict=True) if self._scopes else ((),) * 3
        in_scope = np.repeat(np.arange(len(counts)), np.array(counts, dtype=np.int64))
        in_resource = np.array(owners, dtype=np.int64)[in_scope]
        resource = attributes_of({key: self.resource_columns[key] for key in self._resource_keys}, self.resources)
        return SpanBatch(
            trace_id=words_of(trace).reshape(-1, 2),
            span_id=words_of(span),
            parent_id=words_of(parent),
            # A start beyond int64 lies after any end all the same.
            start_ns=nanoseconds_of(start),
            end_ns=np.array(end, dtype=np.int64),
            kind=enums_of(kind, _KINDS, _INTERNAL),
            status=enums_of(status, _STATUSES, 0),
            name=texts_of(name),
            scope=texts_of(names).take(in_scope),
            service=self._services.take(in_resource),
            attributes=attributes_of(self.columns, rows),
            resource={key: column.take(in_resource) for key, column in resource.items()},
            events=times_of(self._events, rows),
            lost_events=mask_of(self._lost_events, rows),
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
