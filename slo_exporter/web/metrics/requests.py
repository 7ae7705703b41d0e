"""
Counters of inference requests since the start of this process.

Rules of this module:

1. Columns, not objects: Python runs once per distinct (service, model, view) of
   a batch, never once per request.
2. Bounded: label texts are cut, and past the limit of label sets both service
   and model become ``_other``; no input can make it grow further.
3. A duration is compared with a bucket's bound in whole nanoseconds, ``<=``.
4. A shadowed request is the shadow of one that is counted, so it is left out.
5. Durations of every outcome are shown: a request that failed after a minute
   was a slow one too. The newest of each bucket is its exemplar.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Final

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.sli.records import Ints, Outcome, RequestBatch, Texts, View
from slo_exporter.web.metrics.catalogue import LONGEST_LABEL
from slo_exporter.web.metrics.exemplars import Exemplars

BOUNDS_NS: Final = tuple(
    milliseconds * 10**6
    for milliseconds in (
        *(1, 2, 5, 10, 20, 50, 100, 200, 500),
        *(1_000, 2_000, 5_000, 10_000, 20_000, 30_000),
        *(60_000, 120_000, 300_000, 600_000),
    )
)
"""
Upper bounds of the duration buckets, inclusive.

From a cache hit to the longest generation that clients wait for: 1-2-5 steps up
to 20 s, then the usual timeouts.
"""

UNKNOWN: Final = "unknown"
"""Stands for a missing service or model."""
OTHER: Final = "_other"
"""Stands for every service and model past the limit."""

_VIEWS: Final = len(View)
_OUTCOMES: Final = len(Outcome)
_BUCKETS: Final = len(BOUNDS_NS) + 1
_BOUNDS: Final = np.array(BOUNDS_NS, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class RequestSeries:
    """The counters of one (service, model, view)."""

    labels: tuple[str, str, str]
    outcomes: tuple[int, ...]
    """Requests by `Outcome`."""
    buckets: tuple[int, ...]
    """Requests by duration bucket, not cumulative; the last is beyond all bounds."""
    seconds: float
    """Sum of all durations."""


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """The request metrics at one instant."""

    series: tuple[RequestSeries, ...]
    exemplars: Exemplars
    """One row for each of *series*, in the same order."""
    overflowed: int
    """Requests counted under `OTHER`."""


class RequestMetrics:
    """
    Counts requests by service, model, view and outcome, and their durations.

    One thread adds, another may take a snapshot at any time.

    Args:
        max_series: most (service, model, view) that are told apart; those of
            `OTHER`, one per view, come on top.
    """

    def __init__(self, max_series: int = 500) -> None:
        self._lock = Lock()
        self._max_series = max_series
        self._series: dict[tuple[str, str, str], int] = {}
        rows = max_series + _VIEWS
        self._outcomes = np.zeros((rows, _OUTCOMES), dtype=np.int64)
        self._buckets = np.zeros((rows, _BUCKETS), dtype=np.int64)
        # Float, because nanoseconds of many concurrent requests pass 2**63 within days.
        self._seconds = np.zeros(rows, dtype=np.float64)
        self._exemplars = Exemplars.empty(rows, _BUCKETS)
        self._overflowed = 0

    def add(self, batch: RequestBatch) -> None:
        """Count the requests of *batch* that are not shadowed."""
        counted = np.flatnonzero(~batch.shadowed)
        if not len(counted):
            return
        with self._lock:
            rows = self._rows_of(batch, counted)
            np.add.at(self._outcomes, (rows, batch.outcome[counted]), 1)
            self._add_durations(batch, counted, rows)

    def _add_durations(self, batch: RequestBatch, counted: Ints, rows: Ints) -> None:
        durations_ns = batch.number("e2e")[counted]
        # Missing is the least number there is.
        known = durations_ns >= 0
        counted, rows, durations_ns = counted[known], rows[known], durations_ns[known]
        cells = (rows, np.searchsorted(_BOUNDS, durations_ns, side="left"))
        np.add.at(self._buckets, cells, 1)
        np.add.at(self._seconds, rows, durations_ns / SECOND_NS)
        self._exemplars.add(batch, counted, cells)

    def snapshot(self) -> RequestSnapshot:
        """Everything counted so far, by labels."""
        with self._lock:
            names = sorted(self._series)
            rows = [self._series[labels] for labels in names]
            columns = [column[rows] for column in (self._outcomes, self._buckets, self._seconds)]
            exemplars, overflowed = self._exemplars.take(rows), self._overflowed
        series = (
            RequestSeries(labels, tuple(outcomes), tuple(buckets), seconds)
            for labels, outcomes, buckets, seconds in zip(names, *(c.tolist() for c in columns), strict=True)
        )
        return RequestSnapshot(tuple(series), exemplars, overflowed)

    def _rows_of(self, batch: RequestBatch, counted: Ints) -> Ints:
        """The row of each request of *counted*."""
        services, models = len(batch.service.values) + 1, len(batch.model.values) + 1
        # Codes from 0: the missing text comes first.
        service = batch.service.codes[counted].astype(np.int64) + 1
        model = batch.model.codes[counted].astype(np.int64) + 1
        mixed = np.ravel_multi_index((service, model, batch.view[counted]), (services, models, _VIEWS))
        distinct, position, sizes = np.unique(mixed, return_inverse=True, return_counts=True)
        names = zip(*(codes.tolist() for codes in np.unravel_index(distinct, (services, models, _VIEWS))), strict=True)
        labels = ((_label(batch.service, s), _label(batch.model, m), View(v).name.lower()) for s, m, v in names)
        return np.array(list(self._rows(labels, sizes)), dtype=np.int64)[position]

    def _rows(self, labels: Iterator[tuple[str, str, str]], sizes: Ints) -> Iterator[int]:
        """The row of each label set, made while there is room."""
        for wanted, size in zip(labels, sizes.tolist(), strict=True):
            row = self._series.get(wanted)
            if row is None and len(self._series) < self._max_series:
                row = self._series[wanted] = len(self._series)
            elif row is None:
                self._overflowed += size
                row = self._series.setdefault((OTHER, OTHER, wanted[2]), len(self._series))
            yield row


def _label(column: Texts, shifted: int) -> str:
    """The label of a code that was shifted by one; empty would be no label at all."""
    return (column.values[shifted - 1][:LONGEST_LABEL] if shifted else "") or UNKNOWN
