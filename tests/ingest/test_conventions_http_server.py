"""Plain HTTP server spans: which are requests, which are probes, how they ended."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from receiving import engines_of

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.export import Export
from slo_exporter.ingest.otlp.reader import Reader
from slo_exporter.sli.records import MISSING, Outcome

SpanOf = Callable[..., Span]
BodyOf = Callable[..., bytes]
GET: Mapping[str, Any] = {"http.request.method": "GET"}
ROUTES = ("/health", "/healthz", "/livez", "/readyz", "/ping", "/metrics", "/version", "/v2/health/*")


@pytest.fixture
def read(span: SpanOf, export_body: BodyOf, now_ns: int) -> Callable[..., Export]:
    """Read one span, given its attributes."""

    def reading(attributes: Mapping[str, Any], *, ignore: tuple[str, ...] = ROUTES, **overrides: Any) -> Export:
        reader = Reader(Declared(ignore_routes=ignore), lateness_ns=600 * SECOND_NS)
        return reader.read(export_body(span(attributes, **overrides)), now_ns).export

    return reading


Read = Callable[..., Export]


@pytest.mark.parametrize("key", ["http.request.method", "http.method"])
def test_a_server_span_with_a_method_is_a_request(read: Read, key: str) -> None:
    """Old names and new; it yields to an engine, and its duration is e2e."""
    export = read({key: "GET", "http.response.status_code": 200})
    requests = export.requests
    assert export.results == {"request": 1, "part": 0, "probe": 0, "unmatched": 0}
    assert (requests.framework.at(0), requests.yields.tolist(), engines_of(export)) == ("http", [True], frozenset())
    assert requests.number("e2e").tolist() == [SECOND_NS]
    assert requests.request_key.tolist() == [0]


@pytest.mark.parametrize("kind", [Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_UNSPECIFIED])
def test_other_kinds_are_no_request(read: Read, kind: int) -> None:
    """A client span tells of a call that we do not serve."""
    assert read(GET, kind=kind).results["unmatched"] == 1


def test_a_server_span_without_a_method_is_no_request(read: Read) -> None:
    """It may be gRPC, or anything."""
    assert read({"rpc.system": "grpc"}).results["unmatched"] == 1


def test_asgi_messages_are_parts(read: Read) -> None:
    """The spans of sends and receives never count."""
    export = read({"asgi.event.type": "http.response.body"}, kind=Span.SPAN_KIND_INTERNAL)
    assert export.results == {"request": 0, "part": 1, "probe": 0, "unmatched": 0}


@pytest.mark.parametrize(
    ("code", "error", "outcome"),
    [
        (200, False, Outcome.OK),
        (204.0, False, Outcome.OK),
        ("302", False, Outcome.OK),
        (200, True, Outcome.ERROR),
        (404, False, Outcome.CLIENT_ERROR),
        (404, True, Outcome.CLIENT_ERROR),
        (429, True, Outcome.RATE_LIMITED),
        (499, True, Outcome.CANCELLED),
        (500, False, Outcome.ERROR),
        (503, True, Outcome.ERROR),
        (None, True, Outcome.ERROR),
        (None, False, Outcome.INCOMPLETE),
        (0, False, Outcome.INCOMPLETE),
        (700, False, Outcome.INCOMPLETE),
        ("soon", True, Outcome.ERROR),
    ],
)
@pytest.mark.parametrize("key", ["http.response.status_code", "http.status_code"])
def test_the_status_code_decides_the_outcome(
    read: Read, key: str, code: object, *, error: bool, outcome: Outcome
) -> None:
    """Where there is none, the status of the span does."""
    attributes = GET if code is None else {**GET, key: code}
    assert read(attributes, error=error).requests.outcome.tolist() == [outcome]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (None, Outcome.OK),
        (200, Outcome.OK),
        (404, Outcome.CLIENT_ERROR),
        (429, Outcome.RATE_LIMITED),
        (500, Outcome.ERROR),
    ],
)
def test_a_span_may_say_that_it_went_well(read: Read, code: int | None, outcome: Outcome) -> None:
    """Status OK stands in for a missing code, and for nothing else."""
    attributes = GET if code is None else {**GET, "http.response.status_code": code}
    status = Status(code=Status.STATUS_CODE_OK)
    assert read(attributes, status=status).requests.outcome.tolist() == [outcome]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(200, Outcome.ERROR), (None, Outcome.ERROR), (404, Outcome.CLIENT_ERROR), (500, Outcome.ERROR)],
)
def test_an_error_type_is_an_error(read: Read, code: int | None, outcome: Outcome) -> None:
    """A stream that broke off has sent its 200; what went wrong stands beside it."""
    attributes = {**GET, "error.type": "ConnectionResetError"}
    if code is not None:
        attributes["http.response.status_code"] = code
    assert read(attributes).requests.outcome.tolist() == [outcome]


@pytest.mark.parametrize(
    ("attributes", "probes"),
    [
        ({"url.path": "/fetch/https://x.example/health"}, 0),
        ({"http.target": "/proxy/http://b.example/metrics?x=1"}, 0),
        ({"url.full": "http://b.example/metrics?x=1"}, 1),
    ],
)
def test_a_url_inside_a_path_is_no_probe(read: Read, attributes: Mapping[str, Any], probes: int) -> None:
    """Only what is a URL by its key is read as one."""
    assert read({**GET, **attributes, "http.response.status_code": 200}).results["probe"] == probes


def test_c13_a_negative_duration_is_missing(read: Read, now_ns: int) -> None:
    """The request counts all the same, at its end."""
    requests = read(GET, start_time_unix_nano=now_ns).requests
    assert requests.number("e2e").tolist() == [MISSING]
    assert requests.end_ns.tolist() == requests.start_ns.tolist() == [now_ns - SECOND_NS]


@pytest.mark.parametrize(
    "where",
    [
        {"http.route": "/health"},
        {"url.path": "/metrics"},
        {"http.target": "/healthz?verbose=1"},
        {"url.full": "http://host:8000/readyz"},
        {"http.url": "https://host/livez?at=/v1#top"},
        {"url.path": "/v2/health/ready"},
        {"url.path": "/ping"},
        {"http.route": "/version"},
        {"http.route": "/metrics/"},
        {"url.full": "http://host/health/?verbose"},
        {"http.route": "/{path:path}", "url.path": "/health"},
        {"http.route": "/health", "url.path": "/api/health"},
        {"http.route": "", "url.path": "/v1/chat", "http.url": "http://host/v2/health/live/"},
    ],
    ids=str,
)
def test_probes_are_no_requests(read: Read, where: Mapping[str, str]) -> None:
    """Whichever key tells the route or path, with or without a slash at its end."""
    assert read({**GET, **where}).results == {"request": 0, "part": 0, "probe": 1, "unmatched": 0}


@pytest.mark.parametrize(
    "where",
    [
        {},
        {"url.path": "/healthy"},
        {"url.path": "/v2/healthy"},
        {"url.path": "/v1/health"},
        {"http.url": "http://host?at=/health"},
        {"http.url": "health"},
        {"http.route": "/"},
        {"http.route": "/{path:path}", "url.path": "/v1/health"},
        {"http.route": 7, "url.path": True},
    ],
    ids=str,
)
def test_other_routes_are_requests(read: Read, where: Mapping[str, Any]) -> None:
    """A route is compared whole."""
    assert read({**GET, **where}).results["request"] == 1


def test_the_operator_says_which_routes_are_probes(read: Read) -> None:
    """Their list replaces ours."""
    assert read({**GET, "url.path": "/internal/up"}, ignore=("/internal/*",)).results["probe"] == 1
    assert read({**GET, "url.path": "/up"}, ignore=("/up/",)).results["probe"] == 1
    assert read({**GET, "http.url": "http://host"}, ignore=("/",)).results["probe"] == 1
    assert read({**GET, "url.path": "/health"}, ignore=()).results["request"] == 1
