"""
vLLM, engine V1 (0.10 and later).

The engine writes one SERVER span per finished request, after the fact: what
counts is in its attributes, in seconds. A child of ``n > 1`` has a span of its
own with the same request id. Aborted and refused requests have none, so the
HTTP spans around it tell of failures.

Source: vllm/v1/engine/output_processor.py and vllm/tracing of vLLM 0.32.
"""

from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Match, Source

_SCOPE: Final = "vllm.tracing.otel"

VLLM: Final = Convention(
    framework="vllm",
    requests=Match(scopes=frozenset({_SCOPE}), names=frozenset({"llm_request"})),
    # Not V0's vllm.llm_engine: its requests are not read.
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
    derived=(
        Derived(field="preprocess", plus=("ttft",), minus=("queue", "prefill")),
        Derived(field="postprocess", plus=("e2e",), minus=("ttft", "decode")),
        Derived(field="inference", plus=("prefill", "decode")),
        Derived(field="inter_token", plus=("decode",), per_gap=True),
        Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),
    ),
    request_id="gen_ai.request.id",
)
