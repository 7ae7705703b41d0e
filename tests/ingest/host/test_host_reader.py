from pathlib import Path

import pytest
from machines import written

from slo_exporter.ingest.host import reader
from slo_exporter.ingest.host.reader import MOST_BYTES, HostReader, text_of

FILES = {
    "proc/stat": "cpu  100 0 50 1000 7 0 1 2 0 0\ncpu0 1 2\n",
    "proc/meminfo": "MemTotal: 8 kB\nMemFree: 1 kB\nMemAvailable: 4 kB\n",
    "proc/pressure/io": "some avg10=0 total=3000000\nfull avg10=0 total=1000000\n",
    "proc/self/cgroup": "0::/unit\n",
    "sys/devices/system/cpu/online": "0-3\n",
    "sys/fs/cgroup/unit/memory.current": "12\n",
}


def test_all_sources_become_one_mapping(tmp_path: Path) -> None:
    """By metric, then by the values of its labels."""
    found = HostReader(written(tmp_path, FILES)).read()

    assert found["host_cpus"] == {(): 4}
    assert found["host_memory_available_bytes"] == {(): 4096}
    assert found["host_pressure_seconds_total"] == {("io", "some"): 3, ("io", "full"): 1}
    assert found["cgroup_memory_used_bytes"] == {(): 12}
    assert len(found["host_cpu_seconds_total"]) == 8
    assert "cgroup_memory_limit_bytes" not in found


def test_an_empty_machine_has_no_metric(tmp_path: Path) -> None:
    """A metric without a value is absent, not empty."""
    assert HostReader(tmp_path).read() == {}


@pytest.mark.parametrize("name", FILES)
def test_a_source_that_is_away_takes_no_other_with_it(tmp_path: Path, name: str) -> None:
    """Each file is read on its own; a folder in its place refuses to be read."""
    whole = HostReader(written(tmp_path / "whole", FILES)).read()
    root = written(tmp_path / "part", {path: text for path, text in FILES.items() if path != name})
    (root / name).mkdir(parents=True)
    left = HostReader(root).read()

    assert left.items() < whole.items()
    assert len(left) >= len(whole) - 2


def test_only_the_beginning_of_a_file_is_read(tmp_path: Path) -> None:
    """What a large machine writes for each CPU and interrupt stays unread."""
    root = written(tmp_path, FILES | {"proc/stat": FILES["proc/stat"] + "intr" + " 0" * 100_000})

    assert len(text_of(f"{root}/proc/stat") or "") == MOST_BYTES
    assert HostReader(root).read()["host_cpu_seconds_total"][("user",)] > 0


def test_a_file_that_comes_in_pieces_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may give less than was asked for."""
    root, read = written(tmp_path, FILES), reader.os.read
    monkeypatch.setattr(reader.os, "read", lambda descriptor, size: read(descriptor, min(size, 3)))

    assert text_of(f"{root}/proc/meminfo") == FILES["proc/meminfo"]


def test_this_machine_is_read() -> None:
    """Whatever runs the tests has CPUs and memory, and tells them to anybody."""
    found = HostReader().read()

    assert found["host_cpus"][()] >= 1
    assert found["host_memory_total_bytes"][()] > found["host_memory_available_bytes"][()] > 0
    assert found["host_cpu_seconds_total"][("user",)] > 0
