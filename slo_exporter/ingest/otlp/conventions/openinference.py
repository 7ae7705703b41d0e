"""
OpenInference: the client instrumentations of Arize, also for frameworks around the clients.

``openinference.span.kind`` says what a span is: LLM and EMBEDDING ask a model;
chains, agents, tools, retrievers, rerankers and guardrails do not. A framework
and the client that it calls write a span each, one inside the other, of which
the outer one is the request.

Until it also writes names of GenAI, which is an option, a span has no id of the
response. An error is the event of an exception.

Source: openinference-semantic-conventions 0.1.42, openinference-instrumentation
0.1.72 and openinference-instrumentation-openai 0.1.66.
"""

from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Between, Convention, Derived, Source
from slo_exporter.ingest.otlp.conventions.gen_ai_errors import READS, outcome
from slo_exporter.ingest.otlp.conventions.match import CLIENT, INTERNAL, Match
from slo_exporter.sli.records import View

OPENINFERENCE: Final = Convention(
    framework="openinference",
    view=View.CLIENT,
    nests=True,
    requests=Match(
        texts={"openinference.span.kind": frozenset({"LLM", "EMBEDDING"})}, kinds=frozenset({CLIENT, INTERNAL})
    ),
    fields={
        "prompt_tokens": Source("llm.token_count.prompt"),
        "completion_tokens": Source("llm.token_count.completion"),
        "cached_tokens": Source(
            "llm.token_count.prompt_details.cache_read", also=("llm.token_count.prompt_details.cache_input",)
        ),
    },
    # One event of that name: where others are lost it is none the less the first.
    betweens=(Between(field="ttft", ends="First Token Stream Event"),),
    derived=(Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),),
    request_id="gen_ai.response.id",
    models=(
        "llm.response.model_name",
        "llm.model_name",
        "llm.request.model_name",
        "embedding.model_name",
        "gen_ai.response.model",
        "gen_ai.request.model",
    ),
    outcome=outcome,
    also_reads=READS,
)
