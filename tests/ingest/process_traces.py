"""Traces of several processes: what is read out of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.documents import Document, documents_of
from slo_exporter.ingest.otlp.explain import explain
from slo_exporter.ingest.otlp.explanation import Explanation

MS = 1_000_000
INTERNAL, SERVER, CLIENT = 1, 2, 3
DECLARED = Declared(ignore_routes=("/health",))

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]


def explained(*bodies: bytes) -> Explanation:
    """Explain one export of several processes."""
    return explain([Document(b"".join(bodies), is_json=False)], DECLARED)


def case(name: str) -> Explanation:
    """Explain a case file."""
    return explain(documents_of((Path(__file__).parent / "cases" / name).read_bytes()), DECLARED)


def reasons(explanation: Explanation) -> dict[str, str]:
    """The reason by the name of the span."""
    return {ignored.name: ignored.reason for ignored in explanation.ignored}


class Trace:
    """
    Makes spans of one trace, each below another and within the second before noon.

    Args:
        span: builds a span.
        now_ns: when the export is judged.
    """

    def __init__(self, span: SpanOf, now_ns: int) -> None:
        self._span = span
        self._begin_ns = now_ns - 2 * SECOND_NS
        self._trace_id = span().trace_id

    def span(
        self, name: str, attributes: Mapping[str, Any] | None = None, *, below: Span | None = None, **overrides: Any
    ) -> Span:
        """Build a span; ``at`` is its start and its end in ms since the trace began."""
        start, end = overrides.pop("at", (0, 1000))
        return self._span(
            attributes,
            **{
                "name": name,
                "kind": INTERNAL,
                "trace_id": self._trace_id,
                "parent_span_id": below.span_id if below else b"",
                "start_time_unix_nano": self._begin_ns + start * MS,
                "end_time_unix_nano": self._begin_ns + end * MS,
                **overrides,
            },
        )

    def engine(self, below: Span, **overrides: Any) -> Span:
        """Build the span of a vLLM below another one."""
        latency = "gen_ai.latency."
        attributes = {
            "gen_ai.request.id": "e",
            f"{latency}time_in_queue": 0.02,
            f"{latency}time_in_model_prefill": 0.05,
            f"{latency}time_in_model_decode": 0.4,
            "gen_ai.usage.prompt_tokens": 100,
            "gen_ai.usage.completion_tokens": 41,
            **overrides.pop("attributes", {}),
        }
        return self.span("llm_request", attributes, below=below, kind=SERVER, **overrides)
