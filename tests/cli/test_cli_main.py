"""The entry point."""

import os
import subprocess
import sys

import pytest

from slo_exporter import __version__
from slo_exporter.cli.main import main


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the program as people do."""
    return subprocess.run(
        [sys.executable, "-m", "slo_exporter", *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_version_is_told() -> None:
    """`python -m slo_exporter` is the same program."""
    assert run("--version").stdout == f"slo-exporter {__version__}\n"


def test_help_lists_the_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Only what works."""
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    commands = [line.split()[0] for line in text.partition("Commands:\n")[2].splitlines()]
    assert commands == ["check", "doctor", "explain", "release", "release-check", "rules", "serve", "status"]
    assert "0 yes, 1 no, 2 usage or configuration, 3 cannot decide" in text


@pytest.mark.parametrize("arguments", [["nope"], ["status", "--nope"], ["release-check"], []])
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    """Unknown commands, unknown options, missing arguments, nothing at all."""
    assert main(arguments) == 2


def test_a_fault_of_ours_is_no_denial(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 means no; a bug knows neither yes nor no."""

    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("slo_exporter.cli.api_client.Api.release_check", fail)

    assert main(["release-check", "chat"]) == 3
    assert "RuntimeError: a bug" in capsys.readouterr().err


@pytest.mark.usefixtures("chat")
def test_a_pipe_that_closes_is_no_traceback() -> None:
    """As in `slo-exporter status | true`."""
    program = subprocess.Popen(
        [sys.executable, "-m", "slo_exporter", "status"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    program.stdout.close()
    assert program.stderr is not None
    errors = program.stderr.read()
    program.stderr.close()

    assert program.wait() == 3
    assert errors == ""


def test_an_interrupt_is_no_denial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C exits as shells expect it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("slo_exporter.cli.api_client.Api.release_check", interrupt)

    assert main(["release-check", "chat"]) == 130


@pytest.mark.usefixtures("chat")
def test_a_terminal_without_unicode_gets_ascii() -> None:
    """Bars are drawn with what it has."""
    shown = run("status", PYTHONIOENCODING="ascii", PYTHONUTF8="0")

    assert (shown.returncode, shown.stderr) == (0, "")
    assert "####......   42.0%" in shown.stdout
