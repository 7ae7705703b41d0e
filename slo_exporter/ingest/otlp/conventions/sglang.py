"""
SGLang 0.5.3 to 0.5.23: one INTERNAL span a request, its threads below it, their slices below those.

The root carries the figures of the tokenizer's clock from 0.5.9 on. Its
``time_in_model_prefill`` begins when the request is handed to the scheduler, so
that it holds the queue, and ``time_in_model_inference`` does too: slices of the
scheduler tell more exactly. Up to 0.5.9 no slice tells of the queue: the one of
prefill begins with it, and from 0.5.5 on an event says when the request was
scheduled; of 0.5.3 prefill holds the queue.

Every worker of a tensor or pipeline group repeats the slices; the first speaks.
Under data parallel attention the workers of one group share a request and none
of them need be worker 0, so a thread of a later group always speaks.

An aborted request has its reason on a thread's span; its own span is silent.

Source: sglang/srt/tracing/trace.py of 0.5.3, 0.5.5 and 0.5.9;
sglang/srt/observability/{trace,req_time_stats}.py of 0.5.23; tokenizer_manager.py
and scheduler.py of each.
"""

import re
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import (
    NOT_PREFILL,
    PREFILL,
    STATUS_ERROR,
    Convention,
    Derived,
    Inner,
    Part,
    Source,
)
from slo_exporter.ingest.otlp.conventions.fill import Fill, Measured
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.numbers import counts, numbers
from slo_exporter.ingest.otlp.conventions.texts import text_of
from slo_exporter.ingest.otlp.spans import STATUS_DESCRIPTION, SpanBatch
from slo_exporter.sli.records import MISSING, Ints, Layer, Mask, Outcome
from slo_exporter.sli.seen import mix

SCOPES: Final = frozenset({"sglang server"})
_PREFILLS: Final = "prefill "
_ROOT: Final = r"(prefill|decode|unknown)? ?Req (?s:.{1,8})"
"""Role and eight characters of the id; without a role a blank, or in 0.5.3 nothing, stands before."""
_THREAD: Final = r"(?s).*\(host:.* \| pid:\d+\)"
_FIRST_RANK: Final = r"(?!.*\[(TP|PP) [1-9])" + _THREAD.removeprefix("(?s)")
_LATER_GROUP: Final = r".*\[DP [1-9]\d*\]" + _THREAD.removeprefix("(?s)")
_RANKS: Final = ("tp_rank", "pp_rank")

_WAITING: Final = "prefill_waiting"
_SCHEDULED: Final = "schedule"
_BEFORE_QUEUE: Final = frozenset({"request_process", "prefill_bootstrap"})
"""Where one of these ends, the queue begins: up to 0.5.9 within the slice of prefill that begins there."""
_FINISH: Final = "gen_ai.response.finish_reasons"
_REASON: Final = "reason"
_STATUS_CODE: Final = "status_code"
_BY_CALLER: Final = re.compile("client|disconnect|abort|unclosed", re.IGNORECASE)
"""
In the reason of a thread: who asked went away.

A request that is taken from the queue leaves its thread's span unclosed.
"""


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """An error by the status of the span; cancelled where it finished by an abort; else ok."""
    finish = text_of(spans.attributes.get(_FINISH), len(spans))
    aborted = finish.among({text for text in finish.values if "abort" in text.lower()})
    return np.select([spans.status == STATUS_ERROR, aborted], [Outcome.ERROR, Outcome.CANCELLED], Outcome.OK).astype(
        np.uint8
    )


def outcome_of_thread(spans: SpanBatch) -> NDArray[np.uint8]:
    """What the reason of its ERROR says: a status code before words; any other is an error."""
    rows = len(spans)
    code = counts(numbers(spans.attributes.get(_STATUS_CODE), rows))
    rules: tuple[tuple[Mask, Outcome], ...] = (
        (spans.status != STATUS_ERROR, Outcome.OK),
        (code == 429, Outcome.RATE_LIMITED),
        (code >= 500, Outcome.ERROR),
        ((code >= 400) & (code != 499), Outcome.CLIENT_ERROR),
        ((code == 499) | _names_the_caller(spans), Outcome.CANCELLED),
    )
    conditions, outcomes = zip(*rules, strict=True)
    chosen: NDArray[np.uint8] = np.select(conditions, outcomes, default=Outcome.ERROR).astype(np.uint8)
    return chosen


def _names_the_caller(spans: SpanBatch) -> Mask:
    columns = [text_of(spans.attributes.get(key), len(spans)) for key in (_REASON, STATUS_DESCRIPTION)]
    named: Mask = np.logical_or.reduce(
        [column.among({text for text in column.values if _BY_CALLER.search(text)}) for column in columns]
    )
    return named


def role(spans: SpanBatch) -> NDArray[np.uint8]:
    """The name says which half of a request it is."""
    prefills = spans.name.among({name for name in spans.name.values if name.startswith(_PREFILLS)})
    return np.where(prefills, PREFILL, NOT_PREFILL).astype(np.uint8)


def _scheduled(spans: SpanBatch, rows: Ints) -> Ints:
    """When each of some slices left the queue that it begins with; `MISSING` where it begins after it."""
    events = spans.events.get(_SCHEDULED)
    if events is None:
        return np.full(len(rows), MISSING, dtype=np.int64)
    before = np.flatnonzero(spans.name.among(_BEFORE_QUEUE))
    threads = spans.apart(spans.parent_id)
    begins = mix(threads[rows], spans.start_ns[rows].astype(np.uint64))
    queues = np.isin(begins, mix(threads[before], spans.end_ns[before].astype(np.uint64)))
    is_inside = (events[rows] >= spans.start_ns[rows]) & (events[rows] <= spans.end_ns[rows])
    return np.where(queues & is_inside, events[rows], MISSING)


def _working(spans: SpanBatch, rows: Ints) -> tuple[Ints, Ints]:
    at = _scheduled(spans, rows)
    return np.where(at == MISSING, spans.start_ns[rows], at), spans.end_ns[rows]


def _queued(spans: SpanBatch, rows: Ints) -> tuple[Ints, Ints]:
    """From the start of each slice until it was scheduled; an end before the start where it does not wait."""
    at = _scheduled(spans, rows)
    return spans.start_ns[rows], np.where(at == MISSING, spans.start_ns[rows] - 1, at)


def _slices(*names: str) -> Match:
    return Match(scopes=SCOPES, names=frozenset(names))


_QUEUED: Final = Fill("queue", interval=_queued, events=(_SCHEDULED,))
_PREFILL: Final = Fill("prefill", interval=_working, events=(_SCHEDULED,))
_FIRST_TOKEN: Final = Fill("ttft", Measured.UNTIL_LAST)

SGLANG: Final = Convention(
    framework="sglang",
    layer=Layer.ENGINE,
    requests=Match(scopes=SCOPES, pattern=_ROOT),
    inner=Inner.WORST,
    engine_scopes=tuple(SCOPES),
    prefill=role,
    pair_id="bootstrap_room",
    parts=(
        # Hundreds a request, so they are claimed before anything else is asked of them.
        Part(match=_slices("decode_loop", "decode loop")),
        Part(match=_slices(_WAITING), fills=(Fill("queue"),)),
        Part(match=_slices("prefill_forward"), fills=(_PREFILL, _QUEUED, _FIRST_TOKEN)),
        # Since 0.5.23 within a slice of prefill, which tells the whole.
        Part(match=_slices("chunked_prefill"), fills=(replace(_PREFILL, alone=False), replace(_QUEUED, alone=False))),
        Part(match=_slices("prefill"), fills=(_PREFILL, _FIRST_TOKEN)),
        Part(match=_slices("tokenize"), fills=(Fill("preprocess"),)),
        Part(match=_slices("decode_forward"), fills=(Fill("decode"),)),
        Part(match=Match(scopes=SCOPES, pattern=_THREAD), is_wall=True),
        Part(match=Match(scopes=SCOPES)),
    ),
    parts_first=frozenset({"queue", "prefill"}),
    fields={
        "e2e": Source("gen_ai.latency.e2e", "s"),
        "ttft": Source("gen_ai.latency.time_to_first_token", "s", zero_is_missing=True),
        "queue": Source("gen_ai.latency.time_in_queue", "s"),
        "prefill": Source("gen_ai.latency.time_in_model_prefill", "s"),
        "decode": Source("gen_ai.latency.time_in_model_decode", "s"),
        "prompt_tokens": Source("gen_ai.usage.prompt_tokens"),
        "completion_tokens": Source("gen_ai.usage.completion_tokens"),
        "cached_tokens": Source("gen_ai.usage.cached_tokens"),
    },
    derived=(
        Derived(field="decode", plus=("e2e",), minus=("ttft",)),
        Derived(field="inference", plus=("prefill", "decode")),
        Derived(field="inter_token", plus=("decode",), per_gap=True),
    ),
    last={"inference": Source("gen_ai.latency.time_in_model_inference", "s")},
    request_id="rid",
    outcome=outcome,
    also_reads=(_FINISH,),
)

SGLANG_THREAD: Final = Convention(
    framework="sglang",
    counts=False,
    requests=Match(scopes=SCOPES, pattern=_FIRST_RANK, ranks=_RANKS),
    outcome=outcome_of_thread,
    also_reads=(_REASON, STATUS_DESCRIPTION, _STATUS_CODE),
)

SGLANG_THREAD_OF_LATER_GROUP: Final = replace(SGLANG_THREAD, requests=Match(scopes=SCOPES, pattern=_LATER_GROUP))
