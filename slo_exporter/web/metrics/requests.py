"""
Counters of inference requests since the start of this process.

Rules of this module:

1. Columns, not objects: Python runs once per distinct (service, model, view) of
   a batch, never once per request.
2. Bounded by `LabelSets`: past a limit the model, or both service and model,
   become ``_other``.
3. A shadowed request is the shadow of one that is counted, so it is left out.
4. Durations of every outcome are shown: a request that failed after a minute
   was a slow one too. The newest of each bucket is its exemplar.
5. A stage whose request came in another export counts too; its model is
   unknown, and it has no exemplar.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from threading import Lock
from typing import Final

import numpy as np

from slo_exporter.insight.labels import MOST_SETS, Labels, LabelSets
from slo_exporter.sli.records import (
    NO_STAGE_TIMES,
    STAGES,
    Ints,
    Outcome,
    RequestBatch,
    StageTimes,
    missing_texts,
)
from slo_exporter.web.metrics.histogram import (
    FIRST_TOKEN_BOUNDS_NS,
    LENGTH_BOUNDS_NS,
    PER_TOKEN_BOUNDS_NS,
    Family,
    Histogram,
)

TOKENS: Final = {"prompt": "prompt_tokens", "completion": "completion_tokens", "cached": "cached_tokens"}
"""Fields of the record by the kind of token they count."""

PROMPT_EDGES: Final = (512, 2048, 8192, 32768)
"""Upper bounds of the lengths of prompts that are told apart, inclusive: every second one of the breakdown's."""
PROMPT_LENGTHS: Final = ("<=512", "<=2k", "<=8k", "<=32k", ">32k")
"""Their names, as the breakdown writes them."""

_OUTCOMES: Final = len(Outcome)


@dataclass(frozen=True, slots=True)
class RequestSeries:
    """How the requests of one label set ended."""

    labels: Labels
    outcomes: tuple[int, ...]
    """Requests by `Outcome`."""


@dataclass(frozen=True, slots=True)
class TokenSeries:
    """Tokens of one label set and kind."""

    labels: Labels
    kind: str
    tokens: float


@dataclass(frozen=True, slots=True)
class RequestSnapshot:
    """The request metrics at one instant."""

    series: tuple[RequestSeries, ...]
    families: Mapping[str, Family]
    """Histograms by the name of their metric."""
    tokens: tuple[TokenSeries, ...]
    """Of those kinds that any request told."""
    overflowed: int
    """Requests and stages counted under ``_other``."""


class RequestMetrics:
    """
    Counts requests by service, model, view and outcome, their durations, stages and tokens.

    One thread adds, another may take a snapshot at any time.

    Args:
        max_series: most (service, model, view) that are told apart; those of
            ``_other``, one per view, come on top.
    """

    def __init__(self, max_series: int = MOST_SETS) -> None:
        self._lock = Lock()
        self._labels = LabelSets(max_series)
        rows = self._labels.room
        self._outcomes = np.zeros((rows, _OUTCOMES), dtype=np.int64)
        self._durations = Histogram(rows)
        self._first_token = Histogram(rows, FIRST_TOKEN_BOUNDS_NS)
        self._per_token = Histogram(rows, PER_TOKEN_BOUNDS_NS)
        self._stages = Histogram(rows * len(STAGES))
        self._lengths = Histogram(rows * len(PROMPT_LENGTHS), LENGTH_BOUNDS_NS)
        # Float: nobody checks that clients tell sensible numbers. NaN: nobody told any.
        self._tokens = np.full((rows, len(TOKENS)), np.nan)

    def add(self, batch: RequestBatch, parts: StageTimes = NO_STAGE_TIMES) -> None:
        """Count the requests of *batch* that are not shadowed, and *parts* whose request came in another export."""
        counted = np.flatnonzero(~batch.shadowed)
        with self._lock:
            if len(counted):
                self._add_requests(batch, counted)
            if len(parts):
                self._add_parts(parts)

    def _add_requests(self, batch: RequestBatch, counted: Ints) -> None:
        rows = self._labels.of(batch.service.take(counted), batch.model.take(counted), batch.view[counted])
        np.add.at(self._outcomes, (rows, batch.outcome[counted]), 1)
        histograms = {"e2e": self._durations, "ttft": self._first_token, "inter_token": self._per_token}
        for name, histogram in histograms.items():
            if name in batch.fields:
                histogram.add(rows, batch.fields[name][counted], batch, counted)
        self._add_stages(batch, counted, rows)
        if "prompt_tokens" in batch.fields and "e2e" in batch.fields:
            self._add_lengths(batch, counted, rows)
        for place, name in enumerate(TOKENS.values()):
            if name in batch.fields:
                self._add_tokens(place, rows, batch.fields[name][counted])

    def _add_stages(self, batch: RequestBatch, counted: Ints, rows: Ints) -> None:
        known = [(place, name) for place, name in enumerate(STAGES) if name in batch.fields]
        if known:
            self._stages.add(
                np.concatenate([rows * len(STAGES) + place for place, _ in known]),
                np.concatenate([batch.fields[name][counted] for _, name in known]),
                batch,
                np.tile(counted, len(known)),
            )

    def _add_lengths(self, batch: RequestBatch, counted: Ints, rows: Ints) -> None:
        told = np.flatnonzero(batch.fields["prompt_tokens"][counted] >= 0)
        counted, rows = counted[told], rows[told]
        length = np.searchsorted(PROMPT_EDGES, batch.fields["prompt_tokens"][counted], side="left")
        self._lengths.add(rows * len(PROMPT_LENGTHS) + length, batch.fields["e2e"][counted], batch, counted)

    def _add_parts(self, parts: StageTimes) -> None:
        places = np.array([STAGES.index(n) if n in STAGES else -1 for n in parts.stage.values] + [-1], dtype=np.int64)
        place = places[parts.stage.codes]
        known = np.flatnonzero(place >= 0)
        if len(known):
            rows = self._labels.of(parts.service.take(known), missing_texts(len(known)), parts.view[known])
            self._stages.add(rows * len(STAGES) + place[known], parts.duration_ns[known])

    def _add_tokens(self, place: int, rows: Ints, tokens: Ints) -> None:
        known = tokens >= 0
        rows, tokens = rows[known], tokens[known]
        column = self._tokens[:, place]
        column[rows] = np.nan_to_num(column[rows])
        np.add.at(column, rows, tokens)

    def snapshot(self) -> RequestSnapshot:
        """Everything counted so far, by labels."""
        with self._lock:
            named = sorted(self._labels.numbers.items())
            counted = self._outcomes.max(axis=1).tolist()
            sets = [(row, labels, None) for labels, row in named if counted[row]]
            families = {
                "inference_request_duration_seconds": self._durations.family(sets, with_empty=True),
                "inference_time_to_first_token_seconds": self._first_token.family(sets),
                "inference_time_per_output_token_seconds": self._per_token.family(sets),
                "inference_stage_duration_seconds": self._stages.family(_parts(named, STAGES), "stage"),
                "inference_request_duration_by_length_seconds": self._lengths.family(
                    _parts(named, PROMPT_LENGTHS), "prompt_tokens"
                ),
            }
            rows = [row for row, _, _ in sets]
            outcomes, tokens = self._outcomes[rows].tolist(), self._tokens[rows].tolist()
            overflowed = self._labels.overflowed
        return RequestSnapshot(
            series=tuple(
                RequestSeries(labels, tuple(numbers)) for (_, labels, _), numbers in zip(sets, outcomes, strict=True)
            ),
            families=families,
            tokens=tuple(
                TokenSeries(labels, kind, number)
                for (_, labels, _), numbers in zip(sets, tokens, strict=True)
                for kind, number in zip(TOKENS, numbers, strict=True)
                if not isnan(number)
            ),
            overflowed=overflowed,
        )


def _parts(named: Iterable[tuple[Labels, int]], parts: Sequence[str]) -> list[tuple[int, Labels, str]]:
    """The row of each part of each label set."""
    return [(row * len(parts) + at, labels, part) for labels, row in named for at, part in enumerate(parts)]
