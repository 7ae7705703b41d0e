"""Every convention, in order: the first whose spans match claims them."""

from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Convention
from slo_exporter.ingest.otlp.conventions.http_server import HTTP_SERVER
from slo_exporter.ingest.otlp.conventions.vllm import VLLM

CONVENTIONS: Final[tuple[Convention, ...]] = (
    VLLM,
    HTTP_SERVER,
)
