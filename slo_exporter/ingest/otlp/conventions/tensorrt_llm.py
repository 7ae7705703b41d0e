"""
TensorRT-LLM, and other engines that write vLLM's keys under a name of their own.

One SERVER span per finished request holds what counts, in seconds; −1 stands for
what was not measured. Its ``time_in_queue`` ends when the request is first
scheduled, on the clock of ``time_to_first_token``, so that prefill is what lies
between the two. A worker that only prefills does not finish its requests. The
server's handlers have SERVER spans too, with a status of their own; the proxy in
front of disaggregated workers writes one around both.

Source: tensorrt_llm/llmapi/tracing.py, tensorrt_llm/executor/result.py and
tensorrt_llm/serve/openai_disagg_server.py of TensorRT-LLM 1.1 and later.
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
)
from slo_exporter.ingest.otlp.conventions.match import SERVER, Match
from slo_exporter.ingest.otlp.conventions.texts import text_of
from slo_exporter.ingest.otlp.conventions.vllm import VLLM
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Layer, Mask, Outcome

_SCOPES: Final = ("tensorrt_llm", "trt.llm")
_E2E: Final = "gen_ai.latency.e2e"
_FINISH: Final = "gen_ai.response.finish_reasons"
_WORD: Final = re.compile(r"[a-z_]+")
_OUTCOMES: Final = {
    Outcome.ERROR: frozenset({"timeout", "timed_out", "error"}),
    Outcome.CANCELLED: frozenset({"cancelled", "canceled", "abort", "aborted"}),
}
_UNFINISHED: Final = frozenset({"not_finished"})


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """An error by the status or a timeout, cancelled where a reason to finish says so; else ok."""
    failed = (spans.status == STATUS_ERROR) | _finished(spans, _OUTCOMES[Outcome.ERROR])
    conditions = [failed, _finished(spans, _OUTCOMES[Outcome.CANCELLED])]
    return np.select(conditions, [Outcome.ERROR, Outcome.CANCELLED], Outcome.OK).astype(np.uint8)


def role(spans: SpanBatch) -> NDArray[np.uint8]:
    """A context worker hands its requests on unfinished."""
    return np.where(_finished(spans, _UNFINISHED), PREFILL, NOT_PREFILL).astype(np.uint8)


def _finished(spans: SpanBatch, reasons: frozenset[str]) -> Mask:
    """Spans of which a reason to finish, in a list or a text of any form, is one of *reasons*."""
    finish = text_of(spans.attributes.get(_FINISH), len(spans))
    return finish.among({text for text in finish.values if not reasons.isdisjoint(_WORD.findall(text.lower()))})


VLLM_LIKE: Final = replace(
    VLLM,
    requests=Match(attributes=(_E2E,)),
    is_silent=False,
    engine_scopes=(),
    parts=(),
    outcome=outcome,
    also_reads=(_FINISH,),
    reads_lists=(_FINISH,),
)
"""The last of the engines: whoever else writes vLLM's keys, a fork of it."""

TENSORRT_LLM: Final = replace(
    VLLM_LIKE,
    framework="tensorrt_llm",
    requests=Match(scope_prefixes=_SCOPES, attributes=(_E2E,)),
    engine_scopes=_SCOPES,
    prefill=role,
    derived=(
        Derived(field="prefill", plus=("ttft",), minus=("queue",)),
        Derived(field="decode", plus=("e2e",), minus=("ttft",)),
        Derived(field="inference", plus=("prefill", "decode")),
        Derived(field="inter_token", plus=("decode",), per_gap=True),
    ),
)

TENSORRT_LLM_PROXY: Final = Convention(
    framework="tensorrt_llm",
    layer=Layer.FRONT,
    requests=Match(
        scope_prefixes=_SCOPES, names=frozenset({"disaggregated_request"}), kinds=frozenset({SERVER}), absent=(_E2E,)
    ),
    inner=Inner.LAST,
)

TENSORRT_LLM_HANDLER: Final = Convention(
    framework="tensorrt_llm",
    layer=Layer.HTTP,
    requests=Match(scope_prefixes=_SCOPES, kinds=frozenset({SERVER}), absent=(_E2E,)),
)
