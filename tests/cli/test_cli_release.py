"""`slo-exporter release`, and releases in `slo-exporter status`."""

import json

import pytest
from boards import NOW_NS
from chat import Serve, Server, app, board, release, writing
from starlette.types import Message, Receive, Scope, Send

from slo_exporter.cli import api_client
from slo_exporter.cli.main import main
from slo_exporter.clock import SystemClock


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token of ci, whose clock is the server's."""
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", "ci-secret")
    monkeypatch.setattr(SystemClock, "now_ns", lambda _: NOW_NS)


def test_a_version_goes_out(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Now, or when somebody says; with a note."""
    shown = board("latency")
    serve(writing(shown))

    assert main(["release", "chat", "v1.2.0", "--note", "canary"]) == 0
    assert main(["release", "chat", "v1.1.0", "--at", "2026-11-30T10:00:00Z"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "release 1: chat v1.2.0 at 2026-11-30 12:00:03 UTC",
        "release 2: chat v1.1.0 at 2026-11-30 10:00:00 UTC",
    ]
    assert [(one.version, one.note, one.who) for one in shown.released] == [
        ("v1.2.0", "canary", "ci"),
        ("v1.1.0", "", "ci"),
    ]


def test_a_release_that_is_told_again_is_one(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When it went out is said by whoever tells: an answer that was lost is asked for again."""
    monkeypatch.setattr(api_client, "PAUSE_S", 0)
    shown = board("latency")
    answering, lost = writing(shown), 2

    async def deaf(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal lost
        lost -= 1

        async def hear(message: Message) -> None:
            if lost < 0:
                await send(message)

        await answering(scope, receive, hear)

    server = serve(deaf)
    assert main(["release", "chat", "v1", "--retries=2", "--timeout=5"]) == 0
    assert (len(server.asked), len(shown.released)) == (3, 1)
    assert capsys.readouterr().out == "release 1: chat v1 at 2026-11-30 12:00:03 UTC\n"


def test_json_is_the_release(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """As the API answers it."""
    serve(writing(board("latency")))

    assert main(["release", "chat", "v1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == 1


def test_a_release_takes_a_token(
    chat: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else nobody is asked."""
    monkeypatch.delenv("SLO_EXPORTER_TOKEN")

    assert main(["release", "chat", "v1"]) == 2
    assert "a release takes a write token: --token-file, or SLO_EXPORTER_TOKEN" in capsys.readouterr().err
    assert chat.asked == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nope", "v1"], "Error: service 'nope' has no SLO; /api/v1/slos lists what there is\n"),
        (["chat", "v1", "--at=soon"], "Error: at: 'soon' is no time; write RFC 3339 with a zone"),
    ],
)
def test_what_the_server_refuses_exits_2(
    serve: Serve, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its words."""
    serve(writing(board("latency")))

    assert main(["release", *arguments]) == 2
    assert capsys.readouterr().err.startswith(problem)


def test_a_release_that_cannot_be_kept_exits_3(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """While the database is away."""
    shown = board("latency")
    shown.away = "database"
    serve(writing(shown))

    assert main(["release", "chat", "v1"]) == 3
    assert capsys.readouterr().err == "Error: nothing can be written now: database\n"


def test_status_lists_releases(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Of all services, or of one; what runs is charged so far, rounded up."""
    shown = board("latency", "silent")
    shown.earlier = [(3 * 86400, 0, 99_000, 100), (2 * 86400 - 60, 0, 994, 6)]
    shown._open()
    shown.released = [release(0.1, "v3"), release(2, "v2\x1b"), release(9, "v1")]
    server = serve(app(shown))

    assert main(["status", "--releases"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "release   at                       by  cost most  spent        day before",
        "chat v3   2026-11-30 09:36:03 UTC  ci  latency    5.3% so far  -",
        "chat v2?  2026-11-28 12:00:03 UTC  ci  latency    0.6%         10.1%",
        "chat v1   2026-11-21 12:00:03 UTC  ci  -          -            -",
    ]
    main(["status", "search", "--releases"])
    assert "No release is known; slo-exporter release SERVICE VERSION tells of one." in capsys.readouterr().out
    main(["status", "chat", "--releases", "--json"])
    assert [one["version"] for one in json.loads(capsys.readouterr().out)["items"]] == ["v3", "v2\x1b", "v1"]
    assert server.asked == [
        "/api/v1/releases?limit=100",
        "/api/v1/releases?service=search&limit=100",
        "/api/v1/releases?service=chat&limit=100",
    ]


def test_one_slo_shows_what_releases_cost_it(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest three, below its numbers."""
    shown = board("latency", "silent")
    shown.released = [release(days, f"v{days}") for days in (0.1, 1, 2, 3)]
    serve(app(shown))

    assert main(["status", "chat/latency"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-5] == ""
    assert lines[-4].split() == ["release", "at", "spent", "day", "before"]
    assert lines[-3].split() == ["v0.1", "2026-11-30", "09:36:03", "UTC", "58.0%", "so", "far", "-"]
    assert [line.split()[0] for line in lines[-2:]] == ["v1", "v2"]


@pytest.mark.parametrize("more", [["chat/latency"], ["--gpus"], ["--breakdown"], ["--by=model"]])
def test_releases_are_of_services(chat: Server, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """And shown alone."""
    assert main(["status", "--releases", *more]) == 2
    assert "--releases is of a service or of all" in capsys.readouterr().err
    assert chat.asked == []
