"""`slo-exporter check`: SLO files and settings."""

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


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """A file of settings that names two SLO files."""
    for name in ("a", "b"):
        write(tmp_path / f"slo-{name}.yaml", entry(name, good=f"e2e <= {ord(name)}ms"))
    path = tmp_path / "c.yaml"
    path.write_text("slo_files: [slo-*.yaml]\nconventions: [{framework: mine, extends: sglang}, {extends: vllm}]\n")
    return path


def test_settings_are_one_line_of_what_they_hold(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Conventions if there are any; SLOs are shown of files that are named here."""
    (settings.parent / "d.yaml").write_text("listen: 127.0.0.1:1")

    assert main(["check", f"{settings.parent}/d.yaml", f"{settings.parent}/slo-a.yaml", str(settings)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"ok  {settings.parent}/d.yaml  0 SLO files",
        f"ok  {settings}  2 conventions (mine, vllm), 2 SLO files",
        "ok  chat/a  99% over 30d  good: e2e <= 97ms",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("listn: x\nlateness: 10m", "listn: is an unknown field; did you mean listen?"),
        ("slo_files: [nope-*.yaml]", "slo_files: no file matches 'nope-*.yaml'"),
        ("conventions: [{extends: vlm}]", "convention 'vlm': extends: 'vlm' is no framework; did you mean vllm?"),
        ("conventions: [{framework: x}]", "convention 'x': requests: is required"),
    ],
)
def test_wrong_settings_are_said_as_serve_says_them(
    settings: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    """With the same exit code."""
    settings.write_text(text)

    assert main(["check", str(settings)]) == 2
    of_check = capsys.readouterr()
    assert main(["serve", "--config", str(settings)]) == 2
    assert of_check.err.startswith(f"{settings}: {problem}")
    assert (of_check.out, f"slo-exporter: {of_check.err}") == ("", capsys.readouterr().err)


def test_the_slo_files_of_settings_are_checked_with_them(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A window may be longer than counts are kept; what is said twice stands once."""
    settings.write_text("slo_files: [slo-a.yaml]\nretention: 7d")
    wrong = settings.parent / "slo-b.yaml"
    wrong.write_text("apiVersion: x")

    assert main(["check", str(settings)]) == 2
    output = capsys.readouterr()
    assert output.err == (
        f"{settings.parent}/slo-a.yaml: SLO 'a': window: 30d is longer than counts are kept; retention is 7d\n"
    )
    assert output.out == ""

    settings.write_text("slo_files: [slo-b.yaml]")
    assert main(["check", str(settings), str(wrong)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_environment_of_who_checks_does_not_matter(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file alone is checked."""
    monkeypatch.setenv("SLO_EXPORTER_LISTEN", "nonsense")

    assert main(["check", str(settings)]) == 0
    assert capsys.readouterr().out.startswith(f"ok  {settings}  ")


@pytest.mark.parametrize("text", ["", "service: chat\nslos: []\nmodels: {}", "foo: bar", "[listen]"])
def test_what_could_be_either_is_an_slo_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    """It lacks what an SLO file begins with."""
    path = tmp_path / "x.yaml"
    path.write_text(text)

    assert main(["check", str(path)]) == 2
    words = "apiVersion: must be slo-exporter/v1" if text else "holds no SLO document"
    assert capsys.readouterr().err == f"{path}: {words}\n"


def test_a_usual_alert_that_makes_no_sense_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line an SLO: which, why, and what its author can do; it is no problem."""
    path = write(
        tmp_path / "a.yaml",
        entry("rough", objective="90%"),
        entry("rougher", objective="30%"),
        entry("mixed", objective="20%").replace("30d", "4d"),
        entry("day").replace("30d", "1d"),
        entry("minutes").replace("30d", "5m"),
        entry("month"),
        entry("silent", objective="80%").replace("{name", "{alerts: off, name"),
    )
    least = write(tmp_path / "b.yaml", entry("least", objective="5%").replace("30d", "1h"))

    assert main(["check", path, least]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        (f"note: {path}: chat/rough: objective too low for alerts.page.quick (0.139-1.38%); write what fits, or off"),
        (
            f"note: {path}: chat/rougher: objective too low for alerts.page.quick (0.139-0.198%), "
            "page.slow (0.834-1.19%), ticket.quick (3.34-4.76%); write what fits, or off"
        ),
        (
            f"note: {path}: chat/mixed: window too short, objective too low for "
            "alerts.page.quick (1.05-1.3%), page.slow (6.25-7.81%), ticket.slow; "
            "write what fits, or off"
        ),
        (
            f"note: {path}: chat/day: total failure only: window too short for "
            "alerts.page.quick (4.17-50%), page.slow (25-50%), ticket.quick, ticket.slow; "
            "write what fits, or off"
        ),
        (
            f"note: {path}: chat/minutes: total failure only: window too short for "
            "alerts.page.quick, page.slow, ticket.quick, ticket.slow; write off"
        ),
        (
            f"note: {least}: chat/least: no alert at all: window too short for "
            "alerts.page.quick, page.slow, ticket.quick, ticket.slow; write off"
        ),
    ]
    assert max(len(line.replace(f"{tmp_path}/", "")) for line in lines) <= 165


def test_names_that_rules_cannot_tell_apart_are_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Service and SLO, with a hyphen between, are Sloth's id."""
    first = write(tmp_path / "1.yaml", entry("b-c"), service="a")
    second = write(tmp_path / "2.yaml", entry("c", good="e2e <= 1s"), service="a-b")

    assert main(["check", first, second]) == 0
    assert capsys.readouterr().err == "warning: a-b/c and a/b-c are both a-b-c in rules; rename one of them\n"


def test_two_policies_of_a_service_are_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both files are named."""
    first, second = write(tmp_path / "1.yaml", entry("a")), write(tmp_path / "2.yaml", entry("b", objective="90%"))
    for path, deny in ((first, "deny"), (second, "allow")):
        Path(path).write_text(Path(path).read_text() + f"release: {{on_no_data: {deny}}}\n")

    assert main(["check", first, second]) == 2
    assert f"{second}: release: service 'chat' has another one in {first};" in capsys.readouterr().err
