"""One export, span by span: which is a record, and why every other is none."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slo_exporter.ingest.otlp.claims import Claim
from slo_exporter.ingest.otlp.conventions.convention import Part
from slo_exporter.ingest.otlp.conventions.fields import Provenance, Provenances
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.parts import WALLED
from slo_exporter.ingest.otlp.conventions.texts import said
from slo_exporter.ingest.otlp.explanation import Ignored, Record
from slo_exporter.ingest.otlp.layers import Collapsed, collapse
from slo_exporter.ingest.otlp.near_miss import nearest_miss, what_is_missing
from slo_exporter.ingest.otlp.nesting import Every
from slo_exporter.ingest.otlp.recognition import Recognition
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.admission import Admission
from slo_exporter.sli.joining import first_rows, join, requests_of
from slo_exporter.sli.records import MISSING, Ints, Layer, Outcome, RequestBatch, View
from slo_exporter.sli.texts import Texts, texts_of

_TWICE: Final = "repeated: the same span stands before it in this export"
_BEFORE: Final = "repeated: the same span came in an earlier export"
_ID_BEFORE: Final = "same request id as a request of an earlier export, and their times overlap: it counted there"
_REPEATS: Final = "a worker of a higher rank: it repeats what the first one tells"
_YIELDS: Final = (
    "yields to the engine: this service has one, whose own spans stand for what went well;"
    " it counts for SLOs that select on HTTP"
)
_TOLD: Final = "the engine's request tells of this failure; it counts for SLOs that select on HTTP"
_BEHIND: Final = (
    "work of an engine behind another service: what stands in front of it counts; its stages are in the breakdown"
)
_FIRST_HALF: Final = "it prefilled: another engine goes on with the request, which counts there"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a row of the requests comes from."""

    row: int
    """Of the spans."""
    request_id: str | None
    provenance: dict[str, Provenance]


class Verdicts:
    """
    What becomes of each span of one export.

    Args:
        recognition: as the server recognises.
        spans: of one export.
    """

    def __init__(self, recognition: Recognition, spans: SpanBatch) -> None:
        self._spans = spans
        self._records: dict[int, Record] = {}
        self._reasons: dict[int, str] = {}
        self._recognition = recognition
        claims, unmatched = recognition.claims(spans)
        provenances: Provenances = {}
        every = recognition.told(spans, claims, unmatched, provenances).every
        collapsed = collapse(spans, every, provenances)
        self._requests = recognition.standing(collapsed)
        self._roles = recognition.roles(spans, claims) | collapsed.roles
        sources = [source for claim in claims for source in _sources(spans, claim)]
        for at, source in enumerate(sources):
            found = ((name, int(column[at])) for name, column in provenances.items())
            source.provenance.update((name, Provenance(value)) for name, value in found if value)
        ids = _ids_of_inner(sources, collapsed)
        self._sources = [_named(sources[at], ids.get(at)) for at in np.flatnonzero(collapsed.stands).tolist()]
        self._provenances = {source.row: source.provenance for source in sources}
        for claim in claims:
            self._explain(claim)
        self._explain_layers(every, collapsed)
        for row in np.flatnonzero(unmatched).tolist():
            self._reasons[row] = nearest_miss(self._span(row), recognition.conventions)

    def records(self) -> list[Record]:
        """What counts, in the order of the spans."""
        return [self._records[row] for row in sorted(self._records)]

    def ignored(self) -> list[Ignored]:
        """Every other span, in order."""
        return [Ignored(self._name(row), reason) for row, reason in sorted(self._reasons.items())]

    def admit(self, admission: Admission, earlier: AbstractSet[int]) -> frozenset[int]:
        """
        Let the requests be admitted.

        Args:
            admission: of the exports before this one.
            earlier: fingerprints of their requests.

        Returns:
            The fingerprints of this one's.
        """
        first = first_rows(self._requests)
        for at in np.setdiff1d(np.arange(len(self._requests)), first).tolist():
            self._reasons[self._sources[at].row] = _TWICE
        unique = self._requests.take(first)
        joined = join(unique)
        admitted = admission.admit([(joined, self._roles)], now_ns=0)
        admission.keep()
        yields = dict(zip(admitted.requests.fingerprint.tolist(), admitted.requests.shadowed.tolist(), strict=True))
        behind = frozenset(admitted.behind.fingerprint.tolist())
        marks = joined.fingerprint.tolist()
        for at, group in enumerate(_groups(unique)):
            sources = [self._sources[number] for number in first[group].tolist()]
            joins = f"part of {self._called(sources[0].row)}: same request id, and their times overlap"
            self._reasons |= {source.row: joins for source in sources[1:]}
            if marks[at] in behind:
                is_half = joined.layer[at] == Layer.PREFILL
                self._reasons[sources[0].row] = _FIRST_HALF if is_half else _BEHIND
            elif marks[at] not in yields:
                self._reasons[sources[0].row] = _BEFORE if marks[at] in earlier else _ID_BEFORE
            elif yields[marks[at]]:
                self._reasons[sources[0].row] = _YIELDS if joined.outcome[at] == Outcome.OK else _TOLD
            else:
                self._records[sources[0].row] = self._record(joined, at, sources)
        return frozenset(marks)

    def _record(self, joined: RequestBatch, at: int, sources: Sequence[_Source]) -> Record:
        numbers = {name: int(column[at]) for name, column in joined.fields.items() if column[at] != MISSING}
        is_negative = any(self._is_negative(source.row) for source in sources)
        high, low = joined.trace_id[at].tolist()
        return Record(
            framework=joined.framework.at(at) or "",
            view=View(joined.view[at]),
            service=joined.service.at(at) or "",
            model=joined.model.at(at),
            request_id=sources[0].request_id,
            trace_id=f"{high:016x}{low:016x}",
            span_id=f"{joined.span_id[at]:016x}",
            numbers=numbers,
            outcome=Outcome(joined.outcome[at]),
            provenance=_provenance(sources, numbers, joined.model.at(at)),
            flags=("negative_duration",) if is_negative else (),
        )

    def _explain(self, claim: Claim) -> None:
        """Say why the probes and the parts of a convention are no requests."""
        for row in claim.probes.tolist():
            self._reasons[row] = claim.convention.probe_reason
        above = claim.above(self._spans).tolist()
        for part, rows in claim.parts:
            for row in rows.tolist():
                self._reasons[row] = self._reason_of_part(claim, part, row, above[row])

    def _reason_of_part(self, claim: Claim, part: Part, row: int, owner: int) -> str:
        of_first_rank = Match(ranks=claim.convention.requests.ranks)
        higher_rank = what_is_missing(of_first_rank, self._span(row))
        if higher_rank:
            return higher_rank[0]
        if owner == WALLED:
            return _REPEATS
        if owner < 0:
            return f"a part in {claim.convention.framework}, never a request; none stands above it in this export"
        told = self._provenances[owner]
        fields = [fill.field for fill in part.fills if told.get(fill.field) is Provenance.PART]
        is_used = bool(fields) and not self._is_negative(row)
        return f"part of {self._called(owner)}" + (f", fills {' and '.join(fields)}" if is_used else "")

    def _explain_layers(self, every: Every, collapsed: Collapsed) -> None:
        """Say why request spans are none that stand."""
        rows = every.rows.tolist()
        for at in np.flatnonzero(~collapsed.stands).tolist():
            owner, convention = int(collapsed.owner[at]), every.conventions[int(every.of[at])]
            if owner >= 0:
                reason = f"part of {self._called(rows[owner])}: the same request, a layer of its own"
            elif convention.counts:
                reason = _FIRST_HALF
            else:
                reason = f"a part in {convention.framework}, never a request; none stands above it in this export"
            self._reasons[rows[at]] = reason

    def _is_negative(self, row: int) -> bool:
        return bool(self._spans.start_ns[row] > self._spans.end_ns[row])

    def _span(self, row: int) -> SpanBatch:
        """One span without the texts of the others, which every question would go through."""
        span = self._spans.take(np.array([row]))
        alone = {key: replace(column, text=_alone(column.text)) for key, column in span.attributes.items()}
        return replace(span, name=_alone(span.name), scope=_alone(span.scope), attributes=alone)

    def _name(self, row: int) -> str:
        return self._spans.name.at(row) or ""

    def _called(self, row: int) -> str:
        return f"{self._name(row)} {int(self._spans.span_id[row]):016x}"


def _ids_of_inner(sources: Sequence[_Source], collapsed: Collapsed) -> dict[int, str]:
    """By row of a request that stands, the first request id that those it took in have."""
    found: dict[int, str] = {}
    for source, owner in zip(sources, collapsed.owner.tolist(), strict=True):
        if source.request_id is not None:
            found.setdefault(owner, source.request_id)
    return found


def _named(source: _Source, request_id: str | None) -> _Source:
    return source if source.request_id is not None else replace(source, request_id=request_id)


def _alone(text: Texts) -> Texts:
    return texts_of([text.at(0)])


def _sources(spans: SpanBatch, claim: Claim) -> Iterator[_Source]:
    ids = said(spans.attributes.get(claim.convention.request_id), len(spans))
    for row in claim.requests.tolist():
        yield _Source(row, ids.at(row), {})


def _provenance(sources: Sequence[_Source], numbers: Mapping[str, int], model: str | None) -> dict[str, Provenance]:
    """Where each number and the model come from; a model that no span named is the operator's."""
    found: dict[str, Provenance] = {}
    for source in reversed(sources):
        found |= source.provenance
    told = {name: found.get(name, Provenance.DERIVED) for name in numbers}
    return told if model is None else {**told, "model": found.get("model", Provenance.DERIVED)}


def _groups(batch: RequestBatch) -> Sequence[Ints]:
    """The rows of each request, in the order of `join`."""
    order, heads = requests_of(batch)
    if len(heads) == len(batch):
        return [np.array([row]) for row in range(len(batch))]
    return np.split(order, heads[1:])
