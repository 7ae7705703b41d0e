"""
HTTP servers of any kind, by the semantic conventions, old names and new.

It stands last: a span of a framework we know is told of by that one. In a
service with an engine it yields to the engine's span, unless it failed.

Source: OpenTelemetry semantic conventions v1.44, HTTP spans; v1.20 for the old
names.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import STATUS_ERROR, STATUS_OK, Convention, Part
from slo_exporter.ingest.otlp.conventions.match import INTERNAL, SERVER, Match
from slo_exporter.ingest.otlp.conventions.numbers import counts, numbers
from slo_exporter.ingest.otlp.conventions.texts import text_of
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.sli.records import Ints, Layer, Mask, Outcome

_STATUS_CODES: Final = ("http.response.status_code", "http.status_code")
_ERROR_TYPE: Final = "error.type"
_PATHS: Final = ("http.route", "url.path", "http.target")
_URLS: Final = ("url.full", "http.url")


def is_probe(spans: SpanBatch, ignore_routes: tuple[str, ...]) -> Mask:
    """
    Spans of which any text says one of *ignore_routes*.

    A route may be a pattern such as ``/{path:path}``, which says less than the
    path beside it. A slash at the end makes no difference.
    """
    exact = {route.rstrip("/") for route in ignore_routes if not route.endswith("*")}
    prefixes = tuple(route[:-1] for route in ignore_routes if route.endswith("*"))

    def ignored(path: str) -> bool:
        return path.rstrip("/") in exact or path.startswith(prefixes)

    def named(key: str, path_of: Callable[[str], str]) -> Mask:
        texts = text_of(spans.attributes.get(key), len(spans))
        return texts.among({text for text in texts.values if ignored(path_of(text))})

    probes: Mask = np.logical_or.reduce(
        [*(named(key, _without_query) for key in _PATHS), *(named(key, _path_of_url) for key in _URLS)]
    )
    return probes


def _without_query(target: str) -> str:
    return target.partition("?")[0].partition("#")[0]


def _path_of_url(url: str) -> str:
    _, _, rest = _without_query(url).partition("://")
    return "/" + rest.partition("/")[2]


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """
    What the response says; without one, what the span says.

    A 4xx stays the client's where the span says ERROR: instrumentations differ
    in what they call an error. A response that broke off has its status code
    and an ``error.type``. A span that says nothing is incomplete.
    """
    code = _status_code(spans)
    failed = (spans.status == STATUS_ERROR) | _has_error_type(spans)
    rules = (
        (code == 499, Outcome.CANCELLED),
        (code == 429, Outcome.RATE_LIMITED),
        (code >= 500, Outcome.ERROR),
        (code >= 400, Outcome.CLIENT_ERROR),
        (failed, Outcome.ERROR),
        ((code >= 100) | (spans.status == STATUS_OK), Outcome.OK),
    )
    conditions, outcomes = zip(*rules, strict=True)
    chosen: NDArray[np.uint8] = np.select(conditions, outcomes, default=Outcome.INCOMPLETE).astype(np.uint8)
    return chosen


def _has_error_type(spans: SpanBatch) -> Mask:
    column = spans.attributes.get(_ERROR_TYPE)
    return np.zeros(len(spans), dtype=np.bool_) if column is None else column.kind == ValueKind.TEXT


def _status_code(spans: SpanBatch) -> Ints:
    """Below 100 where there is none."""
    new, old = (counts(numbers(spans.attributes.get(key), len(spans))) for key in _STATUS_CODES)
    code = np.where(new < 0, old, new)
    return np.where(code < 600, code, 0)


HTTP_SERVER: Final = Convention(
    framework="http",
    requests=Match(kinds=frozenset({SERVER}), attributes=("http.request.method", "http.method")),
    # ASGI instrumentation writes a span per message of a request or response.
    parts=(Part(match=Match(kinds=frozenset({INTERNAL}), attributes=("asgi.event.type",))),),
    probe=is_probe,
    layer=Layer.HTTP,
    outcome=outcome,
    also_reads=(*_STATUS_CODES, _ERROR_TYPE, *_PATHS, *_URLS),
)
