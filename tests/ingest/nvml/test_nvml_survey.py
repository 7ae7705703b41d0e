import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stub_library import ANY, READINGS, Stub

from slo_exporter.clock import SystemClock
from slo_exporter.ingest.nvml.frame import Reason
from slo_exporter.ingest.nvml.reading import container
from slo_exporter.ingest.nvml.reading.capabilities import CAPABILITIES
from slo_exporter.ingest.nvml.survey import surroundings
from slo_exporter.ingest.nvml.survey.examination import Accident, Examination, Examiner
from slo_exporter.ingest.nvml.survey.finding import XID_EVENTS
from slo_exporter.ingest.nvml.survey.surroundings import Surroundings, advice

_SOON_S = 0.5
"""Long enough for every reading of a stub, short enough to wait for a hang."""


@pytest.fixture
def here(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """The stub is this machine's library, and this is no container."""
    for name, value in stub.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(container, "is_inside", lambda: False)
    return stub


def examine() -> Examination:
    """Examine this machine, without much patience."""
    return Examiner(SystemClock(), starting_s=10, reading_s=_SOON_S).examine()


def samples(found: Examination, gpu: int, capability: str) -> dict[tuple[str, ...], float]:
    """What a capability gave, by its labels."""
    return {labels: value for _, labels, value in found.gpus[gpu].capabilities[capability].samples}


def test_every_capability_is_asked_of_every_gpu(here: Stub) -> None:
    """What it gives, how long that took, or why it is not there."""
    here.load(0, "matmul")
    found = examine()

    assert [found.gpus[i].reason for i in range(2)] == [Reason.OK, Reason.OK]
    assert found.gpus[0].info["name"] == "NVIDIA H200"
    for gpu in found.gpus.values():
        assert set(gpu.capabilities) == {*(one.name for one in CAPABILITIES), XID_EVENTS}
    assert found.gpus[0].capabilities["utilization"].samples == [
        ("gpu_utilization_ratio", (), 0.98),
        ("gpu_memory_bandwidth_busy_ratio", (), 0.17),
    ]
    assert samples(found, 0, "clock_sm") == {("sm",): 1.515e9}
    assert samples(found, 1, "clock_sm") == {("sm",): 3.45e8}
    assert len(found.gpus[0].capabilities["temperature"].wall_us) == 5
    assert len(found.gpus[1].capabilities["temperature"].wall_us) == 1
    retired = found.gpus[0].capabilities["retired_pages"].refusal
    assert retired is not None
    assert retired.name == "NotSupported"


def test_windows_are_filled(here: Stub) -> None:
    """What needs a reading before it has one, on every GPU."""
    here.load(ANY, "matmul")
    found = examine()
    for gpu in range(2):
        assert samples(found, gpu, "gpm_second")["hmma_tensor",] == pytest.approx(0.918)
        assert found.gpus[gpu].capabilities["gpm_second"].grown


def test_sixteen_gpus_are_examined_in_five_seconds(here: Stub) -> None:
    """A call costs what it does on an H200."""
    here.gpus(16).burn()
    found = examine()
    assert len(found.gpus) == 16
    assert found.seconds < 5 or found.unread
    assert not found.accidents


def test_a_hang_is_told_and_left_out(here: Stub) -> None:
    """The rest is read by another survey, which does not touch that call."""
    here.on(1, "DeviceGetClockInfo", "hang")
    found = examine()
    # Each of the four clocks hangs on GPU 1: after the second its whole GPU is left out.
    assert found.accidents == [
        Accident(Reason.HANG, 1, "clock_sm", "it did not answer"),
        Accident(Reason.HANG, 1, "clock_memory", "it did not answer"),
    ]
    assert found.gpus[1].reason is Reason.HANG
    assert found.gpus[0].reason is Reason.OK
    assert found.gpus[0].capabilities["clock_sm"].samples


@pytest.mark.parametrize(("action", "said"), [("abort", "SIGABRT"), ("segv", "SIGSEGV")])
def test_a_crash_is_told_and_left_out(here: Stub, action: str, said: str) -> None:
    """As in an NVML that dies in a rarely used function."""
    here.on(0, "DeviceGetMarginTemperature", action)
    found = examine()
    assert found.accidents == [Accident(Reason.CRASH, 0, "temperature_margin", f"it was ended by {said}")]
    assert "temperature_margin" not in found.gpus[0].capabilities
    assert found.gpus[0].capabilities["energy"].samples
    assert found.gpus[1].capabilities["temperature_margin"].samples


def test_a_survey_that_cannot_start_is_told(here: Stub) -> None:
    """Nothing can be left out, so it ends there."""
    here.on(ANY, "Init*", "exit 5")
    found = examine()
    assert found.accidents == [Accident(Reason.EXIT, None, "nvmlInit", "it ended with exit code 5 and without a word")]
    assert found.fault is not None
    assert found.fault.reason is Reason.EXIT


def test_an_init_that_hangs_is_told(here: Stub) -> None:
    """As on an H200 after ten hours of another program's hang."""
    here.on(ANY, "Init*", "hang")
    found = Examiner(SystemClock(), starting_s=_SOON_S, reading_s=_SOON_S).examine()
    assert found.fault is not None
    assert (found.fault.reason, found.fault.call) == (Reason.HANG, "nvmlInit")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (4, Reason.NO_PERMISSION),
        (9, Reason.NO_DRIVER),
        (18, Reason.VERSION_MISMATCH),
    ],
)
def test_an_init_that_is_refused_says_why(here: Stub, code: int, reason: Reason) -> None:
    """By its code."""
    here.on(ANY, "Init*", f"return {code}")
    found = examine()
    assert found.fault is not None
    assert (found.fault.reason, found.fault.code) == (reason, code)
    assert not found.accidents


def test_no_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a laptop."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    found = examine()
    assert found.fault is not None
    assert found.fault.reason is Reason.NO_LIBRARY
    assert not found.gpus


@pytest.mark.parametrize(("code", "reason"), [(15, Reason.LOST), (16, Reason.RESET_REQUIRED), (999, Reason.UNKNOWN)])
def test_a_gpu_that_fails_hides_no_other(here: Stub, code: int, reason: Reason) -> None:
    """It is told, and the other one is read."""
    here.on(0, READINGS, f"return {code}")
    found = examine()
    assert (found.gpus[0].reason, found.gpus[1].reason) == (reason, Reason.OK)
    assert found.gpus[1].capabilities["gpm_second"].samples
    assert found.fault is None


@pytest.mark.parametrize("action", ["return 15", "hang"])
def test_a_gpu_that_fails_while_it_is_opened_says_who_it_is(here: Stub, action: str) -> None:
    """Its UUID and where it is are asked first."""
    here.on(1, "DeviceGetName", action)
    found = Examiner(SystemClock(), starting_s=2 * _SOON_S, reading_s=_SOON_S).examine()
    gpu = found.gpus[1]
    assert gpu.reason is (Reason.HANG if action == "hang" else Reason.LOST)
    assert gpu.uuid == "GPU-5706c0de-0000-4000-8000-000000000002"
    assert gpu.info == {"pci_bus_id": "00000000:23:00.0"}


def test_a_start_may_take_longer_than_a_reading(here: Stub) -> None:
    """Of NVML, and of a GPU."""
    here.on(ANY, "Init*", f"slow {_SOON_S * 1600:.0f}").on(0, "DeviceGetHandleByIndex_v2", f"slow {_SOON_S * 1600:.0f}")
    found = examine()
    assert not found.accidents
    assert found.gpus[0].reason is Reason.OK


def test_a_container_that_lost_its_gpus_is_recognised(here: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every GPU answers Unknown to everything."""
    monkeypatch.setattr(container, "is_inside", lambda: True)
    here.on(ANY, READINGS, "return 999")
    found = examine()
    assert found.fault is not None
    assert found.fault.reason is Reason.CONTAINER_LOST


def test_garbage_is_refused_and_counted(here: Stub) -> None:
    """It is nobody's value."""
    here.set(utilization=4e9, temperature=4e9)
    found = examine()
    assert () not in samples(found, 0, "temperature")
    assert found.refused["gpu_utilization_ratio"] > 0
    assert found.refused["gpu_temperature_celsius"] > 0


def test_a_library_that_prints_is_not_heard(here: Stub) -> None:
    """What it writes on standard output is no finding."""
    here.on(ANY, "DeviceGetTemperatureV", "print")
    found = examine()
    assert not found.accidents
    assert samples(found, 0, "temperature") == {("gpu",): 31}


def test_a_survey_that_talks_nonsense_is_no_survey() -> None:
    """It is ended, and nothing else is tried."""
    script = "import json, os, sys; os.write(json.loads(sys.argv[1])['frames_fd'], b'{\"what\": 1}\\n' * 2)"
    found = Examiner(SystemClock(), command=(sys.executable, "-c", script)).examine()
    assert [accident.reason for accident in found.accidents] == [Reason.GARBAGE]


# -- what is around --

_LAPTOP = Surroundings(kernel_driver=None, devices=(), closed=(), on_pci=0, in_container=False)


def test_a_machine_is_looked_at(tmp_path: Path) -> None:
    """Kernel module, device files and PCI bus."""
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC version: 13.3\n"
    (tmp_path / "proc/driver/nvidia/version").write_text(version)
    (tmp_path / "dev").mkdir()
    for name in ("nvidiactl", "nvidia0", "nvidia-uvm", "null"):
        (tmp_path / "dev" / name).touch()
    for slot, (vendor, kind) in {
        "a": ("0x10de", "0x030200"),
        "b": ("0x8086", "0x030000"),
        "c": ("0x10de", "0x068000"),
    }.items():
        (tmp_path / "sys/bus/pci/devices" / slot).mkdir(parents=True)
        (tmp_path / "sys/bus/pci/devices" / slot / "vendor").write_text(f"{vendor}\n")
        (tmp_path / "sys/bus/pci/devices" / slot / "class").write_text(f"{kind}\n")
    if os.geteuid() != 0:  # root may open everything
        (tmp_path / "dev/nvidia0").chmod(0)

    found = surroundings.look(tmp_path, in_container=False)

    assert found.kernel_driver == "580.159.04"
    assert found.devices == ("/dev/nvidia0", "/dev/nvidiactl")
    assert found.closed == (() if os.geteuid() == 0 else ("/dev/nvidia0",))
    assert found.on_pci == 1


def test_an_empty_machine_is_looked_at(tmp_path: Path) -> None:
    """Nothing is there, and nothing fails."""
    assert surroundings.look(tmp_path, in_container=False) == _LAPTOP


@pytest.mark.parametrize(
    ("reason", "around", "said"),
    [
        (Reason.NO_LIBRARY, {}, None),
        (Reason.NO_DRIVER, {}, None),
        (Reason.NO_LIBRARY, {"in_container": True}, None),
        (Reason.NO_LIBRARY, {"in_container": True, "kernel_driver": "580.1"}, "--gpus all"),
        (Reason.NO_LIBRARY, {"kernel_driver": "580.1", "on_pci": 8}, "same version"),
        (Reason.NO_LIBRARY, {"on_pci": 1}, "install NVIDIA's driver"),
        (Reason.NO_DRIVER, {"on_pci": 1}, "modprobe nvidia"),
        (Reason.VERSION_MISMATCH, {}, "reboot"),
        (Reason.VERSION_MISMATCH, {"in_container": True}, "restart the container"),
        (Reason.NO_PERMISSION, {"closed": ("/dev/nvidiactl",)}, "/dev/nvidiactl"),
        (Reason.HANG, {}, "Xid 119"),
        (Reason.RESET_REQUIRED, {}, "--gpu-reset"),
    ],
)
def test_what_to_do_depends_on_what_is_around(reason: Reason, around: dict[str, object], said: str | None) -> None:
    """A laptop needs nothing, a container other flags, a host its driver."""
    seen = {name: around.get(name, getattr(_LAPTOP, name)) for name in Surroundings.__slots__}
    told = advice(reason, Surroundings(**seen))  # type: ignore[arg-type]
    assert told is None if said is None else said in (told or "")
