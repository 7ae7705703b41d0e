"""`slo-exporter doctor`."""

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stub_library
from stub_library import ANY, READINGS, Stub

from slo_exporter.cli.doctor_rows import figure
from slo_exporter.cli.main import main
from slo_exporter.clock import SystemClock
from slo_exporter.ingest.nvml.frame import Frame, Hello, Reason, Tier
from slo_exporter.ingest.nvml.order import Order
from slo_exporter.ingest.nvml.reading import container
from slo_exporter.ingest.nvml.reading.quantities import Unit
from slo_exporter.ingest.nvml.recordings.draft import Draft
from slo_exporter.ingest.nvml.recordings.recorder import Recorder, pseudonym
from slo_exporter.ingest.nvml.survey import listening
from slo_exporter.ingest.nvml.watch import messages
from slo_exporter.ingest.nvml.watch.process import COMMAND

UUID = "GPU-5706c0de-0000-4000-8000-000000000001"


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libnvidia-ml.so.1 of our own, built once."""
    return stub_library.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def stub(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """Two H200s in this machine, which is no container."""
    found = Stub(nvml_library, tmp_path)
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(container, "is_inside", lambda: False)
    return found


@pytest.fixture
def laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    monkeypatch.setattr(container, "is_inside", lambda: False)


def without_times(text: str) -> list[str]:
    """Lines of the output, where what was measured is 0."""
    text = re.sub(r"in \d\.\d s", "in 0 s", text)
    return [
        re.sub(r"( {2,}[0-9.]*s| {2,}once) +[0-9.,]+ +[0-9.,]+  ", r"\1  0  0  ", line) for line in text.splitlines()
    ]


def test_it_reads_at_a_glance(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Who the GPUs are, what they give, what they do not give and why, a verdict."""
    stub.load(ANY, "matmul")
    assert main(["doctor"]) == 0
    lines = without_times(capsys.readouterr().out)
    assert lines[:5] == [
        "driver 580.159.04  NVML 13.580.159.04, CUDA 13.0, 2 GPUs, examined in 0 s",
        "",
        "GPU  name         UUID                                      PCI               state",
        "  0  NVIDIA H200  GPU-5706c0de-0000-4000-8000-000000000001  00000000:1b:00.0  can be read",
        "  1  NVIDIA H200  GPU-5706c0de-0000-4000-8000-000000000002  00000000:23:00.0  can be read",
    ]
    rows = [re.sub(r" {2,}", "  ", line) for line in lines]
    for row in (
        "memory  1s  0  0  total 140.4 GiB, used 0 B, free 139.8 GiB, reserved 615.1 MiB",
        "clock  1s  0  0  SM 1,515 MHz, memory 3,201 MHz, graphics 345 MHz, video 765 MHz",
        "clock events  1s  0  0  sw power cap",
        "power, instant  0.25s  0  0  700.0 W",
        "ECC  10s  0  0  corrected volatile, uncorrected volatile, corrected aggregate, uncorrected aggregate: each 0",
        "module power, retired pages  NotSupported: this GPU or its driver does not tell it",
        "The other GPU gives the same.",
    ):
        assert row in rows
    assert any(row.startswith("GPM, one second  1s  0  0  SM active 94.6%, tensor active 91.8%") for row in rows)
    assert any(row.startswith("CPU  ") and row.endswith("% busy since boot") for row in rows)
    assert not any("observed" in row or "counter" in row or "_" in row for row in rows)
    assert any(row.startswith("Reading one GPU takes at most 0.") for row in rows)
    assert rows[-1].startswith("readable  2 GPUs can be read, for at most 0.")


def test_a_narrow_terminal_cuts_no_number(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines are folded."""
    monkeypatch.setenv("COLUMNS", "70")
    stub.load(ANY, "matmul")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 70
    words = " ".join(" ".join(lines).split())
    assert "reserved 615.1 MiB" in words
    assert "…" not in words


def test_everything_is_there_as_json(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The keys that docs/gpu.md describes."""
    stub.load(1, "matmul")
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == [
        *("verdict", "text", "advice", "seconds", "nvml", "machine", "gpus", "accidents", "values_refused"),
        *("cost", "host"),
    ]
    assert told["verdict"] == "readable"
    assert told["nvml"] == {
        "reason": "ok",
        "call": None,
        "code": None,
        "driver": "580.159.04",
        "library": "13.580.159.04",
        "cuda": "13.0",
        "gpus": 2,
    }
    assert [gpu["uuid"][-1] for gpu in told["gpus"]] == ["1", "2"]
    clock = capability(told, 1, "clock_sm")
    assert clock["values"] == [
        {"metric": "gpu_clock_hertz", "labels": {"clock": "sm"}, "value": 1.515e9, "unit": "hertz"}
    ]
    assert (clock["tier"], clock["every_seconds"], clock["refusal"]) == ("normal", 1, None)
    assert clock["worst_us"] >= clock["median_us"] > 0
    assert capability(told, 0, "retired_pages")["refusal"]["name"] == "NotSupported"
    assert told["host"]["host_memory_total_bytes"][0]["value"] > 0
    assert set(told["cost"]["cpu_ratio_per_gpu"]) == {"fast", "normal", "slow", "rare"}


def capability(told: dict[str, Any], gpu: int, name: str) -> dict[str, Any]:
    """One capability of one GPU."""
    found: dict[str, Any] = next(one for one in told["gpus"][gpu]["capabilities"] if one["name"] == name)
    return found


@pytest.mark.usefixtures("laptop")
def test_a_machine_without_a_gpu_is_normal(capsys: pytest.CaptureFixture[str]) -> None:
    """It says what is missing, why that is fine, and what else there is."""
    assert main(["doctor"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("NVML cannot be read")
    assert any(line.startswith("memory  ") and "total" in line for line in lines)
    assert "which is normal: serve runs without; gpu: {source: simulated} shows" in lines[-1]


@pytest.mark.usefixtures("laptop")
def test_a_machine_without_a_gpu_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    """For scripts that look at many machines."""
    assert main(["doctor", "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["nvml"]["reason"], told["gpus"]) == ("absent", "no_library", [])
    assert told["advice"] == {}


def test_no_gpu_is_no_fault(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """NVML works and has nothing to read."""
    stub.gpus(0)
    assert main(["doctor"]) == 3
    assert "lists no GPU" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "action", "said"),
    [
        ("DeviceGetMarginTemperature", "segv", "crash in temperature margin of GPU 0: it was ended by SIGSEGV"),
        ("DeviceGetMarginTemperature", "hang", "hang in temperature margin of GPU 0: it did not answer"),
        (READINGS, "return 15", "1 of 2 GPUs well (GPU 0: lost)"),
        (READINGS, "return 16", "1 of 2 GPUs well (GPU 0: reset required)"),
    ],
)
def test_what_fails_is_told(stub: Stub, capsys: pytest.CaptureFixture[str], call: str, action: str, said: str) -> None:
    """One GPU, one call; the other GPU is shown in full, and what to do stands at the end."""
    stub.on(0, call, action)
    assert main(["doctor"]) == 1
    output = capsys.readouterr().out
    assert said in output
    assert "reserved 615.1 MiB" in output
    assert output.splitlines()[-1].startswith("what to do")


def test_each_thing_that_is_wrong_has_its_advice(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call that hangs hides no GPU that is lost, nor who that is."""
    monkeypatch.setenv("COLUMNS", "110")
    stub.on(0, "DeviceGetTemperatureV", "hang").on(1, "DeviceGetNumaNodeId", "return 15")
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:5] == [
        "  0  NVIDIA H200  GPU-5706c0de  00000000:1b:00.0  hang in temperature: it did not answer",
        "  1  NVIDIA H200  GPU-5706c0de  00000000:23:00.0  lost: nvmlDeviceGetNumaNodeId answers GpuIsLost (15)",
    ]
    assert lines[-3] == "broken  0 of 2 GPUs well (GPU 0: hang, GPU 1: lost)"
    assert lines[-2].startswith("what to do  hang: look for Xid 119")
    assert lines[-1].startswith("what to do  lost: drain the machine")


@pytest.mark.parametrize(
    ("code", "status", "verdict"),
    [(18, 1, "broken  version mismatch"), (4, 1, "broken  no permission"), (9, 3, "absent")],
)
def test_a_refused_start_is_told(
    stub: Stub, capsys: pytest.CaptureFixture[str], code: int, status: int, verdict: str
) -> None:
    """A driver that was upgraded, a user without rights, a module that is not loaded."""
    stub.on(ANY, "Init*", f"return {code}")
    assert main(["doctor"]) == status
    assert verdict in capsys.readouterr().out


def test_gpus_that_tell_nothing_are_no_success(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """NotSupported everywhere."""
    stub.on(ANY, READINGS, "return 3")
    assert main(["doctor"]) == 1
    assert "tell nothing" in capsys.readouterr().out


def test_gpus_that_differ_are_told_apart(stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """By what they give."""
    stub.on(1, "DeviceGetPerformanceState", "return 3")
    assert main(["doctor"]) == 0
    assert "! GPU 1 does not give performance state" in capsys.readouterr().out.splitlines()


def test_a_recording_replays(stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its lines are the child's, under pseudonyms."""
    file = tmp_path / "gpus.jsonl"
    stub.load(0, "matmul")
    assert main(["doctor", "--record", str(file), "--seconds", "1"]) == 0
    assert f"frames of 2 GPUs in {file}" in capsys.readouterr().err

    text = file.read_text()
    hello, *frames = [messages.decode(line) for line in file.read_bytes().splitlines()]
    assert isinstance(hello, Hello)
    assert all(isinstance(frame, Frame) for frame in frames)
    assert UUID not in text
    assert "165002300" not in text
    assert text.count(pseudonym(UUID)) == len(frames) >= 2

    order = Order(frames_fd=-1, note_fd=-1, source="replay", recording=str(file))
    with listening.Listening(COMMAND, order, SystemClock()) as child:
        said = [messages.decode(child.line(10) or b"") for _ in range(2)]
    assert isinstance(said[0], Hello)
    assert said[0].source == "replay"
    assert isinstance(said[1], Frame)
    assert ("gpu_utilization_ratio", (), 0.98) in said[1].gpus[0].tiers[Tier.NORMAL]


def test_a_recording_may_keep_who_is_who(stub: Stub, tmp_path: Path) -> None:
    """For one's own use."""
    file = tmp_path / "gpus.jsonl"
    assert stub.calls() == {}
    assert main(["doctor", "--record", str(file), "--seconds", "1", "--with-identity"]) == 0
    assert UUID in file.read_text()
    assert '"serial":"1650023000001"' in file.read_text()


@pytest.mark.usefixtures("laptop")
@pytest.mark.parametrize("before", [None, b"a good one"])
def test_without_gpus_nothing_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: bytes | None
) -> None:
    """It is said why, as without --record; what was recorded before is left alone, and no empty file is left."""
    file = tmp_path / "gpus.jsonl"
    if before is not None:
        file.write_bytes(before)
    assert main(["doctor", "--record", str(file)]) == 3
    assert capsys.readouterr().err.splitlines() == [
        (
            "slo-exporter: no NVIDIA driver and no GPU of NVIDIA here, which is normal: serve runs without; "
            "gpu: {source: simulated} shows what GPUs would give"
        ),
        "nothing was recorded",
    ]
    assert [found.read_bytes() for found in tmp_path.iterdir()] == ([] if before is None else [before])


def test_a_recording_ends_where_nvml_dies(stub: Stub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the first frame the recording of before stays."""
    file = tmp_path / "gpus.jsonl"
    file.write_bytes(b"a good one")
    stub.on(1, "DeviceGetPerformanceState", "abort")
    assert main(["doctor", "--record", str(file)]) == 1
    assert "crash in performance_state of GPU 1" in capsys.readouterr().err
    assert file.read_bytes() == b"a good one"


def test_what_was_recorded_before_nvml_dies_is_there(stub: Stub, tmp_path: Path) -> None:
    """In the place of what was there."""
    file = tmp_path / "gpus.jsonl"
    file.write_bytes(b"an old one")

    def tell(frames: int) -> None:
        if frames == 1:
            draft.keep()
            stub.on(1, "DeviceGetPerformanceState", "abort")

    with Draft(file) as draft:
        recorded = Recorder(SystemClock(), 60, tell).record(draft.file)
    assert recorded.fault is not None
    assert recorded.fault.reason is Reason.CRASH
    assert file.read_bytes().count(b'{"frame"') == recorded.frames >= 1
    assert [found.name for found in tmp_path.glob(".gpus*")] == []


def test_what_is_no_file_is_written_as_it_is(stub: Stub, tmp_path: Path) -> None:
    """A device or a pipe is not replaced, and a link stays one."""
    stub.load(0, "matmul")
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to(file)
    for path in (link, Path(os.devnull)):
        assert main(["doctor", "--record", str(path), "--seconds", "1"]) == 0
    assert link.is_symlink()
    assert file.read_bytes().startswith(b'{"hello"')
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize(
    "arguments", [["--seconds", "5"], ["--with-identity"], ["--json", "--record", "f"], ["--record", "/nonexistent/f"]]
)
def test_options_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    """A file that cannot be written too."""
    assert main(["doctor", *arguments]) == 2


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, Unit.BYTES, "0 B"),
        (150_754_820_096, Unit.BYTES, "140.4 GiB"),
        (0.98, Unit.RATIO, "98.0%"),
        (1.98e9, Unit.HERTZ, "1,980 MHz"),
        (2_557_324, Unit.JOULES, "2.6 MJ"),
        (12, Unit.JOULES, "12 J"),
        (79.881, Unit.WATTS, "79.9 W"),
        (31, Unit.CELSIUS, "31 C"),
        (0.31, Unit.SECONDS, "0.31 s"),
        (123_456, Unit.SECONDS, "123,456 s"),
    ],
)
def test_values_have_units(value: float, unit: Unit, text: str) -> None:
    """In the size that people read."""
    assert figure(value, unit) == text
