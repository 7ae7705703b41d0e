import pytest
from builders import ManualClock
from stub_bench import Bench

from slo_exporter.ingest.nvml.driver import codes
from slo_exporter.ingest.nvml.driver.codes import NvmlError
from slo_exporter.ingest.nvml.driver.library import Nvml


def test_a_library_that_is_not_there_is_code_12() -> None:
    """What the dynamic loader cannot find is LibraryNotFound."""
    with pytest.raises(NvmlError) as raised:
        Nvml(ManualClock(), "libnvidia-ml-that-nobody-has.so.1")
    assert (raised.value.code, raised.value.call) == (codes.LIBRARY_NOT_FOUND, "dlopen")


def test_a_function_that_the_library_lacks_is_code_13(old_bench: Bench) -> None:
    """An old library answers FunctionNotFound, as a code like any other."""
    gpu = old_bench.opened()
    with pytest.raises(NvmlError) as raised:
        old_bench.nvml.number("nvmlDeviceGetMarginTemperature", gpu.handle)
    assert raised.value.code == codes.FUNCTION_NOT_FOUND


@pytest.mark.parametrize(
    ("capability", "metric"),
    [("temperature", "gpu_temperature_celsius"), ("clock_events", "gpu_clock_event_active")],
)
def test_an_old_library_is_asked_under_the_old_names(old_bench: Bench, capability: str, metric: str) -> None:
    """Functions that were renamed are found under either name."""
    assert {name for name, *_ in old_bench.read(old_bench.opened(), capability)} == {metric}


def test_old_memory_figures_tell_nothing_of_what_is_reserved(old_bench: Bench) -> None:
    """Version 1 counts it as used, so there is no reserved sample."""
    found = old_bench.read(old_bench.opened(), "memory")
    assert set(found) == {("gpu_memory_total_bytes",), ("gpu_memory_used_bytes",), ("gpu_memory_free_bytes",)}
    assert found["gpu_memory_used_bytes",] == 644_939_776


def test_a_refusal_names_code_and_call(bench: Bench) -> None:
    """The one exception class says both."""
    bench.stub.on(0, "DeviceGetPerformanceState", "return 15")
    with pytest.raises(NvmlError, match=r"nvmlDeviceGetPerformanceState: GpuIsLost \(15\)"):
        bench.nvml.number("nvmlDeviceGetPerformanceState", bench.opened().handle)


def test_calls_and_refusals_are_counted_by_function(bench: Bench) -> None:
    """Costs are told once, and then start anew."""
    gpu = bench.opened()
    bench.nvml.take_costs()
    bench.stub.on(0, "DeviceGetPerformanceState", "return 3")
    bench.nvml.number("nvmlDeviceGetMinorNumber", gpu.handle)
    for _ in range(2):
        with pytest.raises(NvmlError):
            bench.nvml.number("nvmlDeviceGetPerformanceState", gpu.handle)
    costs = bench.nvml.take_costs()
    assert {name: (cost.count, cost.errors) for name, cost in costs.items()} == {
        "nvmlDeviceGetMinorNumber": (1, {}),
        "nvmlDeviceGetPerformanceState": (2, {"NotSupported": 2}),
    }
    assert bench.nvml.take_costs() == {}


def test_a_wait_without_an_event_is_no_error(bench: Bench) -> None:
    """Timeout is how the library says that nothing happened."""
    gpu = bench.opened()
    events = bench.nvml.event_set_create()
    bench.nvml.register_xids(gpu.handle, events)
    assert bench.nvml.next_event(events) is None
    assert bench.nvml.take_costs()["nvmlEventSetWait_v2"].errors == {}


def test_room_grows_for_more_processes_than_expected(bench: Bench) -> None:
    """InsufficientSize is asked again with more room."""
    for pid in range(60):
        bench.stub.process(0, 1000 + pid, 1 << 20)
    gpu = bench.opened()
    assert [process.pid for process in bench.nvml.processes(gpu.handle)] == list(range(1000, 1060))


def test_versions_are_told(bench: Bench) -> None:
    """The driver's first number decides what field ids mean."""
    bench.nvml.open()
    assert (bench.nvml.driver_version, bench.nvml.driver_major) == ("580.159.04", 580)


def test_init_falls_back_to_the_older_function(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nvmlInitWithFlags is missing, nvmlInit_v2 is called."""
    monkeypatch.setattr(bench.nvml.call["nvmlInitWithFlags"], "is_there", False)
    bench.nvml.open()
    assert bench.stub.calls()["Init_v2"] == 1
