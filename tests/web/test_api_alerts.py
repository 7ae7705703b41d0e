"""Alerts over the API."""

import pytest
from boards import NOW_NS, LedgerBoard
from builders import slo
from busy import client_of
from starlette.testclient import TestClient

from slo_exporter.clock import SECOND_NS
from slo_exporter.slo.alerting import Severity, Tier

PAGE, TICKET = Severity.PAGE, Severity.TICKET
KEYS = [
    *("service", "slo", "severity", "tier", "active", "since", "frozen", "long_window", "short_window"),
    *("threshold", "burn_long", "burn_short", "bad_events", "min_bad_events", "reason"),
]


@pytest.fixture
def client() -> TestClient:
    """Three SLOs: one burns, one fails wholly, one is idle and was failing."""
    since = NOW_NS - 60 * SECOND_NS
    return client_of(
        LedgerBoard(
            [slo(), slo("ttft", service="search"), slo("idle")],
            [(80, 20, 0), (0, 10, 0), (0, 0, 0)],
            firing={
                0: {(TICKET, Tier.SLOW): since, (PAGE, Tier.QUICK): since},
                1: {(PAGE, Tier.TOTAL): since},
                2: {(PAGE, Tier.TOTAL): since},
            },
        )
    )


def shown(client: TestClient, query: str = "") -> list[tuple[str, str, str, str]]:
    """Which alerts are listed."""
    items = client.get(f"/api/v1/alerts{query}").json()["items"]
    return [(item["service"], item["slo"], item["severity"], item["tier"]) for item in items]


def test_active_alerts_are_listed_in_order(client: TestClient) -> None:
    """By service, SLO, severity and tier."""
    assert shown(client) == [
        ("chat", "idle", "page", "total"),
        ("chat", "latency", "page", "quick"),
        ("chat", "latency", "ticket", "slow"),
        ("search", "ttft", "page", "total"),
    ]


def test_an_alert_says_everything(client: TestClient) -> None:
    """The keys, their order and the values."""
    item = client.get("/api/v1/alerts").json()["items"][1]
    assert list(item) == KEYS
    assert item == {
        "service": "chat",
        "slo": "latency",
        "severity": "page",
        "tier": "quick",
        "active": True,
        "since": "2026-11-30T11:59:03.250000Z",
        "frozen": False,
        "long_window": "1h",
        "short_window": "5m",
        "threshold": 14.4,
        "burn_long": 20.0,
        "burn_short": 20.0,
        "bad_events": 20,
        "min_bad_events": 5,
        "reason": "the budget burns at 20 over 1h and 20 over 5m, a page alert (quick) is active above 14.4",
    }


def test_a_frozen_alert_stays_and_says_so(client: TestClient) -> None:
    """Nothing is known of its windows."""
    item = client.get("/api/v1/alerts").json()["items"][0]
    assert item["frozen"] is True
    assert item["long_window"] is item["short_window"] is item["threshold"] is item["burn_long"] is None
    assert item["reason"] == "a page alert (total) stays active: there is no data to end it"


def test_an_alert_that_is_no_longer_called_for_is_not_current() -> None:
    """Until it is judged again."""
    board = LedgerBoard([slo()], [(100, 0, 0)], firing={0: {(PAGE, Tier.QUICK): NOW_NS}})
    (item,) = client_of(board).get("/api/v1/alerts").json()["items"]
    assert (item["active"], item["frozen"]) == (True, True)
    assert item["reason"] == (
        "a page alert (quick) is active: the counts no longer call for it, and it was not judged again yet"
    )


def test_calm_alerts_are_not_frozen() -> None:
    """Also without data: there is nothing to hold."""
    items = client_of(LedgerBoard([slo()], [(0, 0, 0)])).get("/api/v1/alerts?all=1").json()["items"]
    assert {item["frozen"] for item in items} == {False}


def test_all_lists_the_calm_ones_too(client: TestClient) -> None:
    """Five alerts an SLO, each with the reason why it is not active."""
    items = client.get("/api/v1/alerts?all=1&service=chat").json()["items"]
    assert len(items) == 10
    calm = {(item["slo"], item["severity"], item["tier"]): item["reason"] for item in items if not item["active"]}
    assert calm["idle", "page", "quick"] == "there is no event to judge by"
    assert calm["latency", "page", "total"] == "80 of 100 events were good in 5m"
    assert [item["since"] for item in items if not item["active"]] == [None] * 7


def test_calm_alerts_say_what_they_wait_for() -> None:
    """Too few bad events, too slow a burn, too few events."""
    board = LedgerBoard([slo(), slo("few"), slo("fewer")], [(999, 1, 0), (90, 10, 0), (0, 3, 0)])
    items = client_of(board).get("/api/v1/alerts?all=1").json()["items"]
    said = {(item["slo"], item["severity"], item["tier"]): item["reason"] for item in items}
    assert said["latency", "page", "quick"] == "1 bad in 1h, it takes 5"
    assert (
        said["few", "page", "quick"]
        == "the budget burns at 10.0 over 1h and 10.0 over 5m, 14.4 has to be exceeded in both"
    )
    assert said["fewer", "page", "total"] == "it takes 5 events to judge by"


def test_pages_of_the_list(client: TestClient) -> None:
    """The cursor leads on to the end."""
    first = client.get("/api/v1/alerts?limit=3").json()
    rest = client.get("/api/v1/alerts", params={"limit": "3", "cursor": first["next"]}).json()
    assert (len(first["items"]), first["next"]) == (3, "chat/latency/ticket/slow")
    assert [item["service"] for item in rest["items"]] == ["search"]
    assert rest["next"] is None


def test_one_service(client: TestClient) -> None:
    """An unknown one has no alerts."""
    assert shown(client, "?service=search") == [("search", "ttft", "page", "total")]
    assert shown(client, "?service=nobody") == []


def test_typos_are_answered(client: TestClient) -> None:
    """A parameter that means nothing is an error."""
    answer = client.get("/api/v1/alerts?al=1")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "unknown parameter 'al'; parameters are: all, cursor, limit, service"


def test_without_counts_there_is_no_answer() -> None:
    """While they are being loaded nobody knows."""
    assert client_of(LedgerBoard(loaded=False, unready="starting")).get("/api/v1/alerts").status_code == 503
