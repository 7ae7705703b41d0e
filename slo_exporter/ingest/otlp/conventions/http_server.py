"""
HTTP servers of any kind, by the semantic conventions, old names and new.

It stands last: a span of a framework we know is told of by that one. In a
service with an engine it yields to the engine's span, unless it failed.

An ASGI server (FastAPI, BentoML, KServe) may write a span for every message that
it sends or receives. A response that streams has several bodies, and the first
is sent when the first token is there. A message that never came, since the
client had gone, has a span without its type. Of a websocket there is no request:
its messages are as many as its client likes. FastAPI by itself writes a span for
each step instead, which tells nothing of the request, and calls it a
``ConnectionError`` when the client leaves a response.

Source: OpenTelemetry semantic conventions v1.44, HTTP spans; v1.20 for the old
names; opentelemetry-instrumentation-asgi 0.66b2; fastapi/telemetry of FastAPI 0.165.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import STATUS_ERROR, STATUS_OK, Convention, Part
from slo_exporter.ingest.otlp.conventions.fill import Fill, Measured
from slo_exporter.ingest.otlp.conventions.match import INTERNAL, SERVER, Match
from slo_exporter.ingest.otlp.conventions.numbers import counts, numbers
from slo_exporter.ingest.otlp.conventions.parts import identity
from slo_exporter.ingest.otlp.conventions.texts import text_of
from slo_exporter.ingest.otlp.spans import SpanBatch, ValueKind
from slo_exporter.sli.records import Ints, Layer, Mask, Outcome, Words

_STATUS_CODES: Final = ("http.response.status_code", "http.status_code")
_ERROR_TYPE: Final = "error.type"
_PATHS: Final = ("http.route", "url.path", "http.target")
_URLS: Final = ("url.full", "http.url")
FASTAPI: Final = frozenset({"fastapi"})
"""The scope of what FastAPI writes by itself."""


def is_probe(spans: SpanBatch, ignore_routes: tuple[str, ...]) -> Mask:
    """
    Spans of which any text says one of *ignore_routes*.

    A route may be a pattern such as ``/{path:path}``, which says less than the
    path beside it. A slash at the end makes no difference.
    """
    ignored = ignoring(ignore_routes)

    def named(key: str, path_of: Callable[[str], str]) -> Mask:
        texts = text_of(spans.attributes.get(key), len(spans))
        return texts.among({text for text in texts.values if ignored(path_of(text))})

    probes: Mask = np.logical_or.reduce(
        [*(named(key, path_of_target) for key in _PATHS), *(named(key, path_of_url) for key in _URLS)]
    )
    return probes


def ignoring(ignore_routes: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a path is one of *ignore_routes*."""
    exact = {route.rstrip("/") for route in ignore_routes if not route.endswith("*")}
    prefixes = tuple(route[:-1] for route in ignore_routes if route.endswith("*"))
    return lambda path: path.rstrip("/") in exact or path.startswith(prefixes)


def path_of_target(target: str) -> str:
    """The path of what a request line asks for."""
    return target.partition("?")[0].partition("#")[0]


def path_of_url(url: str) -> str:
    """The path of a URL with a scheme."""
    _, _, rest = path_of_target(url).partition("://")
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
        (_client_left(spans), Outcome.CANCELLED),
        (failed, Outcome.ERROR),
        ((code >= 100) | (spans.status == STATUS_OK), Outcome.OK),
    )
    conditions, outcomes = zip(*rules, strict=True)
    chosen: NDArray[np.uint8] = np.select(conditions, outcomes, default=Outcome.INCOMPLETE).astype(np.uint8)
    return chosen


def _client_left(spans: SpanBatch) -> Mask:
    """As FastAPI says it of itself."""
    errors = text_of(spans.attributes.get(_ERROR_TYPE), len(spans))
    return errors.among({"ConnectionError"}) & spans.scope.among(FASTAPI)


def _has_error_type(spans: SpanBatch) -> Mask:
    column = spans.attributes.get(_ERROR_TYPE)
    return np.zeros(len(spans), dtype=np.bool_) if column is None else column.kind == ValueKind.TEXT


def _status_code(spans: SpanBatch) -> Ints:
    """Below 100 where there is none."""
    new, old = (counts(numbers(spans.attributes.get(key), len(spans))) for key in _STATUS_CODES)
    code = np.where(new < 0, old, new)
    return np.where(code < 600, code, 0)


_EVENT: Final = "asgi.event.type"
_START, _BODY = "http.response.start", "http.response.body"


def bodies_of_whole_responses(spans: SpanBatch, rows: Ints) -> tuple[Ints, Ints]:
    """
    The interval of each of *rows*, sends of a body; none where the start of its response is not here.

    Without it the first body that came may not be the first that was sent: those
    before it left with an earlier export, as the spans of a long stream do.
    """
    starts = np.flatnonzero(spans.attributes[_EVENT].words().among({_START}))
    here = np.isin(_above(spans, rows), _above(spans, starts))
    return spans.start_ns[rows], np.where(here, spans.end_ns[rows], spans.start_ns[rows] - 1)


def _above(spans: SpanBatch, rows: Ints) -> Words:
    """What the spans at *rows* are children of."""
    return identity(spans, spans.parent_id)[rows]


_FIRST_BODY: Final = Fill("ttft", Measured.UNTIL_FIRST, bodies_of_whole_responses, at_least=2)
"""A response that does not stream has one body."""
_PARTS: Final = (
    Part(match=Match(kinds=frozenset({INTERNAL}), texts={_EVENT: frozenset({_BODY})}), fills=(_FIRST_BODY,)),
    Part(match=Match(kinds=frozenset({INTERNAL}), attributes=(_EVENT,))),
    Part(
        match=Match(
            scope_prefixes=("opentelemetry.instrumentation.",),
            kinds=frozenset({INTERNAL}),
            pattern=r".* (http|websocket) (send|receive)",
        )
    ),
    Part(match=Match(scopes=FASTAPI, kinds=frozenset({INTERNAL}), pattern=r"fastapi\.\w+")),
)

HTTP_SERVER: Final = Convention(
    framework="http",
    requests=Match(kinds=frozenset({SERVER}), attributes=("http.request.method", "http.method")),
    parts=_PARTS,
    probe=is_probe,
    layer=Layer.HTTP,
    outcome=outcome,
    also_reads=(*_STATUS_CODES, _ERROR_TYPE, *_PATHS, *_URLS),
)
