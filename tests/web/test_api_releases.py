"""Releases over the API: what went out, and what it cost."""

import pytest
from boards import LedgerBoard
from builders import slo
from released import DAY, release
from starlette.testclient import TestClient
from writing import CI, writer_of

RELEASES = "/api/v1/releases"
AT = "2026-11-30T11:00:00Z"


@pytest.fixture
def board() -> LedgerBoard:
    """Two SLOs of chat, one of search; half an hour ago one of chat spent budget."""
    return LedgerBoard(
        [slo(), slo("ttft"), slo(service="search")],
        [(0, 0, 0)] * 3,
        started_days_ago=(40, 40, 40),
        earlier=[(20 * DAY, 0, 9_000, 0), (30 * 3600, 0, 998, 2), (1800, 0, 990, 10), (1800, 1, 99, 1)],
    )


@pytest.fixture
def client(board: LedgerBoard) -> TestClient:
    """A client that may write."""
    return writer_of(board)


def test_a_release_is_kept_and_charged(board: LedgerBoard, client: TestClient) -> None:
    """Who is the token's name; the answer has what it cost each SLO so far."""
    answer = client.post(RELEASES, json={"service": "chat", "version": "v1", "at": AT, "note": "canary"}, headers=CI)

    assert answer.status_code == 201
    found = answer.json()
    slos = found.pop("slos")
    assert found == {
        "id": 1,
        "service": "chat",
        "version": "v1",
        "at": AT,
        "who": "ci",
        "note": "canary",
        "complete": False,
        "slo": "ttft",
        "spent_ratio": 1.0,
        "before_ratio": None,
        "made": "2026-11-30T12:00:03.250000Z",
    }
    assert slos[0] == {
        "slo": "latency",
        "from": AT,
        "to": "2026-11-30T12:00:05Z",
        "bad": 10,
        "total": 1000,
        "spent_ratio": 10 / 110,
        "before_ratio": None,
        "complete": False,
    }
    assert board.said == ["ci releases chat v1"]
    assert client.get(f"{RELEASES}/1").json() == answer.json()


def test_a_release_is_now_unless_somebody_says_when(client: TestClient) -> None:
    """And has no note."""
    found = client.post(RELEASES, json={"service": "chat", "version": "v1"}, headers=CI).json()
    assert (found["at"], found["note"]) == ("2026-11-30T12:00:03.250000Z", "")


def test_the_same_release_is_made_once(client: TestClient) -> None:
    """A repetition hears 200 and the same number; in another zone it is the same instant."""
    asked = {"service": "chat", "version": "v1", "at": AT}
    first = client.post(RELEASES, json=asked, headers=CI)
    again = client.post(RELEASES, json={**asked, "at": "2026-11-30T19:00:00+08:00", "note": "x"}, headers=CI)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert len(client.get(RELEASES).json()["items"]) == 1


def test_the_list_has_the_slo_that_paid_most(board: LedgerBoard, client: TestClient) -> None:
    """Flat, the newest first, page by page."""
    board.released = [release(3600, 1), release(2 * DAY, 2), release(60, 3, service="search")]

    items = client.get(RELEASES).json()["items"]

    assert [(one["version"], one["slo"], one["spent_ratio"], one["complete"]) for one in items] == [
        ("v3", None, None, False),
        ("v1", "ttft", 1.0, False),
        ("v2", "latency", 2 / 100, True),
    ]
    assert set(items[0]) == {
        "id", "service", "version", "at", "who", "note", "complete", "slo", "spent_ratio", "before_ratio"
    }  # fmt: skip
    assert client.get(f"{RELEASES}?service=search").json() == {"items": items[:1], "next": None}
    first = client.get(f"{RELEASES}?limit=1").json()
    assert first["items"] == items[:1]
    assert client.get(RELEASES, params={"limit": 2, "cursor": first["next"]}).json() == {
        "items": items[1:],
        "next": None,
    }


def test_the_day_before_stands_beside(board: LedgerBoard, client: TestClient) -> None:
    """The same share, of the day that ended with the release."""
    board.released = [release(DAY)]
    found = client.get(f"{RELEASES}/1").json()["slos"][0]
    assert (found["before_ratio"], found["spent_ratio"]) == (2 / 100, 10 / 110)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "service: is required; version: is required"),
        ({"service": "chat", "version": ""}, "version: is empty"),
        ({"service": "chat", "version": "x" * 129}, "version: is longer than 128 characters"),
        ({"service": "chat", "version": "a\nb"}, "version: holds a character that cannot be printed"),
        ({"service": "chat", "version": ["v1"]}, "version: must be one text"),
        ({"service": "chat", "version": "v1", "note": "x" * 1001}, "note: is longer than 1000 characters"),
        ({"service": "chat", "version": "v1", "who": "me"}, "who: is an unknown field; fields are: "),
        ({"service": "chat", "version": "v1", "at": "yesterday"}, "at: 'yesterday' is no time; write RFC 3339"),
        (
            {"service": "chat", "version": "v1", "at": "2026-11-30T12:01:03.250001Z"},
            "at: is in the future; it is 2026-11-30 12:00:03 UTC now",
        ),
        (
            {"service": "chat", "version": "v1", "at": "2026-08-22T12:00:03Z"},
            "at: counts are kept since 2026-08-22 12:00:03 UTC only",
        ),
    ],
)
def test_a_body_that_says_something_else_is_refused(
    board: LedgerBoard, client: TestClient, body: dict[str, object], detail: str
) -> None:
    """Every problem, by field."""
    answer = client.post(RELEASES, json=body, headers=CI)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(detail)
    assert board.released == []


def test_a_clock_of_a_pipeline_may_be_a_little_fast(client: TestClient) -> None:
    """By as much as that of an exporter of spans; nothing is charged to the release before it is there."""
    asked = {"service": "chat", "version": "v1", "at": "2026-11-30T12:01:03.25Z"}
    found = client.post(RELEASES, json=asked, headers=CI)
    assert (found.status_code, found.json()["at"]) == (201, "2026-11-30T12:01:03.250000Z")
    assert (found.json()["slos"][0]["total"], found.json()["spent_ratio"], found.json()["complete"]) == (0, None, False)
    assert client.post(RELEASES, json=asked, headers=CI).status_code == 200


def test_a_version_may_be_long_and_a_note_empty(client: TestClient) -> None:
    """To the last character."""
    asked = {"service": "chat", "version": "ü" * 128, "note": ""}
    assert client.post(RELEASES, json=asked, headers=CI).status_code == 201


def test_a_service_without_slos_has_no_releases(client: TestClient) -> None:
    """A typo is charged to nobody."""
    answer = client.post(RELEASES, json={"service": "chta", "version": "v1"}, headers=CI)
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "service 'chta' has no SLO; /api/v1/slos lists what there is",
    )


def test_a_release_takes_a_token_and_a_database(board: LedgerBoard, client: TestClient) -> None:
    """401, 403 and 503, as every write."""
    asked = {"service": "chat", "version": "v1"}
    assert client.post(RELEASES, json=asked).status_code == 401
    assert writer_of(board, {}).post(RELEASES, json=asked, headers=CI).status_code == 403
    assert client.post(RELEASES, content=b"x" * 70_000, headers=CI).status_code == 413
    board.away = "database"
    answer = client.post(RELEASES, json=asked, headers=CI)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert board.released == []


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/7", 404, "there is no release 7; /api/v1/releases lists what there is"),
        ("/x", 422, "id: Input should be a valid integer, unable to parse string as an integer"),
        ("?limit=101", 422, "limit: Input should be less than or equal to 100"),
        ("?cursor=x", 422, "cursor: is not one that an answer gave"),
        ("?slo=latency", 422, "unknown parameter 'slo'; parameters are: cursor, limit, service"),
    ],
)
def test_what_is_not_there(client: TestClient, path: str, status: int, detail: str) -> None:
    """Each says what would be right."""
    answer = client.get(f"{RELEASES}{path}")
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)
