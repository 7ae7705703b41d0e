"""Every convention, in order: the first whose spans match claims them."""

from collections.abc import Iterator, Sequence
from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.dynamo import DYNAMO, DYNAMO_PREFILL, DYNAMO_WORKER
from slo_exporter.ingest.otlp.conventions.gen_ai import GEN_AI, GEN_AI_BEFORE_OPERATIONS
from slo_exporter.ingest.otlp.conventions.http_server import HTTP_SERVER
from slo_exporter.ingest.otlp.conventions.litellm import LITELLM
from slo_exporter.ingest.otlp.conventions.llm_d import LLM_D, LLM_D_BODY_ROUTER, LLM_D_BY_SERVICE, LLM_D_OLDEST
from slo_exporter.ingest.otlp.conventions.mlflow import MLFLOW
from slo_exporter.ingest.otlp.conventions.openinference import OPENINFERENCE
from slo_exporter.ingest.otlp.conventions.openllmetry import (
    OPENLLMETRY,
    OPENLLMETRY_BEFORE_OPERATIONS,
    OPENLLMETRY_BY_NAME,
)
from slo_exporter.ingest.otlp.conventions.ray_serve import RAY_SERVE
from slo_exporter.ingest.otlp.conventions.sglang import SGLANG, SGLANG_THREAD, SGLANG_THREAD_OF_LATER_GROUP
from slo_exporter.ingest.otlp.conventions.tensorrt_llm import (
    TENSORRT_LLM,
    TENSORRT_LLM_HANDLER,
    TENSORRT_LLM_PROXY,
    VLLM_LIKE,
)
from slo_exporter.ingest.otlp.conventions.tgi import TGI, TGI_BY_SCOPE, TGI_BY_SERVICE
from slo_exporter.ingest.otlp.conventions.training import TRAINING
from slo_exporter.ingest.otlp.conventions.triton import TRITON, TRITON_MODEL
from slo_exporter.ingest.otlp.conventions.vllm import VLLM, VLLM_V0

CONVENTIONS: Final[tuple[Convention, ...]] = (
    VLLM,
    VLLM_V0,
    SGLANG_THREAD,
    SGLANG_THREAD_OF_LATER_GROUP,
    SGLANG,
    TENSORRT_LLM,
    TENSORRT_LLM_PROXY,
    TENSORRT_LLM_HANDLER,
    TRITON,
    TRITON_MODEL,
    TGI,
    TGI_BY_SCOPE,
    TGI_BY_SERVICE,
    VLLM_LIKE,
    TRAINING,
    DYNAMO,
    DYNAMO_PREFILL,
    DYNAMO_WORKER,
    RAY_SERVE,
    LLM_D_BODY_ROUTER,
    LLM_D_OLDEST,
    LLM_D_BY_SERVICE,
    LLM_D,
    *LITELLM,
    OPENINFERENCE,
    MLFLOW,
    OPENLLMETRY,
    OPENLLMETRY_BEFORE_OPERATIONS,
    GEN_AI,
    GEN_AI_BEFORE_OPERATIONS,
    OPENLLMETRY_BY_NAME,
    HTTP_SERVER,
)
"""What a framework alone writes comes before what anybody may write."""


def with_own(own: Sequence[Convention]) -> tuple[Convention, ...]:
    """
    Every convention in order, with the operator's *own*.

    One that means the same request spans as one of ours stands in its place and
    in its stead; one with parts of ours stands before that. Any other comes first.
    """
    return tuple(_in_order(own))


def _in_order(own: Sequence[Convention]) -> Iterator[Convention]:
    ours = [known.requests for known in CONVENTIONS]
    places = [None if each.requests in ours else _place(each) for each in own]
    for at, known in enumerate(CONVENTIONS):
        yield from (each for each, place in zip(own, places, strict=True) if place == at)
        yield from [each for each in own if each.requests == known.requests] or [known]


def _place(own: Convention) -> int:
    """Before the first of ours that it has parts of, so that who claims the others stays as it was."""
    shares = (at for at, known in enumerate(CONVENTIONS) if any(part in own.parts for part in known.parts))
    return next(shares, 0)
