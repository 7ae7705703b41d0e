"""SLOs made over the API, and who may make them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

import httpx2
import pytest
from boards import NOW_NS, LedgerBoard
from builders import ManualClock, slo
from serving import serving
from starlette.testclient import TestClient
from writing import CI, ENTRY, TOKENS, writer_of

from slo_exporter.config import slo_file
from slo_exporter.web.api.app import create
from slo_exporter.web.metrics.requests import RequestMetrics

ONE = "/api/v1/slos/chat/ttft"
WRITES = (("PUT", ONE), ("DELETE", ONE), ("POST", "/api/v1/slos/chat/latency/corrections"))


@pytest.fixture
def board() -> LedgerBoard:
    """One SLO, from a file."""
    return LedgerBoard([slo()], [(9, 1, 0)])


@pytest.fixture
def client(board: LedgerBoard) -> TestClient:
    """A client of a server that takes writes."""
    return writer_of(board)


def test_an_slo_is_made_and_shown(client: TestClient, board: LedgerBoard) -> None:
    """201, the declaration as the answer, and the name of the token as who did it."""
    response = client.put(ONE, json=ENTRY, headers=CI)
    assert response.status_code == 201
    assert response.json() == client.get(ONE).json()
    answer = response.json()
    assert (answer["objective"], answer["window"], answer["source"]) == ("0.999", "7d", "api")
    assert answer["indicator"]["requests"] == {"model": ["llama"]}
    assert board.said[0].startswith("ci puts ('chat', 'ttft') ")


def test_the_same_again_changes_nothing(client: TestClient, board: LedgerBoard) -> None:
    """PUT is idempotent: 200, the same answer and the same document."""
    first = client.put(ONE, json=ENTRY, headers=CI)
    again = client.put(ONE, content=json.dumps(ENTRY, indent=3), headers=CI)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert board.said[0] == board.said[1]


def test_the_document_reads_back_to_the_same_slo(client: TestClient, board: LedgerBoard) -> None:
    """What is stored defines the same SLO after a restart."""
    client.put(ONE, json=ENTRY, headers=CI)
    (made,) = (one for one in board.slos if one.name == "ttft")
    document = board.api["chat", "ttft"]
    assert slo_file.from_json(document.encode(), service="chat", name="ttft") == (made, document)


@pytest.mark.parametrize("number", ["0.9", "0.999999999999", "9.99e-1"])
def test_a_number_stays_the_text_it_is(client: TestClient, number: str) -> None:
    """0.999999999999 is exact; what the files do not take, JSON does not either."""
    body = json.dumps(ENTRY).replace("0.999", number)
    response = client.put(ONE, content=body, headers=CI)
    assert response.status_code == (422 if "e" in number else 201)
    assert "e" in number or response.json()["objective"] == number


def test_an_slo_is_retired(client: TestClient) -> None:
    """204 without a body; then it is not there, and cannot be retired again."""
    client.put(ONE, json=ENTRY, headers=CI)
    response = client.delete(ONE, headers=CI)
    assert (response.status_code, response.content) == (204, b"")
    assert client.get(ONE).status_code == 404
    assert client.delete(ONE, headers=CI).status_code == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_file_is_changed_by_its_author_only(client: TestClient, method: str) -> None:
    """409 that says where to change it."""
    body = json.dumps(ENTRY) if method == "PUT" else None
    response = client.request(method, "/api/v1/slos/chat/latency", content=body, headers=CI)
    assert (response.status_code, response.headers["content-type"]) == (409, "application/problem+json")
    assert response.json()["detail"] == (
        "a file defines SLO 'latency' of service 'chat'; change it there, or take it out of the file first"
    )


TEXTS = {
    "no JSON": ("{", "is not JSON: "),
    "nothing": ("", "is not JSON: Expecting value in line 1, column 1"),
    "no UTF-8": (b"\xff", "is not UTF-8 text"),
    "a list": ("[]", "must be an object: one entry of slos:"),
    "a key twice": ('{"window": "1d", "window": "2d"}', "the key 'window' stands twice"),
    "not a number": ('{"objective": NaN}', "holds NaN, which is no number"),
    "null": (
        '{"indicator": {"good": null}}',
        "SLO 'ttft': indicator.good: null is no value; write a text or a number, or leave",
    ),
    "a truth": ('{"window": [true]}', "SLO 'ttft': window.1: true is no value"),
    "half a character": ('{"window": "\\ud800"}', "holds half a character"),
    "too deep": ("[" * 40 + "]" * 40, "nests deeper than 32 levels"),
    "far too deep": ("[" * 30_000, "nests deeper than 32 levels"),
}


@pytest.mark.parametrize(("body", "detail"), TEXTS.values(), ids=TEXTS)
def test_a_body_that_cannot_be_read_is_explained(client: TestClient, body: str | bytes, detail: str) -> None:
    """422, never 500."""
    response = client.put(ONE, content=body, headers=CI)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert response.json()["detail"].startswith(detail)


ENTRIES = {
    "another name": ({**ENTRY, "name": "x"}, "SLO 'ttft': name: must be as in the path, or left out"),
    "all": ({**ENTRY, "objective": 1}, "SLO 'ttft': objective: 1 leaves no error budget; it must be less than 100%"),
    "a typo": ({**ENTRY, "windw": "1d"}, "SLO 'ttft': windw: is an unknown field; did you mean window?"),
    "nothing": ({}, "SLO 'ttft': objective: is required; SLO 'ttft': window: is required; SLO 'ttft': indicator:"),
    "labels": ({**ENTRY, "labels": {"a": "b"}}, "SLO 'ttft': labels: is an unknown field"),
    "too long a window": (
        {**ENTRY, "window": "15d"},
        "SLO 'ttft': window: 15d is longer than counts are kept; retention is 14d",
    ),
}


@pytest.mark.parametrize(("entry", "detail"), ENTRIES.values(), ids=ENTRIES)
def test_a_wrong_entry_is_explained_as_in_a_file(board: LedgerBoard, entry: dict[str, object], detail: str) -> None:
    """Every problem in one answer, with the words of `slo-exporter check`; nothing is changed."""
    board.retention_days = 14
    response = writer_of(board).put(ONE, json=entry, headers=CI)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(detail)
    assert not board.said


@pytest.mark.parametrize("path", ["Chat/ttft", "chat/TTFT", "chat/-"])
def test_the_path_holds_names(client: TestClient, path: str) -> None:
    """A name that no file could have is refused."""
    response = client.put(f"/api/v1/slos/{path}", json=ENTRY, headers=CI)
    assert response.status_code == 422
    assert "is no name; write at most 63" in response.json()["detail"]


def test_a_large_body_is_refused(client: TestClient) -> None:
    """Above 64 KiB, whether it says so or not."""
    assert client.put(ONE, content=b" " * 65_536, headers=CI).status_code == 422
    response = client.put(ONE, content=b" " * 65_537, headers=CI)
    assert (response.status_code, response.headers["content-type"]) == (413, "application/problem+json")


def test_an_slo_retired_since_it_was_made_is_404(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody was faster than the answer."""
    monkeypatch.setattr(LedgerBoard, "definition", _gone)
    response = client.put(ONE, json=ENTRY, headers=CI)
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


def _gone(_board: LedgerBoard, service: str, slo: str) -> NoReturn:
    raise KeyError(service, slo)


@pytest.mark.parametrize(("method", "path"), WRITES)
@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        (None, "Bearer"),
        ("", "Bearer"),
        ("Bearer", "Bearer"),
        ("Basic Y2k6Y2ktc2VjcmV0", "Bearer"),
        ("Bearer wrong", 'Bearer error="invalid_token"'),
        ("Bearer CI-SECRET", 'Bearer error="invalid_token"'),
        (f"Bearer {TOKENS['ci']}", 'Bearer error="invalid_token"'),
    ],
)
def test_without_a_known_token_nothing_is_written(
    client: TestClient, board: LedgerBoard, method: str, path: str, header: str | None, challenge: str
) -> None:
    """401 with a challenge; the digest of a token is no token."""
    response = client.request(method, path, content=b"{", headers={} if header is None else {"Authorization": header})
    assert (response.status_code, response.headers["www-authenticate"]) == (401, challenge)
    assert response.headers["content-type"] == "application/problem+json"
    assert not board.said


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_without_write_tokens_nobody_writes(board: LedgerBoard, method: str, path: str) -> None:
    """403 that says how to allow it, whatever is sent."""
    for headers in ({}, CI):
        response = writer_of(board, {}).request(method, path, json=ENTRY, headers=headers)
        assert response.status_code == 403
        assert "write_tokens" in response.json()["detail"]


def test_each_token_has_its_name(client: TestClient, board: LedgerBoard) -> None:
    """The scheme's name may be written in any case."""
    client.put(ONE, json=ENTRY, headers={"Authorization": "bearer sre-secret"})
    assert board.said[0].startswith("sre puts")


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_write_waits_for_the_database(board: LedgerBoard, client: TestClient, method: str, path: str) -> None:
    """503 with Retry-After, before the counts are loaded and while nothing is written."""
    board.api["chat", "latency"] = board.api["chat", "ttft"] = "{}"
    board.slos, board.counts = [*board.slos, slo("ttft")], [*board.counts, (0, 0, 0)]
    board.away = "the database is away"
    correction = {"from": "2026-11-30T11:00:00Z", "to": "2026-11-30T11:30:00Z", "why": "x"}
    body = None if method == "DELETE" else json.dumps(correction if method == "POST" else ENTRY)
    response = client.request(method, path, content=body, headers=CI)
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert response.json()["detail"] == "nothing can be written now: the database is away"
    board.loaded = False
    assert client.request(method, path, content=body, headers=CI).status_code == 503


def test_a_misspelled_parameter_writes_nothing(client: TestClient, board: LedgerBoard) -> None:
    """As with reads: a parameter that means nothing is 422."""
    assert client.put(f"{ONE}?dry_run=1", json=ENTRY, headers=CI).status_code == 422
    assert not board.said


def test_a_body_is_read_after_the_token() -> None:
    """Who may not write is answered while the body is still on its way."""
    board = LedgerBoard([slo()], [(1, 0, 0)])
    app = create(board, RequestMetrics(), ManualClock(NOW_NS), board, TOKENS)

    def never_ending() -> Iterator[bytes]:
        for _ in range(65):
            yield b" " * 1024

    with serving(app) as url, httpx2.Client(base_url=url, trust_env=False) as real:
        assert real.put(ONE, content=never_ending()).status_code == 401
        assert real.put(ONE, content=never_ending(), headers=CI).status_code == 413
        assert real.put(ONE, json=ENTRY, headers=CI).status_code == 201


def test_the_list_says_who_defines_what(client: TestClient) -> None:
    """`source` is file or api."""
    client.put(ONE, json=ENTRY, headers=CI)
    items = client.get("/api/v1/slos").json()["items"]
    assert {item["slo"]: item["source"] for item in items} == {"latency": "file", "ttft": "api"}


def test_any_name_of_a_service_may_be_selected(client: TestClient) -> None:
    """A service whose name is no SLO name is named by its attribute."""
    entry = {**ENTRY, "indicator": {"requests": {"service.name": "Chat-API"}, "good": "outcome == ok"}}
    answer = client.put(ONE, json=entry, headers=CI).json()
    assert answer["indicator"]["requests"] == {"service.name": ["Chat-API"]}


def test_an_objective_may_change(client: TestClient, board: LedgerBoard) -> None:
    """200, and the numbers follow."""
    client.put(ONE, json=ENTRY, headers=CI)
    answer = client.put(ONE, json={**ENTRY, "objective": "50%"}, headers=CI).json()
    assert answer["objective"] == "0.5"
    assert replace(board.slos[0], name="ttft") != board.slos[1]
