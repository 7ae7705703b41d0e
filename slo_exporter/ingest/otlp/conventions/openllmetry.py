"""
OpenLLMetry: the client instrumentations of Traceloop, old names and new.

One span a call, named after the library and what it was asked for:
``openai.chat``, ``anthropic.completion``, ``ChatOpenAI.chat``. Of a stream every
chunk is an event. The SDK keeps the newest 128 events of a span: where it lost
any, the first chunk is gone, and the time to it unknown.

In 0.40 a call that failed has no name of its error: the message says the code.

``gen_ai.operation.name`` says what was asked, ``llm.request.type`` before that;
the spans of OpenAI's Responses API and of SageMaker had neither. Workflows,
tasks, agents and tools are spans of the same SDK and ask no model themselves. A
realtime session is a connection: what is asked within it has spans of its own.

Source: opentelemetry-instrumentation-openai 0.20, 0.40, 0.44 and 0.62 and its kin for
other libraries; opentelemetry-semantic-conventions-ai 0.4 and 0.5.
"""

from dataclasses import replace
from typing import Final

from slo_exporter.ingest.otlp.conventions.convention import Between, Convention, Inner, Part
from slo_exporter.ingest.otlp.conventions.gen_ai import GEN_AI, OPERATIONS
from slo_exporter.ingest.otlp.conventions.match import CLIENT, INTERNAL, Match

_OPERATION: Final = "gen_ai.operation.name"
_TYPE: Final = "llm.request.type"
_TYPES: Final = frozenset({"chat", "completion", "embedding"})
"""Those that generate or embed; the others are ``rerank`` and ``unknown``."""
_KINDS: Final = frozenset({CLIENT, INTERNAL})
_LIBRARIES: Final = (
    "alephalpha anthropic bedrock cohere gemini groq haystack mistralai ollama openai replicate sagemaker together"
    " vertexai watsonx writerai"
)
_SESSION: Final = "openai.session"
_NAMES: Final = rf"(?!{_SESSION})({'|'.join(_LIBRARIES.split())})(\.\w+)+|\w+\.(chat|completion)"
"""The second half is LangChain's: the name of a class of any library."""

OPENLLMETRY: Final = replace(
    GEN_AI,
    framework="openllmetry",
    # A stream that broke off is OK here: another instrumentation of the same call may know better.
    inner=Inner.LAST,
    requests=Match(texts={_OPERATION: OPERATIONS}, kinds=_KINDS, pattern=_NAMES),
    parts=(Part(match=Match(names=frozenset({_SESSION}), attributes=(_OPERATION,))),),
    betweens=(
        Between(field="ttft", ends="gen_ai.content.completion.chunk", is_first=True),
        Between(field="ttft", ends="llm.content.completion.chunk", is_first=True),
    ),
)

OPENLLMETRY_BEFORE_OPERATIONS: Final[Convention] = replace(
    OPENLLMETRY, requests=Match(texts={_TYPE: _TYPES}, absent=(_OPERATION,), kinds=_KINDS), parts=()
)

OPENLLMETRY_BY_NAME: Final[Convention] = replace(
    OPENLLMETRY,
    requests=Match(
        attributes=("gen_ai.system", "gen_ai.request.model"),
        absent=(_OPERATION, _TYPE),
        kinds=frozenset({CLIENT}),
        names=frozenset({"openai.response", "sagemaker.completion"}),
    ),
    parts=(),
)
