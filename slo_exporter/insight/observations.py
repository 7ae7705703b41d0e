"""
From records to durations of stages, each with the group it belongs to.

Rules of this module:

1. A request whose e2e is unknown, or that is the shadow of another, is left out;
   outcomes are not looked at.
2. Inference is the record's own, else the sum of what is known of prefill and
   decode.
3. Unaccounted is e2e less its stages. A request whose stages are longer than
   itself has none, but for 1 ms or 1 % of it, whichever is more: it is counted.
4. Missing is not 0.

An observation is two numbers: the minute of its end, and a key of 32 bits
(`GROUP_BITS` of group, then measure, then bucket). Its nanoseconds are added
to those of the same minute, group and measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from slo_exporter.insight.histogram import buckets_of
from slo_exporter.insight.labels import LabelSets
from slo_exporter.insight.runs import Runs
from slo_exporter.insight.steps import Floats, Steps
from slo_exporter.sli.distinct import distinct
from slo_exporter.sli.records import MISSING, Ints, RequestBatch, StageTimes
from slo_exporter.sli.texts import missing_texts


class Measure(IntEnum):
    """What is observed of a request."""

    E2E = 0
    QUEUE = 1
    PREPROCESS = 2
    INFERENCE = 3
    PREFILL = 4
    DECODE = 5
    POSTPROCESS = 6
    DATA_WAIT = 7
    UNACCOUNTED = 8
    TTFT = 9
    INTER_TOKEN = 10
    OVER_ACCOUNTED = 11
    """A request whose stages are longer than itself: counted, without a duration."""

    @property
    def field(self) -> str:
        """Its name, which is that of the record's field if there is one."""
        return self.name.lower()


STAGES: Final = (Measure.QUEUE, Measure.PREPROCESS, Measure.INFERENCE, Measure.POSTPROCESS, Measure.DATA_WAIT)
"""Follow one another: together with what is unaccounted they are the request."""
INNER: Final = (Measure.PREFILL, Measure.DECODE)
"""Are inside inference."""

TOKEN_EDGES: Final = (128, 512, *(thousand << 10 for thousand in (1, 2, 4, 8, 16, 32)))
"""Upper bounds of the buckets of prompt and completion lengths, inclusive; k is 1,024."""
TOKEN_BUCKETS: Final = (
    *(f"<={edge}" if edge < 1024 else f"<={edge >> 10}k" for edge in TOKEN_EDGES),
    f">{TOKEN_EDGES[-1] >> 10}k",
    "unknown",
)
"""Their names, shortest first; the last is of requests that do not say."""
ORIGINS: Final = 2
"""0: what a request says of itself; 1: times whose request came in another export."""

BUCKET_BITS: Final = 11
MEASURE_BITS: Final = 4
GROUP_BITS: Final = 17
CELL_BITS: Final = MEASURE_BITS + BUCKET_BITS
GROUPS_PER_SET: Final = len(TOKEN_BUCKETS) ** 2 * ORIGINS
"""Groups of one label set. 500 sets and those of the overflow fit into `GROUP_BITS`."""
MINUTE_NS: Final = 60 * 10**9

_TOLERANCE_NS: Final = 10**6
_TOLERANCE_PART: Final = 100
_LONGEST_NS: Final = 1 << 60
"""36 years: sums of six such durations still fit."""
_OF_RECORD: Final = {m.field: m for m in Measure if m not in (Measure.UNACCOUNTED, Measure.OVER_ACCOUNTED)}
_DERIVED: Final = (Measure.INFERENCE, Measure.UNACCOUNTED, Measure.OVER_ACCOUNTED)
_UNKNOWN_TOKENS: Final = len(TOKEN_BUCKETS) - 1
_EDGES: Final = Steps(np.array(TOKEN_EDGES, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Observations:
    """Observations of some requests, and their sums."""

    groups: Ints
    """Shape (k,), ascending, distinct: the minute since 1970, and below it 32 bits of key, of group alone."""
    cells: Ints
    """Shape (n,): of each observation the position in *groups*, then measure, then bucket."""
    sum_cells: Ints
    """Shape (s,), ascending, distinct: position in *groups* and measure."""
    sums_ns: Floats
    """Shape (s,): of all observations of each."""


def of_requests(batch: RequestBatch, labels: LabelSets) -> Observations | None:
    """What the requests of *batch* say of themselves; None if none has an e2e."""
    wanted = batch.number("e2e") >= 0
    wanted &= ~batch.shadowed
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return None
    sets = labels.of(batch.service.take(rows), batch.model.take(rows), batch.view[rows])
    lengths = _lengths(batch, rows)
    group = ((sets * len(TOKEN_BUCKETS) + lengths[0]) * len(TOKEN_BUCKETS) + lengths[1]) * ORIGINS
    groups, position = _grouped(batch.end_ns[rows], group)
    return _observed(groups, Runs.of(position, rows), batch.fields)


def _observed(groups: Ints, runs: Runs, fields: Mapping[str, Ints]) -> Observations:
    """What requests tell, those of a group in a run."""
    measures, columns = _measured(runs, fields)
    floats = columns.astype(np.float64)
    cells = buckets_of(columns, floats)
    cells |= measures[:, np.newaxis] << BUCKET_BITS
    cells |= runs.position << CELL_BITS
    told = cells.ravel()
    if columns.min() < 0:
        told = cells[columns >= 0]
        np.maximum(floats, 0, out=floats)
    ascending = np.argsort(measures)
    group, column = np.nonzero(runs.tell(columns)[ascending].T)
    sums = runs.sums(floats)[ascending][column, group]
    return Observations(groups, told, (group << MEASURE_BITS) | measures[ascending][column], sums)


def of_parts(parts: StageTimes, labels: LabelSets) -> Observations | None:
    """What *parts* say of requests in other exports; None if there is none of a stage."""
    if not len(parts):
        return None
    codes = np.array([_BY_FIELD.get(name, -1) for name in parts.stage.values] + [-1], dtype=np.int64)
    measure = codes[parts.stage.codes]
    rows = np.flatnonzero(measure >= 0)
    if not len(rows):
        return None
    sets = labels.of(parts.service.take(rows), missing_texts(len(rows)), parts.view[rows])
    unknown = _UNKNOWN_TOKENS * len(TOKEN_BUCKETS) + _UNKNOWN_TOKENS
    groups, position = _grouped(parts.end_ns[rows], (sets * len(TOKEN_BUCKETS) ** 2 + unknown) * ORIGINS + 1)
    durations, sum_cells = parts.duration_ns[rows], (position << MEASURE_BITS) | measure[rows]
    told, place = distinct(sum_cells)
    sums = np.bincount(place, durations).astype(np.float64, copy=False)
    return Observations(groups, (sum_cells << BUCKET_BITS) | buckets_of(durations), told, sums)


def _grouped(end_ns: Ints, group: Ints) -> tuple[Ints, Ints]:
    """The distinct minutes and groups, see `Observations.groups`, and where among them each row's are."""
    first, last = int(end_ns.min()) // MINUTE_NS, int(end_ns.max()) // MINUTE_NS
    if first == last:
        groups, position = distinct(group)
        return (first << 32) | (groups << CELL_BITS), position
    minutes, minute = distinct(end_ns // MINUTE_NS)
    mixed, position = distinct((minute << GROUP_BITS) | group)
    minute, group = np.divmod(mixed, 1 << GROUP_BITS)
    return (minutes[minute] << 32) | (group << CELL_BITS), position


_BY_FIELD: Final = {measure.field: int(measure) for measure in (*STAGES, *INNER)}


def _measured(runs: Runs, fields: Mapping[str, Ints]) -> tuple[Ints, Ints]:
    """Every measure that some may have, and its column, negative where there is none."""
    known = {measure: fields[name] for name, measure in _OF_RECORD.items() if name in fields}
    columns = runs.columns([*known.values()], more=len(_DERIVED))
    measures: list[Measure] = [*known]
    for measure, values in _derived(dict(zip(known, columns, strict=False))).items():
        if measure not in known:
            measures.append(measure)
        columns[measures.index(measure)] = values
    return np.array(measures, dtype=np.int64), columns[: len(measures)]


def _derived(known: Mapping[Measure, Ints]) -> dict[Measure, Ints]:
    """What follows from other columns, be it instead of what is *known*."""
    derived: dict[Measure, Ints] = {}
    inner = [known[measure] for measure in INNER if measure in known]
    own = known.get(Measure.INFERENCE)
    if inner and (own is None or own.min() < 0):
        summed = np.where(np.maximum.reduce(inner) >= 0, _sum(inner), -1)
        derived[Measure.INFERENCE] = summed if own is None else np.where(own >= 0, own, summed)
    e2e, every = known[Measure.E2E], {**known, **derived}
    left = np.minimum(e2e, _LONGEST_NS) - _sum([every[stage] for stage in STAGES if stage in every])
    if left.min() < 0:
        is_over = left < -np.maximum(_TOLERANCE_NS, e2e // _TOLERANCE_PART)
        left = np.where(is_over, -1, np.maximum(left, 0))
        if is_over.any():
            derived[Measure.OVER_ACCOUNTED] = np.where(is_over, 0, -1)
    derived[Measure.UNACCOUNTED] = left
    return derived


def _sum(columns: Sequence[Ints]) -> Ints:
    """Of what is known: missing is the least number there is."""
    total = np.zeros(1, dtype=np.int64)
    for column in columns:
        is_plain = column.min() >= 0 and column.max() <= _LONGEST_NS
        total = total + (column if is_plain else np.minimum(np.maximum(column, 0), _LONGEST_NS))
    return total


def _lengths(batch: RequestBatch, rows: Ints) -> Ints:
    """The buckets of the lengths of prompt and completion: shape (2, n)."""
    tokens = np.empty((2, len(rows)), dtype=np.int64)
    for row, name in zip(tokens, ("prompt_tokens", "completion_tokens"), strict=True):
        row[:] = batch.fields[name][rows] if name in batch.fields else MISSING
    buckets = _EDGES.of(tokens)
    if tokens.min() < 0:
        buckets[tokens < 0] = _UNKNOWN_TOKENS
    return buckets
