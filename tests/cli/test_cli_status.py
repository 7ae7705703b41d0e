"""`slo-exporter status`."""

import json
from dataclasses import replace

import httpx2
import pytest
from boards import LedgerBoard
from builders import slo
from chat import Serve, Server, app, board
from starlette.responses import Response

from slo_exporter.cli.main import main
from slo_exporter.sli.condition import parse
from slo_exporter.sli.gpus import GpuSelector
from slo_exporter.sli.indicator import Indicator, Selector
from slo_exporter.sli.vocabulary import GPUS
from slo_exporter.web.api.slos import MOST_ITEMS


def test_every_slo_is_a_row(chat: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """And why it is not ok, below; without colours in a pipe."""
    assert main(["status"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "SLO                objective     SLI  budget left         burn 1h    6h  state",
        "chat/availability  99.9% 30d  99.87%  ░░░░░░░░░░  -23.0%     1.23  1.23  exhausted",
        "chat/latency       99% 30d    99.42%  ████░░░░░░   42.0%     0.58  0.58  ok",
        "chat/silent        99% 30d         -                   -        -     -  no data",
        "",
        "chat/availability  123 bad events, 100 allowed in 30d",
        "chat/silent        no event was counted in 30d",
    ]
    assert chat.asked == ["/api/v1/slos"]


def test_nothing_is_said_below_when_all_is_ok(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Good news is short."""
    serve(app(board("latency")))

    assert main(["status"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_warning_is_said_once_for_each_service(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Below the table, and with the SLO itself."""
    shown = LedgerBoard([slo(), slo("ttft"), slo(service="other")], [(1, 0, 0)] * 3, warned={"chat": ("blind",)})
    serve(app(shown))

    assert main(["status"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["chat", "blind"]
    assert main(["status", "chat/ttft"]) == 0
    assert "! blind" in capsys.readouterr().out.splitlines()


def test_one_service_is_shown_alone(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """`status SERVICE`."""
    serve(app(LedgerBoard([slo(), slo(service="other")], [(1, 0, 0)] * 2)))

    assert main(["status", "other"]) == 0
    output = capsys.readouterr().out
    assert "other/latency" in output
    assert "chat/" not in output


def test_one_slo_is_shown_in_detail(chat: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """`status SERVICE/SLO`: every number, with its unit."""
    assert main(["status", "chat/availability"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "chat/availability  exhausted",
        "123 bad events, 100 allowed in 30d",
        "",
        "good            outcome == ok",
        "objective       99.9% over 30d",
        "window          2026-10-31 12:00:00 UTC to 2026-11-30 12:00:05 UTC",
        "SLI             99.87%",
        "events          99,877 good, 123 bad, 3 excluded",
        "budget left     ░░░░░░░░░░░░░░░░░░░░  -23.0%, -23 of 100 events",
        "runs out        it has run out",
        "burn rate       5m 1.23, 30m 1.23, 1h 1.23, 2h 1.23, 6h 1.23, 1d 1.23, 3d 1.23, 30d 1.23",
        "coverage        100.0%",
        "newest event    10s ago",
        "complete until  2026-11-30 12:00:03 UTC",
        "defined in      a file, counted so since 2026-11-21 12:00:03 UTC",
    ]
    assert chat.asked == [
        "/api/v1/slos/chat/availability/budget",
        "/api/v1/slos/chat/availability",
        "/api/v1/releases?service=chat&limit=3",
    ]


def test_a_time_slice_slo_counts_slices(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Its condition names the width, and its events are slices."""
    indicator = Indicator(Selector("chat"), parse("p99(e2e) <= 80ms"), timeslice_s=60)
    serve(app(LedgerBoard([replace(slo("p99"), indicator=indicator)], [(9_990, 10, 0)])))

    assert main(["status", "chat/p99"]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line)
    assert {key: lines[key].strip() for key in ("good", "slices")} == {
        "good": "p99(e2e) <= 80ms each 1m",
        "slices": "9,990 good, 10 bad, 0 excluded",
    }
    assert lines["budget left"].endswith("90.0%, 90 of 100 slices")


@pytest.mark.parametrize(
    ("matches", "shown"),
    [((), "every GPU of this host"), ((("gpu", ("0", "2")), ("group", ("chat",))), "gpu 0 or 2, group chat")],
)
def test_an_slo_on_gpus_says_which(
    serve: Serve, matches: tuple, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its condition does not."""
    indicator = Indicator(GpuSelector("chat", matches), parse("min(up) >= 100%", GPUS), timeslice_s=60)
    serve(app(LedgerBoard([replace(slo("up"), indicator=indicator)], [(99, 1, 0)])))

    assert main(["status", "chat/up"]) == 0
    lines = [line.split(None, 1) for line in capsys.readouterr().out.splitlines()]
    assert ["GPUs", shown] in lines


@pytest.mark.usefixtures("chat")
def test_a_silent_slo_has_dashes_in_detail(capsys: pytest.CaptureFixture[str]) -> None:
    """No data is neither perfect nor broken."""
    assert main(["status", "chat/silent"]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines() if "  " in line)
    assert {key: lines[key].strip() for key in ("SLI", "runs out", "newest event")} == {
        "SLI": "-",
        "runs out": "-",
        "newest event": "none",
    }


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(
    serve: Serve, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long names are folded, none is cut."""
    name = "first-token-of-a-very-long-name-that-no-terminal-has-room-for"
    serve(app(LedgerBoard([slo("availability"), slo(name)], [(1, 0, 0), (1, 1, 0)])))
    monkeypatch.setenv("COLUMNS", str(columns))

    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    table = lines[2 : lines.index("")]
    assert "".join(line.split()[0] for line in table) == f"chat/{name}"


@pytest.mark.usefixtures("chat")
def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The state has the colour of what it means."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")

    assert main(["status"]) == 0
    assert "\x1b[31mexhausted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "path"), [("chat/latency", "/api/v1/slos/chat/latency/budget"), ("chat", "/api/v1/slos?service=chat")]
)
def test_json_is_what_the_api_answers(chat: Server, what: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The budget of one SLO, or the list."""
    assert main(["status", what, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == httpx2.get(f"{chat.url}{path}", trust_env=False).json()


def test_all_pages_of_the_list_are_read(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """One more than a page holds."""
    server = serve(app(LedgerBoard([slo(f"s{n}") for n in range(MOST_ITEMS + 1)], [(1, 0, 0)] * (MOST_ITEMS + 1))))

    assert main(["status", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["items"]), answer["next"]) == (MOST_ITEMS + 1, None)
    assert len(server.asked) == 2


def test_a_server_without_slos_says_so(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table would look like a fault."""
    serve(app(LedgerBoard()))

    assert main(["status"]) == 0
    assert capsys.readouterr().out == "There is no SLO.\n"


@pytest.mark.parametrize("what", ["nope", "chat/nope", "nope/latency", "a b/c?d"])
def test_an_unknown_service_or_slo_exits_2(chat: Server, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The name is wrong, not the service."""
    assert main(["status", what]) == 2
    assert capsys.readouterr().err.startswith("Error: ")
    assert chat.asked


def test_no_server_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the URL, and how to give another."""
    assert main(["status", "--url", "http://127.0.0.1:1"]) == 3

    refused, hint = capsys.readouterr().err.split("; ")
    assert refused == "Error: cannot reach http://127.0.0.1:1: [Errno 111] Connection refused"
    assert hint == "--url or SLO_EXPORTER_URL says where it is\n"


def test_a_host_that_is_no_name_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    """As one that is not there: a line, not a traceback."""
    assert main(["status", "--url", "http://a..b:9874"]) == 3
    assert capsys.readouterr().err.startswith("Error: cannot reach http://a..b:9874: ")


@pytest.mark.parametrize(
    "url", ["127.0.0.1:9874", "ftp://host", "file:///etc/passwd", "http://", "http://[", "http://localhost/é"]
)
def test_a_url_that_is_none_exits_2(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only HTTP is spoken."""
    assert main(["status", "--url", url]) == 2
    assert "is no URL of a server; write for example http://127.0.0.1:9874" in capsys.readouterr().err


def test_a_server_that_is_starting_exits_3_with_its_words(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The detail of the problem is shown."""
    shown = board("latency")
    shown.loaded, shown.unready = False, "the database is being opened"
    serve(app(shown))

    assert main(["status"]) == 3
    assert capsys.readouterr().err == "Error: the counts are not loaded: the database is being opened\n"


NO_ANSWERS = {
    "a web page": (200, "text/html", b"<html>"),
    "other JSON": (200, "application/json", b'{"hello": 1}'),
    "a list": (200, "application/json", b"[]"),
    "another server's 404": (404, "text/plain", b"not here"),
    "a broken problem": (500, "application/problem+json", b"oops"),
    "broken text": (200, "application/json", b"\xff\xfe"),
}


@pytest.mark.parametrize("arguments", [["status"], ["status", "chat/latency", "--json"], ["release-check", "chat"]])
@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_what_is_no_answer_exits_3(
    serve: Serve, answer: tuple[int, str, bytes], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Something else listens there, or it is ill: one line, no traceback."""
    status, kind, body = answer
    serve(Response(body, status, {"Content-Type": kind}))

    assert main(arguments) == 3
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert error.count("\n") == 1


def test_a_proxy_is_not_asked_for_this_machine(
    chat: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proxy elsewhere cannot reach our loopback."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert main(["status", "--url", f"{chat.url}/"]) == 0
    assert "chat/latency" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [["status"], ["status", "e\x1b[2J\x9bvil/latency"], ["release-check", "e\x1b[2J\x9bvil"]]
)
def test_what_a_terminal_would_obey_is_not_printed(
    serve: Serve, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the server calls a service, and warns of."""
    evil = "e\x1b[2J\x9bvil"
    serve(app(LedgerBoard([slo(service=evil)], [(0, 0, 0)], warned={evil: ("\x07 blind",)})))

    main(command)
    output = capsys.readouterr().out
    assert "e?[2J?vil" in output
    assert all(c.isprintable() for c in output.replace("\n", ""))


def test_a_refusal_is_printed_without_them_too(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The server may be anybody's."""
    problem = {"Content-Type": "application/problem+json"}
    serve(Response(json.dumps({"detail": "no \x1b[2J"}), 404, problem))

    assert main(["status", "chat/latency"]) == 2
    assert "no ?[2J" in capsys.readouterr().err
