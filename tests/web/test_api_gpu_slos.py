"""SLOs on GPUs over the API."""

from dataclasses import replace

import pytest
from boards import LedgerBoard
from builders import slo
from gpu_seconds import gpu_indicator
from starlette.testclient import TestClient
from writing import CI, writer_of

ONE = "/api/v1/slos/chat/busy"
INDICATOR = {"gpus": {"group": "chat", "gpu": [1, 0]}, "timeslice": "1m", "good": "mean(utilization) >= 0.4"}
ENTRY = {"objective": "99%", "window": "30d", "indicator": INDICATOR}


@pytest.fixture
def board() -> LedgerBoard:
    """An SLO on GPUs, of which nothing is known, and one on requests."""
    on_gpus = replace(slo("gpus"), indicator=gpu_indicator("max(xids) <= 0"))
    return LedgerBoard([slo(), on_gpus], [(9, 1, 0), (0, 0, 0)])


@pytest.fixture
def client(board: LedgerBoard) -> TestClient:
    """A client of a server that takes writes."""
    return writer_of(board)


def test_an_slo_on_gpus_is_made_and_shown(client: TestClient) -> None:
    """Which GPUs, and nothing that only requests have."""
    made = client.put(ONE, json=ENTRY, headers=CI)

    assert made.status_code == 201
    assert made.json() == client.get(ONE).json()
    assert made.json()["indicator"] == {
        "service": "chat",
        "view": None,
        "requests": None,
        "gpus": {"gpu": ["0", "1"], "group": ["chat"]},
        "good": "mean(utilization) >= 40% each 1m",
        "outcomes": None,
        "timeslice": "1m",
        "empty": "no_data",
    }
    assert client.put(ONE, json=ENTRY, headers=CI).status_code == 200


def test_an_slo_on_gpus_answers_as_every_other(client: TestClient) -> None:
    """In the list, its budget, its history; an SLO on requests says that it is on none."""
    assert client.get("/api/v1/slos/chat/latency").json()["indicator"]["gpus"] is None
    assert client.get("/api/v1/slos/chat/gpus").json()["indicator"]["gpus"] == {}
    assert next(item["good"] for item in client.get("/api/v1/slos").json()["items"]) == "max(xids) <= 0 each 1m"
    assert client.get("/api/v1/slos/chat/gpus/budget").json()["state"] == "no_data"
    assert client.get("/api/v1/slos/chat/gpus/history").status_code == 200


def test_engines_that_are_blind_are_no_warning_of_gpus(client: TestClient, board: LedgerBoard) -> None:
    """What HTTP spans do not tell is not asked of them."""
    board.warned["chat"] = ["blind"]
    assert client.get("/api/v1/slos/chat/latency").json()["warnings"] == ["blind"]
    assert client.get("/api/v1/slos/chat/gpus").json()["warnings"] == []


def test_a_group_that_the_settings_lack_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """422 in the words of check."""
    about = LedgerBoard.about
    monkeypatch.setattr(LedgerBoard, "about", lambda self: replace(about(self), gpu_groups=("embed",)))

    response = client.put(ONE, json=ENTRY, headers=CI)

    assert response.status_code == 422
    assert "SLO 'busy': indicator.gpus: group: 'chat' is no group of gpu.groups; groups are: embed" in response.text
