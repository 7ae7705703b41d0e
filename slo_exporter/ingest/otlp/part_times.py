"""What the parts of requests tell: fields of the request above them, or of nobody here."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slo_exporter.ingest.otlp import doubts
from slo_exporter.ingest.otlp.conventions.convention import Convention, Part
from slo_exporter.ingest.otlp.conventions.fill import Fill, Measured
from slo_exporter.ingest.otlp.conventions.parts import Parts, filling, orphaned
from slo_exporter.ingest.otlp.groups import Doubtful, Homeless
from slo_exporter.ingest.otlp.spans import SpanBatch, concat_spans
from slo_exporter.sli.records import Ints, StageTimes
from slo_exporter.sli.texts import texts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTimes:
    """What the parts of the requests of one convention tell."""

    fills: Parts = ()
    """Fields of requests in the same export."""
    homeless: Sequence[Homeless] = ()
    """Time in stages whose request is in another one."""
    doubts: Doubtful = field(default_factory=Doubtful)


def told_by_parts(
    spans: SpanBatch, convention: Convention, parts: Sequence[tuple[Part, Ints]], requests_above: Callable[[], Ints]
) -> PartTimes:
    """
    Say what *parts*, with their rows, tell.

    Args:
        spans: of one export, or of several.
        convention: whose parts.
        parts: what claims which rows.
        requests_above: per span the request that it is a part of; not asked where no part tells anything.
    """
    wanted = [(fill, rows) for part, rows in parts for fill in part.fills]
    if not wanted:
        return PartTimes()
    above = requests_above()
    distinct = np.unique(np.concatenate([rows for _, rows in wanted]))
    return PartTimes(
        fills=_united([(fill, filling(spans, fill, rows, above)) for fill, rows in wanted]),
        homeless=[*_homeless(spans, convention, wanted, above)],
        doubts=doubts.of_parts(spans, distinct, above),
    )


def _united(parts: Parts) -> Parts:
    """One entry a field: the parts of all kinds that fill it in the same way."""
    kinds: dict[tuple[str, Measured], list[int]] = {}
    for at, (fill, _) in enumerate(parts):
        kinds.setdefault((fill.field, fill.measured), []).append(at)
    return [(parts[at[0]][0], concat_spans([parts[each][1] for each in at])) for at in kinds.values()]


def _homeless(
    spans: SpanBatch, convention: Convention, wanted: Sequence[tuple[Fill, Ints]], above: Ints
) -> Iterator[Homeless]:
    for fill, rows in wanted:
        alone = rows[above[rows] == -1]
        if fill.measured is not Measured.TIME or not fill.alone or not alone.size:
            continue
        start, end = fill.interval(spans, alone)
        parts = replace(spans.take(alone), start_ns=start, end_ns=end)
        kept, times = orphaned(parts)
        stages = StageTimes(
            end_ns=parts.end_ns[kept],
            duration_ns=times,
            view=np.full(len(kept), convention.view, dtype=np.uint8),
            service=parts.service.take(kept),
            stage=texts_of([fill.field] * len(kept)),
        )
        yield Homeless(stages, None if parts.exports is None else parts.exports[kept])
