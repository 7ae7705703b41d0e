"""
NVIDIA Dynamo: a frontend that answers HTTP, and workers with an engine each.

The frontend's span is the request. What a worker writes stands below it, and the
engine's own spans below that: they fill what the frontend does not say, which of
a response that does not stream is time and tokens. A request that had to move
from one worker to another ended as the last one says; where one worker prefills
and another decodes, the first one's figures are those of half a request.

Rust's tracing writes durations as texts, in milliseconds, and every span as
INTERNAL unless told otherwise. Nothing here depends on the scope, whose name is
that of the service. Health checks go through the workers without a frontend.

Source: lib/runtime/src/logging.rs, lib/runtime/src/pipeline/network/egress,
lib/llm/src/http/service/metrics.rs and lib/backend-common/src/adapter.rs of
Dynamo 1.6 and of its main branch since.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import (
    NOT_PREFILL,
    PREFILL,
    STATUS_ERROR,
    Convention,
    Derived,
    Inner,
    Part,
    Source,
)
from slo_exporter.ingest.otlp.conventions.http_server import ignoring, path_of_target, path_of_url
from slo_exporter.ingest.otlp.conventions.match import INTERNAL, SERVER, Match
from slo_exporter.ingest.otlp.conventions.texts import canonical, mapped, text_of
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Layer, Mask, Outcome
from slo_exporter.sli.texts import Texts

_METHOD, _URI = "method", "uri"
_ROLE: Final = "disagg_role"
_CANCELLED, _FINISH, _OUTCOME = "cancelled", "finish_reason", "request.outcome"
_ERRORS: Final = ("error.type", "error_kind")

_ITS_OWN: Final = ("model", "request_id", "x_request_id", "input_tokens", "ttft_ms", "decode_worker_id")
_GENERATE: Final = frozenset({"engine.generate"})
_ROUTING: Final = (
    Match(pattern=r"kv_router\..+"),
    Match(names=frozenset({"router.route_request"}), attributes=("router_mode", "worker_id")),
    Match(names=frozenset({"client_request"}), attributes=("operation", "instance_id")),
)


def is_probe(spans: SpanBatch, ignore_routes: tuple[str, ...]) -> Mask:
    """Who asks a model posts; and neither health nor metrics."""
    ignored = ignoring(ignore_routes)
    uris = text_of(spans.attributes.get(_URI), len(spans))
    posts = text_of(spans.attributes.get(_METHOD), len(spans)).among({"POST"})
    probes: Mask = ~posts | uris.among({uri for uri in uris.values if ignored(_path(uri))})
    return probes


def _path(uri: str) -> str:
    """HTTP/2 asks for a whole URL."""
    target = path_of_target(uri)
    return path_of_url(target) if "://" in target else target


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """
    How a request, or a worker's share of it, ended.

    A stream that its reader drops is an ERROR of the span, and a cancellation. The
    frontend tells of one without any status. What was rejected was wrong, or there
    was no room; the name of the error says which.
    """
    told = text_of(spans.attributes.get(_OUTCOME), len(spans))
    finish = mapped(text_of(spans.attributes.get(_FINISH), len(spans)), _reason)
    cancelled = canonical(spans.attributes.get(_CANCELLED), len(spans)).among({"true", "True"})
    rules: Sequence[tuple[Mask, Outcome]] = (
        (cancelled | finish.among({"dropped", "cancelled"}) | told.among({"cancelled"}), Outcome.CANCELLED),
        (_named(spans, {"resource_exhausted", "worker_overloaded"}), Outcome.RATE_LIMITED),
        (_named(spans, {"invalid_argument", "backend_invalid_argument"}), Outcome.CLIENT_ERROR),
        ((spans.status == STATUS_ERROR) | finish.among({"error"}) | _is_bad(told), Outcome.ERROR),
    )
    conditions, outcomes = zip(*rules, strict=True)
    chosen: NDArray[np.uint8] = np.select(conditions, outcomes, default=Outcome.OK).astype(np.uint8)
    return chosen


def _reason(debug: str) -> str:
    """The variant of a Rust enum as its Debug writes it: ``Error("…")`` is ``error``."""
    return debug.partition("(")[0].lower()


def _named(spans: SpanBatch, names: set[str]) -> Mask:
    columns = (text_of(spans.attributes.get(key), len(spans)) for key in _ERRORS)
    named: Mask = np.logical_or.reduce([column.among(names) for column in columns])
    return named


def _is_bad(told: Texts) -> Mask:
    return told.among(set(told.values) - {"success", "cancelled"})


_TOKENS: Final = {
    "prompt_tokens": Source("input_tokens"),
    "completion_tokens": Source("output_tokens"),
}

DYNAMO: Final = Convention(
    framework="dynamo",
    layer=Layer.FRONT,
    inner=Inner.LAST,
    # Other programs may name a span so: what its frontend alone writes has to be there.
    requests=Match(
        names=frozenset({"http-request"}), kinds=frozenset({INTERNAL, SERVER}), present=(_URI,), attributes=_ITS_OWN
    ),
    probe=is_probe,
    probe_reason="a probe: its route is one of ignore_routes, or its method is not POST",
    parts=(
        Part(
            match=Match(names=frozenset({"handle_payload"}), present=("component", "endpoint", "instance_id")),
            is_below=True,
        ),
        # It makes embeddings of images: none of its tokens and times are those of the answer.
        Part(match=Match(names=_GENERATE, texts={_ROLE: frozenset({"encode"})}), is_below=True),
        *(Part(match=match) for match in _ROUTING),
    ),
    fields={
        "ttft": Source("ttft_ms", "ms", zero_is_missing=True),
        "inter_token": Source("avg_itl_ms", "ms"),
        **_TOKENS,
    },
    derived=(
        Derived(field="inference", plus=("prefill", "decode")),
        Derived(field="inter_token", plus=("decode",), per_gap=True),
        Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),
    ),
    request_id="request_id",
    models=("model",),
    outcome=outcome,
    also_reads=(_METHOD, _URI, _CANCELLED, _FINISH, _OUTCOME, *_ERRORS),
)

DYNAMO_WORKER: Final = replace(
    DYNAMO,
    layer=Layer.ENGINE,
    inner=Inner.IGNORED,
    counts=False,
    is_below=True,
    requests=Match(names=_GENERATE, present=(_ROLE,)),
    probe=None,
    prefill=lambda spans: np.full(len(spans), NOT_PREFILL, dtype=np.uint8),
    parts=(),
    derived=(),
)

DYNAMO_PREFILL: Final = replace(
    DYNAMO_WORKER,
    requests=Match(names=_GENERATE, texts={_ROLE: frozenset({"prefill"})}),
    prefill=lambda spans: np.full(len(spans), PREFILL, dtype=np.uint8),
    # It makes one token, and hands it over.
    fields={"prompt_tokens": _TOKENS["prompt_tokens"]},
)
