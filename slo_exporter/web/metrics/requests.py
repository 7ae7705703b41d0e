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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from threading import Lock
from typing import Final

import numpy as np

from slo_exporter.insight.labels import MOST_SETS, Labels, LabelSets
from slo_exporter.insight.steps import Steps
from slo_exporter.sli.records import MISSING, NO_STAGE_TIMES, STAGES, Ints, Outcome, RequestBatch, StageTimes
from slo_exporter.sli.texts import missing_texts
from slo_exporter.web.metrics.histogram import (
    BOUNDS_NS,
    FIRST_TOKEN_BOUNDS_NS,
    LENGTH_BOUNDS_NS,
    PER_TOKEN_BOUNDS_NS,
    Family,
    Histograms,
)
from slo_exporter.web.metrics.ordered import Ordered

TOKENS: Final = {"prompt": "prompt_tokens", "completion": "completion_tokens", "cached": "cached_tokens"}
"""Fields of the record by the kind of token they count."""

PROMPT_EDGES: Final = (512, 2048, 8192, 32768)
"""Upper bounds of the lengths of prompts that are told apart, inclusive: every second one of the breakdown's."""
PROMPT_LENGTHS: Final = ("<=512", "<=2k", "<=8k", "<=32k", ">32k")
"""Their names, as the breakdown writes them."""

_OUTCOMES: Final = len(Outcome)
_TIMED: Final = {
    **dict.fromkeys(("e2e", *STAGES), BOUNDS_NS),
    "ttft": FIRST_TOKEN_BOUNDS_NS,
    "inter_token": PER_TOKEN_BOUNDS_NS,
}
"""Durations that are shown, and the bounds of their buckets."""
_PLACES: Final = {name: place for place, name in enumerate(_TIMED)}
_E2E: Final = _PLACES["e2e"]
_PARTS: Final = {name: _PLACES[name] for name in STAGES}
_PROMPT: Final = tuple(TOKENS).index("prompt")
_EDGES: Final = Steps(np.array(PROMPT_EDGES, dtype=np.int64))
_LENGTHS: Final = {name: place for place, name in enumerate(PROMPT_LENGTHS, len(_TIMED))}
_UNTOLD: Final = len(_TIMED) + len(_LENGTHS)
"""Of prompts that do not say their length: a part that nobody is shown."""


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
        self._durations = Histograms(rows, (*_TIMED.values(), *(LENGTH_BOUNDS_NS for _ in _LENGTHS), ()))
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
        found = self._labels.found(batch.service.take(counted), batch.model.take(counted), batch.view[counted])
        rows = len(found.numbers)
        outcomes = np.bincount(found.position * _OUTCOMES + batch.outcome[counted], minlength=rows * _OUTCOMES)
        self._outcomes[found.numbers] += outcomes.reshape(rows, _OUTCOMES)
        ordered = Ordered.of(batch, counted, found)
        kinds, tokens = ordered.columns(TOKENS.values())
        if kinds:
            self._add_tokens(ordered, kinds, tokens)
        self._add_durations(ordered, tokens[kinds.index(_PROMPT)] if _PROMPT in kinds else None)

    def _add_durations(self, ordered: Ordered, prompt: Ints | None) -> None:
        """Each by its field; e2e also by the length of its *prompt*."""
        timed, columns = ordered.columns(_TIMED, more=1)
        columns[-1] = columns[timed.index(_E2E)] if _E2E in timed else MISSING
        length = np.full(columns.shape[1], _UNTOLD, dtype=np.int64)
        if prompt is not None:
            length = np.where(prompt < 0, _UNTOLD, _EDGES.of(prompt) + len(_TIMED))
        self._durations.add_columns(ordered, timed, columns, length)

    def _add_parts(self, parts: StageTimes) -> None:
        places = np.array([_PARTS.get(name, -1) for name in parts.stage.values] + [-1], dtype=np.int64)
        place = places[parts.stage.codes]
        known = np.flatnonzero(place >= 0)
        if len(known):
            found = self._labels.found(parts.service.take(known), missing_texts(len(known)), parts.view[known])
            self._durations.add(found, place[known], parts.duration_ns[known])

    def _add_tokens(self, ordered: Ordered, kinds: Sequence[int], tokens: Ints) -> None:
        kind, row = np.nonzero(ordered.runs.tell(tokens))
        sums = ordered.runs.sums(np.maximum(tokens, 0).astype(np.float64))
        at = ordered.numbers[row], np.array(kinds)[kind]
        self._tokens[at] = np.fmax(self._tokens[at], 0.0) + sums[kind, row]

    def snapshot(self) -> RequestSnapshot:
        """Everything counted so far, by labels."""
        with self._lock:
            named = sorted(self._labels.numbers.items())
            every = [(row, labels) for labels, row in named]
            counted = self._outcomes.max(axis=1).tolist()
            sets = [(row, labels) for labels, row in named if counted[row]]
            durations = self._durations
            families = {
                "inference_request_duration_seconds": durations.family(sets, {None: _E2E}, with_empty=True),
                "inference_time_to_first_token_seconds": durations.family(sets, {None: _PLACES["ttft"]}),
                "inference_time_per_output_token_seconds": durations.family(sets, {None: _PLACES["inter_token"]}),
                "inference_stage_duration_seconds": durations.family(every, _PARTS, "stage"),
                "inference_request_duration_by_length_seconds": durations.family(every, _LENGTHS, "prompt_tokens"),
            }
            rows = [row for row, _ in sets]
            outcomes, tokens = self._outcomes[rows].tolist(), self._tokens[rows].tolist()
            overflowed = self._labels.overflowed
        return RequestSnapshot(
            series=tuple(
                RequestSeries(labels, tuple(numbers)) for (_, labels), numbers in zip(sets, outcomes, strict=True)
            ),
            families=families,
            tokens=tuple(
                TokenSeries(labels, kind, number)
                for (_, labels), numbers in zip(sets, tokens, strict=True)
                for kind, number in zip(TOKENS, numbers, strict=True)
                if not isnan(number)
            ),
            overflowed=overflowed,
        )
