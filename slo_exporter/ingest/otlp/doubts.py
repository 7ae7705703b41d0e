"""What is doubtful about the spans of one export."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.doubt_counts import Doubt
from slo_exporter.ingest.otlp.layers import Collapsed
from slo_exporter.ingest.otlp.nesting import Every
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import MISSING, Ints, Mask, Outcome, RequestBatch, Texts

_SKEW_NS: Final = SECOND_NS
"""Clocks that NTP keeps are nearer to one another."""
_SLACK_NS: Final = 1_000_000
_MOST_SHARE: Final = 1.01
"""
Stages may exceed what they are stages of by a millisecond and a hundredth.

They are read from clocks of their own: vLLM's from a monotonic one in another process.
"""
_REFUSED: Final[Mapping[str, Doubt]] = {"too_old": Doubt.LATE, "in_future": Doubt.IN_FUTURE}
_IDENTITIES: Final = (
    (("queue", "prefill"), "ttft"),
    (("ttft", "decode"), "e2e"),
    (("prefill", "decode"), "inference"),
    (("queue", "preprocess", "prefill", "decode", "postprocess"), "e2e"),
    (("queue", "preprocess", "inference", "postprocess"), "e2e"),
)
"""Stages, and what they fit into."""
_TIMED: Final = tuple(sorted({name for parts, whole in _IDENTITIES for name in (*parts, whole)}))


def of_refusals(by_service: Mapping[tuple[str, str], int]) -> Counter[tuple[str, str]]:
    """Refused spans, by (service, reason)."""
    doubts = Counter[tuple[str, str]]()
    for (service, reason), count in by_service.items():
        doubts[service, _REFUSED.get(reason, Doubt.INVALID)] += count
    return doubts


def of_spans(spans: SpanBatch, unmatched: Mask, now_ns: int) -> Counter[tuple[str, str]]:
    """Spans that are odd by themselves."""
    return _counted(
        spans.service,
        (
            (Doubt.NEGATIVE, spans.start_ns > spans.end_ns),
            (Doubt.SKEWED, spans.end_ns > now_ns + _SKEW_NS),
            (Doubt.UNMATCHED, unmatched),
        ),
    )


def of_layers(spans: SpanBatch, every: Every, collapsed: Collapsed) -> Counter[tuple[str, str]]:
    """Request spans that ended outside of the request that they are a layer of."""
    inner = np.flatnonzero((collapsed.owner >= 0) & ~collapsed.stands)
    if not inner.size:
        return Counter()
    outer = every.rows[collapsed.owner[inner]]
    return _counted(spans.service, ((Doubt.SKEWED, _outside(spans, every.rows[inner], outer)),))


def of_parts(spans: SpanBatch, parts: Ints, above: Ints) -> Counter[tuple[str, str]]:
    """Parts, by row, that ended outside of the request *above* them."""
    owned = parts[above[parts] >= 0]
    return _counted(spans.service, ((Doubt.SKEWED, _outside(spans, owned, above[owned])),))


def _outside(spans: SpanBatch, inner: Ints, outer: Ints) -> Mask:
    """Per span of the export whether it is one of *inner* and ended before, or long after, its outer one."""
    outside = np.zeros(len(spans), dtype=np.bool_)
    late = spans.end_ns[inner] > spans.end_ns[outer] + _SKEW_NS
    early = spans.end_ns[inner] < spans.start_ns[outer] - _SKEW_NS
    outside[inner[late | early]] = True
    return outside


def of_requests(requests: RequestBatch, generative: Collection[str]) -> Counter[tuple[str, str]]:
    """Requests that say less, or more, than they should; *generative*: frameworks of language models."""
    is_generative = requests.framework.among(generative) & (requests.outcome == Outcome.OK)
    no_tokens = (requests.number("completion_tokens") == MISSING) & (requests.number("prompt_tokens") == MISSING)
    return _counted(
        requests.service,
        (
            (Doubt.INCOMPLETE, requests.outcome == Outcome.INCOMPLETE),
            (Doubt.MODEL_MISSING, is_generative & (requests.model.codes < 0)),
            (Doubt.TOKENS_MISSING, is_generative & no_tokens),
            (Doubt.STAGES_EXCEED, _exceed(requests)),
        ),
    )


def generative(conventions: Sequence[Convention]) -> frozenset[str]:
    """Frameworks that tell how many tokens came."""
    return frozenset(
        convention.framework
        for convention in conventions
        if "completion_tokens" in {*convention.fields, *(derived.field for derived in convention.derived)}
    )


def _exceed(requests: RequestBatch) -> Mask:
    """Some stages are longer than what they are stages of; a request tells of it once."""
    exceed = np.zeros(len(requests), dtype=np.bool_)
    # Missing is 0 here: nothing exceeds what is missing.
    times = {name: np.maximum(requests.fields[name], 0) for name in _TIMED if name in requests.fields}
    for parts, whole in _IDENTITIES:
        columns = [times[name] for name in parts if name in times]
        if columns and whole in times:
            used = sum(columns[1:], columns[0])
            exceed |= (times[whole] > 0) & (used - _SLACK_NS > times[whole] * _MOST_SHARE)
    return exceed


def _counted(services: Texts, doubts: Sequence[tuple[Doubt, Mask]]) -> Counter[tuple[str, str]]:
    counted = Counter[tuple[str, str]]()
    for doubt, count in _by_service(services, doubts):
        counted[doubt] += count  # of texts, values may repeat
    return counted


def _by_service(services: Texts, doubts: Sequence[tuple[Doubt, Mask]]) -> Iterator[tuple[tuple[str, str], int]]:
    for doubt, mask in doubts:
        if mask.any():
            counts = np.bincount(services.codes[mask] + 1, minlength=len(services.values) + 1)[1:]
            for code in np.flatnonzero(counts).tolist():
                yield (services.values[code], str(doubt)), int(counts[code])
