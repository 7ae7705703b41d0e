"""
llm-d and the Gateway API inference extension: who picks the engine for a request.

The endpoint picker (EPP) is asked by a proxy about every request and stays with it
until its response ends: its span is the request as the gateway sees it. What it
does for that, scheduling above all, carries the keys of a model and of a request
and is none. Neither is the sidecar beside a decoding engine, which sends a request
to one engine to prefill and to its own to decode: those engines write spans
themselves, which count as the server's.

The body-based router asks the same way, before, and is no second request.

Source: pkg/epp/handlers/server.go, pkg/epp/requestcontrol/director.go,
pkg/sidecar/proxy and pkg/common/{error,observability} of llm-d-router, 2026-09;
the same of llm-d-inference-scheduler and gateway-api-inference-extension before.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import MODEL_KEYS, STATUS_ERROR, Convention, Part
from slo_exporter.ingest.otlp.conventions.match import SERVER, Match
from slo_exporter.ingest.otlp.conventions.texts import text_of
from slo_exporter.ingest.otlp.spans import STATUS_DESCRIPTION, SpanBatch
from slo_exporter.sli.records import Outcome, View

_SCOPES: Final = ("llm-d", "github.com/llm-d/", "gateway-api-inference-extension")
_SERVICES: Final = frozenset(
    {
        "inference-scheduler",  # of KServe
        "llm-d-inference-scheduler",
        "llm-d-router/epp",
        "gateway-api-inference-extension",
        "gateway-api-inference-extension/epp",
    }
)
_BODY_ROUTERS: Final = ("gateway-api-inference-extension/bbr", "llm-d-inference-payload-processor")
_REQUESTS: Final = frozenset({"gateway.request", "request"})
"""Names that anybody may use: who writes them must be known otherwise."""

_SIDECAR_KEYS: Final = (
    "llm_d.pd_proxy.request_id",
    "llm_d.pd_proxy.connector",
    "llm_d.pd_proxy.prefill_target",
    "llm_d.pd_proxy.decode.target",
)
_WORK: Final = frozenset(
    {
        "request_orchestration",
        "gateway.request_orchestration",
        "run_scheduler_profile",
        "filter_endpoints",
        "pick_endpoints",
        "pick_disagg_profile",
        "prepare_disaggregation",
    }
)
_ERRORS: Final = (
    ("inference error: ResourceExhausted ", Outcome.RATE_LIMITED),
    ("inference error: InferencePoolResourceExhausted ", Outcome.RATE_LIMITED),
    *(
        (f"inference error: {code} ", Outcome.CLIENT_ERROR)
        for code in ("BadRequest", "Unauthorized", "Forbidden", "NotFound", "PreconditionFailed")
    ),
)
"""How the message of a span that failed begins, and what it was; any other is an error."""


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """By the code in the message of a span that failed; an error of the model server has no other."""
    messages = text_of(spans.attributes.get(STATUS_DESCRIPTION), len(spans))
    kinds = [
        next((kind for begin, kind in _ERRORS if text.startswith(begin)), Outcome.ERROR) for text in messages.values
    ]
    told = np.array([*kinds, Outcome.ERROR], dtype=np.uint8)[messages.codes]
    return np.where(spans.status == STATUS_ERROR, told, Outcome.OK).astype(np.uint8)


_PARTS: Final = (
    Part(match=Match(names=_WORK), tells_model=True),
    # The HTTP server of the sidecar writes one of these, with HTTP keys; the rest have one of its own keys.
    Part(match=Match(pattern=r"llm_d\..+|gateway\.(director|scheduler|scheduling)\..+"), tells_model=True),
    Part(match=Match(attributes=_SIDECAR_KEYS)),
    Part(match=Match(scope_prefixes=_SCOPES), tells_model=True),
)

LLM_D_BODY_ROUTER: Final = Convention(
    framework="llm_d",
    view=View.GATEWAY,
    counts=False,
    requests=Match(scope_prefixes=_BODY_ROUTERS),
    request_id="gen_ai.request.id",
    models=(*MODEL_KEYS, "target_model"),
    outcome=outcome,
    also_reads=(STATUS_DESCRIPTION,),
)

LLM_D_OLDEST: Final = replace(
    LLM_D_BODY_ROUTER, counts=True, requests=Match(names=frozenset({"gateway.ext_proc.request"}))
)

LLM_D_BY_SERVICE: Final = replace(
    LLM_D_OLDEST, requests=Match(services=_SERVICES, names=_REQUESTS, kinds=frozenset({SERVER}))
)

LLM_D: Final = replace(
    LLM_D_OLDEST,
    requests=Match(scope_prefixes=_SCOPES, names=_REQUESTS, kinds=frozenset({SERVER})),
    parts=_PARTS,
)
