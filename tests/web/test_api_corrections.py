"""Corrections over the API: ranges whose events do not count."""

import json

import pytest
from boards import LedgerBoard
from builders import slo
from starlette.testclient import TestClient
from writing import CI, writer_of

PATH = "/api/v1/slos/chat/latency/corrections"
ASKED = {"from": "2026-11-30T11:59:51Z", "to": "2026-11-30T12:00:00Z", "why": "a drill"}
"""The events of the board ended at 11:59:53."""


@pytest.fixture
def board() -> LedgerBoard:
    """Nine good events, one bad, three excluded."""
    return LedgerBoard([slo(), slo("other")], [(9, 1, 3), (9, 1, 3)])


@pytest.fixture
def client(board: LedgerBoard) -> TestClient:
    """A client of a server that takes writes."""
    return writer_of(board)


def test_a_correction_says_what_it_did(client: TestClient) -> None:
    """The range that was asked for, the one that was taken, and what was in it."""
    response = client.post(PATH, json=ASKED, headers=CI)
    assert response.status_code == 201
    assert response.json() == {
        "from": "2026-11-30T11:59:50Z",
        "to": "2026-11-30T12:00:00Z",
        "asked_from": "2026-11-30T11:59:51Z",
        "asked_to": "2026-11-30T12:00:00Z",
        "why": "a drill",
        "who": "ci",
        "made": "2026-11-30T12:00:03.250000Z",
        "events": {"good": 9, "bad": 1},
    }


def test_corrected_events_leave_the_budget(client: TestClient) -> None:
    """They are excluded from numerator and denominator, of that SLO only; a second time takes nothing."""
    client.post(PATH, json=ASKED, headers=CI)
    budget = client.get("/api/v1/slos/chat/latency/budget").json()
    assert budget["events"] == {"good": 0, "bad": 0, "total": 0, "excluded": 13}
    assert budget["state"] == "no_data"
    assert client.get("/api/v1/slos/chat/other/budget").json()["events"]["bad"] == 1
    assert client.post(PATH, json=ASKED, headers=CI).json()["events"] == {"good": 0, "bad": 0}


def test_corrections_are_listed_in_their_order(client: TestClient) -> None:
    """Flat, and page by page."""
    assert client.get(PATH).json() == {"items": [], "next": None}
    for hour in range(3):
        client.post(PATH, json={**ASKED, "from": f"2026-11-30T0{hour}:00:00Z"}, headers=CI)
    first = client.get(PATH, params={"limit": 2}).json()
    rest = client.get(PATH, params={"limit": 2, "cursor": first["next"]}).json()
    starts = [item["from"] for item in first["items"] + rest["items"]]
    assert (starts, rest["next"]) == ([f"2026-11-30T0{hour}:00:00Z" for hour in range(3)], None)
    assert not any(isinstance(value, dict | list) for value in first["items"][0].values())
    assert (first["items"][0]["good"], first["items"][0]["bad"], first["items"][0]["who"]) == (9, 1, "ci")


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_give_every_correction_of_one_instant(client: TestClient, limit: int) -> None:
    """Once, in the order in which they were made, also those of the same range."""
    for why in "dcba":
        client.post(PATH, json={**ASKED, "why": why}, headers=CI)
    found, query = "", {"limit": str(limit)}
    while "cursor" not in query or query["cursor"] is not None:
        page = client.get(PATH, params=query).json()
        found, query["cursor"] = found + "".join(item["why"] for item in page["items"]), page["next"]
    assert found == "dcba"


@pytest.mark.parametrize("cursor", ["x", "1", "", "1/2/3"])
def test_a_cursor_comes_from_an_answer(client: TestClient, cursor: str) -> None:
    """Any other is 422."""
    client.post(PATH, json=ASKED, headers=CI)
    response = client.get(PATH, params={"cursor": cursor})
    assert (response.status_code, response.json()["detail"]) == (422, "cursor: is not one that an answer gave")


def test_zones_and_fractions_are_understood(client: TestClient) -> None:
    """The answer is in UTC."""
    asked = {**ASKED, "from": "2026-11-30T19:59:51.5+08:00", "to": "2026-11-30T03:30:00.25-08:30"}
    answer = client.post(PATH, json=asked, headers=CI).json()
    assert (answer["asked_from"], answer["asked_to"]) == ("2026-11-30T11:59:51.500000Z", "2026-11-30T12:00:00.250000Z")
    assert answer["to"] == "2026-11-30T12:00:05Z"


WRONG = {
    "nothing": ({}, "from: is required; to: is required; why: is required"),
    "no zone": ({**ASKED, "from": "2026-11-30T11:00:00"}, "from: '2026-11-30T11:00:00' is no time; write RFC 3339"),
    "a number": ({**ASKED, "from": 1796040000}, "from: '1796040000' is no time; write RFC 3339 with a zone, such as"),
    "no such day": ({**ASKED, "from": "2026-02-30T11:00:00Z"}, "from: '2026-02-30T11:00:00Z' is no time"),
    "a list": ({**ASKED, "from": []}, "from: must be one text"),
    "no reason": ({**ASKED, "why": " "}, "why: is empty"),
    "a long reason": ({**ASKED, "why": "x" * 1001}, "why: is longer than 1000 characters"),
    "another field": ({**ASKED, "who": "me"}, "who: is an unknown field; did you mean why? fields are: from, to, why"),
    "nothing between": ({**ASKED, "to": ASKED["from"]}, "from: must be before to"),
    "the future": (
        {**ASKED, "to": "2026-11-30T12:00:03.250001Z"},
        "to: is in the future; it is 2026-11-30 12:00:03 UTC now",
    ),
    "too long ago": (
        {**ASKED, "from": "2026-08-22T12:00:03Z"},
        "from: counts are kept since 2026-08-22 12:00:03 UTC only",
    ),
}


@pytest.mark.parametrize(("asked", "detail"), WRONG.values(), ids=WRONG)
def test_a_wrong_correction_is_explained(client: TestClient, asked: dict[str, object], detail: str) -> None:
    """422 that names the field; nothing is corrected."""
    response = client.post(PATH, json=asked, headers=CI)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(detail)
    assert client.get(PATH).json()["items"] == []


@pytest.mark.parametrize("body", ["[]", '"x"', "{", ""])
def test_a_body_that_is_no_object_is_refused(client: TestClient, body: str) -> None:
    """422, never 500."""
    response = client.post(PATH, content=body, headers=CI)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_slo_has_no_corrections(client: TestClient, method: str) -> None:
    """404."""
    body = json.dumps(ASKED) if method == "POST" else None
    response = client.request(method, PATH.replace("latency", "no"), content=body, headers=CI)
    assert (response.status_code, response.json()["detail"][:31]) == (404, "service 'chat' has no SLO 'no';")
