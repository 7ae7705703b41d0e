"""Every error of the API, and what every response carries."""

from http import HTTPStatus

import httpx2
import pytest
from boards import NOW_NS, LedgerBoard
from builders import ManualClock
from busy import client_of
from fastapi import FastAPI, HTTPException
from serving import serving
from starlette.testclient import TestClient

from slo_exporter.slo.report import BudgetReport
from slo_exporter.slo.snapshot import Standing
from slo_exporter.web.api import problems
from slo_exporter.web.api.app import create
from slo_exporter.web.metrics.requests import RequestMetrics

SLO_ROUTES = (
    "/api/v1/slos",
    "/api/v1/slos/chat/latency",
    "/api/v1/slos/chat/latency/budget",
    "/api/v1/slos/chat/latency/history",
    "/api/v1/slos/chat/latency/corrections",
    "/api/v1/release-check?service=chat",
    "/api/v1/releases",
    "/api/v1/decisions",
    "/api/v1/services/chat/breakdown",
)
PATHS = (*SLO_ROUTES, "/", "/metrics", "/healthz", "/readyz", "/openapi.json", "/nothing")


class BrokenBoard(LedgerBoard):
    """Fails at every question about SLOs."""

    def reports(self, now_ns: int, service: str | None = None) -> list[BudgetReport]:
        """Fail."""
        raise RuntimeError(f"secret of {service} at {now_ns}")

    def standing(self, now_ns: int) -> Standing:
        """Fail."""
        raise RuntimeError(f"secret at {now_ns}")


@pytest.mark.parametrize(
    ("method", "path", "status", "detail"),
    [
        ("GET", "/nothing", 404, "there is nothing at /nothing"),
        ("GET", "/api/v1/slos/", 404, "there is nothing at /api/v1/slos/"),
        ("GET", "/api/v1/slos/chat/no", 404, "service 'chat' has no SLO 'no'; /api/v1/slos lists what there is"),
        ("GET", "/api/v1/slos/no/no/budget", 404, "service 'no' has no SLO 'no'; /api/v1/slos lists what there is"),
        ("GET", "/api/v1/release-check?service=no", 404, "service 'no' has no SLO; /api/v1/slos lists what there is"),
        ("POST", "/api/v1/slos", 405, "POST is not possible here"),
        ("DELETE", "/api/v1/slos/chat/latency/budget", 405, "DELETE is not possible here"),
        ("GET", "/api/v1/release-check", 422, "service: Field required"),
        ("GET", "/api/v1/slos?limit=0", 422, "limit: Input should be greater than or equal to 1"),
        ("GET", "/api/v1/slos?limit=1001", 422, "limit: Input should be less than or equal to 1000"),
    ],
)
def test_errors_are_problems(client: TestClient, method: str, path: str, status: int, detail: str) -> None:
    """Each error says what failed, in the same form."""
    response = client.request(method, path)
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json() == {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    assert response.status_code == status


def test_405_says_what_is_allowed(client: TestClient) -> None:
    """Allow stays on the problem."""
    assert client.post("/api/v1/slos").headers["allow"] == "GET"
    assert client.options("/api/v1/slos/chat/latency").headers["allow"] == "DELETE, GET, PUT"


@pytest.mark.parametrize("error", [HTTPException(409), HTTPException(404), HTTPException(503, "the moon is full")])
def test_any_http_error_is_a_problem(error: HTTPException) -> None:
    """With words of its own, or with the usual ones."""
    app = FastAPI()
    problems.install(app)

    @app.get("/")
    async def fail() -> None:
        raise error

    answer = TestClient(app).get("/").json()
    usual = {404: "there is nothing at /"}
    assert answer["detail"] == usual.get(error.status_code, error.detail)
    assert (answer["status"], answer["title"]) == (error.status_code, HTTPStatus(error.status_code).phrase)


def test_head_answers_as_get_without_a_body(board: LedgerBoard) -> None:
    """As `curl -I` and load balancers ask, over a real connection."""
    app = create(board, RequestMetrics(), ManualClock(NOW_NS))
    with serving(app) as url, httpx2.Client(base_url=url, trust_env=False) as real:
        for path in PATHS:
            asked, whole = real.head(path), real.get(path)
            assert (asked.status_code, asked.content) == (whole.status_code, b""), path
            assert asked.headers == {**whole.headers, "date": asked.headers["date"]}, path


@pytest.mark.parametrize("path", ["/api/v1/slos", "/metrics", "/", "/api/v1/release-check?service=chat"])
def test_a_failure_is_a_problem_without_secrets(path: str) -> None:
    """A bug answers 500 and keeps its exception to the log."""
    response = client_of(BrokenBoard()).get(path)
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "secret" not in response.text


@pytest.mark.parametrize("path", [*SLO_ROUTES, "/api/v1/release-check"])
def test_nothing_is_answered_before_the_counts_are_loaded(board: LedgerBoard, client: TestClient, path: str) -> None:
    """Without counts in memory the answer is 503 with Retry-After and the reason."""
    board.loaded, board.unready = False, "the database is away"
    response = client.get(path)
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"] == "the counts are not loaded: the database is away"


@pytest.mark.parametrize("path", SLO_ROUTES)
def test_reads_go_on_while_the_database_is_away(board: LedgerBoard, client: TestClient, path: str) -> None:
    """What was counted is in memory and has its age."""
    board.unready = "the database is away"
    assert client.get(path).status_code == 200


def test_not_ready_while_exports_are_refused(board: LedgerBoard, client: TestClient) -> None:
    """A load balancer sees 503, Retry-After and the reason."""
    board.unready = "the database is away"
    response = client.get("/readyz")
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert response.json()["detail"] == "not ready: the database is away"


def test_liveness_does_not_depend_on_readiness(board: LedgerBoard, client: TestClient) -> None:
    """A database that is away is no reason to restart the process."""
    board.unready = "the database is away"
    assert (client.get("/healthz").status_code, client.get("/healthz").text) == (200, "ok\n")


def test_ready_when_the_board_is(client: TestClient) -> None:
    """200 and one word."""
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (200, "ready\n")


@pytest.mark.parametrize("path", PATHS)
def test_every_response_is_safe(client: TestClient, path: str) -> None:
    """Nothing is cached, guessed, framed or shared with other origins."""
    headers = client.get(path, headers={"Origin": "https://evil.example"}).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"].startswith("default-src 'none'; ")
    assert not {"access-control-allow-origin", "set-cookie"} & set(headers)


@pytest.mark.parametrize(
    "path", ["/api/v1/release-check?service=chat&min_remainig=0.9", "/api/v1/slos?sevice=chat", f"{SLO_ROUTES[1]}?x=1"]
)
def test_a_misspelled_parameter_decides_nothing(client: TestClient, path: str) -> None:
    """A parameter that means nothing is refused by name: a typo must not allow a release."""
    response = client.get(path)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert response.json()["detail"].startswith("unknown parameter ")
