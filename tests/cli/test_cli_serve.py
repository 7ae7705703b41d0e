"""`slo-exporter serve`: what it hands to the daemon, and what stops it before."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from slo_exporter.cli.main import main
from slo_exporter.config.errors import ConfigError
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


GPU_SLOS = """
apiVersion: slo-exporter/v1
service: chat
slos:
  - name: up
    objective: 99%
    window: 30d
    indicator: {gpus: {group: GROUP}, timeslice: 1m, good: min(up) >= 100%}
"""


@pytest.fixture
def read_again(config: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Sequence[Slo]]:
    """What SIGHUP does in a server that started with the group chat and 30 days."""
    given: list[Callable[[], Sequence[Slo]]] = []

    def run(_settings: Settings, _slos: object, read_files: Callable[[], Sequence[Slo]], *, demo: bool) -> int:
        given.append(read_files)
        return int(demo)

    monkeypatch.setattr(wiring, "run", run)
    config.write_text(f"{config.read_text()}retention: 30d\ngpu: {{groups: {{chat: {{gpus: [0]}}}}}}\n")
    assert main(["serve", "--config", str(config)]) == 0
    return given[0]


def test_files_are_read_again_as_the_settings_name_them_by_then(
    config: Path, read_again: Callable[[], Sequence[Slo]]
) -> None:
    """Their patterns are looked at anew."""
    (config.parent / "more.yml").write_text(GPU_SLOS.replace("GROUP", "chat"))
    config.write_text(config.read_text().replace("['*t.yaml']", "['*t.yaml', '*.yml']"))

    assert [slo.name for slo in read_again()] == ["latency", "up"]


def test_a_group_that_the_running_server_lacks_takes_a_restart(
    config: Path, read_again: Callable[[], Sequence[Slo]]
) -> None:
    """An SLO on it would be judged by no GPU; without one a new group is no problem."""
    config.write_text(config.read_text().replace("chat: {", "embed: {gpus: [1]}, batch: {gpus: [1]}, chat: {"))
    assert [slo.name for slo in read_again()] == ["latency"]

    slos = config.parent / "chat.yaml"
    slos.write_text(GPU_SLOS.replace("GROUP", "embed"))
    with pytest.raises(ConfigError) as caught:
        read_again()
    assert caught.value.problems == (
        f"{slos}: SLO 'up': indicator.gpus: group: 'embed' is no group of gpu.groups; groups are: chat",
        "gpu.groups: the server started without batch, embed; a new group takes a restart",
    )


def test_a_group_that_the_running_server_has_stays(config: Path, read_again: Callable[[], Sequence[Slo]]) -> None:
    """Until a restart, whatever the settings say by then."""
    config.write_text(config.read_text().replace("chat: {gpus", "embed: {gpus"))
    (config.parent / "chat.yaml").write_text(GPU_SLOS.replace("GROUP", "chat"))

    assert [slo.name for slo in read_again()] == ["up"]


def test_a_window_is_as_long_as_the_running_server_keeps_counts(
    config: Path, read_again: Callable[[], Sequence[Slo]]
) -> None:
    """A longer retention takes a restart."""
    config.write_text(config.read_text().replace("retention: 30d", "retention: 90d"))
    (config.parent / "chat.yaml").write_text(SLOS.replace("30d", "60d"))

    with pytest.raises(ConfigError) as caught:
        read_again()
    window, retention = caught.value.problems
    assert window.endswith("60d is longer than counts are kept; retention is 30d")
    assert retention == "retention: the server started with a shorter one; a longer one takes a restart"


def test_a_file_that_is_wrong_takes_no_restart(config: Path, read_again: Callable[[], Sequence[Slo]]) -> None:
    """Where the settings are those of the start, nothing is said of them."""
    (config.parent / "chat.yaml").write_text(SLOS.replace("99%", "100%"))

    with pytest.raises(ConfigError) as caught:
        read_again()
    assert len(caught.value.problems) == 1
