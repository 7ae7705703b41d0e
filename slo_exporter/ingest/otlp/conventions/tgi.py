"""
Text Generation Inference 1 to 3: one INTERNAL span per call of a handler of its router.

Durations are texts with units of their own, written when the request is done.
Without them it failed or was given up: its status says neither. The mean time
per token is inference by tokens, prefill included, and so tells how many there
were. Nothing names the model, a first token or an end.

Some handlers call others: the outermost one that has the fields is the request.
A batch is a trace of its own, and the shards' gRPC calls stand below it.

Source: router/src/{server,vertex,logging}.rs and backends/v3/src of
huggingface/text-generation-inference 3.3; the tracer is named by opentelemetry_otlp.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import (
    STATUS_ERROR,
    STATUS_OK,
    TEXT,
    Convention,
    Derived,
    Part,
    Source,
)
from slo_exporter.ingest.otlp.conventions.match import INTERNAL, Match
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.sli.records import Layer, Outcome

_TOTAL: Final = "total_time"
_VALIDATION: Final = "validation_time"
_SCOPES: Final = frozenset({"opentelemetry-otlp"})
"""Any program in Rust may use it: it says nothing without a handler's name."""
_ROUTERS: Final = frozenset({"text-generation-inference.router"})
_SHARDS: Final = frozenset({"text-generation-inference.server"})
_HANDLERS: Final = frozenset({"generate", "generate_stream", "completions", "chat_completions"})
_CALLERS: Final = frozenset({"compat_generate", "vertex_compatibility", "sagemaker_compatibility"})
"""They may leave it to a handler to tell the times."""
_WORK: Final = frozenset(
    {
        *("validate", "tokenize", "schedule", "queued", "infer", "infer_stream", "send_generation"),
        *("generate_internal", "generate_stream_internal", "prefill", "decode", "filter_batch", "clear_cache"),
        *("batch", "next_batch", "add_batch", "prefill_batch", "decode_batch", "health", "warmup"),
    }
)
"""Spans inside a handler, and batches beside it."""


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """An error by the status; incomplete where neither a status nor a total time says that it ended well."""
    column = spans.attributes.get(_TOTAL)
    is_whole = (
        spans.status == STATUS_OK if column is None else (spans.status == STATUS_OK) | (column.kind != ValueKind.ABSENT)
    )
    conditions = [spans.status == STATUS_ERROR, ~is_whole]
    return np.select(conditions, [Outcome.ERROR, Outcome.INCOMPLETE], Outcome.OK).astype(np.uint8)


TGI: Final = Convention(
    framework="tgi",
    layer=Layer.ENGINE,
    nests=True,
    requests=Match(attributes=(_TOTAL, _VALIDATION), names=_HANDLERS | _CALLERS),
    parts=(
        Part(match=Match(services=_SHARDS)),
        Part(match=Match(scopes=_SCOPES, names=_WORK, kinds=frozenset({INTERNAL}))),
    ),
    fields={
        "e2e": Source(_TOTAL, TEXT),
        "preprocess": Source(_VALIDATION, TEXT),
        "queue": Source("queue_time", TEXT),
        "inference": Source("inference_time", TEXT),
        "inter_token": Source("time_per_token", TEXT),
    },
    derived=(Derived(field="completion_tokens", plus=("inference",), over="inter_token"),),
    outcome=outcome,
)

TGI_BY_SCOPE: Final = replace(TGI, requests=Match(scopes=_SCOPES, names=_HANDLERS), parts=())
"""A handler's span that has no field: its request failed."""

TGI_BY_SERVICE: Final = replace(
    TGI,
    requests=Match(services=_ROUTERS, names=_HANDLERS),
    parts=(Part(match=Match(services=_ROUTERS, kinds=frozenset({INTERNAL}))),),
)
