"""Every convention, in order: the first whose spans match claims them."""

from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.gen_ai import GEN_AI, GEN_AI_BEFORE_OPERATIONS
from slo_exporter.ingest.otlp.conventions.http_server import HTTP_SERVER
from slo_exporter.ingest.otlp.conventions.training import TRAINING
from slo_exporter.ingest.otlp.conventions.vllm import VLLM, VLLM_V0

CONVENTIONS: Final[tuple[Convention, ...]] = (
    VLLM,
    VLLM_V0,
    TRAINING,
    GEN_AI,
    GEN_AI_BEFORE_OPERATIONS,
    HTTP_SERVER,
)
"""What a framework alone writes comes before what anybody may write."""
