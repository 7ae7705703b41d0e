import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slo_exporter.ingest.host import kernel
from slo_exporter.ingest.host.kernel import TICKS_PER_S

STAT = """cpu  1143772 1113 96870 1028507 10302 0 3908 14282 50 0
cpu0 502908 392 45108 589132 3412 0 750 7390 0 0
intr 123 0 4
"""
MEMINFO = """MemTotal:       24684092 kB
MemFree:        24099184 kB
MemAvailable:   24237616 kB
HugePages_Total:       0
"""
PRESSURE = """some avg10=10.98 avg60=3.28 avg300=1.32 total=1271496335
full avg10=0.00 avg60=0.00 avg300=0.00 total=2500000
"""

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def test_cpu_seconds_are_the_first_line_in_ticks() -> None:
    """Eight modes, and neither a single CPU nor what guests use, which is in user already."""
    found = list(kernel.cpu_seconds(STAT))

    ticks = (1143772, 1113, 96870, 1028507, 10302, 0, 3908, 14282)
    assert found == [("host_cpu_seconds_total", (mode,), t / TICKS_PER_S) for mode, t in zip(MODES, ticks, strict=True)]


def test_an_old_kernel_has_fewer_modes() -> None:
    """What the line does not hold is absent."""
    assert [labels for _, labels, _ in kernel.cpu_seconds("cpu 1 2 3 4\n")] == [(mode,) for mode in MODES[:4]]


def test_a_malformed_column_takes_no_other_with_it() -> None:
    """One figure is absent, the ones beside it keep their names."""
    found = {labels[0]: value for _, labels, value in kernel.cpu_seconds("cpu 100 -5 300 x 500\n")}

    assert found == {"user": 100 / TICKS_PER_S, "system": 300 / TICKS_PER_S, "iowait": 500 / TICKS_PER_S}


def test_memory_is_in_bytes() -> None:
    """The kernel's kB are of 1024 bytes."""
    assert {metric: value for metric, _, value in kernel.memory(MEMINFO)} == {
        "host_memory_total_bytes": 24684092 * 1024,
        "host_memory_available_bytes": 24237616 * 1024,
    }


def test_a_kernel_without_an_estimate_of_available_memory_gives_the_total_alone() -> None:
    """MemAvailable is absent before Linux 3.14."""
    assert [metric for metric, _, _ in kernel.memory("MemTotal: 5 kB\nMemFree: 2 kB\n")] == ["host_memory_total_bytes"]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("io", {("io", "some"): 1271.496335, ("io", "full"): 2.5}),
        ("memory", {("memory", "some"): 1271.496335, ("memory", "full"): 2.5}),
        ("cpu", {("cpu", "some"): 1271.496335}),
    ],
)
def test_pressure_is_in_seconds(resource: str, expected: dict[tuple[str, ...], float]) -> None:
    """Of a whole machine's CPUs ``full`` is undefined, and so absent."""
    found = {labels: value for _, labels, value in kernel.pressure(resource, PRESSURE)}

    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "cpus"), [("0\n", 1), ("0-1\n", 2), ("0-127\n", 128), ("0,2-3,8-9\n", 5), ("0-3,64-67", 8)]
)
def test_online_cpus_are_counted_from_ranges(text: str, cpus: int) -> None:
    """Single numbers and ranges, both ends included."""
    assert list(kernel.online(text)) == [("host_cpus", (), cpus)]


@pytest.mark.parametrize("text", ["", "\n", "0-", "-", "3-1", "0-1,x", "a-b", "0-99999999", "0,,1", "0-1-2"])
def test_a_malformed_range_is_no_count(text: str) -> None:
    """Half a count would be a wrong one."""
    assert list(kernel.online(text)) == []


@given(text=st.text() | st.binary().map(lambda raw: raw.decode(errors="replace")))
@example("cpu")
@example("some total=\nfull")
@example(f"cpu {'9' * 5000}")
@example("cpu ١٢ ²")
@example("some total")
def test_any_text_gives_finite_samples_or_none(text: str) -> None:
    """No text raises, and what is given is a number that is not negative."""
    read = (kernel.cpu_seconds, kernel.memory, kernel.online)
    found = [sample for parse in read for sample in parse(text)]
    found += [sample for resource in ("cpu", "memory", "io") for sample in kernel.pressure(resource, text)]

    assert all(math.isfinite(value) and value >= 0 for _, _, value in found)


@given(cut=st.integers(0, 400), noise=st.text(max_size=5))
def test_a_file_that_is_cut_or_disturbed_gives_a_part(cut: int, noise: str) -> None:
    """Every sample of a disturbed file is well named."""
    for parse, whole in ((kernel.cpu_seconds, STAT), (kernel.memory, MEMINFO)):
        names = {(metric, labels) for metric, labels, _ in parse(whole)}

        assert {(metric, labels) for metric, labels, _ in parse(whole[:cut] + noise + whole[cut:])} <= names
