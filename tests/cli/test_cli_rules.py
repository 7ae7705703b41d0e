"""`slo-exporter rules`: Prometheus rules for SLO files."""

from pathlib import Path

import pytest
import yaml

from slo_exporter.cli.main import main

SLO = "{name: %s, objective: 99.9%%, window: 30d, indicator: {requests: {}, good: outcome == ok}}"


def write(path: Path, service: str, *names: str) -> str:
    """An SLO file; its path as a command line has it."""
    entries = "".join(f"  - {SLO % name}\n" for name in names)
    path.write_text(f"apiVersion: slo-exporter/v1\nservice: {service}\nlabels: {{team: llm}}\nslos:\n{entries}")
    return str(path)


def names(text: str) -> set[str]:
    """Of the rules of a file."""
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    return {rule.get("alert") or rule["record"] for rule in rules}


def test_rules_are_written_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alerts, and the series of Sloth and Pyrra."""
    assert main(["rules", write(tmp_path / "a.yaml", "chat", "availability")]) == 0

    assert {"SloBudgetBurn", "slo:objective:ratio", "pyrra_objective"} <= names(capsys.readouterr().out)


def test_rules_are_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is said."""
    out = tmp_path / "own.rules.yml"

    assert main(["rules", write(tmp_path / "a.yaml", "chat", "a"), "--source", "counters", "--out", str(out)]) == 0

    assert "slo:events:increase30d" in names(out.read_text())
    assert capsys.readouterr().out == ""


def test_only_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--for names it."""
    assert main(["rules", write(tmp_path / "a.yaml", "chat", "a"), "--for", "alerts"]) == 0

    assert names(capsys.readouterr().out) == {"SloTotalFailure", "SloBudgetBurn", "SloBudgetExhausted"}


def test_an_unknown_purpose_says_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2."""
    assert main(["rules", write(tmp_path / "a.yaml", "chat", "a"), "--for", "alerts,mimir"]) == 2

    assert "'mimir' is none of alerts, sloth, pyrra" in capsys.readouterr().err


def test_problems_are_those_of_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every problem of every file, and no rule."""
    wrong = write(tmp_path / "a.yaml", "chat", "a", "a")

    assert main(["rules", wrong, str(tmp_path / "none.yaml")]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    assert "service 'chat' has it already" in said.err
    assert "none.yaml: cannot be read: No such file or directory" in said.err


def test_sloth_ids_that_are_the_same_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """But only where Sloth's series are asked for."""
    files = [write(tmp_path / "a.yaml", "a", "b-c"), write(tmp_path / "b.yaml", "a-b", "c")]

    assert main(["rules", *files]) == 2
    assert "a-b/c and a/b-c have the same sloth_id 'a-b-c'" in capsys.readouterr().err
    assert main(["rules", *files, "--for", "alerts,pyrra"]) == 0


def test_a_file_that_cannot_be_written_is_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says why."""
    out = tmp_path / "none" / "own.rules.yml"

    assert main(["rules", write(tmp_path / "a.yaml", "chat", "a"), "--out", str(out)]) == 2
    assert "own.rules.yml: cannot be written: No such file or directory" in capsys.readouterr().err
