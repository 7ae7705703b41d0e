"""An SLO over time, over the API."""

import pytest
from boards import LedgerBoard
from builders import slo
from busy import client_of
from starlette.testclient import TestClient

HISTORY = "/api/v1/slos/chat/latency/history"
NOON = 1_796_040_000


def test_a_history_is_flat_and_says_its_range(client: TestClient) -> None:
    """Items, and the range and step that they really have."""
    answer = client.get(
        HISTORY, params={"from": "2026-11-30T11:58:58Z", "to": "2026-11-30T12:00:00Z", "step": "30"}
    ).json()
    assert {key: value for key, value in answer.items() if key != "items"} == {
        "next": None,
        "from": "2026-11-30T11:58:30Z",
        "to": "2026-11-30T12:00:00Z",
        "step": 30,
    }
    empty = {"good": 0, "bad": 0, "total": 0, "sli": None, "remaining_ratio": None, "burn_1h": None}
    assert answer["items"] == [
        {"time": "2026-11-30T11:58:30Z", **empty},
        {"time": "2026-11-30T11:59:00Z", **empty},
        {
            "time": "2026-11-30T11:59:30Z",
            "good": 9995,
            "bad": 5,
            "total": 10000,
            "sli": 0.9995,
            "remaining_ratio": 0.95,
            "burn_1h": 0.05,
        },
    ]


def test_without_a_range_it_is_the_window_until_now(client: TestClient) -> None:
    """At most 500 points, whole slices; the last point says what the budget says."""
    answer, budget = client.get(HISTORY).json(), client.get(HISTORY.replace("history", "budget")).json()
    assert (answer["from"], answer["step"]) == (budget["from"], 7200)
    assert len(answer["items"]) == 361
    assert sum(item["bad"] for item in answer["items"]) == budget["events"]["bad"]
    last = answer["items"][-1]
    assert (last["remaining_ratio"], last["burn_1h"]) == (
        budget["budget"]["remaining_ratio"],
        budget["burn_rate"]["1h"],
    )


@pytest.mark.parametrize(
    ("window", "step", "points"), [("1h", 60, 61), ("1d", 1200, 73), ("7d", 7200, 85), ("100d", 21600, 401)]
)
def test_the_usual_step_is_as_short_as_slices_and_500_points_allow(window: str, step: int, points: int) -> None:
    """A window of any width fits on a screen."""
    client = client_of(LedgerBoard([slo(window=window)], [(1, 0, 0)]))
    answer = client.get(HISTORY).json()
    assert (answer["step"], len(answer["items"])) == (step, points)


@pytest.mark.parametrize("step", ["300", "5m", "300s"])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        (str(NOON - 3600), str(NOON)),
        (f"{NOON - 3600}.75", f"{NOON - 1}.000000001"),
        ("2026-11-30T11:00:00Z", "2026-11-30T12:00:00Z"),
        ("2026-11-30t12:00:00+01:00", "2026-11-30T06:59:59.999999999-05:00"),
    ],
)
def test_times_and_steps_have_several_forms(client: TestClient, start: str, end: str, step: str) -> None:
    """RFC 3339 or Unix seconds; a duration or seconds."""
    answer = client.get(HISTORY, params={"from": start, "to": end, "step": step}).json()
    assert (answer["from"], answer["to"], answer["step"]) == ("2026-11-30T11:00:00Z", "2026-11-30T12:00:00Z", 300)


def test_from_follows_to(client: TestClient) -> None:
    """Without `from` the range is one window long."""
    answer = client.get(HISTORY, params={"to": "2026-11-20T00:00:00Z"}).json()
    assert (answer["from"], answer["to"]) == ("2026-10-21T00:00:00Z", "2026-11-20T00:00:00Z")


@pytest.mark.parametrize("end", ["2030-01-01T00:00:00Z", str(NOON + 30)])
def test_the_future_is_left_out(client: TestClient, end: str) -> None:
    """No step begins after now."""
    answer = client.get(HISTORY, params={"from": str(NOON - 60), "to": end, "step": "5"}).json()
    assert (answer["to"], len(answer["items"])) == ("2026-11-30T12:00:05Z", 13)


def test_what_is_not_kept_is_left_out(client: TestClient) -> None:
    """The range begins with the retention at most a step earlier, whatever was asked."""
    answer = client.get(HISTORY, params={"from": "0", "step": "1d"}).json()
    assert answer["from"] == "2026-08-22T00:00:00Z"


WRONG = {
    "no time": ({"from": "yesterday"}, "from: 'yesterday' is no time; write RFC 3339 with a zone, such as"),
    "no zone": ({"to": "2026-11-30T12:00:00"}, "to: '2026-11-30T12:00:00' is no time"),
    "a plus that became a space": ({"to": "2026-11-30T12:00:00 01:00"}, "to: '2026-11-30T12:00:00 01:00' is no time"),
    "no step": ({"step": "often"}, "step: 'often' is no duration"),
    "parts of a second": ({"step": "1500ms"}, "step: '1500ms' is no step; write whole seconds, such as 300 or 5m"),
    "a step of nothing": ({"step": "0"}, "step: '0s' is no duration"),
    "backwards": ({"from": str(NOON), "to": str(NOON)}, "from: must be before to"),
    "the future": ({"from": str(NOON + 60), "to": str(NOON + 90)}, "from: is in the future"),
    "the past": ({"to": "2026-08-01T00:00:00Z"}, "to: counts are kept since 2026-08-22 12:00:03 UTC only"),
    "too many points": (
        {"from": str(NOON - 55_005), "to": str(NOON), "step": "5"},
        "step: 5s gives 11001 points; at most 11000 may be asked for",
    ),
    "an unknown parameter": ({"start": "0"}, "unknown parameter 'start'; parameters are: from, step, to"),
}


@pytest.mark.parametrize(("query", "detail"), WRONG.values(), ids=WRONG)
def test_a_wrong_question_is_explained(client: TestClient, query: dict[str, str], detail: str) -> None:
    """422 that names the parameter."""
    response = client.get(HISTORY, params=query)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(detail)


def test_a_short_step_is_widened(client: TestClient) -> None:
    """As many points as may be asked for are answered in slices as wide as they are by then."""
    answer = client.get(HISTORY, params={"from": str(NOON - 55_000), "to": str(NOON), "step": "5"}).json()
    assert (answer["step"], len(answer["items"])) == (300, 184)
