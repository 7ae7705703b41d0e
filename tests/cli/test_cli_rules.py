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


def test_an_slo_file_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its own name, and through links of both kinds."""
    given = write(tmp_path / "a.yaml", "chat", "a")
    before = Path(given).read_text()
    (tmp_path / "soft.yml").symlink_to(given)
    (tmp_path / "hard.yml").hardlink_to(given)

    for out in (given, str(tmp_path / "soft.yml"), str(tmp_path / "hard.yml")):
        assert main(["rules", given, "--out", out]) == 2
        assert f"{out} is one of the SLO files; write the rules to another file" in capsys.readouterr().err
    assert Path(given).read_text() == before


def test_a_file_of_rules_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Its mode stays, a link to it stays one, and nothing is left beside it."""
    given, real, link = write(tmp_path / "a.yaml", "chat", "a"), tmp_path / "real.yml", tmp_path / "own.rules.yml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    inode = real.stat().st_ino

    assert main(["rules", given, "--out", str(link)]) == 0

    assert "SloBudgetBurn" in names(real.read_text())
    assert link.is_symlink()
    assert (real.stat().st_mode & 0o777, real.stat().st_ino != inode) == (0o640, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml", "own.rules.yml", "real.yml"]


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    """A device stays one."""
    assert main(["rules", write(tmp_path / "a.yaml", "chat", "a"), "--out", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_counters_of_gpus_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each node counts its own; gauges know the nodes."""
    path = tmp_path / "gpus.yaml"
    slo = "{name: up, objective: 99%, window: 7d, indicator: {gpus: {}, timeslice: 1m, good: min(up) >= 100%}}"
    path.write_text(f"apiVersion: slo-exporter/v1\nservice: gpus\nslos:\n  - {slo}\n")

    assert main(["rules", str(path), "--source", "counters"]) == 2
    assert (
        "gpus/up is on GPUs, and every node counts its own: --source counters cannot tell nodes apart; "
        "leave out --source counters" in capsys.readouterr().err
    )
    assert main(["rules", str(path)]) == 0
