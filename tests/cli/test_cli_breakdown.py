"""`slo-exporter status --breakdown`."""

import json

import httpx2
import pytest
from boards import NOW_NS, LedgerBoard
from builders import slo
from chat import Serve, Server, app
from starlette.responses import Response
from timeslices import batch_of

from slo_exporter.cli.breakdown_table import latency
from slo_exporter.cli.main import main
from slo_exporter.insight.stages import StageBook
from slo_exporter.sli.records import NO_STAGE_TIMES

MS = 10**6
EXAMPLE = {"e2e": 120, "queue": 15, "preprocess": 5, "prefill": 30, "decode": 60, "postprocess": 10, "ttft": 50}


def board(*milliseconds: dict[str, int], minutes: int = 60) -> LedgerBoard:
    """Requests of the chat service, known for so long."""
    shown = LedgerBoard([slo()], [(1, 0, 0)], book=StageBook(NOW_NS - minutes * 60 * 10**9))
    records = [{**{name: n * MS for name, n in each.items()}, "end_ns": NOW_NS - 10**10} for each in milliseconds]
    if records:
        shown.book.add(batch_of(records), NO_STAGE_TIMES)
    return shown


@pytest.fixture
def staged(serve: Serve) -> Server:
    """A server that knows one request of 120 ms."""
    return serve(app(board(EXAMPLE)))


def test_a_breakdown_reads_at_a_glance(staged: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """One bar a stage, the longest first; what is inside another is indented."""
    assert main(["status", "chat", "--breakdown"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "chat  server view, 1 request in 1h",
        "2026-11-30 11:00:00 UTC to 2026-11-30 12:01:00 UTC",
        "",
        "end to end   p50 120ms   p95 120ms   p99 120ms   mean 120ms",
        "first token  p50 50.1ms  p95 50.1ms  p99 50.1ms  mean 50.0ms",
        "",
        "stage        share of the time                          p50      p95      p99",
        "inference    ██████████████████████░░░░░░░░  75.0%   89.8ms   89.8ms   89.8ms",
        "  decode     ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░░░░  50.0%   60.2ms   60.2ms   60.2ms",
        "  prefill    ▒▒▒▒▒▒▒▒░░░░░░░░░░░░░░░░░░░░░░  25.0%   30.1ms   30.1ms   30.1ms",
        "queue        ████░░░░░░░░░░░░░░░░░░░░░░░░░░  12.5%   15.0ms   15.0ms   15.0ms",
        "postprocess  ██░░░░░░░░░░░░░░░░░░░░░░░░░░░░   8.3%   9.97ms   9.97ms   9.97ms",
        "preprocess   █░░░░░░░░░░░░░░░░░░░░░░░░░░░░░   4.1%   4.98ms   4.98ms   4.98ms",
        "unaccounted  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░   0.0%  <=504us  <=504us  <=504us",
    ]
    assert staged.asked == ["/api/v1/services/chat/breakdown"]


def test_groups_and_a_window_are_asked_for(staged: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """One row each, with what takes the most."""
    assert main(["status", "chat", "--breakdown", "--window", "30m", "--by", "model,prompt_tokens"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0] == "chat  server view, 1 request in 30m"
    assert output[-2:] == [
        "model    prompt   requests    p50    p99  largest stages",
        "unknown  unknown         1  120ms  120ms  inference 75.0%, queue 12.5%",
    ]
    assert staged.asked == ["/api/v1/services/chat/breakdown?window=30m&by=model%2Cprompt_tokens"]


def test_warnings_stand_below(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """A short memory, and stages that are too long."""
    serve(app(board({"e2e": 100, "queue": 200}, minutes=5)))
    assert main(["status", "chat", "--breakdown"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "! stage times are known since 2026-11-30 11:55:00 UTC only",
        "! stages take longer than requests: shares add up to more than 100%",
        "! 1 of 1 requests name stages longer than themselves",
    ]


def test_no_request_is_said(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """No table of zeros."""
    serve(app(board()))
    assert main(["status", "chat", "--breakdown"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "chat  server view, 0 requests in 1h",
        "2026-11-30 11:00:00 UTC to 2026-11-30 12:01:00 UTC",
    ]


@pytest.mark.parametrize(
    ("columns", "heading"),
    [
        (79, "stage share of the time p50 p95 p99"),
        (60, "stage share p50 p95 p99"),
        (45, "stage share p50 p95 p99"),
        (44, "stage share p95 p99"),
    ],
)
@pytest.mark.usefixtures("staged")
def test_a_narrow_terminal_loses_bars_and_medians(
    columns: int, heading: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No number is cut."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["status", "chat", "--breakdown", "--by", "model,view"]) == 0
    output = capsys.readouterr().out
    lines = output.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in output
    [shown] = [line.split() for line in lines if line.startswith("stage ")]
    assert " ".join(shown) == heading
    [inference] = [line.split() for line in lines if line.startswith("inference ")]
    assert (inference[-3:-1], inference[-1]) == (["89.8ms" if "p50" in heading else "75.0%", "89.8ms"], "89.8ms")


def test_what_a_terminal_would_obey_is_not_printed(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Names come from whoever sends spans; in JSON they are escaped."""
    shown = board()
    evil = "e\x1b[31m\x9bvil"
    records = [{"e2e": 120 * MS, "end_ns": NOW_NS - 10**10, "service": evil}]
    shown.book.add(batch_of(records), NO_STAGE_TIMES)
    serve(app(shown))
    assert main(["status", evil, "--breakdown", "--by", "model"]) == 0
    assert capsys.readouterr().out.startswith("e?[31m?vil  server view")
    assert main(["status", evil, "--breakdown", "--by", "model", "--json"]) == 0
    output = capsys.readouterr().out
    assert (json.loads(output)["service"], output.replace("\n", "").isprintable()) == (evil, True)


def test_a_service_with_a_slash_is_one(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole argument."""
    shown = board()
    shown.book.add(batch_of([{"e2e": 120 * MS, "end_ns": NOW_NS - 10**10, "service": "team/chat"}]), NO_STAGE_TIMES)
    server = serve(app(shown))
    assert main(["status", "team/chat", "--breakdown"]) == 0
    assert capsys.readouterr().out.startswith("team/chat  server view, 1 request in 1h")
    assert server.asked == ["/api/v1/services/team/chat/breakdown"]  # as the server reads the path


@pytest.mark.usefixtures("staged")
def test_no_line_is_wider_than_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The usual terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["status", "chat", "--breakdown", "--by", "model,view,prompt_tokens,completion_tokens"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.usefixtures("staged")
def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The largest stage stands out, what is unaccounted does not."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert main(["status", "chat", "--breakdown"]) == 0
    output = capsys.readouterr().out
    assert "\x1b[1;36m█" in output
    assert "\x1b[2munaccounted" in output


def test_json_is_what_the_api_answers(staged: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Unchanged."""
    assert main(["status", "chat", "--breakdown", "--by", "model", "--json"]) == 0
    answer = httpx2.get(f"{staged.url}/api/v1/services/chat/breakdown?by=model", trust_env=False).json()
    assert json.loads(capsys.readouterr().out) == answer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--breakdown"], "write slo-exporter status SERVICE --breakdown"),
        (["chat/latency", "--breakdown"], "service 'chat/latency' has no SLO, and no request of it came"),
        (["chat", "--window", "1h"], "--window and --by belong to --breakdown"),
        (["chat", "--breakdown", "--window", "1y"], "window: '1y' is no duration"),
        (["chat", "--breakdown", "--by", "moon"], "by: 'moon' is none of model"),
        (["nope", "--breakdown"], "service 'nope' has no SLO, and no request of it came"),
    ],
)
@pytest.mark.usefixtures("staged")
def test_a_wrong_question_exits_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what would be right."""
    assert main(["status", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_answer_that_is_none_exits_3(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Something else listens there."""
    serve(Response(b"{}", 200, {"Content-Type": "application/json"}))
    assert main(["status", "chat", "--breakdown"]) == 3
    assert "cannot understand the answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0us"),
        (0.000504406, "504us"),
        (0.00099999, "1.00ms"),
        (0.0123, "12.3ms"),
        (0.09996, "100ms"),
        (0.99999, "1.00s"),
        (12.34, "12.3s"),
        (600.0, "600s"),
    ],
)
def test_latencies_have_three_digits(seconds: float | None, text: str) -> None:
    """In the unit that a reader expects."""
    assert latency(seconds) == text
