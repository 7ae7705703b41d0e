"""SLOs and budgets over the API."""

from dataclasses import replace

import pytest
from boards import LedgerBoard
from builders import slo
from busy import client_of
from starlette.testclient import TestClient

from slo_exporter.sli.condition import parse
from slo_exporter.sli.indicator import Empty, Indicator, Selector
from slo_exporter.web.api.models import BudgetAnswer
from slo_exporter.web.board import Definition

SLICED = Indicator(Selector("chat"), parse("p99(e2e) <= 80ms"), timeslice_s=60, empty=Empty.BAD)
BURN_WINDOWS = ["5m", "30m", "1h", "2h", "6h", "1d", "3d", "window"]


def test_budget_answers_every_number(client: TestClient) -> None:
    """The keys, their order and the values are those of the design."""
    assert client.get("/api/v1/slos/chat/latency/budget").json() == {
        "service": "chat",
        "slo": "latency",
        "objective": "0.99",
        "window": "30d",
        "from": "2026-10-31T12:00:00Z",
        "to": "2026-11-30T12:00:05Z",
        "state": "ok",
        "sli": 0.9995,
        "events": {"good": 9995, "bad": 5, "total": 10000, "excluded": 3},
        "budget": {
            "allowed_bad": 100.0,
            "remaining_events": 95.0,
            "remaining_ratio": 0.95,
            "consumed_ratio": 0.05,
            "exhausts_in_seconds": 0.95 * 30 * 86400 / 0.05,
        },
        "burn_rate": dict.fromkeys(BURN_WINDOWS, 0.05),
        "coverage_ratio": 1.0,
        "as_of": "2026-11-30T12:00:03.250000Z",
        "data_age_seconds": 10.0,
        "reason": "95.0% of the error budget remains",
    }


@pytest.mark.parametrize("name", ["chat/latency", "embed/latency"])
def test_answers_read_back_as_models(client: TestClient, name: str) -> None:
    """A client in Python may use the models that the server answers with."""
    body = client.get(f"/api/v1/slos/{name}/budget").text
    assert BudgetAnswer.model_validate_json(body).model_dump_json(by_alias=True) == body


def test_undefined_numbers_are_null(client: TestClient) -> None:
    """Without events there is no ratio, no burn rate and no data age."""
    answer = client.get("/api/v1/slos/embed/latency/budget").json()
    assert answer["sli"] is answer["data_age_seconds"] is answer["budget"]["remaining_ratio"] is None
    assert answer["burn_rate"] == dict.fromkeys(BURN_WINDOWS)
    assert answer["state"] == "no_data"


def test_list_is_flat_and_in_order(client: TestClient) -> None:
    """One line an SLO, by service and name, without nesting."""
    answer = client.get("/api/v1/slos").json()
    assert [(i["service"], i["slo"]) for i in answer["items"]] == [
        ("batch", "nightly"),
        ("chat", "availability"),
        ("chat", "latency"),
        ("embed", "latency"),
        ("search", "ttft"),
    ]
    assert answer["next"] is None
    assert not any(isinstance(value, dict | list) for item in answer["items"] for value in item.values())


def test_list_item_says_what_is_good(client: TestClient) -> None:
    """Condition and labels are texts."""
    (item,) = (i for i in client.get("/api/v1/slos?service=chat").json()["items"] if i["slo"] == "latency")
    assert item == {
        "service": "chat",
        "slo": "latency",
        "objective": "0.99",
        "window": "30d",
        "state": "ok",
        "sli": 0.9995,
        "remaining_ratio": 0.95,
        "burn_1h": 0.05,
        "burn_6h": 0.05,
        "coverage_ratio": 1.0,
        "reason": "95.0% of the error budget remains",
        "good": "e2e <= 80ms",
        "labels": "team=llm,tier=gold",
        "source": "file",
        "warning": "",
    }


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 1000])
def test_pages_give_every_slo_once(client: TestClient, limit: int) -> None:
    """Following next reads the whole list."""
    seen, cursor = [], None
    while True:
        query = {"limit": limit} | ({"cursor": cursor} if cursor else {})
        answer = client.get("/api/v1/slos", params=query).json()
        seen += [(item["service"], item["slo"]) for item in answer["items"]]
        cursor = answer["next"]
        if cursor is None:
            break
    assert seen == [(i["service"], i["slo"]) for i in client.get("/api/v1/slos").json()["items"]]


def test_an_slo_retired_since_its_report_is_not_shown(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list goes on without it; the SLO itself is 404."""
    whole = LedgerBoard.definition

    def definition(board: LedgerBoard, service: str, slo: str) -> Definition:
        if service == "search":
            raise KeyError(service, slo)
        return whole(board, service, slo)

    before = client.get("/api/v1/slos").json()["items"]
    monkeypatch.setattr(LedgerBoard, "definition", definition)
    assert client.get("/api/v1/slos").json()["items"] == [item for item in before if item["service"] != "search"]
    assert client.get("/api/v1/slos/search/ttft").status_code == 404


def test_a_service_without_slos_has_an_empty_list(client: TestClient) -> None:
    """A filter that matches nothing is no error."""
    assert client.get("/api/v1/slos?service=nobody").json() == {"items": [], "next": None}


def test_one_slo_shows_its_declaration(client: TestClient) -> None:
    """What is counted, with labels as an object."""
    answer = client.get("/api/v1/slos/search/ttft").json()
    assert answer["indicator"] == {
        "service": "search",
        "view": "server",
        "requests": {},
        "gpus": None,
        "good": "ttft <= 1500ms and outcome == ok",
        "outcomes": {
            "ok": "decide",
            "error": "bad",
            "incomplete": "bad",
            "rate_limited": "bad",
            "client_error": "exclude",
            "cancelled": "exclude",
        },
        "timeslice": None,
        "empty": None,
    }
    assert (answer["source"], answer["generation"], answer["since"]) == ("file", 1, "2026-11-21T12:00:03.250000Z")
    assert (answer["max_data_age_seconds"], answer["state"], answer["labels"]) == (900, "exhausted", {})


@pytest.mark.parametrize(("objective", "text"), [("0.990", "0.99"), ("0.99999", "0.99999"), ("0.5", "0.5")])
def test_objectives_are_exact_texts(objective: str, text: str) -> None:
    """No float comes between the file and the answer."""
    board = LedgerBoard([slo(objective=objective)], [(1, 0, 0)])
    assert client_of(board).get("/api/v1/slos/chat/latency").json()["objective"] == text


def test_a_time_slice_slo_says_so() -> None:
    """Its condition names the width; what is counted are slices."""
    sliced = replace(slo("p99"), indicator=SLICED)
    client = client_of(LedgerBoard([sliced], [(0, 40, 0)]))
    (item,) = client.get("/api/v1/slos").json()["items"]
    answer = client.get("/api/v1/slos/chat/p99").json()
    assert (item["good"], item["reason"]) == (
        "p99(e2e) <= 80ms each 1m",
        "40 bad slices, 0.4 allowed in 30d",
    )
    assert (answer["indicator"]["good"], answer["indicator"]["timeslice"], answer["indicator"]["empty"]) == (
        "p99(e2e) <= 80ms each 1m",
        "1m",
        "bad",
    )
