"""``check`` and ``serve`` on SLOs on GPUs, and on the groups that they name."""

from pathlib import Path

import pytest

from slo_exporter.cli.main import main

SLOS = """
apiVersion: slo-exporter/v1
service: chat
slos:
  - {name: busy, objective: 99%, window: 30d, indicator: {gpus: {}, timeslice: 1m, good: mean(utilization) >= 0.4}}
  - name: cool
    objective: 99%
    window: 30d
    indicator: {gpus: {group: [embed, chat], gpu: 0}, timeslice: 10s, good: max(temperature) <= 85 and max(xids) <= 0}
"""
GROUPS = "gpu: {groups: {chat: {gpus: [0]}, embed: {gpus: [1]}}}\n"
PROBLEM = "SLO 'cool': indicator.gpus: group: 'chat' is no group of gpu.groups; groups are: embed"


@pytest.fixture
def slos(tmp_path: Path) -> Path:
    """A file of SLOs on GPUs."""
    path = tmp_path / "gpu.yaml"
    path.write_text(SLOS)
    return path


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Where the settings stand."""
    return tmp_path / "slo-exporter.yaml"


def test_an_slo_on_gpus_is_one_line_of_what_it_means(
    slos: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which GPUs, all of them too: its fields alone do not say so."""
    settings.write_text(GROUPS)

    assert main(["check", str(slos), str(settings)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"ok  {settings}  2 groups of GPUs (chat, embed), 0 SLO files",
        "ok  chat/busy  99% over 30d  good: mean(utilization) >= 40% each 1m  gpus: all",
        (
            "ok  chat/cool  99% over 30d  good: max(temperature) <= 85 and max(xids) <= 0 each 10s"
            "  gpus: gpu=0, group=chat|embed"
        ),
    ]


def test_a_group_is_looked_up_where_settings_are_given(
    slos: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the SLO file; alone it may be right."""
    settings.write_text(GROUPS.replace("chat: {gpus: [0]}, ", ""))

    assert main(["check", str(slos)]) == 0
    assert main(["check", str(slos), str(settings)]) == 2
    assert capsys.readouterr().err == f"{slos}: {PROBLEM}\n"


def test_serve_does_not_start_with_a_group_that_is_none(
    slos: Path, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, in the words of check, which looks into the same files."""
    settings.write_text(f"slo_files: [{slos.name}]\n" + GROUPS.replace("chat: {gpus: [0]}, ", ""))

    assert main(["check", str(settings)]) == 2
    assert capsys.readouterr().err == f"{slos}: {PROBLEM}\n"
    assert main(["serve", "--config", str(settings)]) == 2
    assert capsys.readouterr().err == f"slo-exporter: {slos}: {PROBLEM}\n"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("apiVersion: slo-exporter/v1", "is no JSON"),
        ("", "a recording begins with a hello"),
        ('{"fault":{"reason":"hang","call":"","code":0,"text":""}}', "a recording begins with a hello"),
        ('{"hello":{"source":"nvml"}}', "lacks a field: it has source"),
    ],
)
def test_what_is_replayed_is_a_recording(
    tmp_path: Path, settings: Path, capsys: pytest.CaptureFixture[str], text: str, wrong: str
) -> None:
    """By its first line: file and line are named."""
    settings.write_text("gpu: {source: replay, recording: gpus.jsonl}\n")
    recording = tmp_path / "gpus.jsonl"

    recording.write_text(text)
    assert main(["check", str(settings)]) == 2
    assert capsys.readouterr().err == (
        f"{settings}: gpu.recording: {recording}, line 1: {wrong}; slo-exporter doctor --record writes one\n"
    )
    recording.write_text('{"hello":{"source":"nvml","pid":1}}\n')
    assert main(["check", str(settings)]) == 0


def test_the_source_of_gpus_is_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with it is said under its name."""
    assert main(["serve", "--gpu-source", "dcgm"]) == 2
    assert capsys.readouterr().err == (
        "slo-exporter: --gpu-source: must be one of auto, nvml, simulated, replay, off, not 'dcgm'\n"
    )
