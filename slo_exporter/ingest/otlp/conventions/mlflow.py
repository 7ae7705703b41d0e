"""
MLflow Tracing, sent over OTLP: every attribute is JSON text, texts in quotes.

``mlflow.spanType`` says what a span is: LLM, CHAT_MODEL and EMBEDDING ask a
model. A framework around a client writes one inside the other, of which the
outer one is the request. Every chunk of a stream is an event with its number.

With the option to export by the GenAI conventions its spans are those of GenAI.

Source: mlflow/tracing/constant.py, mlflow/entities/span.py, mlflow/tracing/utils
and mlflow/openai/autolog.py of MLflow 3.17.
"""

from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Between, Convention, Derived, Source
from slo_exporter.ingest.otlp.conventions.gen_ai_errors import READS, outcome
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.sli.records import View

_USAGE: Final = "mlflow.chat.tokenUsage"
_MODEL: Final = "mlflow.llm.model"
_ASKED: Final = "model"
"""What a call was made with: the only name of the model where nothing answered."""
_TYPES: Final = ("LLM", "CHAT_MODEL", "EMBEDDING")

MLFLOW: Final = Convention(
    framework="mlflow",
    view=View.CLIENT,
    nests=True,
    # What passes a collector or another SDK may have lost its quotes.
    requests=Match(texts={"mlflow.spanType": frozenset({*_TYPES, *(f'"{name}"' for name in _TYPES)})}),
    fields={
        "prompt_tokens": Source(_USAGE, member="input_tokens"),
        "completion_tokens": Source(_USAGE, member="output_tokens"),
        "cached_tokens": Source(_USAGE, member="cache_read_input_tokens"),
    },
    # The number is in its name: where others are lost it is none the less the first.
    betweens=(Between(field="ttft", ends="mlflow.chunk.item.0"),),
    derived=(Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),),
    models=(_MODEL, _ASKED),
    json_texts=frozenset({_MODEL, _ASKED}),
    outcome=outcome,
    also_reads=READS,
)
