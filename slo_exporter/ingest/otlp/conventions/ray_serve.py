"""
Ray Serve: a proxy, a router in it, and a replica for every deployment on the way.

All three write SERVER spans, the last two with HTTP keys as well: the proxy's is
the request. The router's lasts until a replica has taken the request, so it is
the time that the request waited for one; an engine in the replica has a queue of
its own, which says more. A span of the proxy that ends without a status code is
of a request whose response never began.

Without a proxy in front of it (direct ingress) a replica tells of requests that
nothing here counts.

Source: ray/serve/_private/{tracing_utils,proxy,router,replica,http_util,grpc_util}.py
of Ray 2.60.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions import http_server
from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Inner, Part
from slo_exporter.ingest.otlp.conventions.fill import Fill
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.numbers import counts, numbers
from slo_exporter.ingest.otlp.conventions.texts import text_of
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.records import Layer, Outcome

_SCOPES: Final = frozenset({"ray.serve._private.tracing_utils"})
_GRPC_STATUS: Final = "rpc.grpc.status_code"
_HTTP_STATUS: Final = "http.status_code"
_TIMED_OUT: Final = 408
"""What the proxy answers when a request took longer than its ``request_timeout_s``."""

_OUTCOME_OF: Final[Mapping[str, Outcome]] = {
    "OK": Outcome.OK,
    "CANCELLED": Outcome.CANCELLED,
    "RESOURCE_EXHAUSTED": Outcome.RATE_LIMITED,
    **dict.fromkeys(
        (
            "INVALID_ARGUMENT",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "UNAUTHENTICATED",
            "FAILED_PRECONDITION",
            "OUT_OF_RANGE",
        ),
        Outcome.CLIENT_ERROR,
    ),
}
"""By the name of a gRPC status, as Ray writes it; any other is an error."""


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """By the status code of HTTP, or the name of a gRPC status; a request that timed out failed here."""
    by_http = http_server.outcome(spans)
    timed_out = counts(numbers(spans.attributes.get(_HTTP_STATUS), len(spans))) == _TIMED_OUT
    names = text_of(spans.attributes.get(_GRPC_STATUS), len(spans))
    by_name = [_OUTCOME_OF.get(name, Outcome.ERROR) for name in names.values]
    by_grpc = np.array([*by_name, Outcome.OK], dtype=np.uint8)[names.codes]
    by_code = np.where(timed_out, Outcome.ERROR, by_http)
    return np.where(names.codes >= 0, by_grpc, by_code).astype(np.uint8)


RAY_SERVE: Final = Convention(
    framework="ray_serve",
    layer=Layer.FRONT,
    inner=Inner.LAST,
    # A replica alone shows nothing: without a proxy its engine is all that tells of requests.
    is_below=True,
    requests=Match(scopes=_SCOPES, first_words=frozenset({"proxy_http_request", "proxy_grpc_request"})),
    probe=http_server.is_probe,
    parts=(
        Part(
            match=Match(scopes=_SCOPES, first_words=frozenset({"route_to_replica"})),
            fills=(Fill("queue"),),
            tells_model=True,
        ),
        Part(
            match=Match(scopes=_SCOPES, first_words=frozenset({"replica_handle_request"})),
            tells_model=True,
        ),
    ),
    inner_first=frozenset({"queue"}),
    derived=(
        Derived(field="inference", plus=("prefill", "decode")),
        Derived(field="inter_token", plus=("decode",), per_gap=True),
    ),
    request_id="request_id",
    models=("multiplexed_model_id",),
    outcome=outcome,
    also_reads=(*http_server.HTTP_SERVER.also_reads, _GRPC_STATUS),
)
