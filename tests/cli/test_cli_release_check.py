"""`slo-exporter release-check`."""

import json
from pathlib import Path

import httpx2
import pytest
from boards import NOW_NS
from chat import Serve, Server, app, board, release, writing
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from slo_exporter.cli import api_client
from slo_exporter.cli.main import main
from slo_exporter.slo.alerting import Severity, Tier


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
        "  availability  exhausted  denies     123 bad events, 100 allowed in 30d",
        "  silent        no data    undecided  no event was counted in 30d",
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


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--max-burn-1h=fast", "'fast' is no burn rate; write a number such as 2"),
        ("--max-burn-1h=-1", "'-1' is no burn rate; write a number such as 2"),
        ("--on-no-data=maybe", "'maybe' is not one of 'deny', 'undecided', 'allow'"),
        ("--override=x", "--override takes a token: its name is put down; see --token-file"),
        ("--timeout=0", "0.0 is not in the range"),
        ("--retries=-1", "-1 is not in the range"),
        ("--token-file=/nowhere/token", "/nowhere/token: No such file or directory"),
    ],
)
def test_an_option_that_makes_no_sense_exits_2(
    chat: Server, option: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server is not asked."""
    assert main(["release-check", "chat", option]) == 2
    assert problem in capsys.readouterr().err
    assert chat.asked == []


def test_everything_is_asked_of_the_server(serve: Serve) -> None:
    """By the policy of the server where nothing is said."""
    server = serve(app(board("latency", "availability")))

    main(["release-check", "chat"])
    main(["release-check", "chat", "--slo=latency", "--slo=availability", "--max-burn-1h=2.5", "--on-no-data=deny"])

    assert server.asked == [
        "/api/v1/release-check?service=chat",
        "/api/v1/release-check?service=chat&slo=latency&slo=availability&max_burn_1h=2.5&on_no_data=deny",
    ]


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


def test_a_server_that_comes_back_is_asked_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as was said, and not once more; a decision is not asked for twice."""
    monkeypatch.setattr(api_client, "PAUSE_S", 0)
    shown = board("latency")
    answering, starting = app(shown), 2

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal starting
        starting -= 1
        shown.loaded = starting < 0
        await answering(scope, receive, send)

    server = serve(slow)
    assert main(["release-check", "chat", "--retries=1"]) == 3
    assert len(server.asked) == 2
    starting = 2
    assert main(["release-check", "chat", "--retries=5"]) == 0
    assert len(server.asked) == 5


def test_alerts_and_the_expected_cost_are_shown(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Between the reasons and the table."""
    shown = board("latency", "silent")
    shown.firing = {0: {(Severity.PAGE, Tier.QUICK): NOW_NS, (Severity.TICKET, Tier.SLOW): NOW_NS}}
    shown.earlier = [(3 * 86400, 0, 99_000, 100), (2 * 86400 - 60, 0, 990, 10)]
    shown._open()
    shown.released = [release(2)]
    serve(app(shown))

    assert main(["release-check", "chat", "--slo=latency"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "deny  chat"
    assert lines[1].startswith("  latency  alert active  denies  a page alert (quick) is active: ")
    assert lines[3] == "active alerts"
    assert lines[4].startswith("  latency  page quick   since 2026-11-30 12:00:03 UTC  a page alert (quick) ")
    assert lines[5].startswith("  latency  ticket slow  since 2026-11-30 12:00:03 UTC  a ticket alert (slow) ")
    assert lines[7:9] == ["expected cost", "  latency  1.0% of the budget, at most 1.0%, by 1 release"]
    assert lines[10].startswith("SLO ")


def test_with_a_token_the_decision_is_kept(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file, or from the environment."""
    shown = board("latency")
    serve(writing(shown))
    (tmp_path / "token").write_text("ci-secret\n")

    assert main(["release-check", "chat", "--token-file", str(tmp_path / "token")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "kept as decision 1"
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", "ci-secret")
    assert main(["release-check", "chat", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == 2
    assert [one.who for one in shown.decided] == ["ci", "ci"]


def test_an_override_allows(serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is that of a release that may go."""
    serve(writing(board("availability")))
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", "ci-secret")

    assert main(["release-check", "chat", "--override", "it fixes the outage"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "allow  chat  overridden by ci",
        "  availability  exhausted   overridden  123 bad events, 100 allowed in 30d",
        "                overridden  allows      ci allows it: it fixes the outage",
    ]


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        ("nobody", "Error: this server does not know the token"),
        ("two words", "SLO_EXPORTER_TOKEN holds no token: one word of ASCII characters"),
    ],
)
def test_a_token_that_nobody_knows_exits_2(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], token: str, problem: str
) -> None:
    """It is the configuration that is wrong, not the budget."""
    serve(writing(board("latency")))
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", token)

    assert main(["release-check", "chat"]) == 2
    assert problem in capsys.readouterr().err


def test_an_empty_token_file_exits_2(chat: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty variable is none: a CI system without the secret sets it so."""
    (tmp_path / "token").touch()

    assert main(["release-check", "chat", "--token-file", str(tmp_path / "token")]) == 2
    assert "is empty" in capsys.readouterr().err
    assert chat.asked == []


def test_a_token_is_not_sent_on(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect is no answer: whoever it leads to is not whom the token is for."""
    server = serve(RedirectResponse("/elsewhere"))
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", "ci-secret")

    assert main(["release-check", "chat"]) == 3
    assert server.asked == ["/api/v1/release-check?service=chat"]
