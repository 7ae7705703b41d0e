"""
LiteLLM: a gateway in front of models, or a library that calls them.

The proxy's SERVER span is the request. The first integration (v1) writes that span
itself, and puts what it knows of the call of the model on it, or on a span below
it. The second (v2) leaves it to FastAPI's instrumentation, and adds a CLIENT span
for the call. Either way the call tells more of the request, and counts only in a
service that never had a proxy: the library by itself. Redis, databases, guardrails
and the raw call beside it are no requests, though some carry the model's name.

A proxy writes a span for whatever it is asked, its administration included.

Source: litellm/integrations/opentelemetry.py (v1), litellm/integrations/otel (v2)
and litellm/proxy/_types.py of LiteLLM 1.110.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions import gen_ai_errors, http_server
from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Inner, Part, Source
from slo_exporter.ingest.otlp.conventions.gen_ai import OPERATIONS
from slo_exporter.ingest.otlp.conventions.match import SERVER, Match
from slo_exporter.ingest.otlp.conventions.texts import text_of
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.sli.records import Layer, Mask, Outcome, View

_SCOPES: Final = frozenset({"litellm"})
_METHODS: Final = ("http.request.method", "http.method")
_PATHS: Final = ("url.path", "http.route", "http.target")
_ERROR_TYPE: Final = "error.type"
_ERROR_CODE: Final = "error.code"
_OLD_STATUS: Final = "http.status_code"
_OPERATION: Final = "gen_ai.operation.name"
_PURPOSE: Final = "litellm.request.purpose"

_IDENTITY: Final = ("litellm.call_id", "litellm.api_key.hash", "litellm.team.id", "litellm.preprocessing.duration_ms")
"""What the second integration adds to the span of FastAPI's instrumentation."""

_OF_A_PROXY: Final = (
    r"(POST /(\S*/)?(completions|embeddings|messages|responses)"
    r"|[A-Z]+ /(v1/)?(models?|key|team|user|spend|global|health|guardrails|mcp))(/\S*)?"
)
"""Names of the spans of a proxy: what its clients ask, and its administration."""

_ADMINISTRATION: Final = frozenset(
    {
        "a2a",
        "agents",
        "batches",
        "budget",
        "cache",
        "config",
        "credentials",
        "customer",
        "end_user",
        "files",
        "global",
        "guardrails",
        "health",
        "key",
        "mcp",
        "mcp-rest",
        "model",
        "model_group",
        "models",
        "organization",
        "policies",
        "prompts",
        "public",
        "routes",
        "spend",
        "sso",
        "tag",
        "team",
        "ui",
        "user",
        "utils",
        "vector_store",
        "vector_stores",
    }
)
"""What stands first in paths, but for a version, that ask no model."""


def is_probe(spans: SpanBatch, ignore_routes: tuple[str, ...]) -> Mask:
    """What asks for health, or for anything but a model."""
    probes = http_server.is_probe(spans, ignore_routes)
    for key in _PATHS:
        paths = text_of(spans.attributes.get(key), len(spans))
        probes |= paths.among({path for path in paths.values if _is_administration(path)})
    for key in _METHODS:
        methods = text_of(spans.attributes.get(key), len(spans))
        probes |= methods.among(set(methods.values) - {"POST"})
    return probes


def _is_administration(path: str) -> bool:
    first, _, rest = http_server.path_of_target(path).lstrip("/").partition("/")
    if first in ("v1", "v2", "v1beta"):
        first = rest.partition("/")[0]
    # Gemini's API names what to do with a model behind a colon.
    return first in _ADMINISTRATION and ":" not in path


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """
    How a call ended, by its error and its status code.

    LiteLLM's own name for a timeout comes with the code 408; what timed out is
    what it asked.
    """
    ended, code = gen_ai_errors.outcome(spans), spans.attributes.get(_ERROR_CODE)
    if code is not None:
        by_code = gen_ai_errors.outcome(replace(spans, attributes={**spans.attributes, _OLD_STATUS: code}))
        ended = np.where(code.kind == ValueKind.ABSENT, ended, by_code)
    errors = text_of(spans.attributes.get(_ERROR_TYPE), len(spans))
    timed_out = errors.among(
        {error for error in errors.values if error.lower().removesuffix("error").endswith("timeout")}
    )
    return np.where(timed_out, Outcome.ERROR, ended).astype(np.uint8)


_CALL: Final = Convention(
    framework="litellm",
    view=View.GATEWAY,
    layer=Layer.ENGINE,
    requests=Match(scopes=_SCOPES, texts={_OPERATION: OPERATIONS}, absent=(_PURPOSE,)),
    fields={
        "ttft": Source("gen_ai.response.time_to_first_chunk", "s", zero_is_missing=True),
        "preprocess": Source("litellm.preprocessing.duration_ms", "ms"),
        "prompt_tokens": Source("gen_ai.usage.input_tokens", also=("gen_ai.usage.prompt_tokens",)),
        "completion_tokens": Source("gen_ai.usage.output_tokens", also=("gen_ai.usage.completion_tokens",)),
        "cached_tokens": Source("gen_ai.usage.cache_read.input_tokens", also=("gen_ai.usage.cache_read_input_tokens",)),
    },
    derived=(Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),),
    request_id="litellm.call_id",
    outcome=outcome,
    also_reads=(*gen_ai_errors.READS, _ERROR_CODE),
)

LITELLM_PROXY: Final = replace(
    _CALL,
    layer=Layer.FRONT,
    is_below=True,
    inner=Inner.LAST,
    # The scope has a name that the operator may choose.
    requests=Match(names=frozenset({"Received Proxy Server Request"})),
    probe=is_probe,
    probe_reason="a probe: its route is one of ignore_routes, or asks no model",
    also_reads=(*_CALL.also_reads, *http_server.HTTP_SERVER.also_reads),
)

LITELLM_V2: Final = replace(
    LITELLM_PROXY,
    # The library writes the same keys on the span of whatever server it is used in.
    requests=Match(kinds=frozenset({SERVER}), attributes=_IDENTITY, pattern=_OF_A_PROXY),
)

LITELLM_V2_BY_SCOPE: Final = replace(
    LITELLM_PROXY,
    requests=Match(kinds=frozenset({SERVER}), scopes=_SCOPES),
    # FastAPI's own spans stand around those of version 1; version 2 brings an instrumentation, which silences them.
    parts=(Part(match=Match(services=_SCOPES, scopes=http_server.FASTAPI)),),
)

LITELLM_V2_BY_SERVICE: Final = replace(
    LITELLM_PROXY, requests=Match(kinds=frozenset({SERVER}), services=_SCOPES, attributes=_METHODS)
)

LITELLM_REQUEST: Final = replace(
    _CALL,
    requests=Match(names=frozenset({"litellm_request"})),
    # The first has the keys of the call beside it.
    parts=(Part(match=Match(names=frozenset({"raw_gen_ai_request", "Failed Proxy Server Request"}))),),
)

LITELLM_CALL: Final = replace(_CALL, parts=(Part(match=Match(scopes=_SCOPES)),))

LITELLM: Final = (
    LITELLM_PROXY,
    LITELLM_V2,
    LITELLM_V2_BY_SCOPE,
    LITELLM_V2_BY_SERVICE,
    LITELLM_REQUEST,
    LITELLM_CALL,
)
"""In order: a call has the keys of the proxy's span."""
