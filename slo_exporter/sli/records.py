"""
The request record, in columns: one row a request, per view.

Rules of this module:

1. A missing number is `MISSING`, a missing text is code -1. Missing is not 0.
2. Durations are whole nanoseconds, so that thresholds compare exactly.
3. Row i of every column is the same request.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slo_exporter.sli.cuts import Cut, mended
from slo_exporter.sli.texts import Texts, concat_texts, missing_texts, texts_of

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Rows: TypeAlias = Ints | Mask | slice
"""Some rows of a column."""

MISSING: int = int(np.iinfo(np.int64).min)
"""Stands for "no value" in every integer column."""

UNKNOWN_SERVICE = "unknown_service"
"""
Stands for a service.name that is missing, empty or no text.

SDKs call a service so too, some with the name of a program behind it.
Source: OpenTelemetry semantic conventions, resource attribute ``service.name``.
"""
LONGEST_SERVICE = 255
"""Characters of a service's name that is remembered: what is longer is no name."""


class View(IntEnum):
    """Who saw the request. Views are counted apart; an SLO names one."""

    SERVER = 0
    GATEWAY = 1
    CLIENT = 2


class Outcome(IntEnum):
    """How the request ended."""

    OK = 0
    ERROR = 1
    INCOMPLETE = 2
    RATE_LIMITED = 3
    CLIENT_ERROR = 4
    CANCELLED = 5


class Layer(IntEnum):
    """What a request's span is of, as far as other spans may tell of the same request."""

    PLAIN = 0
    HTTP = 1
    """A plain HTTP span: in a service with an engine it counts only when not ok."""
    ENGINE = 2
    """An engine's, or a gateway's call: where something in front of it counts, it does not."""
    PREFILL = 3
    """An engine's that may only have prefilled what another one went on with."""
    FRONT = 4
    """Of what stands in front of engines, and counts in their stead."""


class Kind(IntEnum):
    """What a number field measures, and so which unit its threshold takes."""

    DURATION = 0
    COUNT = 1
    RATIO = 2
    """In whole billionths; of GPUs."""


FIELDS: Mapping[str, Kind] = {
    "e2e": Kind.DURATION,
    "queue": Kind.DURATION,
    "preprocess": Kind.DURATION,
    "prefill": Kind.DURATION,
    "decode": Kind.DURATION,
    "inference": Kind.DURATION,
    "postprocess": Kind.DURATION,
    "ttft": Kind.DURATION,
    "inter_token": Kind.DURATION,
    "prompt_tokens": Kind.COUNT,
    "completion_tokens": Kind.COUNT,
    "cached_tokens": Kind.COUNT,
    "step": Kind.DURATION,
    "data_wait": Kind.DURATION,
    "samples": Kind.COUNT,
}
"""
Number fields of a record: durations in nanoseconds, counts as they are.

The last three are of a training step.
"""

TEXT_FIELDS = ("model", "framework")
"""Text fields that a selector may name beside attributes and ``view``."""


_COLUMNS: Final = (
    *("start_ns", "end_ns", "trace_id", "span_id", "fingerprint", "request_key", "pair_key"),
    *("view", "outcome", "layer", "shadowed"),
)
"""Those of a `RequestBatch` that are arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBatch:
    """Requests of one export, or of several, one row each."""

    start_ns: Ints
    end_ns: Ints
    """Event time: the slice that counts a request is the one of its end."""
    trace_id: Words
    """Shape (n, 2): the 16 bytes as two big-endian words. For exemplars and explanations only."""
    span_id: Words
    fingerprint: Words
    """64-bit hash of the span (trace id, span id, kind, service)."""
    request_key: Words
    """64-bit hash of (service, view, request id); 0 = no request id."""
    view: NDArray[np.uint8]
    outcome: NDArray[np.uint8]
    layer: NDArray[np.uint8]
    """`Layer`."""
    pair_key: Words
    """
    64-bit hash of (trace, request id), which two engines share that serve one request; 0 = none.

    Of an HTTP row the request_key, or else the fingerprint, of the engine's row that tells of the same failure.
    """
    shadowed: Mask
    """It did yield: counts only for SLOs whose selector names an HTTP attribute."""
    service: Texts
    model: Texts
    framework: Texts
    fields: Mapping[str, Ints] = field(default_factory=dict)
    """Number columns by name of `FIELDS`; an absent column is missing everywhere."""
    attributes: Mapping[str, Texts] = field(default_factory=dict)
    """Text of each attribute key that a selector asks for (span, then resource)."""
    cut: "Cut[RequestBatch] | None" = field(default=None, init=False, repr=False, compare=False)
    """Of which batch this is a slice; None of what is none, or was made of one with another column."""

    def __len__(self) -> int:
        """How many requests."""
        return len(self.end_ns)

    def has(self, layer: Layer) -> bool:
        """Whether any request is of *layer*; to look through bytes costs less than a step of numpy."""
        return int(layer) in self.layer.tobytes()

    @property
    def yields(self) -> Mask:
        """Plain HTTP spans."""
        plain: Mask = self.layer == Layer.HTTP
        return plain

    @property
    def is_engine(self) -> Mask:
        """Spans of engines, and calls of gateways."""
        engines: Mask = (self.layer == Layer.ENGINE) | (self.layer == Layer.PREFILL)
        return engines

    def number(self, name: str) -> Ints:
        """The column *name* of `FIELDS`, `MISSING` where unknown."""
        column = self.fields.get(name)
        return np.full(len(self), MISSING, dtype=np.int64) if column is None else column

    def text(self, key: str) -> Texts:
        """The text column that a selector key names."""
        if key == "service.name":
            return self.service
        if key in TEXT_FIELDS:
            return self.model if key == "model" else self.framework
        column = self.attributes.get(key)
        return missing_texts(len(self)) if column is None else column

    def take(self, rows: Rows) -> "RequestBatch":
        """The same columns for some rows; of a slice they are views."""
        if isinstance(rows, slice) and rows == slice(0, len(self)):
            return self
        taken = RequestBatch(
            **{name: getattr(self, name)[rows] for name in _COLUMNS},
            service=self.service.take(rows),
            model=self.model.take(rows),
            framework=self.framework.take(rows),
            fields={name: column[rows] for name, column in self.fields.items()},
            attributes={key: column.take(rows) for key, column in self.attributes.items()},
        )
        if isinstance(rows, slice) and rows.step is None:
            start, _, _ = rows.indices(len(self))
            object.__setattr__(taken, "cut", Cut(self, start, start + len(taken)))
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """
    Time in stages whose request came in another export, one row each.

    They belong in distributions of their stage, never in a count.
    """

    end_ns: Ints
    duration_ns: Ints
    """Never negative, never `MISSING`."""
    view: NDArray[np.uint8]
    service: Texts
    stage: Texts
    """A duration of `FIELDS`."""

    def __len__(self) -> int:
        """How many."""
        return len(self.end_ns)

    def take(self, rows: Rows) -> "StageTimes":
        """The same columns for some rows; of a slice they are views."""
        return StageTimes(
            end_ns=self.end_ns[rows],
            duration_ns=self.duration_ns[rows],
            view=self.view[rows],
            service=self.service.take(rows),
            stage=self.stage.take(rows),
        )


NO_STAGE_TIMES = StageTimes(
    end_ns=np.zeros(0, dtype=np.int64),
    duration_ns=np.zeros(0, dtype=np.int64),
    view=np.zeros(0, dtype=np.uint8),
    service=missing_texts(0),
    stage=missing_texts(0),
)

STAGES = ("queue", "preprocess", "prefill", "decode", "inference", "postprocess", "data_wait")
"""The durations that are stages on a request's way; ``prefill`` and ``decode`` lie within ``inference``."""


def stages_of(batch: RequestBatch) -> StageTimes:
    """Time in the stages of requests that do not count."""
    return staged(batch)[0]


def staged(batch: RequestBatch) -> tuple[StageTimes, Ints]:
    """Time in the stages of requests, and the request of each."""
    known = [(name, np.flatnonzero(batch.fields[name] >= 0)) for name in STAGES if name in batch.fields]
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *(rows for _, rows in known)])
    times = StageTimes(
        end_ns=batch.end_ns[rows],
        duration_ns=np.concatenate([rows[:0], *(batch.fields[name][rows_] for name, rows_ in known)]),
        view=batch.view[rows],
        service=batch.service.take(rows),
        stage=texts_of([name for name, rows_ in known for _ in range(len(rows_))]),
    )
    return times, rows


def concat_stages(times: Sequence[StageTimes]) -> StageTimes:
    """Stage times one after the other."""
    times = [each for each in times if len(each)] or [NO_STAGE_TIMES]
    if len(times) == 1:
        return times[0]
    return StageTimes(
        end_ns=np.concatenate([each.end_ns for each in times]),
        duration_ns=np.concatenate([each.duration_ns for each in times]),
        view=np.concatenate([each.view for each in times]),
        service=concat_texts([each.service for each in times]),
        stage=concat_texts([each.stage for each in times]),
    )


def concat(batches: Sequence[RequestBatch]) -> RequestBatch:
    """Batches one after the other, at least one; slices that are neighbours in one batch are not copied."""
    if len(batches) == 1:
        return batches[0]
    cuts = mended(b.cut or Cut(b, 0, len(b)) for b in batches)
    if len(cuts) < len(batches):
        return concat([cut.whole.take(slice(cut.start, cut.stop)) for cut in cuts])
    return RequestBatch(
        **{name: np.concatenate([getattr(b, name) for b in batches]) for name in _COLUMNS},
        service=concat_texts([b.service for b in batches]),
        model=concat_texts([b.model for b in batches]),
        framework=concat_texts([b.framework for b in batches]),
        fields={n: np.concatenate([b.number(n) for b in batches]) for n in _names(b.fields for b in batches)},
        attributes={k: concat_texts([b.text(k) for b in batches]) for k in _names(b.attributes for b in batches)},
    )


def _names(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    return sorted({name for mapping in mappings for name in mapping})
