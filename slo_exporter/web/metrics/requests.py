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

from slo_exporter.insight.labels import MOST_SETS, Found, Labels, LabelSets
from slo_exporter.sli.records import NO_STAGE_TIMES, STAGES, Ints, Outcome, RequestBatch, StageTimes
from slo_exporter.sli.texts import missing_texts
from slo_exporter.web.metrics.exemplars import Shown
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
_TIMED: Final = ("e2e", *STAGES)
"""Durations that share their buckets."""
_PLACES: Final = {name: place for place, name in enumerate(_TIMED) if name in STAGES}
_SHOWN: Final = (*_TIMED, "ttft", "inter_token", *TOKENS.values())
"""Fields that are shown."""


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
        self._durations = Histogram(rows * len(_TIMED))
        self._first_token = Histogram(rows, FIRST_TOKEN_BOUNDS_NS)
        self._per_token = Histogram(rows, PER_TOKEN_BOUNDS_NS)
        self._lengths = Histogram(rows * len(PROMPT_LENGTHS), LENGTH_BOUNDS_NS)
        # Float: nobody checks that clients tell sensible numbers. NaN: nobody told any.
        self._tokens = np.full((rows, len(TOKENS)), np.nan)

    def add(self, batch: RequestBatch, parts: StageTimes = NO_STAGE_TIMES) -> None:
        """Count the requests of *batch* that are not shadowed, and *parts* whose request came in another export."""
        shown = Shown.of(batch)
        with self._lock:
            if len(shown.requests):
                self._add_requests(shown)
            if len(parts):
                self._add_parts(parts)

    def _add_requests(self, shown: Shown) -> None:
        batch, counted = shown.batch, shown.requests
        found = self._labels.found(batch.service.take(counted), batch.model.take(counted), batch.view[counted])
        rows = len(found.numbers)
        outcomes = np.bincount(found.position * _OUTCOMES + batch.outcome[counted], minlength=rows * _OUTCOMES)
        self._outcomes[found.numbers] += outcomes.reshape(rows, _OUTCOMES)
        fields = {name: batch.fields[name][counted] for name in _SHOWN if name in batch.fields}
        timed = [place for place, name in enumerate(_TIMED) if name in fields]
        if timed:
            columns = np.concatenate([fields[_TIMED[place]] for place in timed])
            self._durations.add(_parted(found, len(_TIMED), timed), columns, shown)
        for name, histogram in (("ttft", self._first_token), ("inter_token", self._per_token)):
            if name in fields:
                histogram.add(found, fields[name], shown)
        if "prompt_tokens" in fields and "e2e" in fields:
            self._add_lengths(fields["prompt_tokens"], fields["e2e"], found, shown)
        for place, name in enumerate(TOKENS.values()):
            if name in fields:
                self._add_tokens(place, found, fields[name])

    def _add_lengths(self, tokens: Ints, e2e: Ints, found: Found, shown: Shown) -> None:
        told = tokens >= 0
        position = found.position
        if not told.all():
            tokens, e2e, position = tokens[told], e2e[told], position[told]
            shown = Shown(shown.batch, shown.requests[told])
        length = np.searchsorted(PROMPT_EDGES, tokens, side="left")
        numbers = _parts_of(found.numbers, len(PROMPT_LENGTHS))
        self._lengths.add(Found(numbers, position * len(PROMPT_LENGTHS) + length), e2e, shown)

    def _add_parts(self, parts: StageTimes) -> None:
        places = np.array([_PLACES.get(name, -1) for name in parts.stage.values] + [-1], dtype=np.int64)
        place = places[parts.stage.codes]
        known = np.flatnonzero(place >= 0)
        if len(known):
            found = self._labels.found(parts.service.take(known), missing_texts(len(known)), parts.view[known])
            position = found.position * len(_TIMED) + place[known]
            self._durations.add(Found(_parts_of(found.numbers, len(_TIMED)), position), parts.duration_ns[known])

    def _add_tokens(self, place: int, found: Found, tokens: Ints) -> None:
        known, position = tokens >= 0, found.position
        if not known.all():
            tokens, position = tokens[known], position[known]
        rows = len(found.numbers)
        told = np.bincount(position, minlength=rows) > 0
        sums = np.bincount(position, tokens, minlength=rows)[told]
        numbers = found.numbers[told]
        before = self._tokens[numbers, place]
        self._tokens[numbers, place] = np.where(np.isnan(before), 0.0, before) + sums

    def snapshot(self) -> RequestSnapshot:
        """Everything counted so far, by labels."""
        with self._lock:
            named = sorted(self._labels.numbers.items())
            counted = self._outcomes.max(axis=1).tolist()
            sets = [(row, labels, None) for labels, row in named if counted[row]]
            whole = [(row * len(_TIMED), labels, None) for row, labels, _ in sets]
            families = {
                "inference_request_duration_seconds": self._durations.family(whole, with_empty=True),
                "inference_time_to_first_token_seconds": self._first_token.family(sets),
                "inference_time_per_output_token_seconds": self._per_token.family(sets),
                "inference_stage_duration_seconds": self._durations.family(_parts(named, _TIMED, STAGES), "stage"),
                "inference_request_duration_by_length_seconds": self._lengths.family(
                    _parts(named, PROMPT_LENGTHS, PROMPT_LENGTHS), "prompt_tokens"
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


def _parts_of(numbers: Ints, parts: int) -> Ints:
    """The row of each part of each label set, those of one set side by side."""
    return (numbers[:, np.newaxis] * parts + np.arange(parts)).ravel()


def _parted(found: Found, parts: int, places: Sequence[int]) -> Found:
    """The same rows once for each of *places*, one after the other: of some parts of their label sets."""
    position = (np.array(places)[:, np.newaxis] + found.position * parts).ravel()
    return Found(_parts_of(found.numbers, parts), position)


def _parts(
    named: Iterable[tuple[Labels, int]], parts: Sequence[str], shown: Sequence[str]
) -> list[tuple[int, Labels, str]]:
    """The row of each part of each label set that is *shown*."""
    places = [(parts.index(part), part) for part in shown]
    return [(row * len(parts) + at, labels, part) for labels, row in named for at, part in places]
