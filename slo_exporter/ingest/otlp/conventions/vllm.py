"""
vLLM: engine V1 (0.10 and later), and engine V0 (0.4.3 to 0.8.5).

The engine writes one SERVER span per finished request, after the fact: what
counts is in its attributes, in seconds. Aborted and refused requests have none,
so the HTTP spans around it tell of failures.

V1 writes a span for each child of ``n > 1``, with the same request id. V0 writes
one for all of them, in which ``completion_tokens`` is their sum; it times
neither prefill nor decode, and its queue holds what comes before the queue too.
The first releases with V1 spans wrote them into V0's scope.

A worker that prefills for another one is asked for a single token. So may any
request be: only the name of its service makes it certain, as in KServe's
``inference-server-prefill``. KServe names the model on the resource.

Source: vllm/v1/engine/output_processor.py and vllm/tracing of vLLM 0.32;
vllm/engine/llm_engine.py and vllm/tracing.py of vLLM 0.5.4 and 0.8.5; vLLM's open
pull request 44402 for the spans of stages; llmisvc/tracing.go of KServe.
"""

import re
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import (
    MAY_BE_PREFILL,
    MODEL_KEYS,
    NOT_PREFILL,
    PREFILL,
    Convention,
    Derived,
    Part,
    Source,
)
from slo_exporter.ingest.otlp.conventions.fill import Fill
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.numbers import numbers
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Layer

_SCOPE: Final = "vllm.tracing.otel"
_SCOPE_V0: Final = "vllm.llm_engine"
_NAMES: Final = frozenset({"llm_request"})
_WRITTEN: Final = "gen_ai.usage.completion_tokens"
_BETWEEN_WORDS: Final = re.compile(r"[-_.]")


def role(spans: SpanBatch) -> NDArray[np.uint8]:
    """It wrote one token: perhaps a first half, and certainly one by the name of its service."""
    is_short = numbers(spans.attributes.get(_WRITTEN), len(spans)) == 1
    if not is_short.any():
        return np.full(len(spans), NOT_PREFILL, dtype=np.uint8)
    prefills = spans.service.among({s for s in spans.service.values if "prefill" in _BETWEEN_WORDS.split(s.lower())})
    return np.where(is_short, np.where(prefills, PREFILL, MAY_BE_PREFILL), NOT_PREFILL).astype(np.uint8)


def _stage(field: str) -> Part:
    return Part(match=Match(scope_prefixes=("vllm.",), names=frozenset({f"vllm_{field}"})), fills=(Fill(field),))


_DIFFERENCES: Final = (
    Derived(field="preprocess", plus=("ttft",), minus=("queue", "prefill")),
    Derived(field="postprocess", plus=("e2e",), minus=("ttft", "decode")),
)
_TOTALS: Final = (
    Derived(field="inference", plus=("prefill", "decode")),
    Derived(field="inter_token", plus=("decode",), per_gap=True),
    Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),
)

VLLM: Final = Convention(
    framework="vllm",
    layer=Layer.ENGINE,
    is_silent=True,
    requests=Match(scopes=frozenset({_SCOPE}), names=_NAMES),
    engine_scopes=(_SCOPE, "vllm.v1.", "vllm.model_executor.", "vllm.compilation.", "vllm.entrypoints."),
    fields={
        "e2e": Source("gen_ai.latency.e2e", "s"),
        # 0.0 is written where no token came: pooling, nothing generated.
        "ttft": Source("gen_ai.latency.time_to_first_token", "s", zero_is_missing=True),
        "queue": Source("gen_ai.latency.time_in_queue", "s"),
        "prefill": Source("gen_ai.latency.time_in_model_prefill", "s"),
        "decode": Source("gen_ai.latency.time_in_model_decode", "s"),
        "inference": Source("gen_ai.latency.time_in_model_inference", "s"),
        "prompt_tokens": Source("gen_ai.usage.prompt_tokens"),
        "completion_tokens": Source("gen_ai.usage.completion_tokens"),
    },
    derived=(*_DIFFERENCES, *_TOTALS),
    request_id="gen_ai.request.id",
    prefill=role,
    parts=(_stage("queue"), _stage("prefill"), _stage("decode")),
    models=(*MODEL_KEYS, "llmisvc.name"),
)

VLLM_V0: Final = replace(
    VLLM,
    requests=Match(scopes=frozenset({_SCOPE_V0}), names=_NAMES),
    engine_scopes=(_SCOPE_V0,),
    derived=(
        # Before prefill and decode, so that no stage of V0 is 0 where it is unknown.
        *_DIFFERENCES,
        Derived(field="prefill", plus=("ttft",), minus=("queue",)),
        Derived(field="decode", plus=("e2e",), minus=("ttft",)),
        *_TOTALS,
    ),
    sequences="gen_ai.usage.num_sequences",
    parts=(),
)
