"""`slo-exporter release-check` in GitHub Actions: summary, outputs, annotation."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from boards import LedgerBoard
from builders import slo
from chat import Serve, Server, app, board, release, writing
from starlette.responses import Response

from slo_exporter.cli.main import main


@pytest.fixture
def actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files that a step may write."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "outputs"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path


@pytest.mark.usefixtures("chat")
def test_a_denial_is_an_error_beside_the_workflow(actions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, whatever it says; the outputs of the step have the decision."""
    (actions / "outputs").write_text("before=1\n")

    assert main(["release-check", "chat"]) == 1

    assert capsys.readouterr().out.splitlines()[-1] == (
        "::error title=release-check%3A deny chat::availability: 123 bad events, 100 allowed in 30d"
        "%0Asilent: no event was counted in 30d"
    )
    assert (actions / "outputs").read_text() == "before=1\ndecision=deny\nallowed=false\n"


def test_the_summary_is_markdown(actions: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is appended: budgets, reasons, expected cost, and under which number it is kept."""
    shown = board("latency", "availability")
    shown.earlier = [(3 * 86400, 0, 99_000, 100), (2 * 86400 - 60, 0, 990, 10)]
    shown._open()
    shown.released = [release(2)]
    serve(writing(shown))
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", "ci-secret")
    (actions / "summary.md").write_text("# before\n")

    assert main(["release-check", "chat"]) == 1

    assert (actions / "summary.md").read_text().splitlines() == [
        "# before",
        "### release-check: deny chat",
        "",
        "| SLO | objective | SLI | budget left | burn 1h | state |",
        "|---|---|---|---|---|---|",
        r"| latency | 99% 30d | 99.84% | 84.7% | 0.58 | ok |",
        r"| availability | 99.9% 30d | 99.87% | \-23.0% | 1.23 | exhausted |",
        "",
        "| SLO | reason | effect | why |",
        "|---|---|---|---|",
        "| availability | exhausted | denies | 123 bad events, 100 allowed in 30d |",
        "",
        "| SLO | expected cost |",
        "|---|---|",
        "| latency | 1.0% of the budget, at most 1.0%, by 1 release |",
        "",
        "Kept as decision 1.",
        "",
    ]


def test_what_people_write_is_no_markup_and_no_command(
    actions: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a table cell, nor a link, nor HTML, nor a second command."""
    serve(writing(LedgerBoard([slo(service="A|B")], [(9, 91, 0)])))
    monkeypatch.setenv("SLO_EXPORTER_TOKEN", "ci-secret")

    assert main(["release-check", "A|B", "--override", "100% <b>[x](y)</b> | `z`, a:b ::error::no"]) == 0

    summary = (actions / "summary.md").read_text()
    assert summary.startswith("### release-check: overridden A\\|B\n")
    assert r"ci allows it: 100% &lt;b&gt;\[x\]\(y\)&lt;/b&gt; \| \`z\`, a:b ::error::no |" in summary
    annotation = capsys.readouterr().out.splitlines()[-1]
    assert annotation.startswith("::warning title=release-check%3A overridden A|B::latency: 91 bad events")
    assert annotation.endswith("%0AA|B: ci allows it: 100%25 <b>[x](y)</b> | `z`, a:b ::error::no")


def test_an_allowance_is_told_without_an_annotation(
    actions: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """The summary has it."""
    serve(app(board("latency")))

    assert main(["release-check", "chat"]) == 0

    assert "::" not in capsys.readouterr().out
    assert (actions / "outputs").read_text() == "decision=allow\nallowed=true\n"
    assert (actions / "summary.md").read_text().startswith("### release-check: allow chat\n")


def test_json_stays_json(actions: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """The annotation goes the other way."""
    serve(app(board("silent")))

    assert main(["release-check", "chat", "--json"]) == 3

    printed = capsys.readouterr()
    assert json.loads(printed.out)["decision"] == "undecided"
    assert printed.err == "::error title=release-check%3A undecided chat::silent: no event was counted in 30d\n"
    assert (actions / "outputs").read_text() == "decision=undecided\nallowed=null\n"


def test_no_answer_is_told_too(actions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A workflow that reads the outputs finds that nothing was decided."""
    assert main(["release-check", "chat", "--url", "http://127.0.0.1:1"]) == 3

    assert "::error title=release-check%3A no answer chat::cannot reach http://127.0.0.1:1" in capsys.readouterr().out
    assert (actions / "outputs").read_text() == "decision=undecided\nallowed=null\n"


def test_a_file_that_cannot_be_written_changes_no_decision(
    actions: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said on the error stream."""
    serve(app(board("latency")))

    assert main(["release-check", "chat", "--summary", str(actions)]) == 0

    assert capsys.readouterr().err == f"slo-exporter: cannot write {actions}: Is a directory\n"


@pytest.mark.parametrize("kind", ["a FIFO", "a FIFO that is read", "a device"])
def test_only_a_file_is_appended_to(
    actions: Path, serve: Serve, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A FIFO would hold the decision back until somebody reads it."""
    serve(app(board("latency")))
    pipe = actions / "pipe" if "FIFO" in kind else Path("/dev/null")
    reader = None
    if "FIFO" in kind:
        os.mkfifo(pipe)
    if kind.endswith("read"):
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.setenv(name, str(pipe))

    assert main(["release-check", "chat"]) == 0

    assert capsys.readouterr().err == f"slo-exporter: cannot write {pipe}: is no regular file\n" * 2
    if reader is not None:
        os.close(reader)


def test_a_question_that_is_wrong_is_an_error_beside_the_workflow(
    actions: Path, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    """It decides nothing, so there is no output."""
    serve(app(board("latency")))

    assert main(["release-check", "nope"]) == 2

    assert capsys.readouterr().out == (
        "::error title=release-check%3A refused nope::service 'nope' has no SLO; /api/v1/slos lists what there is\n"
    )
    assert not (actions / "outputs").exists()


EVIL = "::error::e ##[error]e " + "x" * 230 + " ::stop-commands::t ##[stop]"
"""Long enough to be folded, so that some line begins with a command."""


@pytest.mark.usefixtures("actions")
@pytest.mark.parametrize(
    "command",
    [
        ["release-check", EVIL],
        ["release-check", EVIL, "--json"],
        ["status"],
        ["status", "--json"],
        ["status", f"{EVIL}/latency"],
        ["status", "--releases"],
        ["release-check", "nope"],
    ],
)
@pytest.mark.parametrize("columns", ["20", "60", "240"])
def test_no_line_that_the_server_says_is_a_command(
    serve: Serve,
    command: list[str],
    columns: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """However it is folded: GitHub obeys whatever line begins with two colons, and an older form anywhere."""
    monkeypatch.setenv("COLUMNS", columns)
    shown = LedgerBoard([slo(service=EVIL)], [(9, 91, 0)], warned={EVIL: (EVIL,)})
    shown.released = [replace(release(0.1, EVIL), service=EVIL, who="::add-mask::x")]
    serve(app(shown))

    main(command)

    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    ours = [line for line in lines if line.startswith("::error title=release-check%3A ")]
    assert len(ours) == (command[0] == "release-check")
    assert [line for line in lines if line not in ours and (line.strip().startswith("::") or "##[" in line)] == []
    assert "##[" not in "".join(ours)
    if "--json" in command:
        assert EVIL in json.dumps(json.loads(printed.out))


def test_a_refusal_is_no_command(actions: Path, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is the reason that a server gives in its first line."""
    problem = {"Content-Type": "application/problem+json"}
    serve(Response(json.dumps({"detail": "\n::error::e ##[error]e"}), 404, problem))

    assert main(["status"]) == 2
    assert capsys.readouterr().err == "Error: ?::error::e ## [error]e\n"
    assert list(actions.iterdir()) == []


def test_elsewhere_nothing_is_annotated(chat: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A summary may be asked for anywhere."""
    assert main(["release-check", "chat", "--summary", str(tmp_path / "s.md")]) == 1

    assert "::" not in capsys.readouterr().out
    assert "| availability | exhausted | denies |" in (tmp_path / "s.md").read_text()
    assert len(chat.asked) == 1
