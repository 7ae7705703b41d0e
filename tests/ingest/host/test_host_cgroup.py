import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.ingest.host import cgroup
from slo_exporter.ingest.host.kernel import TICKS_PER_S

Found = dict[tuple[str, ...], float]

LIMITS = {
    "cpu.max": "150000 100000\n",
    "cpu.stat": "usage_usec 9000000\nuser_usec 6000000\nsystem_usec 3000000\nnr_periods 5\nthrottled_usec 250000\n",
    "memory.current": "1048576\n",
    "memory.max": "2097152\n",
}
UNIFIED = {
    ("cgroup_cpu_limit_cores",): 1.5,
    ("cgroup_cpu_seconds_total", "user"): 6.0,
    ("cgroup_cpu_seconds_total", "system"): 3.0,
    ("cgroup_cpu_throttled_seconds_total",): 0.25,
    ("cgroup_memory_used_bytes",): 1048576.0,
    ("cgroup_memory_limit_bytes",): 2097152.0,
}
VERSION_1 = "4:memory:/pod/engine\n3:cpu,cpuacct:/pod/engine\n1:name=systemd:/x\n0::/\n"
CPU_1 = {
    "cpu.cfs_quota_us": "50000\n",
    "cpu.cfs_period_us": "100000\n",
    "cpu.stat": "nr_periods 10\nnr_throttled 2\nthrottled_time 1500000000\n",
    "cpuacct.stat": "user 700\nsystem 300\n",
}
MEMORY_1 = {"memory.usage_in_bytes": "4096\n", "memory.limit_in_bytes": "8192\n"}


def below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    """The same files in a folder."""
    return {f"{folder}/{name}": text for name, text in files.items()}


def read(groups: str, files: Mapping[str, str]) -> Found:
    """What a process in these groups sees."""
    return {
        (metric, *labels): value for metric, labels, value in cgroup.samples({"proc/self/cgroup": groups, **files}.get)
    }


@pytest.mark.parametrize(
    ("groups", "folder"),
    [
        ("0::/system.slice/slo-exporter.service\n", "sys/fs/cgroup/system.slice/slo-exporter.service"),
        ("0::/\n", "sys/fs/cgroup"),
        ("0::/kubepods/pod1/host-side-name\n", "sys/fs/cgroup"),
    ],
    ids=["a unit", "a container", "a container that sees its path on the host"],
)
def test_version_2_is_read_where_our_group_is(groups: str, folder: str) -> None:
    """Limits in cores and bytes, times in seconds."""
    assert read(groups, below(folder, LIMITS)) == UNIFIED


def test_our_group_goes_before_the_root() -> None:
    """The root's figures are the machine's."""
    files = below("sys/fs/cgroup", LIMITS) | below(
        "sys/fs/cgroup/a", {"memory.current": "7\n", "cpu.max": "max 100000"}
    )

    assert read("0::/a\n", files)[("cgroup_memory_used_bytes",)] == 7


def test_no_limit_is_absent() -> None:
    """``max`` is neither 0 nor a number."""
    unlimited = LIMITS | {"cpu.max": "max 100000\n", "memory.max": "max\n"}
    found = read("0::/\n", below("sys/fs/cgroup", unlimited))

    assert found.keys() == UNIFIED.keys() - {("cgroup_cpu_limit_cores",), ("cgroup_memory_limit_bytes",)}


@pytest.mark.parametrize("folder", ["cpu,cpuacct", "cpu"], ids=["mounted together", "by a link"])
def test_version_1_is_read_from_each_controllers_tree(folder: str) -> None:
    """The unified tree beside it has no controllers then."""
    trees = {folder, "cpuacct"} if folder == "cpu" else {folder}
    files = below("sys/fs/cgroup/memory/pod/engine", MEMORY_1) | below("sys/fs/cgroup", LIMITS)
    for tree in trees:
        files |= below(f"sys/fs/cgroup/{tree}/pod/engine", CPU_1)

    assert read(VERSION_1, files) == {
        ("cgroup_cpu_limit_cores",): 0.5,
        ("cgroup_cpu_throttled_seconds_total",): 1.5,
        ("cgroup_cpu_seconds_total", "user"): 700 / TICKS_PER_S,
        ("cgroup_cpu_seconds_total", "system"): 300 / TICKS_PER_S,
        ("cgroup_memory_used_bytes",): 4096.0,
        ("cgroup_memory_limit_bytes",): 8192.0,
    }


def test_version_1_writes_no_limit_as_minus_one_and_as_a_huge_number() -> None:
    """Both are absent."""
    files = below("sys/fs/cgroup/cpu/pod/engine", CPU_1 | {"cpu.cfs_quota_us": "-1\n"})
    files |= below("sys/fs/cgroup/memory/pod/engine", MEMORY_1 | {"memory.limit_in_bytes": "9223372036854771712\n"})

    found = read(VERSION_1, files)
    assert ("cgroup_memory_used_bytes",) in found
    assert not {("cgroup_cpu_limit_cores",), ("cgroup_memory_limit_bytes",)} & found.keys()


def test_controllers_may_be_of_different_versions() -> None:
    """A hybrid machine keeps memory in version 1 and CPU in version 2."""
    files = below("sys/fs/cgroup/memory/m", MEMORY_1) | below("sys/fs/cgroup/u", LIMITS)

    found = read("4:memory:/m\n0::/u\n", files)
    assert found[("cgroup_memory_used_bytes",)] == 4096
    assert found[("cgroup_cpu_limit_cores",)] == 1.5


@pytest.mark.parametrize("path", ["/../../etc", "/a/../../b", "/..", "relative", ""])
def test_a_path_that_leads_elsewhere_is_not_followed(path: str) -> None:
    """A process outside of its namespace sees such paths; then nothing is known."""
    asked: list[str] = []

    def files(name: str) -> str | None:
        asked.append(name)
        return f"0::{path}\n" if name == "proc/self/cgroup" else "1\n"

    assert list(cgroup.samples(files)) == []
    assert asked == ["proc/self/cgroup"]


def test_a_machine_without_control_groups_has_no_samples() -> None:
    """Nothing is there, and nothing raises."""
    assert read("", {}) == {}
    assert list(cgroup.samples(lambda _: None)) == []


def test_a_missing_file_takes_no_other_with_it() -> None:
    """A group without the memory controller still tells its CPU."""
    files = below("sys/fs/cgroup", {"cpu.stat": LIMITS["cpu.stat"]})

    assert read("0::/\n", files).keys() == {key for key in UNIFIED if key[0].endswith("_seconds_total")}


@given(groups=st.text() | st.sampled_from(["0::/\n", VERSION_1, "0::/a\n"]), text=st.none() | st.text())
def test_any_text_in_every_file_gives_finite_samples_or_none(groups: str, text: str | None) -> None:
    """No text raises, no file outside of the tree is asked for."""

    def files(name: str) -> str | None:
        assert name == "proc/self/cgroup" or (name.startswith("sys/fs/cgroup/") and "/../" not in name)
        return groups if name == "proc/self/cgroup" else text

    assert all(math.isfinite(value) and value >= 0 for _, _, value in cgroup.samples(files))
