"""The release check over the API."""

from dataclasses import replace
from decimal import Decimal

import pytest
from boards import NOW_NS, LedgerBoard
from builders import slo
from busy import client_of
from released import DAY, release
from starlette.testclient import TestClient

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.alerting import Severity, Tier
from slo_exporter.slo.policy import OnNoData, ReleasePolicy

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


KEYS = [
    "allowed",
    "decision",
    "reasons",
    "slos",
    "service",
    "as_of",
    "policy",
    "alerts",
    "override",
    "expected_cost",
    "id",
]


def test_an_answer_says_what_it_was_made_from(client: TestClient) -> None:
    """Who was judged, by which policy, and how current the counts are."""
    answer = client.get(f"{CHECK}?service=chat&max_burn_1h=2.5").json()
    assert list(answer) == KEYS
    assert answer["policy"] == {"min_remaining": 0.0, "max_burn_1h": 2.5, "on_no_data": "undecided"}
    assert (answer["service"], answer["as_of"]) == ("chat", "2026-11-30T12:00:03.250000Z")
    assert (answer["alerts"], answer["override"], answer["expected_cost"], answer["id"]) == ([], None, [], None)


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("service=chat&max_burn_1h=0.9", 200, None),
        (
            "service=chat&max_burn_1h=0.5",
            412,
            (
                "availability",
                "burn_too_high",
                "the budget burns at 0.9 over 1h, 0.5 is the most: 90 bad events",
                "denies",
            ),
        ),
        ("service=embed&on_no_data=deny", 412, ("latency", "no_data", "no event was counted in 7d", "denies")),
        ("service=embed&on_no_data=undecided", 503, ("latency", "no_data", "no event was counted in 7d", "undecided")),
        ("service=embed&on_no_data=allow", 200, ("latency", "no_data", "no event was counted in 7d", "ignored")),
    ],
)
def test_what_is_asked_decides(
    client: TestClient, query: str, status: int, reason: tuple[str, str, str, str] | None
) -> None:
    """Each reason says what it does."""
    answer = client.get(f"{CHECK}?{query}")
    assert answer.status_code == status
    assert [tuple(one.values()) for one in answer.json()["reasons"]] == ([] if reason is None else [reason])


def test_a_service_has_a_policy_of_its_own() -> None:
    """What the SLO file says is asked where nobody says otherwise."""
    strict = replace(slo(), release=ReleasePolicy(Decimal("0.5"), Decimal("0.1"), OnNoData.DENY))
    client = client_of(LedgerBoard([strict], [(9_942, 58, 0)]))
    answer = client.get(f"{CHECK}?service=chat").json()
    assert [one["code"] for one in answer["reasons"]] == ["below_minimum", "burn_too_high"]
    assert answer["policy"] == {"min_remaining": 0.5, "max_burn_1h": 0.1, "on_no_data": "deny"}
    assert client.get(f"{CHECK}?service=chat&min_remaining=0&max_burn_1h=9").json()["decision"] == "allow"


def test_a_page_denies_and_a_ticket_does_not() -> None:
    """Both are listed."""
    page, ticket = (Severity.PAGE, Tier.QUICK), (Severity.TICKET, Tier.QUICK)
    board = LedgerBoard([slo(), slo("other")], [(1000, 1, 0)] * 2, firing={0: {page: NOW_NS}, 1: {ticket: NOW_NS}})
    client = client_of(board)
    answer = client.get(f"{CHECK}?service=chat").json()
    assert [(one["slo"], one["code"], one["effect"]) for one in answer["reasons"]] == [
        ("latency", "alert_active", "denies")
    ]
    assert [(one["slo"], one["severity"]) for one in answer["alerts"]] == [("latency", "page"), ("other", "ticket")]
    assert answer["alerts"] == client.get("/api/v1/alerts?service=chat").json()["items"]
    assert client.get(f"{CHECK}?service=chat&slo=other").json()["decision"] == "allow"


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("min_remaining=1.01", "min_remaining: Input should be less than or equal to 1"),
        ("min_remaining=-0.1", "min_remaining: Input should be greater than or equal to 0"),
        ("max_burn_1h=-1", "max_burn_1h: Input should be greater than or equal to 0"),
        ("max_burn_1h=nan", "max_burn_1h: Input should be a finite number"),
        ("on_no_data=maybe", "on_no_data: Input should be 'deny', 'undecided' or 'allow'"),
        ("override=x", "unknown parameter 'override'"),
        ("max_burn_1h=1&max_burn_1h=2", "parameter 'max_burn_1h' stands more than once; it takes one value"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client: TestClient, query: str, detail: str) -> None:
    """Nothing is decided by a number that nothing can meet, or by a word that nobody reads."""
    answer = client.get(f"{CHECK}?service=chat&{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["detail"].startswith(detail)


def test_past_releases_say_what_the_next_may_cost() -> None:
    """The median and the most of complete ones, of the SLOs that are judged."""
    days = [(20 * DAY, 0, 90_000, 0)] + [(day * DAY - 3600, 0, 990, 10 * day) for day in (2, 3, 4)]
    board = LedgerBoard([slo(), slo("silent")], [(1, 0, 0), (0, 0, 0)], started_days_ago=(40, 40), earlier=days)
    board.released = [release(day * DAY, day) for day in (0, 2, 3, 4)]
    (cost,) = client_of(board).get(f"{CHECK}?service=chat").json()["expected_cost"]
    assert (cost["slo"], cost["releases"]) == ("latency", 3)
    assert 0.02 < cost["median_ratio"] < cost["most_ratio"] < 0.05
    assert client_of(board).get(f"{CHECK}?service=chat&slo=silent").json()["expected_cost"] == []
