"""Acknowledged means kept, once: whatever happens to the process."""

import os
import random

import pytest
from otlp_load import SLOW, SPANS, Load
from server_process import MADE, Server

KILLS = int(os.environ.get("SLO_EXPORTER_KILLS", "4"))
"""Of a server on SQLite; one on PostgreSQL is killed half as often."""


def expected(load: Load) -> dict[str, int]:
    """What must have been counted once every export was acknowledged."""
    return {
        "good": load.sent * (SPANS - SLOW),
        "bad": load.sent * SLOW,
        "total": load.sent * SPANS,
        "excluded": 0,
    }


@pytest.mark.timeout(60 + 6 * KILLS)
def test_kill_9_at_any_instant_loses_and_doubles_nothing(either: Server) -> None:
    """Killed again and again under load, it counts what was sent, exactly."""
    chance = random.Random(0)
    either.start()
    with Load(either.grpc) as load:
        for _ in range(max(2, KILLS if "sqlite" in either.database else KILLS // 2)):
            either.lives_for(chance.uniform(0.05, 0.6))
            either.kill()
            either.start()
        load.has_acknowledged(load.acknowledged + 1)

    assert load.acknowledged == load.sent > 0
    assert either.events() == expected(load)
    assert either.metric("slo_events_total", slo="latency") == load.sent * SPANS


def test_what_the_api_answered_survives_kill_9(either: Server) -> None:
    """An SLO made over the API, and a correction, are there after the server was killed at once."""
    either.start()
    either.write("PUT", "/api/v1/slos/chat/made", MADE)
    today = either.get("/api/v1/slos/chat/made/budget")["from"][:11]
    asked = {"from": f"{today}00:00:00Z", "to": f"{today}00:00:05Z", "why": "a drill"}
    either.write("POST", "/api/v1/slos/chat/made/corrections", asked)
    either.kill()

    either.start()

    assert either.get("/api/v1/slos/chat/made")["source"] == "api"
    assert [one["why"] for one in either.get("/api/v1/slos/chat/made/corrections")["items"]] == ["a drill"]


def test_sigterm_under_load_keeps_what_was_acknowledged(server: Server) -> None:
    """It drains and exits 0 within 10 s; after the restart everything acknowledged is there."""
    server.start()
    with Load(server.grpc) as load:
        load.has_acknowledged(20)
        acknowledged = load.acknowledged
        code = server.terminate()
        server.start()
        counted = server.events()["total"]

    assert code == 0
    assert counted >= acknowledged * SPANS > 0
    assert server.events() == expected(load)


def test_a_restart_answers_the_same_numbers(server: Server) -> None:
    """Windows in memory are rebuilt from SQL to the same counts and burn rates."""
    server.start()
    with Load(server.grpc) as load:
        load.has_acknowledged(20)
    before = server.get("/api/v1/slos/chat/latency/budget")
    server.kill()

    server.start()
    after = server.get("/api/v1/slos/chat/latency/budget")

    same = ("sli", "events", "budget", "burn_rate")
    assert {key: before[key] for key in same} == {key: after[key] for key in same}
