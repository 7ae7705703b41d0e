"""`slo-exporter release-check`."""

import json

import httpx2
import pytest
from chat import Serve, Server, app, board

from slo_exporter.cli.main import main


@pytest.mark.parametrize(
    ("slos", "decision", "code"),
    [(["latency"], "allow", 0), (["latency", "availability"], "deny", 1), (["latency", "silent"], "undecided", 3)],
)
def test_the_exit_code_is_the_decision(
    serve: Serve, slos: list[str], decision: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the first word of the output."""
    serve(app(board(*slos)))

    assert main(["release-check", "chat"]) == code
    assert capsys.readouterr().out.startswith(f"{decision}  chat\n")


@pytest.mark.usefixtures("chat")
def test_the_decision_comes_with_its_reasons_and_its_slos(capsys: pytest.CaptureFixture[str]) -> None:
    """A line a reason, then the table."""
    assert main(["release-check", "chat"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "deny  chat",
        "  availability  exhausted  123 bad events, 100 allowed in 30d",
        "  silent        no data    no event was counted in 30d",
        "",
        "SLO                objective     SLI  budget left         burn 1h    6h  state",
        "chat/latency       99% 30d    99.42%  ████░░░░░░   42.0%     0.58  0.58  ok",
        "chat/availability  99.9% 30d  99.87%  ░░░░░░░░░░  -23.0%     1.23  1.23  exhausted",
        "chat/silent        99% 30d         -                   -        -     -  no data",
    ]


def test_json_is_what_the_api_answers(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code stays the decision."""
    server = serve(app(board("latency")))

    assert main(["release-check", "chat", "--json"]) == 0
    answer = httpx2.get(f"{server.url}/api/v1/release-check?service=chat", trust_env=False)
    assert json.loads(capsys.readouterr().out) == answer.json()


@pytest.mark.parametrize(
    ("written", "asked"), [("10%", "0.1"), ("0.1", "0.1"), ("12.5%", "0.125"), ("0", "0"), ("100%", "1"), ("1", "1")]
)
def test_a_least_share_is_asked_for_as_a_ratio(chat: Server, written: str, asked: str) -> None:
    """Percent or ratio."""
    main(["release-check", "chat", "--min-remaining", written])

    assert chat.asked == [f"/api/v1/release-check?service=chat&min_remaining={asked}"]


@pytest.mark.parametrize(("share", "code"), [("42%", 0), ("43%", 1)])
def test_a_least_share_decides(serve: Serve, share: str, code: int) -> None:
    """42% of the budget is left."""
    serve(app(board("latency")))

    assert main(["release-check", "chat", "--min-remaining", share]) == code


@pytest.mark.parametrize("written", ["10", "101%", "-1%", "x", "", "1e-1", "nan", "10 %"])
def test_a_least_share_that_is_none_exits_2(chat: Server, written: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten is neither 10% nor 0.1; the server is not asked."""
    assert main(["release-check", "chat", f"--min-remaining={written}"]) == 2
    assert "write for example 10% or 0.1" in capsys.readouterr().err
    assert chat.asked == []


@pytest.mark.usefixtures("chat")
def test_an_unknown_service_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    """It is no denial."""
    assert main(["release-check", "nope"]) == 2
    assert capsys.readouterr().err == "Error: service 'nope' has no SLO; /api/v1/slos lists what there is\n"


def test_a_server_that_is_starting_cannot_decide(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Its 503 is a problem, not an answer."""
    shown = board("latency")
    shown.loaded, shown.unready = False, "the database is being opened"
    serve(app(shown))

    assert main(["release-check", "chat"]) == 3
    assert capsys.readouterr().err == "Error: the counts are not loaded: the database is being opened\n"


def test_no_server_cannot_decide() -> None:
    """Never a denial, never an allowance."""
    assert main(["release-check", "chat", "--url", "http://127.0.0.1:1"]) == 3
