"""Where the time goes, over the API."""

from typing import Any

import pytest
from boards import DAY_NS, NOW_NS, LedgerBoard
from builders import slo
from busy import client_of, make_requests, staged
from starlette.testclient import TestClient

from slo_exporter.insight.stages import StageBook
from slo_exporter.sli.records import NO_STAGE_TIMES, RequestBatch, View

CHAT = "/api/v1/services/chat/breakdown"
BEFORE_NS = NOW_NS - 60 * 10**9


def board_of(*batches: RequestBatch, since_ns: int = NOW_NS - DAY_NS) -> LedgerBoard:
    """A service with an SLO, and these requests."""
    board = LedgerBoard([slo()], [(1, 0, 0)], book=StageBook(since_ns))
    for batch in batches:
        board.book.add(batch, NO_STAGE_TIMES)
    return board


def answer_of(board: LedgerBoard, **parameters: str) -> dict[str, Any]:
    """What the API says about the chat service."""
    response = client_of(board).get(CHAT, params=parameters)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_the_usual_example() -> None:
    """Every number of it."""
    answer = answer_of(board_of(staged(2, end_ns=BEFORE_NS)))
    assert {name: answer[name] for name in ("service", "view", "window", "from", "to", "requests")} == {
        "service": "chat",
        "view": "server",
        "window": "1h",
        "from": "2026-11-30T11:00:00Z",
        "to": "2026-11-30T12:01:00Z",
        "requests": 2,
    }
    assert [
        (stage["stage"], round(stage["share"], 4), stage["seconds"], stage["count"]) for stage in answer["stages"]
    ] == [
        ("inference", 0.75, 0.18, 2),
        ("queue", 0.125, 0.03, 2),
        ("postprocess", 0.0833, 0.02, 2),
        ("preprocess", 0.0417, 0.01, 2),
        ("data_wait", 0.0, 0.0, 2),
        ("unaccounted", 0.0, 0.0, 2),
    ]
    assert [(part["stage"], part["share"]) for part in answer["stages"][0]["of"]] == [
        ("decode", 0.5),
        ("prefill", 0.25),
    ]
    assert (answer["e2e"]["mean"], answer["ttft"]["mean"], answer["inter_token"]["mean"]) == (0.12, 0.05, 0.002)
    assert answer["e2e"]["p99"] == pytest.approx(0.12, rel=0.0055)
    assert (answer["flags"], answer["warnings"], answer["groups"], answer["truncated"]) == ([], [], [], False)


def test_a_quantile_outside_the_range_is_only_bounded() -> None:
    """`<=` below half a millisecond, `>=` beyond ten minutes."""
    hours = make_requests(["chat"], ["m"], [7200 * 10**9], ends_ns=[BEFORE_NS], fields={"queue": [1000]})
    answer = answer_of(board_of(hours))
    assert (answer["e2e"]["p50"], answer["e2e"]["bounds"]["p50"]) == (600.0, ">=")
    assert {stage["stage"]: stage["bounds"].get("p99") for stage in answer["stages"]} == {
        "unaccounted": ">=",
        "queue": "<=",
    }


def test_a_known_service_without_requests_has_zeros_and_nulls() -> None:
    """Never NaN."""
    answer = answer_of(board_of())
    nothing = {"count": 0, "mean": None, "p50": None, "p95": None, "p99": None, "bounds": {}}
    assert (answer["requests"], answer["stages"], answer["e2e"]) == (0, [], nothing)
    assert (answer["view"], answer["ttft"], answer["inter_token"]) == ("server", None, None)


def test_a_service_without_slo_is_known_by_its_requests() -> None:
    """And one that nobody ever heard of is not there."""
    client = client_of(board_of(staged(service="new", end_ns=BEFORE_NS)))
    assert client.get("/api/v1/services/new/breakdown").json()["requests"] == 1
    response = client.get("/api/v1/services/nope/breakdown")
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")
    assert response.json()["detail"] == "service 'nope' has no SLO, and no request of it came since the start"


def test_groups_carry_what_was_asked_for_and_the_same_numbers() -> None:
    """Each with its number of requests; names that were not asked for are absent."""
    board = board_of(staged(3, end_ns=BEFORE_NS), staged(1, model="n", end_ns=BEFORE_NS))
    answer = answer_of(board, by="model,prompt_tokens")
    assert [(g["model"], g["prompt_tokens"], g["requests"]) for g in answer["groups"]] == [
        ("m", "<=1k", 3),
        ("n", "<=1k", 1),
    ]
    figures = {"requests", "e2e", "stages", "ttft", "inter_token", "flags"}
    assert set(answer["groups"][0]) == figures | {"model", "prompt_tokens"}
    assert answer["groups"][0]["stages"][0]["share"] == 0.75


def test_one_model_or_view_can_be_asked_for() -> None:
    """The rest is left out."""
    client = make_requests(["chat"], ["m"], [10**9], ends_ns=[BEFORE_NS], view=View.CLIENT)
    board = board_of(staged(3, end_ns=BEFORE_NS), staged(1, model="n", end_ns=BEFORE_NS), client)
    assert answer_of(board, model="n")["requests"] == 1
    assert (answer_of(board, view="client")["view"], answer_of(board, view="client")["requests"]) == ("client", 1)


def test_warnings_say_what_to_know() -> None:
    """A short memory, stages that are too long, and none at all."""
    over = make_requests(["chat"], ["m"], [10**9], ends_ns=[BEFORE_NS], fields={"queue": [2 * 10**9]})
    assert answer_of(board_of(over, since_ns=NOW_NS - 300 * 10**9))["warnings"] == [
        "stage times are known since 2026-11-30 11:55:00 UTC only",
        "stages take longer than requests: shares add up to more than 100%",
        "1 of 1 requests name stages longer than themselves",
    ]
    plain = make_requests(["chat"], ["m"], [10**9], ends_ns=[BEFORE_NS])
    assert answer_of(board_of(plain))["warnings"] == [
        "no stage of these requests is known: their spans say only how long they took"
    ]


@pytest.mark.parametrize(
    ("parameters", "detail"),
    [
        ({"window": "4m"}, "window: must be from 5m to 1d, not 4m"),
        ({"window": "25h"}, "window: must be from 5m to 1d, not 25h"),
        ({"window": "1 h"}, "window: '1 h' is no duration; write a whole number and ms, s, m, h, d or w, such as 30d"),
        ({"view": "moon"}, "view: 'moon' is none of server, gateway, client"),
        ({"by": "model,colour"}, "by: 'colour' is none of model, view, prompt_tokens, completion_tokens"),
        ({"by": "model,"}, "by: '' is none of model, view, prompt_tokens, completion_tokens"),
        ({"window": ["1h", "5m"]}, "parameter 'window' stands more than once; it takes one value"),
        ({"windw": "1h"}, "unknown parameter 'windw'; parameters are: by, model, view, window"),
    ],
)
def test_wrong_parameters_are_refused(client: TestClient, parameters: dict[str, Any], detail: str) -> None:
    """Each by its name, with what would be right."""
    response = client.get(CHAT, params=parameters)
    assert (response.status_code, response.json()["detail"]) == (422, detail)


@pytest.mark.parametrize("window", ["5m", "300s", "60m", "1d", "24h"])
def test_windows_have_the_usual_form(window: str) -> None:
    """From five minutes to a day; the answer repeats what was asked."""
    assert answer_of(board_of(), window=window)["window"] == window


@pytest.mark.parametrize("path", ["team/chat", "team%2Fchat"])
def test_a_service_may_have_a_slash(path: str) -> None:
    """As it is, or encoded."""
    response = client_of(board_of(staged(service="team/chat", end_ns=BEFORE_NS))).get(
        f"/api/v1/services/{path}/breakdown"
    )
    assert (response.status_code, response.json()["service"]) == (200, "team/chat")


def test_what_is_counted_under_another_name_is_told() -> None:
    """Of a service with too many models, and of one that came when there was no room."""
    board = board_of()
    board.book = StageBook(NOW_NS - DAY_NS, most_sets=1)
    for service in ("chat", "late"):
        board.book.add(staged(service=service, end_ns=BEFORE_NS), NO_STAGE_TIMES)
    late = client_of(board).get("/api/v1/services/late/breakdown").json()
    warning = "some requests of this service are counted under _other: there are too many services and models"
    assert (late["requests"], late["warnings"], answer_of(board)["warnings"]) == (0, [warning], [])
