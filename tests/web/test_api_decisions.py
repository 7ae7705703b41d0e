"""Decisions that are kept: a release check with a token, and what it leaves behind."""

from urllib.parse import quote

import pytest
from boards import LedgerBoard
from starlette.testclient import TestClient
from writing import CI, writer_of

CHECK = "/api/v1/release-check"
PARAMETERS = "always200, max_burn_1h, min_remaining, on_no_data, override, service, slo"
UNPRINTABLE = "holds a character that cannot be printed"
SRE = {"Authorization": "Bearer sre-secret"}


@pytest.fixture
def writer(board: LedgerBoard) -> TestClient:
    """A client of the busy board that may write."""
    return writer_of(board)


def test_with_a_token_the_decision_is_kept(board: LedgerBoard, writer: TestClient) -> None:
    """Under its name, with all that it was made from; the answer is the same but for its number."""
    plain = writer.post(f"{CHECK}?service=search").json()

    answer = writer.post(f"{CHECK}?service=search", headers=CI)

    assert (answer.status_code, answer.json()) == (412, {**plain, "id": 1})
    assert writer.get("/api/v1/decisions/1").json() == {
        "id": 1,
        "at": "2026-11-30T12:00:03.250000Z",
        "who": "ci",
        "service": "search",
        "decision": "deny",
        "allowed": False,
        "override": None,
        "answer": answer.json(),
    }
    assert board.checks == ["deny", "deny"]


def test_without_a_token_nothing_is_kept(board: LedgerBoard, writer: TestClient) -> None:
    """GET keeps nothing with one either."""
    for answer in (
        writer.post(f"{CHECK}?service=chat"),
        writer.get(f"{CHECK}?service=chat", headers=CI),
    ):
        assert (answer.status_code, answer.json()["id"]) == (200, None)
    assert board.decided == []


@pytest.mark.parametrize("header", ["Basic Y2k6Y2k=", "Bearer", "Bearer ", "ci-secret", "", "bearer"])
def test_a_header_without_a_bearer_token_is_no_anonymous_question(
    board: LedgerBoard, writer: TestClient, header: str
) -> None:
    """Whoever sends one means to be known: 401, or 403 where nobody may write."""
    answer = writer.post(f"{CHECK}?service=chat", headers={"Authorization": header})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["detail"] == "a write needs a token: send the header Authorization: Bearer TOKEN"
    assert writer.post("/api/v1/releases", headers={"Authorization": header}).status_code == 401
    refusing = writer_of(board, {})
    assert refusing.post(f"{CHECK}?service=chat", headers={"Authorization": header}).status_code == 403
    assert (board.decided, board.checks) == ([], [])


def test_the_list_is_flat_and_the_newest_comes_first(writer: TestClient) -> None:
    """Of a service or of all, page by page."""
    writer.post(f"{CHECK}?service=chat", headers=CI)
    writer.post(f"{CHECK}?service=embed", headers=SRE)
    writer.post(f"{CHECK}?service=search&override=outage", headers=SRE)

    items = writer.get("/api/v1/decisions").json()["items"]
    assert [(one["id"], one["who"], one["decision"], one["allowed"], one["override"]) for one in items] == [
        (3, "sre", "allow", True, "outage"),
        (2, "sre", "undecided", None, None),
        (1, "ci", "allow", True, None),
    ]
    assert writer.get("/api/v1/decisions?service=embed").json() == {"items": [items[1]], "next": None}
    first = writer.get("/api/v1/decisions?limit=2").json()
    assert (first["items"], first["next"]) == (items[:2], "2")
    assert writer.get("/api/v1/decisions?limit=2&cursor=2").json() == {"items": items[2:], "next": None}


def test_an_override_allows_and_says_who(board: LedgerBoard, writer: TestClient) -> None:
    """Its reasons stay; it is kept with what it overrode."""
    answer = writer.post(CHECK, params={"service": "search", "override": " outage: fix \n"}, headers=SRE)

    assert answer.status_code == 200
    found = answer.json()
    assert (found["allowed"], found["decision"]) == (True, "allow")
    assert found["override"] == {"who": "sre", "why": "outage: fix"}
    assert [(one["slo"], one["code"], one["effect"]) for one in found["reasons"]] == [
        ("ttft", "exhausted", "overridden"),
        ("", "overridden", "allows"),
    ]
    assert found["reasons"][1]["message"] == "sre allows it: outage: fix"
    assert (board.checks, board.decided[0].override) == (["overridden"], "outage: fix")


def test_an_override_that_was_not_needed_is_none(board: LedgerBoard, writer: TestClient) -> None:
    """The decision is the budgets'; that somebody wanted one stands in the answer."""
    answer = writer.post(f"{CHECK}?service=chat&override=just+in+case", headers=SRE).json()
    assert (answer["reasons"], answer["override"]["why"]) == ([], "just in case")
    assert (board.checks, board.decided[0].override) == (["allow"], None)


@pytest.mark.parametrize(
    ("query", "token", "status", "detail"),
    [
        ("", "nobody", 401, "this server does not know the token"),
        ("&override=x", None, 401, "a write needs a token: send the header Authorization: Bearer TOKEN"),
        ("&override=x", "nobody", 401, "this server does not know the token"),
        ("&override=", "ci-secret", 422, "override: is empty; write why"),
        ("&override=+", "ci-secret", 422, "override: is empty; write why"),
        *(
            (f"&override=a{quote(odd)}b", "ci-secret", 422, f"override: {UNPRINTABLE}; write why")
            for odd in ("\n", "\0", "\x1b", "\u200b", "\u202e", "\u2066", "\ufeff")
        ),
        (f"&override={'x' * 1001}", "ci-secret", 422, "override: is longer than 1000 characters; write why"),
        (
            "&overide=x",
            "ci-secret",
            422,
            f"unknown parameter 'overide'; parameters are: {PARAMETERS}",
        ),
    ],
)
def test_what_is_refused_decides_nothing(
    board: LedgerBoard, writer: TestClient, query: str, token: str | None, status: int, detail: str
) -> None:
    """An unknown token is an error, not an anonymous question."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answer = writer.post(f"{CHECK}?service=search{query}", headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)
    assert (board.decided, board.checks) == ([], [])


def test_where_nobody_may_write_nobody_overrides(board: LedgerBoard) -> None:
    """Without a configured token; the question itself is answered."""
    client = writer_of(board, {})
    assert client.post(f"{CHECK}?service=search&override=x").status_code == 403
    assert client.post(f"{CHECK}?service=search", headers=CI).status_code == 403
    assert client.post(f"{CHECK}?service=search").status_code == 412


@pytest.mark.parametrize("query", ["service=chat", "service=search&override=x", "service=chat&always200=1"])
def test_a_decision_that_cannot_be_kept_is_not_given(board: LedgerBoard, writer: TestClient, query: str) -> None:
    """While the database is away: 503 with Retry-After, which is not the 503 of a decision."""
    board.away = "database"
    answer = writer.post(f"{CHECK}?{query}", headers=CI)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "nothing can be written now: database"
    assert board.checks == []
    assert writer.post(f"{CHECK}?service=chat").status_code == 200


def test_a_body_is_of_no_account_but_bounded(writer: TestClient) -> None:
    """Flagger sends its own JSON."""
    flagger = {"name": "podinfo", "namespace": "test", "phase": "Progressing", "checksum": "1", "metadata": {}}
    assert writer.post(f"{CHECK}?service=chat", json=flagger).status_code == 200
    assert writer.post(f"{CHECK}?service=chat", content=b"\xff not JSON").status_code == 200
    assert writer.post(f"{CHECK}?service=chat", content=b"x" * 70_000).status_code == 413


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/7", 404, "there is no decision 7; /api/v1/decisions lists what there is"),
        ("/x", 422, "id: Input should be a valid integer, unable to parse string as an integer"),
        ("?limit=501", 422, "limit: Input should be less than or equal to 500"),
        ("?cursor=x", 422, "cursor: Input should be a valid integer, unable to parse string as an integer"),
        ("?servce=chat", 422, "unknown parameter 'servce'; parameters are: cursor, limit, service"),
    ],
)
def test_what_is_not_there(writer: TestClient, path: str, status: int, detail: str) -> None:
    """Each says what would be right."""
    answer = writer.get(f"/api/v1/decisions{path}")
    assert (answer.status_code, answer.json()["detail"]) == (status, detail)
