"""
GenAI client spans: the OpenTelemetry semantic conventions, every name they had.

Whoever calls a model writes a CLIENT span, or an INTERNAL one where the model
runs in the same process; ``gen_ai.operation.name`` says what was asked. Agents,
tools and routers write spans with the same attributes and another operation:
those are no requests. Until 1.26 there was no operation but the first word of
the span's name.

A response has an id, and so has the server's own span: the spans of two layers
of one client that tell of the same response are one request.

Source: OpenTelemetry semantic conventions 1.25 to 1.44 and
semantic-conventions-genai 0.1, "GenAI client spans"; loongsuite-util-genai 0.5.
"""

from dataclasses import replace
from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Source
from slo_exporter.ingest.otlp.conventions.gen_ai_errors import READS, outcome
from slo_exporter.ingest.otlp.conventions.match import CLIENT, INTERNAL, Match
from slo_exporter.sli.records import View

_OPERATION: Final = "gen_ai.operation.name"
OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
"""Those that ask a model; any other is an agent's, a tool's or a router's."""

GEN_AI: Final = Convention(
    framework="gen_ai",
    view=View.CLIENT,
    nests=True,
    requests=Match(texts={_OPERATION: OPERATIONS}, kinds=frozenset({CLIENT, INTERNAL})),
    fields={
        "ttft": (
            Source("gen_ai.response.time_to_first_chunk", "s", zero_is_missing=True),
            # Of LoongSuite, Alibaba's instrumentations of the same conventions.
            Source("gen_ai.response.time_to_first_token", "ns", zero_is_missing=True),
        ),
        "prompt_tokens": Source("gen_ai.usage.input_tokens", also=("gen_ai.usage.prompt_tokens",)),
        "completion_tokens": Source("gen_ai.usage.output_tokens", also=("gen_ai.usage.completion_tokens",)),
        "cached_tokens": Source(
            "gen_ai.usage.cache_read.input_tokens",
            # In use before it had a name in the conventions.
            also=(
                "gen_ai.usage.cache_read_input_tokens",
                "gen_ai.usage.input_tokens.cached",
                "gen_ai.usage.cached_tokens",
            ),
        ),
    },
    derived=(Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),),
    sequences="gen_ai.request.choice.count",
    request_id="gen_ai.response.id",
    outcome=outcome,
    also_reads=READS,
)

GEN_AI_BEFORE_OPERATIONS: Final = replace(
    GEN_AI,
    requests=Match(
        # Required of every span then. No operation: with one, the other convention decides.
        attributes=("gen_ai.system", "gen_ai.request.model"),
        absent=(_OPERATION,),
        kinds=frozenset({CLIENT}),
        first_words=OPERATIONS,
    ),
)
