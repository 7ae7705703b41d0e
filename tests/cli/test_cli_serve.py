"""`slo-exporter serve`: what it hands to the daemon, and what stops it before."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from slo_exporter.cli.main import main
from slo_exporter.config.settings import Settings
from slo_exporter.daemon import wiring
from slo_exporter.slo.definition import Slo

SLOS = """
apiVersion: slo-exporter/v1
service: chat
slos: [{name: latency, objective: 99%, window: 30d, indicator: {requests: {}, good: e2e <= 80ms}}]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A right configuration."""
    (tmp_path / "chat.yaml").write_text(SLOS)
    path = tmp_path / "config.yaml"
    path.write_text("listen: 127.0.0.1:1\nslo_files: ['*t.yaml']\n")
    return path


def test_settings_and_slos_reach_the_daemon(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags go before the file; the exit code is the daemon's."""
    given: list[tuple[Settings, Sequence[Slo], bool]] = []

    def run(settings: Settings, slos: Sequence[Slo], _read_files: object, *, demo: bool) -> int:
        given.append((settings, slos, demo))
        return 7

    monkeypatch.setattr(wiring, "run", run)
    flags = ["--otlp-grpc", "127.0.0.1:2", "--otlp-http", "127.0.0.1:3", "--database", "sqlite:///x.db"]

    assert main(["serve", "--config", str(config), *flags, "--demo"]) == 7
    ((settings, slos, demo),) = given
    assert (settings.listen.port, settings.otlp.grpc.port, settings.otlp.http.port) == (1, 2, 3)
    assert (settings.database, demo) == ("sqlite:///x.db", True)
    assert [slo.key for slo in slos] == [("chat", "latency")]


def test_a_wrong_setting_exits_2_with_a_line_each(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started."""
    config.write_text("listn: x\nlateness: 1d\n")

    assert main(["serve", "--config", str(config)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"slo-exporter: {config}: lateness: '1d' is out of range")
    assert lines[1].startswith(f"slo-exporter: {config}: listn: is an unknown field; did you mean listen?")


def test_a_wrong_slo_exits_2(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line names file, SLO and field."""
    slos = config.parent / "chat.yaml"
    slos.write_text(SLOS.replace("99%", "100%"))

    assert main(["serve", "--config", str(config)]) == 2
    assert capsys.readouterr().err.startswith(f"slo-exporter: {slos}: SLO 'latency': objective: 100% leaves no")


def test_a_config_that_is_not_there_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    """As any other wrong configuration."""
    assert main(["serve", "--config", "nope.yaml"]) == 2
    assert capsys.readouterr().err == "slo-exporter: nope.yaml: cannot be read: No such file or directory\n"
