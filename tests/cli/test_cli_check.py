"""`slo-exporter check`."""

from pathlib import Path

import pytest

from slo_exporter.cli.main import main

ENTRY = "{{name: {name}, objective: {objective}, window: 30d, indicator: {{requests: {requests}, good: {good}}}}}"


def write(path: Path, *entries: str, service: str = "chat") -> str:
    """An SLO file; its path as a command line has it."""
    path.write_text(
        f"apiVersion: slo-exporter/v1\nservice: {service}\nslos:\n" + "".join(f"  - {e}\n" for e in entries)
    )
    return str(path)


def entry(name: str, *, objective: str = "99%", requests: str = "{}", good: str = "e2e <= 80ms") -> str:
    """One entry of `slos:`."""
    return ENTRY.format(name=name, objective=objective, requests=requests, good=good)


def test_each_slo_is_one_line_of_what_it_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Name, objective, window, condition, and which requests if not all."""
    path = write(
        tmp_path / "a.yaml",
        entry("latency"),
        entry(
            "ok", objective="'0.9950'", requests="{view: client, model: [b, a]}", good="outcome == ok and ttft < 1.5s"
        ),
    )

    assert main(["check", path]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok  chat/latency  99% over 30d  good: e2e <= 80ms",
        "ok  chat/ok       99.5% over 30d  good: outcome == ok and ttft < 1500ms  requests: view=client, model=a|b",
    ]


def test_what_is_wrong_goes_to_stderr_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The SLOs that were understood are shown all the same."""
    right, wrong = write(tmp_path / "a.yaml", entry("latency")), write(tmp_path / "b.yaml", entry("x", objective="1"))

    assert main(["check", right, wrong, "nope.yaml"]) == 2
    output = capsys.readouterr()
    assert output.out.startswith("ok  chat/latency")
    assert output.err.splitlines() == [
        f"{wrong}: SLO 'x': objective: 1 leaves no error budget; it must be less than 100%, such as 99.9%",
        "nope.yaml: cannot be read: No such file or directory",
    ]


def test_the_same_promise_twice_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Same indicator, objective and window; another objective is another promise."""
    path = write(tmp_path / "a.yaml", entry("a"), entry("b", good="e2e <= 0.08s"), entry("c", objective="99.9%"))

    assert main(["check", path]) == 0
    assert capsys.readouterr().err == "warning: chat/b promises the same as chat/a\n"


def test_no_file_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to check."""
    assert main(["check"]) == 2
    assert "Missing argument 'FILES...'" in capsys.readouterr().err
