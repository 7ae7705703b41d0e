"""What is doubtful about the spans of exports."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.doubt_counts import Doubt
from slo_exporter.ingest.otlp.groups import Doubtful, by_value
from slo_exporter.ingest.otlp.layers import Collapsed
from slo_exporter.ingest.otlp.nesting import Every
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import MISSING, Ints, Mask, Outcome, RequestBatch
from slo_exporter.sli.texts import Texts

_SKEW_NS: Final = SECOND_NS
"""Clocks that NTP keeps are nearer to one another."""
_SLACK_NS: Final = 1_000_000
_MOST_SHARE: Final = 1.01
"""
Stages may exceed what they are stages of by a millisecond and a hundredth.

They are read from clocks of their own: vLLM's from a monotonic one in another process.
"""
_OK: Final = Outcome.OK.value
_INCOMPLETE: Final = Outcome.INCOMPLETE.value
"""Plain ints: numpy takes them faster."""
_REFUSED: Final[Mapping[str, Doubt]] = {"too_old": Doubt.LATE, "in_future": Doubt.IN_FUTURE}
_IDENTITIES: Final = (
    (("queue", "prefill"), "ttft"),
    (("ttft", "decode"), "e2e"),
    (("prefill", "decode"), "inference"),
    (("queue", "preprocess", "prefill", "decode", "postprocess"), "e2e"),
    (("queue", "preprocess", "inference", "postprocess"), "e2e"),
)
"""Stages, and what they fit into."""
_WHOLES: Final = frozenset(whole for _, whole in _IDENTITIES)
_TIMED: Final = tuple(sorted({name for parts, whole in _IDENTITIES for name in (*parts, whole)}))


def of_refusals(by_service: Mapping[tuple[str, str], int]) -> Counter[tuple[str, str]]:
    """Refused spans, by (service, reason)."""
    doubts = Counter[tuple[str, str]]()
    for (service, reason), count in by_service.items():
        doubts[service, _REFUSED.get(reason, Doubt.INVALID)] += count
    return doubts


def of_spans(spans: SpanBatch, negative: Mask, unmatched: Mask, now_ns: Sequence[int]) -> Doubtful:
    """Spans that are odd by themselves; *now_ns*: when each export came."""
    doubts = [(Doubt.NEGATIVE, negative), (Doubt.UNMATCHED, unmatched)]
    if spans.end_ns.max(initial=MISSING) > min(now_ns) + _SKEW_NS:
        latest = np.array(now_ns, dtype=np.int64) + _SKEW_NS
        doubts.append((Doubt.SKEWED, spans.end_ns > (latest if spans.exports is None else latest[spans.exports])))
    return _counted(spans.service, spans.exports, doubts)


def of_layers(spans: SpanBatch, every: Every, collapsed: Collapsed) -> Doubtful:
    """Request spans that ended outside of the request that they are a layer of."""
    if collapsed.is_flat:
        return Counter()
    [inner] = ((collapsed.owner >= 0) & ~collapsed.stands).nonzero()
    if not inner.size:
        return Counter()
    outer = every.rows[collapsed.owner[inner]]
    return _counted(spans.service, spans.exports, ((Doubt.SKEWED, _outside(spans, every.rows[inner], outer)),))


def of_parts(spans: SpanBatch, parts: Ints, above: Ints) -> Doubtful:
    """Parts, by row, that ended outside of the request *above* them."""
    owned = parts[above[parts] >= 0]
    return _counted(spans.service, spans.exports, ((Doubt.SKEWED, _outside(spans, owned, above[owned])),))


def _outside(spans: SpanBatch, inner: Ints, outer: Ints) -> Ints:
    """Those of *inner* spans, each once, that ended before, or long after, their outer one."""
    late = spans.end_ns[inner] > spans.end_ns[outer] + _SKEW_NS
    early = spans.end_ns[inner] < spans.start_ns[outer] - _SKEW_NS
    return inner[late | early]


def of_requests(requests: RequestBatch, exports: Ints | None, generative: Collection[str]) -> Doubtful:
    """
    Requests that say less, or more, than they should.

    Args:
        requests: of one export, or of several.
        exports: then the export of each.
        generative: frameworks of language models.
    """
    no_model, no_tokens = requests.model.codes < 0, _without_tokens(requests)
    if np.count_nonzero(no_model) or np.count_nonzero(no_tokens):
        is_generative = requests.framework.among(generative) & (requests.outcome == _OK)
        no_model &= is_generative
        no_tokens &= is_generative
    return _counted(
        requests.service,
        exports,
        (
            (Doubt.INCOMPLETE, requests.outcome == _INCOMPLETE),
            (Doubt.MODEL_MISSING, no_model),
            (Doubt.TOKENS_MISSING, no_tokens),
            (Doubt.STAGES_EXCEED, _exceed(requests)),
        ),
    )


def _without_tokens(requests: RequestBatch) -> Mask:
    without: Mask = requests.number("completion_tokens") == MISSING
    if np.count_nonzero(without):
        without &= requests.number("prompt_tokens") == MISSING
    return without


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
    most = {name: times[name] + _SLACK_NS for name in _WHOLES if name in times}
    for parts, whole in _IDENTITIES:
        columns = [times[name] for name in parts if name in times]
        if columns and whole in times:
            total = sum(columns[1:], columns[0])
            if np.count_nonzero(total > most[whole]):  # hardly ever, and quickly said
                exceed |= (times[whole] > 0) & (total - _SLACK_NS > times[whole] * _MOST_SHARE)
    return exceed


def _counted(services: Texts, exports: Ints | None, doubts: Sequence[tuple[Doubt, Mask | Ints]]) -> Doubtful:
    """Count rows by export, service and doubt; they are marked in a mask, or counted by number."""
    counted = Doubtful()
    for doubt, rows in doubts:
        if np.count_nonzero(rows) if rows.dtype == np.bool_ else rows.size:
            for export, code, count in by_value(services, exports, rows):
                counted[export, services.values[code], str(doubt)] += count  # of texts, values may repeat
    return counted
