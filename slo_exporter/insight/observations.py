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

An observation is three numbers: the minute of its end, a key of 32 bits
(`GROUP_BITS` of group, then measure, then bucket) and its nanoseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from slo_exporter.insight.histogram import buckets_of
from slo_exporter.insight.labels import LabelSets
from slo_exporter.insight.steps import Steps
from slo_exporter.sli.distinct import distinct
from slo_exporter.sli.records import Ints, Mask, RequestBatch, Rows, StageTimes
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
_OF_RECORD: Final = tuple(m for m in Measure if m not in (Measure.UNACCOUNTED, Measure.OVER_ACCOUNTED))
_UNKNOWN_TOKENS: Final = len(TOKEN_BUCKETS) - 1
_EDGES: Final = Steps(np.array(TOKEN_EDGES, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Observations:
    """One row an observation."""

    groups: Ints
    """Shape (k,), ascending, distinct: the minute since 1970, and below it 32 bits of key, of group alone."""
    cells: Ints
    """Shape (n,): position in *groups*, then measure, then bucket."""
    duration_ns: Ints
    """Shape (n,)."""

    def __len__(self) -> int:
        """How many."""
        return len(self.cells)


def of_requests(batch: RequestBatch, labels: LabelSets) -> Observations | None:
    """What the requests of *batch* say of themselves; None if none has an e2e."""
    wanted = ~batch.shadowed & (batch.number("e2e") >= 0)
    if not wanted.any():
        return None
    rows = slice(None) if wanted.all() else np.flatnonzero(wanted)
    durations = _measured({m: batch.fields[m.field][rows] for m in _OF_RECORD if m.field in batch.fields})
    sets = labels.of(batch.service.take(rows), batch.model.take(rows), batch.view[rows])
    prompt, completion = (_token_bucket(batch, name, rows) for name in ("prompt_tokens", "completion_tokens"))
    group = ((sets * len(TOKEN_BUCKETS) + prompt) * len(TOKEN_BUCKETS) + completion) * ORIGINS
    groups, position = _grouped(batch.end_ns[rows], group)
    each = [_observed(measure, position, values) for measure, values in durations.items()]
    cells, values = (np.concatenate(columns) for columns in zip(*each, strict=True))
    return Observations(groups, cells | buckets_of(values), values)


def of_parts(parts: StageTimes, labels: LabelSets) -> Observations | None:
    """What *parts* say of requests in other exports; None if there is none of a stage."""
    codes = np.array([_BY_FIELD.get(name, -1) for name in parts.stage.values] + [-1], dtype=np.int64)
    measure = codes[parts.stage.codes]
    rows = np.flatnonzero(measure >= 0)
    if not len(rows):
        return None
    sets = labels.of(parts.service.take(rows), missing_texts(len(rows)), parts.view[rows])
    unknown = _UNKNOWN_TOKENS * len(TOKEN_BUCKETS) + _UNKNOWN_TOKENS
    groups, position = _grouped(parts.end_ns[rows], (sets * len(TOKEN_BUCKETS) ** 2 + unknown) * ORIGINS + 1)
    durations = parts.duration_ns[rows]
    return Observations(groups, position | (measure[rows] << BUCKET_BITS) | buckets_of(durations), durations)


def _grouped(end_ns: Ints, group: Ints) -> tuple[Ints, Ints]:
    """The distinct minutes and groups, see `Observations.groups`, and the first part of a cell of each row."""
    minutes, minute = distinct(end_ns // MINUTE_NS)
    mixed, position = distinct((minute << GROUP_BITS) | group)
    minute, group = np.divmod(mixed, 1 << GROUP_BITS)
    return (minutes[minute] << 32) | (group << CELL_BITS), position << CELL_BITS


_BY_FIELD: Final = {measure.field: int(measure) for measure in (*STAGES, *INNER)}


def _measured(known: Mapping[Measure, Ints]) -> dict[Measure, Ints]:
    """Every measure with a value somewhere, negative where there is none."""
    columns = dict(known)
    inner = [columns[measure] for measure in INNER if measure in columns]
    if inner:
        own = columns.get(Measure.INFERENCE)
        summed = np.where(_any_known(inner), _sum(inner), -1)
        columns[Measure.INFERENCE] = summed if own is None else np.where(own >= 0, own, summed)
    e2e = columns[Measure.E2E]
    left = np.minimum(e2e, _LONGEST_NS) - _sum([columns[measure] for measure in STAGES if measure in columns])
    is_over = left < -np.maximum(_TOLERANCE_NS, e2e // _TOLERANCE_PART)
    columns[Measure.UNACCOUNTED] = np.where(is_over, -1, np.maximum(left, 0))
    if is_over.any():
        columns[Measure.OVER_ACCOUNTED] = np.where(is_over, 0, -1)
    return columns


def _any_known(columns: Sequence[Ints]) -> Mask:
    known: Mask = columns[0] >= 0
    for column in columns[1:]:
        known = known | (column >= 0)
    return known


def _sum(columns: Sequence[Ints]) -> Ints:
    """Of what is known: missing is the least number there is."""
    total = np.zeros(1, dtype=np.int64)
    for column in columns:
        total = total + np.clip(column, 0, _LONGEST_NS)
    return total


def _token_bucket(batch: RequestBatch, name: str, rows: Rows) -> Ints:
    if name not in batch.fields:
        return np.full(len(batch.end_ns[rows]), _UNKNOWN_TOKENS, dtype=np.int64)
    tokens = batch.fields[name][rows]
    return np.where(tokens < 0, _UNKNOWN_TOKENS, _EDGES.of(np.maximum(tokens, 0)))


def _observed(measure: Measure, position: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Cells without their bucket, and what is known of *values*."""
    known = values >= 0
    if not known.all():
        position, values = position[known], values[known]
    return position | (int(measure) << BUCKET_BITS), values
