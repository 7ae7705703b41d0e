"""The setting ``gpu``."""

from pathlib import Path

import pytest

from slo_exporter.config import gpu_form, settings
from slo_exporter.config.errors import ConfigError
from slo_exporter.ingest.nvml.book import shapes


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where the file of settings stands, beside a recording."""
    (tmp_path / "day.jsonl").touch()
    return tmp_path / "slo-exporter.yaml"


def problems(path: Path | None, **how: dict[str, str]) -> list[str]:
    """Every problem, without the folder of the file."""
    with pytest.raises(ConfigError) as caught:
        settings.load(path, **{"environ": {}, **how})
    return [line.replace(f"{path}: ", "") for line in caught.value.problems]


def test_gpus_are_read_where_there_are_any() -> None:
    """By default, without groups, without what runs on them."""
    default = settings.load(None, environ={}).gpu
    assert (default.source, default.recording, default.groups, default.processes) == ("auto", None, {}, False)


def test_the_file_says_everything_of_gpus(config: Path) -> None:
    """A GPU may be in several groups, under any of its names; a bus id reads as NVML writes it."""
    config.write_text(
        """
        gpu:
          source: replay
          recording: day.jsonl
          processes: true
          groups:
            chat: {gpus: [0, 1]}
            Ein Dienst: {gpus: [1, GPU-5a2f, MIG-1a/2, "0000:3b:00.0", "3C:00.1", "0000AbCd:00:1f.0"]}
        """
    )

    read = settings.load(config, environ={}).gpu

    assert (read.source, read.recording, read.processes) == ("replay", config.parent / "day.jsonl", True)
    assert read.groups == {
        "chat": ("0", "1"),
        "Ein Dienst": ("1", "GPU-5a2f", "MIG-1a/2", "00000000:3B:00.0", "00000000:3C:00.1", "0000ABCD:00:1F.0"),
    }


def test_a_uuid_is_read_as_nvml_writes_it(config: Path) -> None:
    """In lower case after what says of which kind it is."""
    config.write_text("gpu: {groups: {a: {gpus: [GPU-5A2F, MIG-1A/2, MIG-GPU-0Cc/1/0]}}}")

    assert settings.load(config, environ={}).gpu.groups == {"a": ("GPU-5a2f", "MIG-1a/2", "MIG-GPU-0cc/1/0")}


def test_every_index_that_can_be_read_can_be_written(config: Path) -> None:
    """And no other: its GPU would be missing for ever."""
    assert gpu_form.MOST_GPUS == shapes.MOST_INDEX
    config.write_text("gpu: {groups: {a: {gpus: [1023]}}}")
    assert settings.load(config, environ={}).gpu.groups == {"a": ("1023",)}
    config.write_text("gpu: {groups: {a: {gpus: [1024]}}}")
    assert problems(config)[0].endswith("'1024' is no index of a GPU; the greatest that is read is 1023")


def test_the_source_comes_from_flag_environment_or_file(config: Path) -> None:
    """In this order."""
    config.write_text("gpu: {source: nvml}")
    environ, flags = {"SLO_EXPORTER_GPU__SOURCE": "simulated"}, {"gpu.source": "off"}

    assert settings.load(config, environ={}).gpu.source == "nvml"
    assert settings.load(config, environ=environ).gpu.source == "simulated"
    assert settings.load(config, environ=environ, flags=flags).gpu.source == "off"
    assert problems(config, flags={"gpu.source": "on"}) == [
        "--gpu-source: must be one of auto, nvml, simulated, replay, off, not 'on'"
    ]
    assert problems(config, environ={"SLO_EXPORTER_GPU__SOURCE": "on"})[0].startswith("SLO_EXPORTER_GPU__SOURCE: must")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gpu: auto", "gpu: must be a mapping"),
        (
            "gpu: {sources: nvml}",
            "gpu.sources: is an unknown field; did you mean source? fields are: source, ",
        ),
        ("gpu: {source: dcgm}", "gpu.source: must be one of auto, nvml, simulated, replay, off, not 'dcgm'"),
        ("gpu: {source: replay}", "gpu: recording: is required with source: replay; name the file to replay"),
        ("gpu: {recording: x}", "gpu: recording: is replayed with source: replay only; the source is auto"),
        ("gpu: {source: replay, recording: x}", "gpu.recording: there is no file 'x' in "),
        ("gpu: {source: replay, recording: .}", "gpu.recording: there is no file '.' in "),
        ("gpu: {processes: maybe}", "gpu.processes: must be true or false, not 'maybe'"),
        ("gpu: {groups: [a]}", "gpu.groups: must be a mapping of names to groups, such as {chat: {gpus: [0, 1]}}"),
        ("gpu: {groups: {a: [0]}}", "gpu.groups: a: must be a mapping, such as {gpus: [0, 1]}"),
        ("gpu: {groups: {a: {gpu: [0]}}}", "gpu.groups: a: gpu: is an unknown field; did you mean gpus?"),
        ("gpu: {groups: {a: {gpus: [0], b: c}}}", "gpu.groups: a: b: is an unknown field; fields are: gpus"),
        ("gpu: {groups: {a: {gpus: []}}}", "gpu.groups: a: gpus: must be a list of 1 to 1024 GPUs, such as [0, 1]"),
        ("gpu: {groups: {a: {}}}", "gpu.groups: a: gpus: must be a list of texts"),
        ("gpu: {groups: {a: {gpus: ''}}}", "gpu.groups: a: gpus: is empty"),
        ("gpu: {groups: {a: {gpus: [0, 1, 0]}}}", "gpu.groups: a: gpus: 0 stands twice"),
        (
            'gpu: {groups: {a: {gpus: ["0000:3b:00.0", "3B:00.0"]}}}',
            "gpu.groups: a: gpus: 00000000:3B:00.0 stands twice",
        ),
        ("gpu: {groups: {a: {gpus: [GPU-a, GPU-A]}}}", "gpu.groups: a: gpus: GPU-a stands twice"),
        (
            "gpu: {groups: {a: {gpus: [9999]}}}",
            "gpu.groups: a: gpus: '9999' is no index of a GPU; the greatest that is read is 1023",
        ),
        ("gpu: {groups: {a: {gpus: [null]}}}", "gpu.groups: a: gpus: is empty: null is no text"),
        ("gpu: {groups: {null: {gpus: [0]}}}", "gpu.groups: is empty: null is no text"),
        (
            "gpu: {groups: {a: {gpus: [gpu0]}}}",
            "gpu.groups: a: gpus: 'gpu0' is no GPU; write its index, such as 0, ",
        ),
        ("gpu: {groups: {a: {gpus: [[0]]}}}", "gpu.groups: a: gpus: must be one text"),
        ("gpu: {groups: {'': {gpus: [0]}}}", "gpu.groups: is empty"),
        ("gpu: {groups: {' a': {gpus: [0]}}}", "gpu.groups: ' a' is no name of a group; write at most 255 printable"),
        (f"gpu: {{groups: {{{'a' * 256}: {{gpus: [0]}}}}}}", "gpu.groups: 'aaaaaaa"),
    ],
)
def test_a_wrong_setting_of_gpus_is_named(config: Path, text: str, problem: str) -> None:
    """Where it stands, and what would be right."""
    config.write_text(text)

    (found,) = problems(config)
    assert found.startswith(problem)


def test_the_environment_lists_the_gpus_of_a_group_with_commas() -> None:
    """As every list."""
    environ = {"SLO_EXPORTER_GPU__GROUPS__CHAT__GPUS": "0, GPU-a", "SLO_EXPORTER_GPU__PROCESSES": "true"}

    read = settings.load(None, environ=environ).gpu

    assert (read.groups, read.processes) == ({"chat": ("0", "GPU-a")}, True)


def test_too_many_groups_are_refused(config: Path) -> None:
    """Each is a set of series."""
    groups = ", ".join(f"g{n}: {{gpus: [0]}}" for n in range(257))
    config.write_text(f"gpu: {{groups: {{{groups}}}}}")

    assert problems(config) == ["gpu.groups: has 257 groups; at most 256 are allowed"]
