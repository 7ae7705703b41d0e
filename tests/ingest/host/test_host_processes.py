import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from machines import written

from slo_exporter.ingest.host import processes
from slo_exporter.ingest.host.kernel import TICKS_PER_S
from slo_exporter.ingest.host.processes import FIRST_NAMESPACE, LONGEST_NAME, PAGE_BYTES, ProcessUse

TAIL = " R 8991 8991 6065 0 -1 4194304 101 0 0 0 250 50 0 0 20 0 1 0 1151056 3133440 386 184467\n"
STATM = "765 406 378 5 0 123 0\n"
USE = ProcessUse("python", 300 / TICKS_PER_S, 406 * PAGE_BYTES)


def host(root: Path, namespace: str = FIRST_NAMESPACE, ids: str = "77") -> Path:
    """A /proc in which process 42 runs, seen by a process with these ids in that PID namespace."""
    written(root, {"proc/42/stat": f"42 (python){TAIL}", "proc/42/statm": STATM})
    written(root, {"proc/self/status": f"Name:\tslo\nNSpid:\t{ids}\n"})
    (root / "proc/self/ns").mkdir()
    (root / "proc/self/ns/pid").symlink_to(namespace)
    return root


def test_a_process_of_the_host_is_found_by_its_number(tmp_path: Path) -> None:
    """Its time is user and system time together; those that are gone are left out."""
    assert processes.of([42, 43], host(tmp_path)) == {42: USE}


def test_in_an_inner_namespace_the_same_number_is_another_process(tmp_path: Path) -> None:
    """A pod without hostPID tells nothing rather than something false."""
    assert processes.of([42], host(tmp_path, "pid:[4026532999]")) == {}


def test_the_hosts_proc_inside_a_container_is_the_hosts(tmp_path: Path) -> None:
    """There we have a number for each namespace down to ours."""
    assert processes.of([42], host(tmp_path, "pid:[4026532999]", ids="9001\t7")) == {42: USE}


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    """An empty machine has no processes."""
    assert processes.of([42], tmp_path) == {}


def test_a_process_without_memory_figures_is_left_out(tmp_path: Path) -> None:
    """It ended between two reads."""
    root = host(tmp_path)
    (root / "proc/42/statm").unlink()

    assert processes.of([42], root) == {}


@pytest.mark.parametrize(
    ("comm", "name"),
    [
        ("a) R 1 (b", "a) R 1 (b"),
        ("line\nend\x1b[31m", "line?end?[31m"),
        ("x" * 100, "x" * LONGEST_NAME),
        ("", ""),
        ("训练", "训练"),
    ],
)
def test_a_name_may_hold_anything_and_is_printable(comm: str, name: str) -> None:
    """Brackets and blanks inside do not shift the figures."""
    found = processes.parse(f"42 ({comm}){TAIL}", STATM)

    assert found == ProcessUse(name, USE.cpu_seconds, USE.resident_bytes)


@given(stat=st.text(), statm=st.text())
@example(stat=f"42 python{TAIL}", statm=STATM)
@example(stat="42 (python) R 1 1", statm=STATM)
@example(stat=f"42 (python){TAIL}", statm="765")
@example(stat=f"42 (python){TAIL}", statm="765 -1")
def test_what_is_malformed_is_no_process(stat: str, statm: str) -> None:
    """No text raises."""
    assert processes.parse(stat, statm) is None


@given(cut=st.integers(0, 200), noise=st.text(max_size=4))
def test_a_disturbed_file_gives_a_process_or_none(cut: int, noise: str) -> None:
    """What is given has a bounded name and figures that are not negative."""
    whole = f"42 (python){TAIL}"
    found = processes.parse(whole[:cut] + noise + whole[cut:], STATM)

    assert found is None or (len(found.name) <= LONGEST_NAME and found.cpu_seconds >= 0 <= found.resident_bytes)


def test_this_process_is_found_where_proc_is_the_hosts() -> None:
    """Its time grows, and a child that ended is left out."""
    if str(Path("/proc/self/ns/pid").readlink()) != FIRST_NAMESPACE:
        pytest.skip("the tests run in an inner PID namespace")
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    found = processes.of([os.getpid(), gone.pid])

    assert found.keys() == {os.getpid()}
    assert found[os.getpid()].resident_bytes > 1 << 20
    assert found[os.getpid()].cpu_seconds > 0
