"""The release check over the API."""

from dataclasses import replace

import pytest
from boards import LedgerBoard
from builders import slo
from busy import client_of
from starlette.testclient import TestClient

from slo_exporter.clock import SECOND_NS

CHECK = "/api/v1/release-check"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("query", "status", "decision", "codes"),
    [
        ("service=chat", 200, "allow", []),
        ("service=chat&min_remaining=0.1", 200, "allow", []),
        ("service=chat&min_remaining=0.5", 412, "deny", [("availability", "below_minimum")]),
        ("service=chat&slo=latency&min_remaining=0.5", 200, "allow", []),
        (
            "service=chat&slo=latency&slo=availability&min_remaining=0.5",
            412,
            "deny",
            [("availability", "below_minimum")],
        ),
        ("service=search", 412, "deny", [("ttft", "exhausted")]),
        ("service=search&always200=1", 200, "deny", [("ttft", "exhausted")]),
        ("service=embed", 503, "undecided", [("latency", "no_data")]),
        ("service=embed&always200=1", 200, "undecided", [("latency", "no_data")]),
        ("service=batch", 503, "undecided", [("nightly", "insufficient_data")]),
    ],
)
def test_decisions(
    client: TestClient, method: str, query: str, status: int, decision: str, codes: list[tuple[str, str]]
) -> None:
    """The status alone says the decision, the body says why; GET and POST agree."""
    response = client.request(method, f"{CHECK}?{query}")
    answer = response.json()
    assert (response.status_code, answer["decision"]) == (status, decision)
    assert answer["allowed"] == {"allow": True, "deny": False, "undecided": None}[decision]
    assert [(reason["slo"], reason["code"]) for reason in answer["reasons"]] == codes
    assert all(reason["message"] for reason in answer["reasons"])
    assert response.headers["content-type"] == "application/json"


def test_the_budgets_behind_a_decision_are_shown(client: TestClient) -> None:
    """The slos of an answer are their budget answers."""
    answer = client.get(f"{CHECK}?service=search").json()
    assert answer["slos"] == [client.get("/api/v1/slos/search/ttft/budget").json()]


def test_an_slo_named_twice_is_judged_once(client: TestClient) -> None:
    """Repeating a name adds nothing."""
    assert len(client.get(f"{CHECK}?service=chat&slo=latency&slo=latency").json()["slos"]) == 1


@pytest.mark.parametrize(
    "query", ["service=nobody", "service=chat&slo=nothing", "service=chat&slo=latency&slo=nothing"]
)
def test_unknown_names_are_404(client: TestClient, query: str) -> None:
    """A typo never allows a release."""
    assert client.get(f"{CHECK}?{query}").status_code == 404


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf", "1e999", "much", ""])
def test_min_remaining_is_a_finite_number(client: TestClient, bad: str) -> None:
    """A minimum that nothing or everything passes is refused."""
    response = client.get(CHECK, params={"service": "chat", "min_remaining": bad})
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert response.json()["detail"].startswith("min_remaining: ")


def test_a_release_waits_for_the_counts(board: LedgerBoard, client: TestClient) -> None:
    """Before the counts are loaded there is no decision, for Argo either."""
    board.loaded = False
    assert client.get(f"{CHECK}?service=chat&always200=1").status_code == 503


def test_stale_data_cannot_decide() -> None:
    """An SLO whose newest event is older than it may be leaves the decision open."""
    hasty = replace(slo(), max_data_age_ns=5 * SECOND_NS)
    answer = client_of(LedgerBoard([hasty], [(10, 0, 0)])).get(f"{CHECK}?service=chat")
    assert (answer.status_code, answer.json()["reasons"][0]["code"]) == (503, "stale")
