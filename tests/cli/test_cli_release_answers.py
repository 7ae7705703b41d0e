"""`slo-exporter release-check` and answers that are none: to another question, late, elsewhere, unwritable."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat import Serve, Server, app, board, writing
from starlette.responses import RedirectResponse, Response
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from slo_exporter.cli import api_client
from slo_exporter.cli.main import main

CHECK = ["release-check", "chat"]
Change = Callable[[dict[str, Any]], object]


def answer(*slos: str) -> dict[str, Any]:
    """What a server answers about some SLOs of chat."""
    found: dict[str, Any] = TestClient(app(board(*slos))).get("/api/v1/release-check?service=chat").json()
    return found


def saying(said: dict[str, Any], status: int = 200) -> ASGIApp:
    """A server that says one thing to whatever it is asked."""
    return Response(json.dumps(said), status, {"Content-Type": "application/json"})


WRONG: dict[str, tuple[Change, int, str]] = {
    "another service": (
        lambda said: said.update(service="search"),
        200,
        "is about service 'search', and 'chat' was asked for",
    ),
    "an SLO of another service": (
        lambda said: said["slos"][0].update(service="search"),
        200,
        "is about service 'search', and 'chat' was asked for",
    ),
    "no SLO": (lambda said: said.update(slos=[]), 200, "is about no SLO"),
    "an SLO twice": (lambda said: said["slos"].append(said["slos"][0]), 200, "names an SLO more than once"),
    "an allow that is a 412": (
        lambda _: None,
        412,
        "does not agree with itself: status 412, decision allow, allowed true",
    ),
    "an allow that is a 503": (
        lambda _: None,
        503,
        "does not agree with itself: status 503, decision allow, allowed true",
    ),
    "an allow that is not allowed": (
        lambda said: said.update(allowed=False),
        200,
        "does not agree with itself: status 200, decision allow, allowed false",
    ),
    "an allow that says nothing": (
        lambda said: said.update(allowed=None),
        200,
        "does not agree with itself: status 200, decision allow, allowed null",
    ),
    "a deny that is a 200": (
        lambda said: said.update(decision="deny", allowed=False),
        200,
        "does not agree with itself: status 200, decision deny, allowed false",
    ),
    "an undecided that is a 200": (
        lambda said: said.update(decision="undecided", allowed=None),
        200,
        "does not agree with itself: status 200, decision undecided, allowed null",
    ),
    "an allow that is a 201": (
        lambda _: None,
        201,
        "does not agree with itself: status 201, decision allow, allowed true",
    ),
}


@pytest.mark.parametrize(("change", "status", "problem"), WRONG.values(), ids=WRONG)
def test_an_answer_to_another_question_decides_nothing(
    serve: Serve, change: Change, status: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither an allowance nor a denial."""
    said = answer("latency")
    change(said)
    server = serve(saying(said, status))

    assert main(CHECK) == 3
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (
        "",
        f"Error: the answer of {server.url}/api/v1/release-check?service=chat {problem}\n",
    )


@pytest.mark.parametrize(("status", "problem"), [(500, "answers 500"), (404, "answers 404")])
def test_json_with_a_status_that_no_decision_has_is_none(
    serve: Serve, status: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it says."""
    serve(saying(answer("latency"), status))

    assert main(CHECK) == 3
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("slos", "code", "problem"),
    [
        (["latency"], 3, "is about SLOs 'latency', 'silent', and 'latency' was asked for"),
        (["latency", "availability"], 3, "is about SLOs 'latency', 'silent', and 'availability', 'latency' was asked"),
        (["silent", "latency", "latency"], 0, ""),
        ([], 0, ""),
    ],
)
def test_exactly_the_slos_that_were_named_decide(
    serve: Serve, slos: list[str], code: int, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not one more, not one less, in any order."""
    serve(saying({**answer("latency", "silent"), "decision": "allow", "allowed": True}))

    assert main([*CHECK, *(f"--slo={name}" for name in slos)]) == code
    assert problem in capsys.readouterr().err


# --- Where it is ---


@pytest.mark.parametrize(
    "url",
    [
        "http://h?x=1",
        "http://h/?",
        "http://h#x",
        "http://h:0",
        "http://h:65536",
        "http://h:99999999999",
        "http://h:port",
        "http://h:-1",
        "http://h/a b",
    ],
)
@pytest.mark.parametrize("command", [["status"], CHECK])
def test_a_url_that_cannot_be_asked_exits_2(url: str, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The configuration is wrong; it is no server that does not answer."""
    assert main([*command, "--url", url]) == 2
    assert f"{url!r} is no URL of a server; write for example http://127.0.0.1:9874" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url", ["http://ann:hunter2@h", "http://ann:hunter2@h:99999", "ann:hunter2@h", "http://hunter2@h?x"]
)
def test_a_url_with_a_password_is_refused_and_not_shown(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not from the environment either."""
    monkeypatch.setenv("SLO_EXPORTER_URL", url)

    assert main(CHECK) == 2
    printed = capsys.readouterr()
    assert "a URL with a user or a password is not taken (it is not shown)" in printed.err
    assert "hunter2" not in printed.out + printed.err


@pytest.mark.parametrize("command", [["status"], CHECK])
def test_a_redirect_is_not_followed(serve: Serve, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Without a token neither: what it leads to was not asked."""
    server = serve(RedirectResponse("/elsewhere", 302))

    assert main(command) == 3
    assert len(server.asked) == 1
    assert "answers 302 Found; redirects are not followed" in capsys.readouterr().err


# --- In time ---


def late(status: int, kind: str, *, trickles: bool) -> ASGIApp:
    """A server whose answer has a head and never an end."""

    async def stall(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
        while trickles:
            await asyncio.sleep(0.02)
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
        await asyncio.Event().wait()

    return stall


LATE = {
    "an answer": (200, "application/json"),
    "a denial": (412, "application/json"),
    "a problem": (503, "application/problem+json"),
    "another problem": (404, "application/problem+json"),
}


@pytest.mark.parametrize("trickles", [False, True], ids=["stalls", "trickles"])
@pytest.mark.parametrize(("status", "kind"), LATE.values(), ids=LATE)
def test_a_late_answer_is_none(  # noqa: PLR0917 - two tables
    serve: Serve,
    status: int,
    kind: str,
    trickles: bool,  # noqa: FBT001 - a table
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All of it has to be there in time, whatever its status; it is asked again, and a pipeline hears of it."""
    monkeypatch.setattr(api_client, "PAUSE_S", 0)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    server = serve(late(status, kind, trickles=trickles))

    began = time.monotonic()
    assert main([*CHECK, "--timeout=0.2", "--retries=1"]) == 3
    assert time.monotonic() - began < 8
    printed = capsys.readouterr()
    assert printed.err == f"Error: cannot reach {server.url}: no whole answer within 0.2 s\n"
    assert printed.out.startswith("::error title=release-check%3A no answer chat::cannot reach ")
    assert (tmp_path / "outputs").read_text() == "decision=undecided\nallowed=null\n"
    assert len(server.asked) == 2


@pytest.mark.parametrize("option", ["--timeout=nan", "--timeout=inf", "--timeout=-inf"])
def test_a_time_that_never_ends_exits_2(chat: Server, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Or that is none."""
    assert main([*CHECK, option]) == 2
    assert "Invalid value for '--timeout'" in capsys.readouterr().err
    assert chat.asked == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["release-check", "ch\udcffat"],
        ["release-check", "chat", "--slo", "a\udcff"],
        ["status", "ch\udcffat"],
        ["status", "ch\udcffat/latency"],
        ["release", "ch\udcffat", "v1"],
        ["release", "chat", "v\udcff"],
        ["release-check", "chat", "--override", "x\udcff"],
    ],
)
def test_bytes_that_are_no_text_exit_2(
    chat: Server, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Python hands over what is not UTF-8: nobody is asked."""
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", "ci-secret")

    assert main(arguments) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("' is no text: it is not UTF-8")
    assert chat.asked == []


# --- Written ---


def run(server: Server, redirect: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program with its output somewhere."""
    return subprocess.run(
        ["/bin/sh", "-c", f'"$@" {redirect}', "sh", sys.executable, "-m", "slo_exporter", *arguments],
        env={**os.environ, "SLO_EXPORTER_URL": server.url},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


UNWRITABLE = ["> /dev/full", ">&-", "> /dev/full 2> /dev/full"]


@pytest.mark.parametrize("redirect", UNWRITABLE)
@pytest.mark.parametrize(("slos", "code"), [(["availability"], 1), (["latency"], 3)])
def test_a_decision_that_cannot_be_written(serve: Serve, slos: list[str], code: int, redirect: str) -> None:
    """A denial stays one; an allowance that nobody can read is none."""
    done = run(serve(app(board(*slos))), redirect, *CHECK)

    assert done.returncode == code
    assert "Traceback" not in done.stderr
    if "2>" not in redirect:
        assert done.stderr.startswith("slo-exporter: cannot write the decision: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("slos", "code"), [(["availability"], 1), (["latency"], 3)])
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "JSON"])
def test_a_decision_whose_reader_is_gone(serve: Serve, slos: list[str], code: int, options: list[str]) -> None:
    """As a denial in `slo-exporter release-check chat | true`."""
    server = serve(app(board(*slos)))
    program = subprocess.Popen(
        [sys.executable, "-m", "slo_exporter", *CHECK, *options],
        env={**os.environ, "SLO_EXPORTER_URL": server.url, "GITHUB_ACTIONS": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    errors = program.stderr.read()
    program.stderr.close()

    assert program.wait() == code
    assert errors.splitlines()[0] == "slo-exporter: cannot write the decision: Broken pipe"
    assert "Traceback" not in errors


def test_what_cannot_be_written_is_no_yes(serve: Serve) -> None:
    """Of no command; a line says so, and a full error stream is no denial."""
    server = serve(app(board("latency")))

    done = run(server, "> /dev/full", "status")
    assert (done.returncode, done.stderr) == (3, "Error: cannot write the output: No space left on device\n")
    assert run(server, "2> /dev/full", "status", "nope").returncode == 2


# --- Kept ---


def test_an_override_that_cannot_be_printed_exits_2(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a version or a note."""
    shown = board("availability")
    serve(writing(shown))
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", "ci-secret")

    assert main([*CHECK, "--override", "it\u200bs\n::error::fine"]) == 2
    assert capsys.readouterr().err == "Error: override: holds a character that cannot be printed; write why\n"
    assert shown.decided == []
