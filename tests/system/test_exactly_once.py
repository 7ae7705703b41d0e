"""Acknowledged means kept, once: whatever happens to the process."""

import os
import random

import pytest
import sqlalchemy as sa
from otlp_load import SLOW, SPANS, Load
from server_process import MADE, SLOS, Server

KILLS = int(os.environ.get("SLO_EXPORTER_KILLS", "4"))
"""Of a server on SQLite; one on PostgreSQL is killed half as often."""
SLOWEST = """\
  - name: slowest
    objective: 95%
    window: 1d
    indicator: {requests: {}, timeslice: 10s, good: max(e2e) <= 80ms}
"""
"""One slow request makes a slice bad, whether or not the server was up all the time."""


def expected(load: Load) -> dict[str, int]:
    """What must have been counted once every export was acknowledged."""
    return {
        "good": load.sent * (SPANS - SLOW),
        "bad": load.sent * SLOW,
        "total": load.sent * SPANS,
        "excluded": 0,
    }


def age_s(number: int) -> int:
    """So long ago ended what a numbered export tells: in some forty slices that are judged already."""
    return 60 + number * 7 % 400


def let_it_be_counted_for_long(server: Server) -> None:
    """Count its SLOs for ten minutes already: only what is sent for a slice since then is judged."""
    server.start()
    server.terminate()
    engine = sa.create_engine(server.database)
    with engine.begin() as connection:
        earlier = sa.text("UPDATE slos SET declared_ns = declared_ns - :ns")
        connection.execute(earlier, {"ns": 600 * 10**9})
    engine.dispose()


@pytest.mark.timeout(90 + 15 * KILLS)
def test_kill_9_at_any_instant_loses_and_doubles_nothing(either: Server) -> None:
    """Killed again and again under load, it counts what was sent, exactly, and judges each slice of time once."""
    chance = random.Random(0)
    either.slos.write_text(SLOS + SLOWEST)
    let_it_be_counted_for_long(either)
    either.start()
    with Load(either.grpc, age_s=age_s) as load:
        for _ in range(max(2, KILLS if "sqlite" in either.database else KILLS // 2)):
            either.lives_for(chance.uniform(0.05, 0.6))
            either.kill()
            either.start()
        load.has_acknowledged(load.acknowledged + 1)

    assert load.acknowledged == load.sent > 0
    assert either.events() == expected(load)
    assert either.metric("slo_events_total", slo="latency") == load.sent * SPANS
    slices = len({end_ns // (10 * 10**9) for end_ns in load.ends_ns})
    assert either.events("slowest") == {"good": 0, "bad": slices, "total": slices, "excluded": 0}


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
